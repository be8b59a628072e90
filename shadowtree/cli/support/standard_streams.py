"""Standard output and standard error, whose failures are told from those of any other file.

A command that could not print its answer has failed; left to itself, Python would end it with the status of a "no".
"""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class OutputError(OSError):
    """Standard output, or standard error, takes nothing more; `cause` is what the system said."""

    def __init__(self, cause: OSError) -> None:
        # With the number of a broken pipe, libraries would take it for theirs, and end with a status of their own.
        super().__init__(cause.strerror or str(cause))
        self.cause = cause


class _Output(io.BufferedWriter):
    """An interrupt between two lines here finds what was written noted as written: no line is printed twice."""

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
    """Let both raise `OutputError`, and print names, which are Unicode, as UTF-8, whatever the locale says."""
    sys.stdout, sys.stderr = _prepared(sys.stdout), _prepared(sys.stderr)


def has_output() -> bool:
    """Whether there is a standard output: none where it was closed before the program began."""
    return sys.stdout is not None


def is_watched() -> bool:
    """Whether a person reads standard error."""
    return sys.stderr is not None and sys.stderr.isatty()


def let_go_of_streams() -> None:
    """Keep the interpreter from trying again, when it ends, what could not be written."""
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
