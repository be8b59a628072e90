"""Safe reader of text files by line: bounded memory, and a file and line number for every fault.

A file that is broken as a whole (missing, truncated, not gzip data) raises `BadFile`. A broken line (too long, not
UTF-8, NUL bytes) is reported to `on_bad_line`, which decides whether to continue.
"""

from __future__ import annotations

import codecs
import gzip
import os
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Final

from shadowtree.client.files.formats import STANDARD_STREAM
from shadowtree.errors import BadFile

FILE_LIMIT_BYTES: Final = 8 * 1024 * 1024 * 1024
"""Maximum size of a file's lines, decompressed: a hundred times as much as one import takes."""

LINE_LIMIT_BYTES: Final = 64 * 1024
"""Maximum length of a line.

The longest legal line has two ids of 255 characters and a domain each: under 3 kilobytes.
"""

BLOCK_BYTES: Final = 1024 * 1024
"""Bytes read at once: large enough that splitting into lines is cheap per line."""

OnBadLine = Callable[[int, str], None]
Progress = Callable[[int, int], None]
"""Function that is told the number of bytes read and the size of the file (0 if unknown)."""


@dataclass(frozen=True, slots=True)
class LineBlock:
    """Consecutive lines, without their line ends; `first` is the number of the first one, from 1."""

    first: int
    lines: list[str]


def read_line_blocks(
    path: str, *, is_compressed: bool, on_bad_line: OnBadLine, progress: Progress | None = None
) -> Iterator[LineBlock]:
    """Yield all good lines of a file in order, in blocks; "-" is standard input."""
    name = shown_name(path)
    try:
        with opened(path) as (raw, size):
            # `read1` returns the data before a fault; `read` would lose it, and the line number with it.
            read = gzip.GzipFile(fileobj=raw, mode="rb").read1 if is_compressed else raw.read
            splitter, to_utf8 = _Splitter(on_bad_line), _ToUtf8(name)
            read_bytes = 0
            try:
                while data := read(BLOCK_BYTES):
                    read_bytes += len(data)
                    if read_bytes > FILE_LIMIT_BYTES:
                        raise BadFile.at(name, splitter.next_line, f"there are more than {FILE_LIMIT_BYTES} bytes")
                    yield from splitter.feed(to_utf8.feed(data))
                    if progress is not None:
                        progress(raw.tell() if size else 0, size)
            except EOFError:
                why = "the gzip data ends too early (cut off?)"
                raise BadFile.at(name, splitter.next_line, why, is_whole=True) from None
            except (gzip.BadGzipFile, zlib.error) as error:
                why = f"this is no sound gzip data: {error}"
                raise BadFile.at(name, splitter.next_line, why, is_whole=True) from None
            yield from splitter.finish()
    except OSError as error:
        raise BadFile.at(name, None, f"cannot read it: {error.strerror or error}") from None


def shown_name(path: str) -> str:
    """Return the name of the file in messages."""
    return "standard input" if path == STANDARD_STREAM else path


@contextmanager
def opened(path: str) -> Iterator[tuple[IO[bytes], int]]:
    """Yield a file, or standard input for "-", and its size (0: unknown); raise `BadFile` for a pipe, or `OSError`."""
    if path == STANDARD_STREAM:
        yield sys.stdin.buffer, 0
        return
    # O_NONBLOCK: opening a pipe would block until a program writes to it.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise BadFile.at(path, None, "it is no regular file; give - for what comes from a pipe")
        yield file, found.st_size


class _ToUtf8:
    """Converter of a UTF-16 file, as Windows writes it with a byte order mark, to UTF-8. UTF-8 passes unchanged."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._is_at_start = True
        self._decoder: codecs.IncrementalDecoder | None = None

    def feed(self, data: bytes) -> bytes:
        """Convert more of the file."""
        if self._is_at_start:
            self._is_at_start = False
            if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                self._decoder = codecs.getincrementaldecoder("utf-16")()
            elif 0 in data[:2]:
                raise BadFile.at(self._name, None, "this is UTF-16 without a byte order mark; save it as UTF-8")
        if self._decoder is None:
            return data
        try:
            return self._decoder.decode(data).encode()
        except UnicodeError as error:
            raise BadFile.at(self._name, None, f"this is no sound UTF-16: {error}; save it as UTF-8") from None


class _Splitter:
    """Splitter of blocks of bytes into lines. It holds the unfinished last line, up to the limit."""

    def __init__(self, on_bad_line: OnBadLine) -> None:
        self._on_bad_line = on_bad_line
        self._rest = b""
        self._is_at_start = True
        self._is_skipping = False
        self.next_line = 1

    def feed(self, data: bytes) -> Iterator[LineBlock]:
        """Split more of the file."""
        if self._is_at_start:
            # Other systems mark UTF-8 with a byte order mark, and end lines with two characters.
            data = (self._rest + data).removeprefix(codecs.BOM_UTF8)
            self._rest = b""
            self._is_at_start = False
        if self._is_skipping:
            _, newline, data = data.partition(b"\n")
            if not newline:
                return
            self._is_skipping = False
            self.next_line += 1
        data = self._rest + data
        end = data.rfind(b"\n") + 1
        self._rest = data[end:]
        if end:
            yield from self._decode(data[: end - 1])
        if len(self._rest) > LINE_LIMIT_BYTES:
            self._rest = b""
            self._is_skipping = True
            self._on_bad_line(self.next_line, _TOO_LONG)

    def finish(self) -> Iterator[LineBlock]:
        """Yield the last line at the end of the file."""
        rest, self._rest = self._rest, b""
        if rest:
            yield from self._decode(rest.removesuffix(b"\r"))

    def _decode(self, data: bytes) -> Iterator[LineBlock]:
        data = data.replace(b"\r\n", b"\n").removesuffix(b"\r")
        try:
            text = data.decode()
        except UnicodeDecodeError:
            yield from self._decode_one_by_one(data)
            return
        lines = text.split("\n")
        if "\0" in text or len(max(lines, key=len)) > LINE_LIMIT_BYTES // 4:
            yield from self._decode_one_by_one(data)
            return
        yield LineBlock(self.next_line, lines)
        self.next_line += len(lines)

    def _decode_one_by_one(self, data: bytes) -> Iterator[LineBlock]:
        """Check each line of a block that has bad lines; yield the runs of good lines between them."""
        first, good = self.next_line, list[str]()
        for number, line in enumerate(data.split(b"\n"), start=self.next_line):
            why = _why_bad(line)
            if why is None:
                good.append(line.decode())
                continue
            if good:
                yield LineBlock(first, good)
            self._on_bad_line(number, why)
            first, good = number + 1, []
        if good:
            yield LineBlock(first, good)
        self.next_line += data.count(b"\n") + 1


_TOO_LONG: Final = f"the line is longer than {LINE_LIMIT_BYTES // 1024} KiB"


def _why_bad(line: bytes) -> str | None:
    if len(line) > LINE_LIMIT_BYTES:
        return _TOO_LONG
    if b"\0" in line:
        return f"byte {line.index(0) + 1} of the line is NUL"
    try:
        line.decode()
    except UnicodeDecodeError as error:
        return f"byte {error.start + 1} of the line (0x{line[error.start]:02X}) is no UTF-8"
    return None
