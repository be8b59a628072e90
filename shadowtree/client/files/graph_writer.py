"""Writer of a graph to a file that exists whole or not at all, and reads back to the same graph."""

from __future__ import annotations

import gzip
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedWriter
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, Final

from shadowtree.client.files.csv_rows import COLUMNS, csv_line
from shadowtree.client.files.formats import STANDARD_STREAM, FileFormat
from shadowtree.client.files.lines import shown_name
from shadowtree.errors import BadFile, DeadlineExceeded, InvalidRequest
from shadowtree.updates import Arc

_KINDS: Final = {"group": "group", "process": "member"}

WriteArc = Callable[[Arc], int]
"""Function that writes one arc, and returns the number of lines."""

PARTIAL_SUFFIX: Final = ".partial"
"""Ending of the name of a file that lacks a part of the graph. Such a file never replaces a whole one."""


def is_stream(path: str) -> bool:
    """Return True if the output is a stream, which is read while it is written and cannot be replaced at the end."""
    return path == STANDARD_STREAM or (Path(path).exists() and not Path(path).is_file())


@contextmanager
def graph_writer(path: str, file_format: FileFormat, *, is_partial: Callable[[], bool] = bool) -> Iterator[WriteArc]:
    """Yield a function that writes one arc; the file takes its final name when the block ends without an error.

    `is_partial` is called at that point: a partial file gets `PARTIAL_SUFFIX`.
    """
    if not file_format.is_written:
        raise InvalidRequest(f"files are read in the format {file_format}, not written")
    with whole_file(path, is_partial) as raw:
        if file_format.is_compressed:
            # No time and no file name inside, so that equal graphs make equal files.
            with (
                gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0, compresslevel=6) as packed,
                BufferedWriter(packed, buffer_size=256 * 1024) as lines,
            ):
                yield _line_writer(lines, file_format)
        else:
            yield _line_writer(raw, file_format)


def _line_writer(stream: IO[bytes] | BufferedWriter, file_format: FileFormat) -> WriteArc:
    def write_tsv(arc: Arc) -> int:
        stream.write(f"{arc.parent}\t{arc.child}\t{_KINDS[arc.kind]}\n".encode())
        return 1

    def write_json(arc: Arc) -> int:
        lines = [{"parent": arc.parent, "child": arc.child, "kind": _KINDS[arc.kind]}]
        if arc.details:
            of_group = {"parent": arc.parent, "child": "", "kind": "group", **arc.details}
            lines = [of_group, *lines] if arc.child else [of_group]
        for line in lines:
            stream.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
        return len(lines)

    def write_csv(arc: Arc) -> int:
        stream.write(csv_line(arc.parent, arc.child, _KINDS[arc.kind]).encode())
        return 1

    match file_format:
        case FileFormat.JSONL:
            return write_json
        case FileFormat.CSV:
            stream.write(csv_line(*COLUMNS).encode())
            return write_csv
        case _:
            return write_tsv


@contextmanager
def whole_file(path: str, is_partial: Callable[[], bool] = bool) -> Iterator[IO[bytes]]:
    """Yield a stream. Its file takes its final name when the block ends without an error; "-" is standard output."""
    if path == STANDARD_STREAM:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    target = Path(path)
    try:
        if is_stream(path):
            # A pipe or a device.
            with target.open("wb") as stream:
                yield stream
            return
        with NamedTemporaryFile(
            dir=target.parent, prefix=f".{target.name[:64]}.", suffix=".part", delete=False
        ) as stream:
            part = Path(stream.name)
            try:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
                part.chmod(_default_mode())
                part.replace(f"{path}{PARTIAL_SUFFIX}" if is_partial() else target)
            finally:
                part.unlink(missing_ok=True)
    except DeadlineExceeded:
        # DeadlineExceeded is an OSError too, but concerns the server and not the file.
        raise
    except OSError as error:
        raise BadFile.at(shown_name(path), None, f"cannot write it: {error.strerror or error}") from None


def _default_mode() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
