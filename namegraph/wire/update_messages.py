"""What name servers say to one another to carry out an update. Values only: who sends and handles which is elsewhere.

    coordinator                         participant
        | -- Order ------------------------> |   an entry is made
        | <------------------------- Vote -- |
        | -- Final (or Abort) -------------> |   its turn comes
        | <--------------- Ready, Refuse --- |
        | -- Commit -----------------------> |
        | <------------------------- Done -- |
        | <---------------------- Holding -- |   an entry was handed on to a server that held none
        | -- Final, Drop ------------------> |

What they say of one another, and of what was done while they were apart, is in `view_messages`. Every
other message belongs to a view; outside of it, nobody listens.

What they are made of is in `message_parts`. Source: protocol.md sections 4 and 5.
"""

from __future__ import annotations

from msgspec import Struct

from namegraph.model.changes import NO_ORIGIN, Origin
from namegraph.model.names import NodeId
from namegraph.model.outcomes import Member
from namegraph.model.priorities import Priority
from namegraph.model.refusals import Refusal
from namegraph.wire.message_parts import (
    ArcColumns,
    ArcId,
    ArcVersion,
    ChildTruth,
    Cover,
    GroupChange,
    OnwardServers,
    PendingEntry,
    RecordColumns,
    Update,
    UpdateId,
    Vnid,
)


class Order(Struct, frozen=True, array_like=True, tag=True):
    """Coordinator to participant: make an entry for an update, or extend the entry.

    An extension has the nodes that are new as `cover`, and of the update only its id. With `final`, the participant
    answers `Ready` at its turn, and no `Vote`. With `highest_vote`, all other participants have voted: unless the
    receiver's part leads on, its own vote is the final priority, and no `Final` comes. `above` is then as in `Final`.
    """

    update: Update
    tentative: Priority
    cover: Cover
    final: Priority | None
    above: tuple[NodeId, ...] = ()
    highest_vote: Priority | None = None
    over_below: int = 0
    """All updates of this coordinator with smaller numbers are over everywhere."""


class Vote(Struct, frozen=True, array_like=True, tag=True):
    """Participant to coordinator: a priority above all that the participant has seen."""

    update_id: UpdateId
    priority: Priority
    leads: OnwardServers
    """Only what was not told before; so in `Ready`."""
    above: tuple[NodeId, ...] = ()
    """With the first vote of the home of parents of arcs to be joined: these parents and the groups above them."""
    entered: tuple[NodeId, ...] = ()
    """Entry nodes that the participant found by itself: its entry covers them as if they had been asked for."""


class Final(Struct, frozen=True, array_like=True, tag=True):
    """Coordinator to participant: the update's place in the one order of all updates."""

    update_id: UpdateId
    priority: Priority
    above: tuple[NodeId, ...] = ()
    """Groups whose ancestry records the update will bring below others: `Ready` says which of them are held."""


class Abort(Struct, frozen=True, array_like=True, tag=True):
    """The update leaves no trace: forget the entry."""

    update_id: UpdateId


class Holding(Struct, frozen=True, array_like=True, tag=True):
    """To a coordinator: the sender was handed an entry of its update, and did not hold it."""

    update_id: UpdateId


class Drop(Struct, frozen=True, array_like=True, tag=True):
    """Coordinator to a holder: the update of the entry that was handed on is over."""

    update_id: UpdateId


class Ready(Struct, frozen=True, array_like=True, tag=True):
    """Participant to coordinator: yes, with what the coordinator needs to compute the outcome."""

    update_id: UpdateId
    cover: Cover
    leads: OnwardServers
    held: tuple[tuple[NodeId, Priority], ...]
    """Versions of the ancestry records held here of the groups that `Final` named."""
    children: tuple[ChildTruth, ...]
    """From the homes of children."""
    groups: tuple[GroupChange, ...]
    """From the homes of groups."""
    arcs: ArcColumns
    """From the homes of parents; so are the next three."""
    already_there: int
    """Arcs that were to be joined if needed and are there."""
    ancestry: RecordColumns
    pending: tuple[PendingEntry, ...]
    members: tuple[Member, ...]
    """What a read reached here."""
    declined: tuple[ArcId, ...] = ()
    """Arcs to be settled of which this server knows a newer version, or that cannot be any more."""
    unreachable: tuple[NodeId, ...] = ()
    """What a read could not enter from here."""
    told: tuple[ArcVersion, ...] = ()
    """From the homes of children: arcs of the update that are not there, and may have another version at the other end.

    Sent where the home of the parent lets the outcome rise above these versions.
    """
    unchanged: tuple[int, ...] = ()
    """Places of operations that were to be done if needed and were not; told by the homes of parents and groups."""


class Refuse(Struct, frozen=True, array_like=True, tag=True):
    """Participant to coordinator: no. With `to_leave`, the update begins again, and first leaves these arcs."""

    update_id: UpdateId
    number: int
    """The place of the operation that cannot be done."""
    refusal: Refusal
    to_leave: tuple[ArcId, ...] = ()


class UpdateOutcome(Struct, frozen=True, array_like=True):
    """What was decided of an update: the same for all its participants, of which each takes its share (`commit_share`).

    Encoded (`encode_outcome`), it is in a `Commit`, and is kept and handed on for those who lost theirs.
    """

    update_id: UpdateId
    final: Priority
    groups: tuple[GroupChange, ...]
    arcs: ArcColumns
    renamed: tuple[tuple[NodeId, Vnid | None], ...]
    """Groups that are in another virtual node than before, or in none."""
    relay: RecordColumns
    """The records above joined parents that a participant lacks, or holds in another version."""
    bases: tuple[tuple[NodeId, Priority], ...]
    """The version of each changed ancestry record to which the change applies, where the record is not relayed."""
    origin: Origin = NO_ORIGIN
    renames: tuple[tuple[NodeId, NodeId], ...] = ()
    """Old and new name of each group that the update renames: these are deleted and created. Servers of before pass it
    over, and take messages to the old name, sent before, for messages to a group that is gone."""


class Commit(Struct, frozen=True, array_like=True, tag=True):
    """Coordinator to participant: the update is decided."""

    update_id: UpdateId
    outcome: bytes
    """An encoded `UpdateOutcome`."""
    handed_on: tuple[PendingEntry, ...]
    is_shared: bool
    """Whether more than two servers know of the update: one of them may need the outcome after the coordinator is lost,
    and the receiver keeps it."""


class Done(Struct, frozen=True, array_like=True, tag=True):
    """Participant to coordinator: the commit was applied."""

    update_id: UpdateId
    controlled: tuple[NodeId, ...] = ()
    """Nodes of this server that became sinks of duplication loops; sorted."""
    released: tuple[NodeId, ...] = ()
    """Nodes of this server that ceased to be such sinks; sorted."""


class TakeCut(Struct, frozen=True, array_like=True, tag=True):
    """To every server: all are ready for a cut. The receiver takes it before anything else, and passes it on."""

    update_id: UpdateId
