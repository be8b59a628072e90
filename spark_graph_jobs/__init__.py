"""The offline audit: check snapshots of several name servers with Spark.

This package imports nothing of the name service, and the name service imports nothing of this package. A mistake in one
is therefore not repeated in the other.
"""
