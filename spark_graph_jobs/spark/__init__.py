"""What is Spark's: its session, its jars, and passes of Python over groups of rows."""
