"""Access to Spark: the session, its jars, and passes of Python over groups of rows."""
