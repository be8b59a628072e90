"""Alias tables of Postfix as a graph: aliases(5), ``name: target, "target"``, and virtual(5), ``name target, target``.

Each name is a group. A target that is itself a name of the table is a nested group, any other target is a member.
Postfix compares names without letter case, so targets are looked up in the table likewise. A line that begins with
white space continues the entry before it; comments and empty lines between do not end the entry.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from namegraph import InvalidNameError, parse_name
from shadowtree.client.files.lines import LineBlock, OnBadLine
from shadowtree.client.graph_columns import BadRowError, GraphColumns
from shadowtree.errors import BadFile
from shadowtree.vocabulary import SubnetName

_ITEM: Final = r'(?:"(?:[^"\\]|\\.)*+"|[^\s,"])++'
_KEY: Final = {
    False: re.compile(r'\s*((?:"(?:[^"\\]|\\.)*+"|[^\s:"])++)\s*:'),
    True: re.compile(rf"\s*({_ITEM})(?=\s|$)"),
}
"""Pattern of a name, for tables of aliases(5) (False) and of virtual(5) (True)."""
_TARGET: Final = re.compile(rf"({_ITEM})|,|\S")
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*+)"')
_ESCAPED: Final = re.compile(r"\\(.)")
_NOT_ADDRESSES: Final = {
    ":include:": "the addresses are in another file; put them into the table",
    "|": "this is a command, not an address",
    "/": "this is a file, not an address",
}


@dataclass(slots=True)
class _AliasEntry:
    """The lines of one entry as one text."""

    lines: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    """Offset in the text of each of `lines`."""
    texts: list[str] = field(default_factory=list)
    length: int = 0

    def append(self, line: int, text: str) -> None:
        """Add a line."""
        self.lines.append(line)
        self.starts.append(self.length)
        self.texts.append(text + "\n")
        self.length += len(text) + 1

    def line_at(self, offset: int) -> int:
        """Return the number of the line that has this offset of the text."""
        return self.lines[bisect_right(self.starts, offset) - 1]


class _AliasRow(NamedTuple):
    line: int
    group: str
    target: str


class AliasTable:
    """One alias table. `domain` completes names without a domain."""

    def __init__(self, name: str, *, is_virtual: bool, domain: SubnetName | None) -> None:
        self._name = name
        self._is_virtual = is_virtual
        self._domain = domain
        self._lists: dict[str, tuple[str, int]] = {}
        """Each list by its name in lower case: the name as written, and its line."""

    def add_to(self, columns: GraphColumns, blocks: Iterable[LineBlock], on_bad_line: OnBadLine) -> None:
        """Add the arcs of all lines; raise `BadFile` for a name without a domain if none was given.

        A target may be a list further down, so all entries are read before the first arc is added.
        """
        rows = [row for entry in _entries(blocks, on_bad_line) for row in self._rows(entry, on_bad_line)]
        for row in rows:
            try:
                self._add(row, columns)
            except BadRowError as error:
                on_bad_line(row.line, str(error))

    def _rows(self, entry: _AliasEntry, on_bad_line: OnBadLine) -> Iterator[_AliasRow]:
        text, first = "".join(entry.texts), entry.lines[0]
        key = _KEY[self._is_virtual].match(text)
        if key is None:
            sign = "white space" if self._is_virtual else "':'"
            on_bad_line(first, f"there is no name with {sign} after it")
            return
        try:
            group = self._list_name(_unquoted(key[1]), first)
        except BadRowError as error:
            on_bad_line(first, str(error))
            return
        is_empty, follows_target = True, False
        for found in _TARGET.finditer(text, key.end()):
            line, target = entry.line_at(found.start()), found[1]
            is_empty = is_empty and found[0] == ","
            if found[0] == ",":
                follows_target = False
            elif target is None:
                on_bad_line(line, "a quote is not closed")
                return
            elif follows_target and not self._is_virtual:
                on_bad_line(line, f"there is no comma before {target[:40]!r}")
            else:
                follows_target = True
                yield _AliasRow(line, group, _unquoted(target))
        if is_empty:
            on_bad_line(first, f"{group} has no targets")

    def _list_name(self, text: str, line: int) -> str:
        if self._is_virtual and text.startswith("@"):
            raise BadRowError(f"{text[:80]!r} takes all mail of a domain; it is not a list")
        if self._is_virtual and "@" not in text and "." in text:
            raise BadRowError(f"{text[:80]!r} is a domain without a name; it is not a list")
        try:
            group = parse_name(self._completed(text, line))
        except InvalidNameError as error:
            raise BadRowError(str(error)) from None
        _, first = self._lists.setdefault(group.lower(), (group, line))
        if first != line:
            raise BadRowError(f"line {first} has {group} already")
        return group

    def _add(self, row: _AliasRow, columns: GraphColumns) -> None:
        for start, why in _NOT_ADDRESSES.items():
            if row.target.lower().startswith(start):
                raise BadRowError(f"{row.target[:40]!r}: {why}")
        # In aliases(5), `\ann` is the mailbox of ann, even if ann is an alias too.
        is_mailbox = row.target.startswith("\\")
        try:
            target = parse_name(self._completed(row.target.removeprefix("\\"), row.line))
        except InvalidNameError as error:
            raise BadRowError(str(error)) from None
        found = self._lists.get(target.lower())
        if found is None:
            columns.add(row.group, target, "member")
        elif is_mailbox:
            raise BadRowError(f"{row.target[:40]!r} is a mailbox with the name of the list {found[0]}")
        else:
            columns.add(row.group, found[0], "group")

    def _completed(self, text: str, line: int) -> str:
        if "@" in text:
            return text
        if self._domain is None:
            why = f"{text[:40]!r} has no domain, and no domain was given for such names"
            facts = {"file": self._name, "line": str(line), "why": why, "field": "domain"}
            raise BadFile(f"{self._name}:{line}: {why}", facts)
        return f"{text}@{self._domain}"


def _entries(blocks: Iterable[LineBlock], on_bad_line: OnBadLine) -> Iterator[_AliasEntry]:
    """Yield the entries.

    A bad line that was left out may have begun an entry: lines that continue it must not go to the entry before.
    """
    entry: _AliasEntry | None = None
    expected = 1
    for block in blocks:
        if block.first != expected and entry is not None:
            yield entry
            entry = None
        expected = block.first + len(block.lines)
        for number, line in enumerate(block.lines, start=block.first):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            if not line[0].isspace():
                if entry is not None:
                    yield entry
                entry = _AliasEntry()
            elif entry is None:
                on_bad_line(number, "the line begins with white space, and there is no entry that it continues")
                continue
            entry.append(number, line)
    if entry is not None:
        yield entry


def _unquoted(text: str) -> str:
    return _QUOTED.sub(lambda quoted: _ESCAPED.sub(r"\1", quoted[1]), text)
