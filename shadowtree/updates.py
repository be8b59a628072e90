"""Arguments of the client: joins and leaves of one atomic update, arcs of a graph, groups to resolve."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from shadowtree.vocabulary import ChildKind, GroupId, MemberId, NodeKind


@dataclass(frozen=True, slots=True)
class Join:
    """Make `member` an immediate member of `parent`; with `if_missing`, an existing membership is no error."""

    parent: GroupId
    member: MemberId
    kind: ChildKind = "auto"
    if_missing: bool = False


@dataclass(frozen=True, slots=True)
class Leave:
    """Remove `member` from the immediate members of `parent`; with `if_there`, a missing membership is no error."""

    parent: GroupId
    member: MemberId
    kind: ChildKind = "auto"
    if_there: bool = False


@dataclass(frozen=True, slots=True)
class Arc:
    """One arc of an imported or exported graph. An empty `child` of kind group means a group without members.

    `details`: details of `parent` by field, such as `{"description": "Everybody at the site"}`. None for no details. An
    export gives them with the first arc of a group.
    """

    parent: GroupId
    child: MemberId
    kind: NodeKind
    details: Mapping[str, str] | None = field(default=None, hash=False)


@dataclass(frozen=True, slots=True)
class Target:
    """A group to resolve, less the members of its exceptions, which are groups."""

    name: GroupId
    excluding: Iterable[GroupId] = ()
