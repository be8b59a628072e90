"""What name servers say to one another to carry out an update. Values only: who sends and handles which is elsewhere.

    coordinator                         participant
        | -- Order ------------------------> |   an entry is made
        | <------------------------- Vote -- |
        | -- Final (or Abort) -------------> |   its turn comes: Release / Released with parents' homes
        | <--------------- Ready, Refuse --- |
        | -- Commit -----------------------> |   Block to parents' homes
        | <------------------------- Done -- |
        | <---------------------- Holding -- |   an entry was handed on to a server that held none
        | -- Final, Drop ------------------> |

Nodes travel by id: the numbers of nodes mean something on one server only. Source: protocol.md sections 4 and 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from namegraph.names import NodeId, ServerId
from namegraph.priorities import Priority
from namegraph.records import NodeKind
from namegraph.refusals import Refusal


class UpdateId(NamedTuple):
    """Names an update among all servers."""

    coordinator: ServerId
    number: int


class ArcId(NamedTuple):
    """One arc of the external group view."""

    parent: NodeId
    child: NodeId


class ArcWish(NamedTuple):
    """An arc that an update wants to join or leave. `kind` is None where the child's home shall say."""

    is_join: bool
    arc: ArcId
    kind: NodeKind | None
    cost: int


class Update(NamedTuple):
    """What all servers of an update must know of it; it names each arc once."""

    update_id: UpdateId
    wishes: tuple[ArcWish, ...]


class Cover(NamedTuple):
    """The part of an update's affected nodes at one server: `ends` alone, and all that lies below `entry_nodes`."""

    ends: frozenset[NodeId]
    entry_nodes: frozenset[NodeId]

    def contains(self, other: Cover) -> bool:
        """Whether all of the other is covered too."""
        return other.ends <= self.ends and other.entry_nodes <= self.entry_nodes


Leads = tuple[tuple[ServerId, tuple[NodeId, ...]], ...]
"""The servers that a part of the affected nodes leads to, each with its entry nodes; sorted."""


class Vnid(NamedTuple):
    """The id of a virtual node."""

    smallest: NodeId
    made_at: Priority


class InArc(NamedTuple):
    """An arc as the ancestry record of its child holds it."""

    parent: NodeId
    cost: int
    version: int
    writer: int


class AncestryRecord(NamedTuple):
    """One node's ancestry record, whole. `version`: the final priority of the last update that changed it."""

    node: NodeId
    in_arcs: tuple[InArc, ...]
    vnid: Vnid | None
    version: Priority


class PendingEntry(NamedTuple):
    """An entry handed on: `bound` is a vote or an earlier bound, below which its final priority cannot fall."""

    update: Update
    bound: Priority
    final: Priority | None


class ArcTruth(NamedTuple):
    """What the parent's home knows of an arc of the update: its version (0: never joined), cost, child's kind."""

    arc: ArcId
    version: int
    cost: int
    kind: NodeKind


class ChildTruth(NamedTuple):
    """What the child's home knows of the child of an arc: its kind and the version of its ancestry record."""

    child: NodeId
    kind: NodeKind
    version: Priority


class ArcOutcome(NamedTuple):
    """What became of an arc."""

    is_present: bool
    arc: ArcId
    kind: NodeKind
    cost: int
    version: int


class RecordVersion(NamedTuple):
    """The version of a stored duplication-control record: at one final priority, release comes before block."""

    final: Priority
    is_block: bool


@dataclass(frozen=True, slots=True)
class Order:
    """Make an entry. With `final` known, answer `Ready` at its turn, and no `Vote`."""

    update: Update
    tentative: Priority
    cover: Cover
    final: Priority | None


@dataclass(frozen=True, slots=True)
class Vote:
    """A priority above all that this server has seen."""

    update_id: UpdateId
    priority: Priority
    leads: Leads


@dataclass(frozen=True, slots=True)
class Final:
    """The update's place in the one order of all updates."""

    update_id: UpdateId
    priority: Priority


@dataclass(frozen=True, slots=True)
class Abort:
    """The update leaves no trace: forget the entry, block again what was released."""

    update_id: UpdateId


@dataclass(frozen=True, slots=True)
class Holding:
    """This server was handed an entry that it did not hold."""

    update_id: UpdateId


@dataclass(frozen=True, slots=True)
class Drop:
    """The update of an entry that was handed on is over."""

    update_id: UpdateId


@dataclass(frozen=True, slots=True)
class Ready:
    """A yes vote, with what the coordinator needs to compute the outcome."""

    update_id: UpdateId
    cover: Cover
    leads: Leads
    held: tuple[tuple[NodeId, Priority], ...]
    """Versions of the ancestry records held here of what is above the affected nodes."""
    children: tuple[ChildTruth, ...]
    """From the homes of children."""
    arcs: tuple[ArcTruth, ...]
    """From the homes of parents; so are the next two."""
    ancestry: tuple[AncestryRecord, ...]
    pending: tuple[PendingEntry, ...]


@dataclass(frozen=True, slots=True)
class Refuse:
    """A no vote."""

    update_id: UpdateId
    refusal: Refusal


@dataclass(frozen=True, slots=True)
class Commit:
    """The part of a decided outcome that concerns one participant."""

    update_id: UpdateId
    final: Priority
    arcs: tuple[ArcOutcome, ...]
    renamed: tuple[tuple[NodeId, Vnid | None], ...]
    """Groups that are in another virtual node than before, or in none."""
    relay: tuple[AncestryRecord, ...]
    bases: tuple[tuple[NodeId, Priority], ...]
    """The version of each changed ancestry record to which the change applies, where the record is not relayed."""
    handed_on: tuple[PendingEntry, ...]
    released: tuple[tuple[ArcId, tuple[NodeId, ...]], ...]
    """Stored records, by arcs of children homed there, that the coordinator released: what stays of them."""
    stored: tuple[tuple[ArcId, tuple[NodeId, ...]], ...]
    """Stored records of arcs that were inside a virtual node which this update dissolves."""


@dataclass(frozen=True, slots=True)
class Done:
    """The commit was applied."""

    update_id: UpdateId


@dataclass(frozen=True, slots=True)
class Release:
    """To the parent's home: let a stored record hold `keep` alone, and say so."""

    update_id: UpdateId
    arc: ArcId
    keep: tuple[NodeId, ...]
    version: RecordVersion


@dataclass(frozen=True, slots=True)
class Released:
    """A stored record was released."""

    update_id: UpdateId


@dataclass(frozen=True, slots=True)
class Block:
    """To the parent's home: let a stored record hold these minimal nodes."""

    arc: ArcId
    nodes: tuple[NodeId, ...]
    version: RecordVersion


Message = Order | Vote | Final | Abort | Holding | Drop | Ready | Refuse | Commit | Done | Release | Released | Block
