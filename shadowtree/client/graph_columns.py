"""A graph on its way to a server: names numbered in order of appearance, arcs as columns of numbers.

Rows are checked as they are added: names, kinds, self-arcs, one role for each name, known subnets. A bad row leaves no
trace. No message is sent before the caller has added all rows.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from namegraph import InvalidDetailError, InvalidNameError, NodeId, checked_details, parse_name, subnet_of
from shadowtree.v1 import name_service_pb2, names_pb2
from shadowtree.vocabulary import GroupId, RequestId, SubnetName

ARCS_IN_CHUNK: Final = 50_000
"""Arcs in one chunk: about half a megabyte of three columns."""

NAMES_IN_CHUNK: Final = 1_500
"""Names in one chunk. Names of the greatest legal length, 1.3 kilobytes, stay under the limit of servers, 2 MiB."""

_GROUP_BYTE: Final[int] = names_pb2.CHILD_KIND_GROUP
_PROCESS_BYTE: Final[int] = names_pb2.CHILD_KIND_PROCESS

_GROUP: Final = "group"
_PROCESS: Final = "process"
_MEMBER: Final = "member"
"""Word for a process in files."""

OnBadRow = Callable[[int, str], None]


def _columns(number: int) -> str:
    return "1 column" if number == 1 else f"{number} columns"


class BadRowError(ValueError):
    """A row that cannot be part of the graph. The message gives the reason."""


class GraphColumns:
    """Collector of the arcs of one import.

    `subnets`: subnets whose groups are allowed (None: any). `only_subnet`: arcs from parents in other subnets are left
    out.
    """

    def __init__(self, *, subnets: Collection[SubnetName] | None = None, only_subnet: SubnetName | None = None) -> None:
        self._subnets = None if subnets is None else frozenset(subnets)
        self._only_subnet = only_subnet
        self._names: list[NodeId] = []
        self._parents = array("I")
        self._children = array("I")
        self._kinds = bytearray()
        self._groups = array("I")
        self._details: dict[int, dict[str, str]] = {}
        # Numbers by kind, for names and for the texts as written.
        self._numbers: dict[str, dict[str, int]] = {_GROUP: {}, _MEMBER: {}}
        # Numbers of names that may be parents.
        self._parent_numbers = self._numbers[_GROUP] if only_subnet is None else {}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all arcs and groups, each once."""
        return tuple(self._names)

    @property
    def details(self) -> Mapping[GroupId, Mapping[str, str]]:
        """Details by field, of the groups that have some."""
        return {self._names[number]: each for number, each in self._details.items()}

    @property
    def arc_count(self) -> int:
        """Number of arcs that were added."""
        return len(self._parents)

    def add_rows(self, rows: Iterable[Sequence[str]], *, first: int, on_bad_row: OnBadRow) -> None:
        """Add rows of (parent, child, kind); `first` is the number of the first row for `on_bad_row`."""
        parent_numbers = self._parent_numbers
        group_numbers, member_numbers = self._numbers[_GROUP], self._numbers[_MEMBER]
        parents, children, kinds = self._parents, self._children, self._kinds
        for position, row in enumerate(rows):
            # Fast path for texts that were all seen before; other rows go through `add`.
            try:
                parent, child, kind = row
                parent_number = parent_numbers[parent]
                if kind == _MEMBER:
                    child_number, kind_byte = member_numbers[child], _PROCESS_BYTE
                elif kind == _GROUP:
                    child_number, kind_byte = group_numbers[child], _GROUP_BYTE
                else:
                    child_number, kind_byte = parent_number, 0
            except (KeyError, ValueError):
                child_number, parent_number = -1, -1
            if child_number == parent_number:
                try:
                    self._add_row(row)
                except BadRowError as error:
                    on_bad_row(first + position, str(error))
                continue
            parents.append(parent_number)
            children.append(child_number)
            kinds.append(kind_byte)

    def _add_row(self, row: Sequence[str]) -> None:
        if len(row) != 3:
            raise BadRowError(f"{_columns(len(row))} instead of 3 (parent, child, group or member; tabs between)")
        parent, child, kind = row
        self.add(parent, child, kind)

    def add(self, parent: str, child: str, kind: str, details: Mapping[str, object] | None = None) -> None:
        """Add one arc, or with an empty `child` a group without members; raise `BadRowError` for a bad one.

        `details`: details of the parent, by field.
        """
        try:
            given = checked_details(details or {})
        except InvalidDetailError as error:
            raise BadRowError(str(error)) from None
        if kind == _PROCESS:
            kind = _MEMBER
        if kind not in self._numbers:
            raise BadRowError(f"the kind is {_short(kind)} instead of 'group' or 'process' (in files also 'member')")
        if child == "" and kind == _MEMBER:
            raise BadRowError("the child is empty; only a group without members is written so, with kind 'group'")
        found_parent = self._find(parent, _GROUP)
        found_child = self._find(child, kind) if child else None
        if found_child == found_parent:
            raise BadRowError(f"{_short(parent)} cannot be a member of itself")
        if self._only_subnet is not None:
            if self._subnet(found_parent) != self._only_subnet:
                return
            self._parent_numbers[parent] = self._admit(parent, _GROUP, found_parent)
        parent_number = self._admit(parent, _GROUP, found_parent)
        if given:
            self._details[parent_number] = self._details.get(parent_number, {}) | given
        if found_child is None:
            self._groups.append(parent_number)
            return
        self._parents.append(parent_number)
        self._children.append(self._admit(child, kind, found_child))
        self._kinds.append(_GROUP_BYTE if kind == _GROUP else _PROCESS_BYTE)

    def chunks(self, request_id: RequestId) -> Iterator[name_service_pb2.ImportChunk]:
        """Yield the messages of the import: all names, then all arcs."""
        yield name_service_pb2.ImportChunk(request_id=request_id, groups=self._groups[:ARCS_IN_CHUNK])
        for start in range(ARCS_IN_CHUNK, len(self._groups), ARCS_IN_CHUNK):
            yield name_service_pb2.ImportChunk(groups=self._groups[start : start + ARCS_IN_CHUNK])
        for start in range(0, len(self._names), NAMES_IN_CHUNK):
            yield name_service_pb2.ImportChunk(names=self._names[start : start + NAMES_IN_CHUNK])
        for start in range(0, self.arc_count, ARCS_IN_CHUNK):
            end = start + ARCS_IN_CHUNK
            yield name_service_pb2.ImportChunk(
                parents=self._parents[start:end],
                children=self._children[start:end],
                kinds=bytes(self._kinds[start:end]),
            )

    def _find(self, text: str, kind: str) -> int | NodeId:
        """Return the number of a name that was admitted before, else the checked name itself."""
        numbers = self._numbers[kind]
        number = numbers.get(text)
        if number is not None:
            return number
        try:
            name = parse_name(text)
        except InvalidNameError as error:
            raise BadRowError(str(error)) from None
        number = numbers.get(name)
        if number is not None:
            return number
        other = _MEMBER if kind == _GROUP else _GROUP
        if name in self._numbers[other]:
            raise BadRowError(f"{name} is a {kind} here and a {other} further up")
        if kind == _GROUP and self._subnets is not None and subnet_of(name) not in self._subnets:
            raise BadRowError(f"group {name}: no name server owns the subnet {subnet_of(name)}")
        return name

    def _admit(self, text: str, kind: str, found: int | NodeId) -> int:
        """Number a new name, and remember the text as written."""
        numbers = self._numbers[kind]
        if isinstance(found, int):
            number = found
        elif found in numbers:
            number = numbers[found]
        else:
            number = numbers[found] = len(self._names)
            self._names.append(found)
        numbers[text] = number
        return number

    def _subnet(self, found: int | NodeId) -> SubnetName:
        return subnet_of(self._names[found] if isinstance(found, int) else found)


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "...")
