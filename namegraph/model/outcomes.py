"""Results of a command: committed, with its effects, or refused."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from namegraph.model.names import NodeId, ServerId
from namegraph.model.refusals import Refusal
from namegraph.model.rows import NodeKind


class EffectKind(StrEnum):
    """Kind of effect of an update on the internal group view."""

    FORMED = "formed"
    GROWN = "grown"
    CHANGED = "changed"
    BROKEN = "broken"
    CONTROLLED = "controlled"
    RELEASED = "released"


@dataclass(frozen=True, slots=True)
class GraphEffect:
    """One effect of an update: ids, sorted, and the servers that own them, sorted."""

    kind: EffectKind
    groups: tuple[NodeId, ...]
    servers: tuple[ServerId, ...]


@dataclass(frozen=True, slots=True)
class ImportCounts:
    """Counts of an import."""

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
    """For a read: groups that could not be entered, because arcs to them are suspended."""
    unchanged: tuple[int, ...] = ()
    """Places, from 1, of operations marked "if needed" that were not needed."""
    left: tuple[NodeId, ...] = ()
    """For `LeaveEverywhere`: the groups that the member left, sorted."""


Outcome = Committed | Refusal
