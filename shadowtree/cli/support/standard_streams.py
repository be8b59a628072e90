"""Standard output and standard error, whose failures are distinguished from those of other files.

A command that could not print its answer has failed. Python alone would end it with the status of a "no".
"""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class OutputError(OSError):
    """Standard output, or standard error, cannot be written; `cause` is the error of the system."""

    def __init__(self, cause: OSError) -> None:
        # No errno is passed on: libraries would take a broken pipe for their own, and exit with a status of their own.
        super().__init__(cause.strerror or str(cause))
        self.cause = cause


class _Output(io.BufferedWriter):
    """A writer that notes written data even if an interrupt comes between two lines: no line is printed twice."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise OutputError(error) from error

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            raise OutputError(error) from error


def prepare_streams() -> None:
    """Let both streams raise `OutputError`, and print names, which are Unicode, as UTF-8 in any locale."""
    sys.stdout, sys.stderr = _prepared(sys.stdout), _prepared(sys.stderr)


def has_output() -> bool:
    """Return True if there is a standard output. None exists if it was closed before the program began."""
    return sys.stdout is not None


def is_watched() -> bool:
    """Return True if a person reads standard error."""
    return sys.stderr is not None and sys.stderr.isatty()


def let_go_of_streams() -> None:
    """Flush the streams, and keep the interpreter from flushing again at its end after a failure."""
    for stream in (sys.stdout, sys.stderr):
        if stream is None:
            continue
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _prepared(stream: TextIO) -> TextIO:
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    encoding, errors = "utf-8", "backslashreplace"
    if not isinstance(getattr(stream.buffer, "raw", stream.buffer), io.FileIO):
        # The console of Windows, which takes characters.
        stream.reconfigure(encoding=encoding, errors=errors)
        return stream
    output = _Output(io.FileIO(stream.fileno(), "wb", closefd=False))
    return io.TextIOWrapper(output, encoding=encoding, errors=errors, line_buffering=stream.line_buffering)
