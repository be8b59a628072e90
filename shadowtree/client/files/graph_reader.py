"""Reader of a whole graph from a file into columns. Every line is checked.

TSV: ``parent<TAB>child<TAB>group|member``; ``G<TAB><TAB>group`` is a group without members. JSON lines: objects with
the keys ``parent``, ``child`` and ``kind``, with the same meaning; an object of a group, with an empty child, may have
details of the group, such as ``description``. CSV: `csv_rows`. Tables of Postfix: `alias_rows`. LDIF: `ldif_rows`.
"""

from __future__ import annotations

import json
from itertools import repeat
from typing import NamedTuple

from namegraph import DETAIL_LIMITS
from shadowtree.client.files.alias_rows import AliasTable
from shadowtree.client.files.csv_rows import add_csv
from shadowtree.client.files.formats import FileFormat
from shadowtree.client.files.ldif_rows import add_ldif
from shadowtree.client.files.lines import LineBlock, OnBadLine, Progress, read_line_blocks, shown_name
from shadowtree.client.graph_columns import BadRowError, GraphColumns
from shadowtree.errors import BadFile
from shadowtree.results import SkippedLine
from shadowtree.vocabulary import SubnetName

SKIPPED_KEPT = 1_000
"""Maximum number of bad lines that are reported one by one. The others are counted."""

SKIPPED_LIMIT = 1_000_000
"""Maximum number of bad lines to leave out. A file with more is not a graph."""

_JSON_KEYS = {"parent", "child", "kind"}
_JSON_KINDS = {"group": "group", "member": "member", "process": "member"}


class Skipped(NamedTuple):
    """The lines that were left out of a file."""

    lines: tuple[SkippedLine, ...]
    """The first of these lines."""
    total: int


def read_graph(
    path: str,
    file_format: FileFormat,
    columns: GraphColumns,
    *,
    skip_bad: bool = False,
    progress: Progress | None = None,
    domain: SubnetName | None = None,
) -> Skipped:
    """Add all arcs of a file to `columns`; return the lines left out.

    `domain` completes the names of alias tables. Raises `BadFile` for the first bad line, or with `skip_bad` only for a
    file that is broken as a whole.
    """
    skipped: list[SkippedLine] = []
    count = 0

    def on_bad_line(number: int, why: str) -> None:
        nonlocal count
        if not skip_bad:
            raise BadFile.at(shown_name(path), number, why)
        count += 1
        if count > SKIPPED_LIMIT:
            raise BadFile.at(shown_name(path), number, f"more than {SKIPPED_LIMIT} lines are bad; the last: {why}")
        if count <= SKIPPED_KEPT:
            skipped.append(SkippedLine(line=number, reason=why))

    blocks = read_line_blocks(path, is_compressed=file_format.is_compressed, on_bad_line=on_bad_line, progress=progress)
    if file_format is FileFormat.CSV:
        add_csv(shown_name(path), blocks, columns, on_bad_line)
    if file_format is FileFormat.LDIF:
        add_ldif(blocks, columns, on_bad_line)
    if file_format.is_alias_table:
        table = AliasTable(shown_name(path), is_virtual=file_format is FileFormat.VIRTUAL, domain=domain)
        table.add_to(columns, blocks, on_bad_line)
    for block in blocks:
        if file_format is FileFormat.JSONL:
            _add_json_lines(block, columns, on_bad_line)
        else:
            columns.add_rows(map(str.split, block.lines, repeat("\t")), first=block.first, on_bad_row=on_bad_line)
    return Skipped(tuple(skipped), count)


def _add_json_lines(block: LineBlock, columns: GraphColumns, on_bad_line: OnBadLine) -> None:
    for number, line in enumerate(block.lines, start=block.first):
        try:
            columns.add(*_read_json_line(line))
        except BadRowError as error:
            on_bad_line(number, str(error))


def _read_json_line(line: str) -> tuple[str, str, str, dict[str, object]]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadRowError(f"this is no JSON: {error}") from None
    if not isinstance(value, dict) or not _JSON_KEYS <= set(value) <= _JSON_KEYS | DETAIL_LIMITS.keys():
        raise BadRowError(
            "this is no JSON object with exactly the keys parent, child and kind"
            f" (with an empty child also: {', '.join(DETAIL_LIMITS)})"
        )
    parent, child, kind = value.pop("parent"), value.pop("child"), value.pop("kind")
    if not (isinstance(parent, str) and isinstance(child, str) and isinstance(kind, str)):
        raise BadRowError("parent, child and kind must be texts")
    if value and child:
        raise BadRowError(f"{' and '.join(value)} of a group stands on a line of its own, with an empty child")
    return parent, child, _JSON_KINDS.get(kind, kind), value
