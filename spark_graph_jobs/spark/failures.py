"""The one line that says what went wrong, out of what Spark, Java and Python say about it."""

from __future__ import annotations

from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

SPARK_FAILURES: Final = (Py4JError, PySparkException)
"""Errors of Spark's driver, of Java below it, and of the connection to it."""


def in_one_line(error: Exception) -> str:
    """Return the first line that tells the cause. Java's stack trace, and the call that failed, help nobody here."""
    lines = _text_of(error).splitlines()
    kind = type(error).__name__
    if not lines:
        return kind
    # The message of a Python error makes sense beside its name only: of a KeyError it is the key.
    return f"{kind}: {lines[0]}" if isinstance(error, (LookupError, ArithmeticError, AssertionError)) else lines[0]


def _text_of(error: Exception) -> str:
    if not isinstance(error, Py4JJavaError):
        # Of a method that is not there, the first line says what was called only.
        return str(error).partition("Trace:\n")[2] or str(error)
    try:
        return str(error.java_exception.toString())
    except Py4JError:
        return str(error.errmsg)  # Java itself has ended
