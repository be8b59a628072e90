"""What a caller hands to the client: joins and leaves of one atomic update, arcs of a graph, groups to resolve."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from shadowtree.vocabulary import ChildKind, GroupId, MemberId, NodeKind


@dataclass(frozen=True, slots=True)
class Join:
    """Make `member` an immediate member of `parent`; with `if_missing`, a membership that exists is no error."""

    parent: GroupId
    member: MemberId
    kind: ChildKind = "auto"
    if_missing: bool = False


@dataclass(frozen=True, slots=True)
class Leave:
    """Take `member` out of the immediate members of `parent`; with `if_there`, one that is no member is no error."""

    parent: GroupId
    member: MemberId
    kind: ChildKind = "auto"
    if_there: bool = False


@dataclass(frozen=True, slots=True)
class Arc:
    """One arc of a graph that is imported or exported; an empty `child` of kind group: a group without members."""

    parent: GroupId
    child: MemberId
    kind: NodeKind


@dataclass(frozen=True, slots=True)
class Target:
    """A group that is asked for, less who is in one of the exceptions (groups) in it."""

    name: GroupId
    excluding: Iterable[GroupId] = ()
