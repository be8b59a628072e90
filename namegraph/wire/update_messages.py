"""Messages between name servers to carry out an update. Values only: other modules send and handle them.

    coordinator                         participant
        | -- Order ------------------------> |   an entry is made
        | <------------------------- Vote -- |
        | -- Final (or Abort) -------------> |   its turn comes
        | <--------------- Ready, Refuse --- |
        | -- Commit -----------------------> |
        | <------------------------- Done -- |
        | <---------------------- Holding -- |   an entry was handed on to a server that held none
        | -- Final, Drop ------------------> |

Messages about servers, and about changes made while they were apart, are in `view_messages`. Every other message
belongs to a view, and is ignored outside of it. The parts of messages are in `message_parts`.

Source: docs/protocol-updates.md, "Many servers".
"""

from __future__ import annotations

from msgspec import Struct

from namegraph.model.changes import NO_ORIGIN, Origin
from namegraph.model.names import NodeId
from namegraph.model.outcomes import Member
from namegraph.model.priorities import Priority
from namegraph.model.refusals import Refusal
from namegraph.wire.message_parts import (
    Ancestry,
    ArcId,
    Arcs,
    ArcVersion,
    CallerWord,
    ChildTruth,
    Cover,
    GroupChange,
    OnwardServers,
    PendingEntry,
    Update,
    UpdateId,
    Vnid,
)

GIVEN_UP = 0
"""Value of `Refuse.number` if the sender gave its entry up, because the coordinator said nothing for too long."""


class Order(Struct, frozen=True, array_like=True, tag=True):
    """Coordinator to participant: make an entry for an update, or extend the entry.

    In an extension, `cover` has the new nodes, and `update` only the id of the update. With `final`, the
    participant answers `Ready` at its turn, and no `Vote`. With `highest_vote`, all other participants have voted.
    Unless the receiver's part leads on, its own vote is then the final priority, and no `Final` comes. `above` is
    then as in `Final`.
    """

    update: Update
    tentative: Priority
    cover: Cover
    final: Priority | None
    above: tuple[NodeId, ...] = ()
    highest_vote: Priority | None = None
    over_below: int = 0
    """Bound of finished updates: all updates of this coordinator with smaller numbers are over everywhere."""


class OrderFor(Struct, frozen=True, array_like=True, tag=True):
    """Coordinator to participant: the first `Order` of an update, with the caller of the update.

    Servers without a policy send `Order` alone, as do servers to peers below `RIGHTS_VERSION`.
    """

    order: Order
    word: CallerWord


class Vote(Struct, frozen=True, array_like=True, tag=True):
    """Participant to coordinator: a priority above all that the participant has seen."""

    update_id: UpdateId
    priority: Priority
    leads: OnwardServers
    """Leads that were not told before, as also in `Ready`."""
    above: tuple[NodeId, ...] = ()
    """Parents of arcs to be joined, and the groups above them. Sent with the first vote of the parents' home."""
    entered: tuple[NodeId, ...] = ()
    """Entry nodes that the participant found by itself. Its entry covers them as if they had been asked for."""


class Final(Struct, frozen=True, array_like=True, tag=True):
    """Coordinator to participant: the update's place in the order of all updates."""

    update_id: UpdateId
    priority: Priority
    above: tuple[NodeId, ...] = ()
    """Groups whose ancestry records the update will bring below other groups. `Ready` tells which of them are held."""


class Abort(Struct, frozen=True, array_like=True, tag=True):
    """The update leaves no trace: forget the entry."""

    update_id: UpdateId


class Holding(Struct, frozen=True, array_like=True, tag=True):
    """Holder to coordinator: the sender was handed an entry of the coordinator's update, and did not hold it before."""

    update_id: UpdateId


class Drop(Struct, frozen=True, array_like=True, tag=True):
    """Coordinator to a holder: the update of the entry that was handed on is over."""

    update_id: UpdateId


