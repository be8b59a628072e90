"""Splits a whole graph into parts, one for each home of parents; each part is an atomic update of its own.

    arcs                    -> the part of the home of their parent, which also creates the groups that they name
    groups to be created    -> the part of their own home

All of it is checked before anything is sent anywhere. Source: interfaces.md, semantics 11.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from namegraph.changes import kinds_wanted, unknown_subnet
from namegraph.events import ImportCommand
from namegraph.names import NodeId, ServerId, Subnet, subnet_of
from namegraph.records import NodeKind

NAMES_OF_A_CHUNK = 4_096
"""Together under 6 MB, however long the names are: servers take 8 MiB."""

ARCS_OF_A_CHUNK = 200_000
"""At most 2 MB."""


@dataclass(slots=True)
class ImportPart:
    """What one server carries out; columns as in `ImportCommand`."""

    names: list[NodeId] = field(default_factory=list)
    parents: array[int] = field(default_factory=lambda: array("I"))
    children: array[int] = field(default_factory=lambda: array("I"))
    kinds: bytearray = field(default_factory=bytearray)
    groups: array[int] = field(default_factory=lambda: array("I"))
    numbers: dict[int, int] = field(default_factory=dict)
    """The number that a name has here, by the one that it has in the whole import."""

    def number(self, command: ImportCommand, position: int) -> int:
        """The number here of a name of the whole import."""
        found = self.numbers.get(position)
        if found is None:
            found = self.numbers[position] = len(self.names)
            self.names.append(command.names[position])
        return found


@dataclass(frozen=True, slots=True)
class Columns:
    """A piece of a part that fits into one message; arcs come after the names whose numbers they hold."""

    names: Sequence[NodeId] = ()
    parents: Sequence[int] = ()
    children: Sequence[int] = ()
    kinds: bytes = b""
    groups: Sequence[int] = ()


def subnets_in(command: ImportCommand) -> list[Subnet]:
    """The subnets of all names, sorted."""
    return sorted(set(map(subnet_of, command.names)))


def split(
    command: ImportCommand, *, server: ServerId, homes: Mapping[Subnet, ServerId | None]
) -> dict[ServerId, ImportPart]:
    """The parts, by server, sorted; `homes` tells the server of each subnet, None where it is nobody's.

    Raises `RefusedError` where the import contradicts itself, or holds a group that could have no home.
    """
    home_of = _homes_of_names(command, server, homes)
    parts: dict[ServerId, ImportPart] = {}
    for parent, child, kind in zip(command.parents, command.children, command.kinds, strict=True):
        part = parts.setdefault(home_of[parent], ImportPart())
        part.parents.append(part.number(command, parent))
        part.children.append(part.number(command, child))
        part.kinds.append(kind)
    for position in command.groups:
        part = parts.setdefault(home_of[position], ImportPart())
        part.groups.append(part.number(command, position))
    return {home: parts[home] for home in sorted(parts)}


def _homes_of_names(
    command: ImportCommand, server: ServerId, homes: Mapping[Subnet, ServerId | None]
) -> list[ServerId]:
    found: list[ServerId] = []
    for name, kind in zip(command.names, kinds_wanted(command), strict=True):
        home = homes[subnet_of(name)]
        if home is None and kind == NodeKind.GROUP:
            raise unknown_subnet(name, server)
        found.append(server if home is None else home)
    return found


def pieces(part: ImportPart) -> Iterator[Columns]:
    """The part in pieces that each fit into a message: the names first."""
    for start in range(0, len(part.names), NAMES_OF_A_CHUNK):
        yield Columns(names=part.names[start : start + NAMES_OF_A_CHUNK])
    for start in range(0, len(part.parents), ARCS_OF_A_CHUNK):
        end = start + ARCS_OF_A_CHUNK
        yield Columns(
            parents=part.parents[start:end], children=part.children[start:end], kinds=bytes(part.kinds[start:end])
        )
    for start in range(0, len(part.groups), ARCS_OF_A_CHUNK):
        yield Columns(groups=part.groups[start : start + ARCS_OF_A_CHUNK])
