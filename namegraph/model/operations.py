"""What an update may consist of."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from namegraph.model.names import NodeId


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
