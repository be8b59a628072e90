"""Split of a whole graph into pieces that each fit into a message, for the server that coordinates its import."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from namegraph import ImportCommand, NodeId, Subnet, subnet_of

NAMES_OF_A_PIECE = 1_500
"""Names of a piece. Together they are under 2 MiB, however long the names are."""

ARCS_OF_A_PIECE = 40_000
"""Arcs of a piece: at most 450 kB, written and read in some milliseconds."""


@dataclass(frozen=True, slots=True)
class ImportPiece:
    """Part of the columns of an import. Arcs come after the names whose numbers they hold."""

    names: Sequence[NodeId] = ()
    parents: Sequence[int] = ()
    children: Sequence[int] = ()
    kinds: bytes = b""
    groups: Sequence[int] = ()


def subnets_in(command: ImportCommand) -> list[Subnet]:
    """Return the subnets of all names, sorted."""
    return sorted(set(map(subnet_of, command.names)))


def first_parent(command: ImportCommand) -> NodeId | None:
    """Return the group whose home coordinates the import. None if the import is empty."""
    for position in (*command.parents[:1], *command.groups[:1]):
        return command.names[position]
    return None


def pieces(command: ImportCommand) -> Iterator[ImportPiece]:
    """Yield all pieces of an import, the names first."""
    for start in range(0, len(command.names), NAMES_OF_A_PIECE):
        yield ImportPiece(names=command.names[start : start + NAMES_OF_A_PIECE])
    for start in range(0, len(command.parents), ARCS_OF_A_PIECE):
        end = start + ARCS_OF_A_PIECE
        yield ImportPiece(
            parents=command.parents[start:end], children=command.children[start:end], kinds=command.kinds[start:end]
        )
    for start in range(0, len(command.groups), ARCS_OF_A_PIECE):
        yield ImportPiece(groups=command.groups[start : start + ARCS_OF_A_PIECE])


def piece_count(command: ImportCommand) -> int:
    """Count the pieces of an import."""
    columns = (
        (command.names, NAMES_OF_A_PIECE),
        (command.parents, ARCS_OF_A_PIECE),
        (command.groups, ARCS_OF_A_PIECE),
    )
    return sum(-(-len(column) // size) for column, size in columns)
