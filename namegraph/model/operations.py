"""What an update may consist of."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from namegraph.model.names import NodeId, Subnet


class ChildKind(Enum):
    """What a client says the child of an arc is; AUTO: a group if one of that id exists, else a process."""

    AUTO = 0
    GROUP = 1
    PROCESS = 2


class CreateGroup(Struct, frozen=True, array_like=True, tag=True):
    """Make a group that has no members and is in no group. With `if_needed`, a group that exists is left as it is."""

    group: NodeId
    if_needed: bool = False


class DeleteGroup(Struct, frozen=True, array_like=True, tag=True):
    """Remove a group; `force` leaves all its arcs first."""

    group: NodeId
    force: bool = False


class JoinArc(Struct, frozen=True, array_like=True, tag=True):
    """Add the arc parent -> child. With `if_needed`, an arc that exists is left as it is.

    With `offline`, where the home of one of its ends is out of reach, it is suspended until that is back.
    """

    parent: NodeId
    child: NodeId
    kind: ChildKind = ChildKind.AUTO
    cost: int = 0
    if_needed: bool = False
    offline: bool = False


class LeaveArc(Struct, frozen=True, array_like=True, tag=True):
    """Remove the arc parent -> child. With `if_needed`, an arc that is not there is no error.

    With `is_unconfirmed`, which servers add, the parent's home knows nothing of it: the child's home alone judges.
    """

    parent: NodeId
    child: NodeId
    kind: ChildKind = ChildKind.AUTO
    if_needed: bool = False
    is_unconfirmed: bool = False


Operation = CreateGroup | DeleteGroup | JoinArc | LeaveArc


class LeaveEverywhere(Struct, frozen=True, array_like=True, tag=True):
    """Take a member out of all groups that it is a direct member of, or of all those of one subnet."""

    member: NodeId
    subnet: Subnet | None = None


class RenameGroups(Struct, frozen=True, array_like=True, tag=True):
    """Give groups of one server other names; their arcs go along.

    Each group with its new name. The first group must exist; the others are renamed where they exist.
    """

    renames: tuple[tuple[NodeId, NodeId], ...]


class TakeOver(Struct, frozen=True, array_like=True, tag=True):
    """Make a group, also where a process of its id is in groups: the group is in them in its place.

    With `if_needed`, a group that exists is left as it is.
    """

    group: NodeId
    if_needed: bool = False


Composite = LeaveEverywhere | RenameGroups | TakeOver
"""A request in place of operations, which its coordinator finds."""
