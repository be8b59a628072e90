"""Reduce the errors of Spark, Java and Python to one line with the cause."""

from __future__ import annotations

from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

SPARK_FAILURES: Final = (Py4JError, PySparkException)
"""Errors of Spark's driver, of Java below it, and of the connection to it."""


def in_one_line(error: Exception) -> str:
    """Return the first line that states the cause, without Java's stack trace and the call that failed."""
    lines = _text_of(error).splitlines()
    kind = type(error).__name__
    if not lines:
        return kind
    # The message of these Python errors needs the name of the class: a KeyError has only the key.
    return f"{kind}: {lines[0]}" if isinstance(error, (LookupError, ArithmeticError, AssertionError)) else lines[0]


def _text_of(error: Exception) -> str:
    if not isinstance(error, Py4JJavaError):
        # The first line about a missing method only repeats the call.
        return str(error).partition("Trace:\n")[2] or str(error)
    try:
        return str(error.java_exception.toString())
    except Py4JError:
        return str(error.errmsg)  # Java itself has ended
