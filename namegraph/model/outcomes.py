"""How a command ends: committed, with what that did, or refused."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from namegraph.model.names import NodeId, ServerId
from namegraph.model.refusals import Refusal
from namegraph.model.rows import NodeKind


class EffectKind(StrEnum):
    """What an update did to the internal group view."""

    FORMED = "formed"
    GROWN = "grown"
    CHANGED = "changed"
    BROKEN = "broken"
    CONTROLLED = "controlled"
    RELEASED = "released"


@dataclass(frozen=True, slots=True)
class GraphEffect:
    """One thing an update did: ids sorted, and the servers that own them, sorted."""

    kind: EffectKind
    groups: tuple[NodeId, ...]
    servers: tuple[ServerId, ...]


@dataclass(frozen=True, slots=True)
class ImportCounts:
    """What an import did."""

    arcs: int
    groups_created: int
    already_there: int


class Member(NamedTuple):
    """A node that a read reached."""

    node: NodeId
    kind: NodeKind


@dataclass(frozen=True, slots=True)
class Committed:
    """The update is part of the graph. `counts` is set for an import alone, `members` for a read."""

    revision: str
    effects: tuple[GraphEffect, ...] = ()
    counts: ImportCounts | None = None
    members: tuple[Member, ...] = ()
    unreachable: tuple[NodeId, ...] = ()
    """For a read: groups that could not be entered, since arcs to them are suspended."""
    unchanged: tuple[int, ...] = ()
    """Places, from 1, of operations that were to be done if needed, and were not needed."""
    left: tuple[NodeId, ...] = ()
    """For `LeaveEverywhere`: the groups that the member left, sorted."""


Outcome = Committed | Refusal
