"""File formats for graphs, and their choice by the name of a file."""

from __future__ import annotations

from enum import StrEnum
from os import PathLike, fspath
from pathlib import Path
from typing import Final

from shadowtree.errors import InvalidRequest


class FileFormat(StrEnum):
    """A format for the arcs of a graph."""

    TSV = "tsv"
    TSV_GZ = "tsv.gz"
    JSONL = "jsonl"
    CSV = "csv"
    ALIASES = "aliases"
    VIRTUAL = "virtual"
    LDIF = "ldif"

    @property
    def is_compressed(self) -> bool:
        """True if the bytes are gzip data."""
        return self is FileFormat.TSV_GZ

    @property
    def is_alias_table(self) -> bool:
        """True if the file is a table of Postfix, whose names may lack a domain."""
        return self in {FileFormat.ALIASES, FileFormat.VIRTUAL}

    @property
    def is_written(self) -> bool:
        """True if files can be written in the format."""
        return not self.is_alias_table and self is not FileFormat.LDIF

    @property
    def is_ending(self) -> bool:
        """True if its name is the ending of a file's name."""
        return not self.is_alias_table


STANDARD_STREAM: Final = "-"
"""Name that stands for standard input or output."""


def checked_path(path: str | PathLike[str]) -> str:
    """Return the path of a file as a text; raise `InvalidRequest` if it is no path."""
    found = fspath(path) if isinstance(path, str | PathLike) else None
    if not isinstance(found, str):
        raise InvalidRequest(f"the path of a file is wanted, not {path!r:.80}")
    return found


def format_of(path: str, chosen: str | None = None) -> FileFormat:
    """Return the chosen format, or else the format of the file's name."""
    if chosen is not None:
        if chosen not in list(FileFormat):
            raise InvalidRequest(f"unknown file format {chosen!r}; there are {', '.join(FileFormat)}")
        return FileFormat(chosen)
    if path == STANDARD_STREAM:
        return FileFormat.TSV
    told = [known for known in FileFormat if known.is_ending]
    for file_format in told:
        if Path(path).name.endswith(f".{file_format}"):
            return file_format
    raise InvalidRequest(
        f"{path}: the name tells no format ({', '.join('.' + known for known in told)}); give file_format",
        {"file": path},
    )
