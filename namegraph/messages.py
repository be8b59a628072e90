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

What they say of one another, and of what was done while they were apart, is below (`Reach` and what follows). Every
other message belongs to a view; outside of it, nobody listens.

What they are made of is in `message_parts`. Source: protocol.md sections 4 and 5.
"""

from __future__ import annotations

import zlib

import msgspec
from msgspec import Struct

from namegraph.events import Member
from namegraph.message_parts import (
    FIRST_VIEW,
    ArcColumns,
    ArcId,
    ChildTruth,
    Cover,
    GroupChange,
    KnownArc,
    Leads,
    Origin,
    PendingEntry,
    RecordColumns,
    Update,
    UpdateId,
    ViewId,
    Vnid,
)
from namegraph.names import NodeId, ServerId
from namegraph.priorities import Priority
from namegraph.refusals import Refusal


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
    leads: Leads
    """Only what was not told before; so in `Ready`."""
    above: tuple[NodeId, ...] = ()
    """With the first vote of the home of parents of arcs to be joined: these parents and the groups above them."""


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
    leads: Leads
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


class Refuse(Struct, frozen=True, array_like=True, tag=True):
    """Participant to coordinator: no. With `to_leave`, the update begins again, and first leaves these arcs."""

    update_id: UpdateId
    number: int
    """The place of the operation that cannot be done."""
    refusal: Refusal
    to_leave: tuple[ArcId, ...] = ()


class Commit(Struct, frozen=True, array_like=True, tag=True):
    """Coordinator to participant: the part of a decided outcome that concerns the participant."""

    update_id: UpdateId
    final: Priority
    groups: tuple[GroupChange, ...]
    arcs: ArcColumns
    renamed: tuple[tuple[NodeId, Vnid | None], ...]
    """Groups that are in another virtual node than before, or in none."""
    relay: RecordColumns
    bases: tuple[tuple[NodeId, Priority], ...]
    """The version of each changed ancestry record to which the change applies, where the record is not relayed."""
    handed_on: tuple[PendingEntry, ...]
    everything: bytes = b""
    """The whole outcome, as an encoded `Commit` of which any participant can apply its part; for those whose own
    part was lost with the coordinator."""
    is_whole: bool = False
    """The receiver takes its part from `everything`, and only what was handed on from here (`own_part`): cutting up an
    import for each server would take the coordinator seconds in which all others wait."""


class Done(Struct, frozen=True, array_like=True, tag=True):
    """Participant to coordinator: the commit was applied."""

    update_id: UpdateId
    controlled: tuple[NodeId, ...] = ()
    """Nodes of this server that became sinks of duplication loops; sorted."""
    released: tuple[NodeId, ...] = ()
    """Nodes of this server that ceased to be such sinks; sorted."""


class Reach(Struct, frozen=True, array_like=True, tag=True):
    """To the server that is to lead: the servers that the sender reaches, and the view it is in."""

    view: ViewId
    servers: tuple[ServerId, ...]


class Propose(Struct, frozen=True, array_like=True, tag=True):
    """Leader to member: stop what is under way, and say what you know of it."""

    view: ViewId


class Decline(Struct, frozen=True, array_like=True, tag=True):
    """Member to leader: no, another server is to lead, or a higher view was promised."""

    view: ViewId
    promised: ViewId
    leader: ServerId
    """The server that is to lead, as far as the sender knows."""


class Accept(Struct, frozen=True, array_like=True, tag=True):
    """Member to leader: what was under way at the sender has stopped."""

    view: ViewId
    origin: Origin
    reached: tuple[ServerId, ...]
    counter: int
    ready: tuple[UpdateId, ...]
    """Updates for which the sender is ready."""
    decided: tuple[tuple[UpdateId, bytes], ...]
    """Updates that the sender knows to be decided and maybe not done everywhere, each as `Commit.everything`."""


class Install(Struct, frozen=True, array_like=True, tag=True):
    """Leader to member: finish these updates, drop all others that are under way, and be in the view."""

    view: ViewId
    members: tuple[tuple[ServerId, Origin], ...]
    """Sorted."""
    counter: int
    """Above all that any member has seen."""
    commits: tuple[bytes, ...]


class Outside(Struct, frozen=True, array_like=True, tag=True):
    """Member to a server outside: the members of this view go on without you, for one of them does not reach you."""

    view: ViewId
    members: tuple[ServerId, ...]


class Entering(Struct, frozen=True, array_like=True, tag=True):
    """Member to the smallest of its origin: suspend these arcs, which enter the sender from other origins."""

    arcs: tuple[ArcId, ...]


class Settled(Struct, frozen=True, array_like=True, tag=True):
    """The smallest of one origin to the leader: the arcs that enter this origin are suspended."""


class Open(Struct, frozen=True, array_like=True, tag=True):
    """Leader to member: all origins have suspended what they must; updates may begin."""


class Held(Struct, frozen=True, array_like=True, tag=True):
    """Home of parents to home of children: the arcs between the two that are suspended at the sender."""

    arcs: tuple[KnownArc, ...]


class HeldToo(Struct, frozen=True, array_like=True, tag=True):
    """Home of children to home of parents: arcs that are newer at the sender, or suspended there and were not named."""

    arcs: tuple[KnownArc, ...]
    unconfirmed: tuple[ArcId, ...] = ()
    """Of these, arcs that were joined at the sender: the parent may never have existed."""


class Healed(Struct, frozen=True, array_like=True, tag=True):
    """Member to leader: the sender has settled all that it was to settle."""


class AllHealed(Struct, frozen=True, array_like=True, tag=True):
    """Leader to member: all members have settled; no arc is known at one end alone any more."""


class Offer(Struct, frozen=True, array_like=True, tag=True):
    """Coordinator to a home: what an update did to its nodes that was decided while it was out of reach."""

    final: Priority
    groups: tuple[GroupChange, ...]
    arcs: tuple[KnownArc, ...]


class TakeCut(Struct, frozen=True, array_like=True, tag=True):
    """To every server: all are ready for a cut. The receiver takes it before anything else, and passes it on."""

    update_id: UpdateId


InView = (
    Order
    | Vote
    | Final
    | Abort
    | Holding
    | Drop
    | Ready
    | Refuse
    | Commit
    | Done
    | TakeCut
    | Entering
    | Settled
    | Open
    | Held
    | HeldToo
    | Healed
    | AllHealed
)
"""Messages that count only among members of one view."""

ViewMessage = (
    Reach
    | Propose
    | Decline
    | Accept
    | Install
    | Outside
    | Entering
    | Settled
    | Open
    | Held
    | HeldToo
    | Healed
    | AllHealed
    | Offer
)
"""About views, and what was done while servers were apart."""

Message = InView | ViewMessage


class Enclosed(Struct, frozen=True, array_like=True, tag=True):
    """An encoded message, and the view in which it counts."""

    view: ViewId
    encoded: bytes


COMPRESSED_FROM_BYTES = 64 * 1024

DECOMPRESSED_BYTES_LIMIT = 1024 * 1024 * 1024
"""Fifty times what half a million arcs take."""

_COMPRESSED = b"x"
"""The first byte of what zlib writes; no array of MessagePack begins with it."""

_DECODER = msgspec.msgpack.Decoder(Message | Enclosed)
_ENCODER = msgspec.msgpack.Encoder(order="deterministic")


class NotAMessageError(ValueError):
    """Bytes that no server of this version sends."""


def encode(message: Message, view: ViewId = FIRST_VIEW) -> bytes:
    """The message as bytes, sent in a view; a long one is compressed: names come again and again in it."""
    encoded = _ENCODER.encode(message)
    if not (isinstance(message, Commit) and message.is_whole):  # That is compressed already.
        encoded = compressed(encoded)
    if view == FIRST_VIEW or not isinstance(message, InView):
        return encoded
    return _ENCODER.encode(Enclosed(view, encoded))


def decode(encoded: bytes) -> Message:
    """Read what `encode` wrote, all types checked; raises `NotAMessageError`."""
    return decode_in_view(encoded)[1]


def decode_in_view(encoded: bytes) -> tuple[ViewId, Message]:
    """As `decode`, with the view it was sent in; `FIRST_VIEW` for what belongs to none."""
    found = _decode(encoded)
    if not isinstance(found, Enclosed):
        return FIRST_VIEW, found
    inner = _decode(found.encoded)
    if isinstance(inner, Enclosed):
        raise NotAMessageError("a message inside two envelopes")
    return found.view, inner


def _decode(encoded: bytes) -> Message | Enclosed:
    try:
        found: Message | Enclosed = _DECODER.decode(decompressed(encoded))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, zlib.error) as error:
        raise NotAMessageError(str(error)) from None
    return found


def compressed(encoded: bytes) -> bytes:
    """An encoded array, compressed if it is long."""
    return zlib.compress(encoded, 1) if len(encoded) > COMPRESSED_FROM_BYTES else encoded


def decompressed(encoded: bytes) -> bytes:
    """What was given to `compressed`; raises `NotAMessageError` or `zlib.error`."""
    if encoded[:1] != _COMPRESSED:
        return encoded
    decompressor = zlib.decompressobj()
    found = decompressor.decompress(encoded, DECOMPRESSED_BYTES_LIMIT)
    if not decompressor.eof:
        raise NotAMessageError(f"a compressed message that is cut off, or larger than {DECOMPRESSED_BYTES_LIMIT} bytes")
    return found
