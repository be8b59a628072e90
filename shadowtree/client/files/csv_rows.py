"""A graph as CSV, which spreadsheets read and write.

The first line names the columns: ``list``, ``address`` and perhaps ``role``, in any order, with commas or semicolons
between. Lists and addresses are ids. Roles:

    member  a member; where the address is a list of the file, a nested group
    group   a nested group, or with an empty address a list without members
    owner   a member of the group ``NAME+owners@SUBNET``
    muted   a member of the list, and of the group ``NAME+muted@SUBNET``

Without a role the address is a member; an empty address stands for a list without members.

A table of a directory, as ``Export-Csv`` writes it, has other columns: `directory_csv`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from namegraph import InvalidNameError, parse_name
from shadowtree.client.files import directory_csv
from shadowtree.client.files.lines import LineBlock, OnBadLine
from shadowtree.client.graph_columns import BadRowError, GraphColumns
from shadowtree.errors import BadFile

COLUMNS: Final = ("list", "address", "role")

_LIST, _ADDRESS, _ROLE = COLUMNS
_SEPARATORS: Final = (",", ";")
_TYPE_LINE: Final = "#TYPE "
"""Beginning of the first line of older versions of ``Export-Csv``."""
_OPEN_QUOTE: Final = "unexpected end of data"
"""Python's error text for a quote that is not closed."""
_MEMBER, _GROUP, _OWNER, _MUTED = "member", "group", "owner", "muted"
_ROLES: Final = (_MEMBER, _GROUP, _OWNER, _MUTED)
_BESIDE: Final = {_OWNER: "+owners", _MUTED: "+muted"}


class _Row(NamedTuple):
    line: int
    group: str
    member: str
    role: str


def csv_line(*fields: str) -> str:
    """Return one line with its end; quote fields that contain a comma or quotes."""
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(fields)
    return line.getvalue()


def add_csv(name: str, blocks: Iterable[LineBlock], columns: GraphColumns, on_bad_line: OnBadLine) -> None:
    """Add the arcs of the lines of a file; raise `BadFile` if the first line does not name the columns.

    A member may be named as a list further down, so all rows are read before the first arc is added.
    """
    numbered = ((number, line) for block in blocks for number, line in enumerate(block.lines, start=block.first))
    header = next(numbered, None)
    if header is not None and header[1].startswith(_TYPE_LINE):
        header = next(numbered, None)
    if header is None:
        return
    table = _directory_table(header[1])
    if table is not None:
        directory_csv.add_directory_rows(_directory_rows(numbered, *table, on_bad_line), columns, on_bad_line)
        return
    rows = list(_rows(numbered, *_columns_of(name, *header), on_bad_line))
    lists = {row.group for row in rows}
    for row in rows:
        try:
            _add(row, columns, lists)
        except BadRowError as error:
            on_bad_line(row.line, str(error))


def _add(row: _Row, columns: GraphColumns, lists: set[str]) -> None:
    kind = _GROUP if row.role == _GROUP or row.member in lists else _MEMBER
    ending = _BESIDE.get(row.role)
    if ending is not None:
        local, at_sign, subnet = row.group.rpartition("@")
        columns.add(f"{local}{ending}{at_sign}{subnet}", row.member, kind)
    if row.role != _OWNER:
        columns.add(row.group, row.member, kind)


def _columns_of(name: str, number: int, line: str) -> tuple[str, dict[str, int]]:
    """Return the separator of the columns, and the place of each column."""
    for separator in _SEPARATORS:
        names = [column.strip().strip('"').lower() for column in line.split(separator)]
        if _LIST in names and _ADDRESS in names:
            break
    else:
        found = ", ".join(repr(column) for column in line.split(",")[:8])
        raise BadFile.at(
            name,
            None,
            f"line {number} must name the columns, such as {','.join(COLUMNS)}; it has {found:.200}; an export of a "
            f"directory has {','.join(directory_csv.COLUMNS)}",
        )
    places = {column: place for place, column in enumerate(names)}
    unknown = [column for column in names if column not in COLUMNS]
    if unknown:
        why = f"there is no column {unknown[0]!r:.40}; there are {', '.join(COLUMNS)}"
        raise BadFile.at(name, None, f"line {number}: {why}")
    if len(places) != len(names):
        raise BadFile.at(name, None, f"line {number} names a column twice")
    return separator, places


def _directory_table(line: str) -> tuple[str, list[str]] | None:
    """Return the separator and the columns, in lower case, of a table of a directory; None for any other table."""
    for separator in _SEPARATORS:
        columns = [column.strip().strip('"').lower() for column in line.split(separator)]
        if directory_csv.is_directory_table(columns):
            return separator, columns
    return None


def _directory_rows(
    lines: Iterable[tuple[int, str]], separator: str, columns: Sequence[str], on_bad_line: OnBadLine
) -> Iterator[tuple[int, directory_csv.Row]]:
    for number, fields in _fields(lines, separator, len(columns), on_bad_line):
        yield number, {column: text.strip() for column, text in zip(columns, fields, strict=True)}


def _fields(
    lines: Iterable[tuple[int, str]], separator: str, count: int, on_bad_line: OnBadLine
) -> Iterator[tuple[int, list[str]]]:
    """Yield the fields of each good line. Empty lines are skipped."""
    for number, line in lines:
        try:
            # Each line is parsed by itself: a quote that is not closed must not take in all following lines.
            fields = next(csv.reader([line], delimiter=separator, strict=True), [])
        except csv.Error as error:
            why = "a quote is not closed" if str(error) == _OPEN_QUOTE else str(error)
            on_bad_line(number, f"this is no CSV: {why}")
            continue
        if not any(fields):
            continue
        if len(fields) != count:
            columns = "1 column" if len(fields) == 1 else f"{len(fields)} columns"
            on_bad_line(number, f"{columns} instead of the {count} that the first line names")
            continue
        yield number, fields


def _rows(
    lines: Iterable[tuple[int, str]], separator: str, places: dict[str, int], on_bad_line: OnBadLine
) -> Iterator[_Row]:
    """Yield the good rows."""
    names: dict[str, str] = {}
    for number, fields in _fields(lines, separator, len(places), on_bad_line):
        role = fields[places[_ROLE]].strip().lower() if _ROLE in places else ""
        if role and role not in _ROLES:
            on_bad_line(number, f"the role is {role!r:.40} instead of {', '.join(_ROLES)}, or nothing")
            continue
        group, member = (_name(fields[places[column]], names) for column in (_LIST, _ADDRESS))
        yield _Row(number, group, member, role or (_MEMBER if member else _GROUP))


def _name(text: str, names: dict[str, str]) -> str:
    """Return the name as servers keep it, with one text object for equal names; an invalid name stays unchanged."""
    found = names.get(text)
    if found is None:
        try:
            found = parse_name(text)
        except InvalidNameError:
            found = text
        found = names[text] = names.setdefault(found, found)
    return found
