"""Operations of an update."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from namegraph.model.names import NodeId, Subnet
from namegraph.model.policies import Policy


class ChildKind(Enum):
    """Kind of an arc's child, as the client says. AUTO: a group if a group of that id exists, else a process."""

    AUTO = 0
    GROUP = 1
    PROCESS = 2


class CreateGroup(Struct, frozen=True, array_like=True, tag=True):
    """Make a group that has no members and is in no group. With `if_needed`, an existing group is left as it is."""

    group: NodeId
    if_needed: bool = False


class DeleteGroup(Struct, frozen=True, array_like=True, tag=True):
    """Delete a group. With `force`, all its arcs are left first."""

    group: NodeId
    force: bool = False


class JoinArc(Struct, frozen=True, array_like=True, tag=True):
    """Add the arc parent -> child. With `if_needed`, an existing arc is left as it is.

    With `offline`, an arc with one end whose home is out of reach is suspended until that home is back.
    """

    parent: NodeId
    child: NodeId
    kind: ChildKind = ChildKind.AUTO
    cost: int = 0
    if_needed: bool = False
    offline: bool = False


class LeaveArc(Struct, frozen=True, array_like=True, tag=True):
    """Remove the arc parent -> child. With `if_needed`, a missing arc is no error.

    Servers add `is_unconfirmed` if the parent's home knows nothing of the arc. The child's home alone then judges.
    """

    parent: NodeId
    child: NodeId
    kind: ChildKind = ChildKind.AUTO
    if_needed: bool = False
    is_unconfirmed: bool = False


class SetPolicy(Struct, frozen=True, array_like=True, tag=True):
    """Replace the policy of a group. Only the home of the group hears of it."""

    group: NodeId
    policy: Policy
    without_admin: bool = False
    """True if the client knows that the policy leaves the group without an admin."""


Operation = CreateGroup | DeleteGroup | JoinArc | LeaveArc | SetPolicy


class LeaveEverywhere(Struct, frozen=True, array_like=True, tag=True):
    """Remove a member from all groups that contain it directly, or from all such groups of one subnet."""

    member: NodeId
    subnet: Subnet | None = None


class RenameGroups(Struct, frozen=True, array_like=True, tag=True):
    """Rename groups of one server. Their arcs go along.

    `renames`: pairs of a group and its new name. The first group must exist; the others are renamed where they
    exist.
    """

    renames: tuple[tuple[NodeId, NodeId], ...]


class TakeOver(Struct, frozen=True, array_like=True, tag=True):
    """Create a group, also where a process of its id is in groups. The group replaces the process in these groups.

    With `if_needed`, an existing group is left as it is.
    """

    group: NodeId
    if_needed: bool = False


Composite = LeaveEverywhere | RenameGroups | TakeOver
"""A request that stands for operations, which its coordinator finds."""
