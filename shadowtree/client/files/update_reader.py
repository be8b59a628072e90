"""Reader of a file of updates: ``+|-<TAB>parent<TAB>child[<TAB>group|member]``; a blank line ends one atomic update."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from namegraph import InvalidNameError, parse_name
from shadowtree.client.files.lines import read_line_blocks, shown_name
from shadowtree.errors import BadFile
from shadowtree.updates import Join, Leave
from shadowtree.vocabulary import ChildKind

_KINDS: Final[dict[str, ChildKind]] = {"group": "group", "member": "process", "process": "process"}


@dataclass(frozen=True, slots=True)
class FileUpdate:
    """One atomic update of a file, and the number of its first line."""

    line: int
    operations: tuple[Join | Leave, ...]


def read_updates(path: str) -> list[FileUpdate]:
    """Read and check the whole file; raise `BadFile` for the first bad line."""
    name = shown_name(path)

    def on_bad_line(number: int, why: str) -> None:
        raise BadFile.at(name, number, why)

    updates: list[FileUpdate] = []
    operations: list[Join | Leave] = []
    first = 1
    for block in read_line_blocks(path, is_compressed=False, on_bad_line=on_bad_line):
        for number, line in enumerate(block.lines, start=block.first):
            if line:
                if not operations:
                    first = number
                try:
                    operations.append(_read_operation(line))
                except ValueError as error:
                    raise BadFile.at(name, number, str(error)) from None
            elif operations:
                updates.append(FileUpdate(first, tuple(operations)))
                operations = []
    if operations:
        updates.append(FileUpdate(first, tuple(operations)))
    return updates


def _read_operation(line: str) -> Join | Leave:
    columns = line.split("\t")
    if len(columns) not in {3, 4}:
        found = "1 column" if len(columns) == 1 else f"{len(columns)} columns"
        raise ValueError(f"{found} instead of 3 or 4 (+ or -, parent, child, perhaps group or member)")
    sign, parent, child = columns[:3]
    if sign not in {"+", "-"}:
        raise ValueError(f"the first column is {sign[:40]!r} instead of '+' or '-'")
    kind: ChildKind = "auto"
    if len(columns) == 4:
        if columns[3] not in _KINDS:
            raise ValueError(f"the kind is {columns[3][:40]!r} instead of 'group' or 'process' (or 'member')")
        kind = _KINDS[columns[3]]
    parent, child = _name(parent), _name(child)
    if parent == child:
        raise ValueError(f"{parent} cannot be a member of itself")
    return Join(parent, child, kind) if sign == "+" else Leave(parent, child, kind)


def _name(text: str) -> str:
    try:
        return parse_name(text)
    except InvalidNameError as error:
        raise ValueError(str(error)) from None