class Ready(Struct, frozen=True, array_like=True, tag=True):
    """Participant to coordinator: yes, with the facts that the coordinator needs to compute the outcome."""

    update_id: UpdateId
    cover: Cover
    leads: OnwardServers
    held: tuple[tuple[NodeId, Priority], ...]
    """Versions of the ancestry records held here, of the groups that `Final` named."""
    children: tuple[ChildTruth, ...]
    """Children of the arcs, from their homes."""
    groups: tuple[GroupChange, ...]
    """Changed groups, from their homes."""
    arcs: Arcs
    """Changed arcs, from the homes of their parents. The next three fields come from the same homes."""
    already_there: int
    """Number of arcs that were to be joined if needed, and are present."""
    ancestry: Ancestry
    pending: tuple[PendingEntry, ...]
    members: tuple[Member, ...]
    """Nodes that a read reached here."""
    declined: tuple[ArcId, ...] = ()
    """Arcs to be settled that this server declines: it knows a newer version, or the arc has become impossible."""
    unreachable: tuple[NodeId, ...] = ()
    """Groups that a read could not enter from here."""
    told: tuple[ArcVersion, ...] = ()
    """Arcs of the update that are not present, and may have another version at the other end. From the homes of
    children.

    Sent if the home of the parent lets the outcome rise above these versions.
    """
    unchanged: tuple[int, ...] = ()
    """Places of operations marked "if needed" that were not needed, from the homes of parents and groups."""


class Refuse(Struct, frozen=True, array_like=True, tag=True):
    """Participant to coordinator: no. With `to_leave`, the update begins again, and first leaves these arcs."""

    update_id: UpdateId
    number: int
    """Place of the operation that cannot be done, from 1. `GIVEN_UP` if no operation is the cause."""
    refusal: Refusal
    to_leave: tuple[ArcId, ...] = ()


class UpdateOutcome(Struct, frozen=True, array_like=True):
    """Outcome of an update, the same for all its participants, each of which takes its share (`commit_share`).

    A `Commit` carries the encoded outcome (`encode_outcome`). Servers also keep it, and hand it on to servers that
    lost theirs.
    """

    update_id: UpdateId
    final: Priority
    groups: tuple[GroupChange, ...]
    arcs: Arcs
    renamed: tuple[tuple[NodeId, Vnid | None], ...]
    """Groups that are in another virtual node than before, or in none."""
    relay: Ancestry
    """Records above joined parents that a participant lacks, or holds in another version."""
    bases: tuple[tuple[NodeId, Priority], ...]
    """Version of each changed ancestry record to which the change applies. Relayed records are left out."""
    origin: Origin = NO_ORIGIN
    renames: tuple[tuple[NodeId, NodeId], ...] = ()
    """Old and new name of each group that the update renames: the old one is deleted, the new one created.

    Servers of earlier versions ignore the field. For them, earlier messages to the old name are messages to a group
    that is gone.
    """


class Commit(Struct, frozen=True, array_like=True, tag=True):
    """Coordinator to participant: the update is decided."""

    update_id: UpdateId
    outcome: bytes
    """An encoded `UpdateOutcome`."""
    handed_on: tuple[PendingEntry, ...]
    is_shared: bool
    """True if more than two servers know of the update. The receiver keeps the outcome, because another server may need
    it after the coordinator is lost."""


class Done(Struct, frozen=True, array_like=True, tag=True):
    """Participant to coordinator: the commit was applied."""

    update_id: UpdateId
    controlled: tuple[NodeId, ...] = ()
    """Nodes of this server that became sinks of duplication loops, sorted."""
    released: tuple[NodeId, ...] = ()
    """Nodes of this server that ceased to be such sinks, sorted."""


class TakeCut(Struct, frozen=True, array_like=True, tag=True):
    """Message to every server: all are ready for a cut. The receiver takes it before anything else, and passes it
    on."""

    update_id: UpdateId
