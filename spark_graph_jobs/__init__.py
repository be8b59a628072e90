"""The offline audit: what several name servers hold, judged from snapshots of them, with Spark.

It imports nothing of the name service, and the name service nothing of it: a mistake in the one is none in the other.
"""
