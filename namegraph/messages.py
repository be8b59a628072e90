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

What they say of one another, and of what was done while they were apart, is below (`Reach` and what follows). Every
other message belongs to a view; outside of it, nobody listens.

Nodes travel by id: the numbers of nodes mean something on one server only. Source: protocol.md sections 4 and 5.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

import msgspec
from msgspec import Struct

from namegraph.events import Member, Operation
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


class ViewId(NamedTuple):
    """Names a view: who was asked to agree on it, and by whom. Higher ones come later."""

    number: int
    leader: ServerId


class Origin(NamedTuple):
    """What a server's state comes from: servers of one origin hold states that fit together.

    That is a view that was open; or, of a view that did not come to be open, those who were of one origin before it,
    named by the smallest of them.
    """

    view: ViewId
    group: ServerId


class SuspendArc(Struct, frozen=True, array_like=True, tag=True):
    """Take an arc out of what is resolved, and remember it: the home of its parent is out of reach."""

    parent: NodeId
    child: NodeId


class SettleArc(Struct, frozen=True, array_like=True, tag=True):
    """Let both ends of an arc take this state, to which one came while they were apart, unless one knows a newer."""

    parent: NodeId
    child: NodeId
    is_present: bool
    kind: NodeKind
    cost: int
    version: int
    writer: int


Step = Operation | SuspendArc | SettleArc
"""What an update is made of: what clients ask for, or what servers do by themselves when they part and meet."""


class OperationColumns(NamedTuple):
    """The operations of an import, in columns as in `RecordColumns`: groups that shall be there, then arcs.

    Each has its place in the whole import, from 1; other numbers stand for the names.
    """

    names: tuple[NodeId, ...]
    group_places: bytes
    groups: bytes
    arc_places: bytes
    parents: bytes
    children: bytes
    kinds: bytes
    """Of the children, as `ChildKind`: a byte each."""


class Update(NamedTuple):
    """What one server must know of an update."""

    update_id: UpdateId
    operations: tuple[tuple[int, Step], ...]
    """Those that concern a node of that server, each with its place in the whole update, from 1."""
    size: int
    """Operations of the whole update."""
    leaves: tuple[ArcId, ...]
    """All arcs that the whole update leaves."""
    has_joins: bool
    """Whether the whole update joins any."""
    read: NodeId | None
    """A group whose members are to be read at the update's turn; there is no operation then."""
    reports_control: bool = False
    """Whether `Done` says what became controlled or released: not for an import."""
    cut: str | None = None
    """The name of a cut, which affects everything at its turn; there is no operation then."""
    brought: OperationColumns | None = None
    """The operations of an import, in place of those above."""


class Cover(NamedTuple):
    """The part of an update's affected nodes at one server: `ends` alone, and all that lies below `entry_nodes`."""

    ends: frozenset[NodeId]
    entry_nodes: frozenset[NodeId]

    def extended(self, other: Cover) -> Cover:
        """Both together."""
        return Cover(self.ends | other.ends, self.entry_nodes | other.entry_nodes)

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
    suspended: tuple[InArc, ...] = ()
    """In-arcs that are suspended."""


class PendingEntry(NamedTuple):
    """An entry handed on: `bound` is a vote or an earlier bound, below which its final priority cannot fall."""

    update_id: UpdateId
    bound: Priority
    final: Priority | None


class RecordColumns(NamedTuple):
    """Many ancestry records, as `columns` packs them: numbers stand for names, vnids and priorities listed here.

    Each column is the bytes of its numbers: half a million of them as objects would be tens of megabytes.
    """

    names: tuple[NodeId, ...]
    nodes: bytes
    degrees: bytes
    """How many in-arcs each record has."""
    vnids: tuple[Vnid, ...]
    vnid_numbers: bytes
    """From 1; 0 for a node that is in no virtual node."""
    priorities: tuple[Priority, ...]
    version_numbers: bytes
    parents: bytes
    """Of the in-arcs of all records, one record after another; so are the next three."""
    costs: bytes
    versions: bytes
    writers: bytes
    suspended: tuple[tuple[int, int, int, int, int], ...] = ()
    """Of the in-arcs that are suspended: record (from 0), parent, cost, version, writer."""


class ArcChange(NamedTuple):
    """What an update makes of an arc.

    `kind` is that of the child: before the update and as far as the parent's home knows it in a `Ready`, after it in a
    `Commit`.
    """

    arc: ArcId
    is_present: bool
    kind: NodeKind
    cost: int
    version: int
    is_suspended: bool = False
    """It is there no more for resolution, and not forgotten."""


class ArcColumns(NamedTuple):
    """Many arc changes, as `columns` packs them: numbers stand for the names; columns as in `RecordColumns`."""

    names: tuple[NodeId, ...]
    parents: bytes
    children: bytes
    present: bytes
    """0: it is not there; 1: it is; 2: it is suspended."""
    kinds: bytes
    costs: bytes
    versions: bytes


class ChildTruth(NamedTuple):
    """What the child's home knows of the child of an arc: its kind after the update, its ancestry record's version."""

    child: NodeId
    kind: NodeKind
    version: Priority


class GroupChange(NamedTuple):
    """A group that an update creates or deletes."""

    group: NodeId
    is_present: bool


class RecordVersion(NamedTuple):
    """The version of a stored duplication-control record: at one final priority, release comes before block."""

    final: Priority
    is_block: bool


class Order(Struct, frozen=True, array_like=True, tag=True):
    """Make an entry, or extend it: then `cover` is what is new, and of the update only its id is said.

    With `final` known, answer `Ready` at its turn, and no `Vote`. With `highest_vote`, all others have voted: unless
    this server's part leads on, its own vote is the final priority, and `Final` is not sent. `above` is then as in
    `Final`.
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
    """A priority above all that this server has seen."""

    update_id: UpdateId
    priority: Priority
    leads: Leads
    """Those that were not told before; so in `Ready`."""
    above: tuple[NodeId, ...] = ()
    """With the first vote of the home of parents of arcs to be joined: these parents and the groups above them."""


class Final(Struct, frozen=True, array_like=True, tag=True):
    """The update's place in the one order of all updates."""

    update_id: UpdateId
    priority: Priority
    above: tuple[NodeId, ...] = ()
    """Groups whose ancestry records the update will bring below others: `Ready` says which of them are held."""


class Abort(Struct, frozen=True, array_like=True, tag=True):
    """The update leaves no trace: forget the entry, block again what was released."""

    update_id: UpdateId
    final: Priority | None
    """None where it was not known yet."""
    released: tuple[ArcId, ...]
    """Arcs whose stored records the coordinator released; to be blocked again by the homes of their children."""


class Holding(Struct, frozen=True, array_like=True, tag=True):
    """This server was handed an entry that it did not hold."""

    update_id: UpdateId


class Drop(Struct, frozen=True, array_like=True, tag=True):
    """The update of an entry that was handed on is over."""

    update_id: UpdateId


class Ready(Struct, frozen=True, array_like=True, tag=True):
    """A yes vote, with what the coordinator needs to compute the outcome."""

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
    """A no vote. With `to_leave` the update begins again: it must leave these arcs before it deletes a group."""

    update_id: UpdateId
    number: int
    """The place of the operation that cannot be done."""
    refusal: Refusal
    to_leave: tuple[ArcId, ...] = ()


class Commit(Struct, frozen=True, array_like=True, tag=True):
    """The part of a decided outcome that concerns one participant."""

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
    released: tuple[tuple[ArcId, tuple[NodeId, ...]], ...]
    """Stored records, by arcs of children homed there, that the coordinator released: what stays of them."""
    stored: tuple[tuple[ArcId, tuple[NodeId, ...]], ...]
    """Stored records of arcs that were inside a virtual node which this update dissolves."""

    everything: bytes = b""
    """The whole outcome, as an encoded `Commit` of which any participant can apply its part; for those whose own
    part was lost with the coordinator."""
    is_whole: bool = False
    """The receiver takes its part from `everything`, and only what was handed on from here (`own_part`): cutting up an
    import for each server would take the coordinator seconds in which all others wait."""


class Done(Struct, frozen=True, array_like=True, tag=True):
    """The commit was applied."""

    update_id: UpdateId
    controlled: tuple[NodeId, ...] = ()
    """Nodes of this server that became sinks of duplication loops; sorted."""
    released: tuple[NodeId, ...] = ()
    """Those that ceased to be."""


class Release(Struct, frozen=True, array_like=True, tag=True):
    """To the parents' home: let each of these stored records hold no more than this, and say so."""

    update_id: UpdateId
    records: tuple[tuple[ArcId, tuple[NodeId, ...]], ...]
    version: RecordVersion


class Released(Struct, frozen=True, array_like=True, tag=True):
    """The stored records were released."""

    update_id: UpdateId


class Block(Struct, frozen=True, array_like=True, tag=True):
    """To the parents' home: let each of these stored records hold its minimal nodes."""

    records: tuple[tuple[ArcId, tuple[NodeId, ...]], ...]
    version: RecordVersion


class Reach(Struct, frozen=True, array_like=True, tag=True):
    """To whom is to lead: these servers are reached from here, and this is the view they are seen from."""

    view: ViewId
    servers: tuple[ServerId, ...]


class Propose(Struct, frozen=True, array_like=True, tag=True):
    """Stop what is under way, and say what you know of it."""

    view: ViewId


class Decline(Struct, frozen=True, array_like=True, tag=True):
    """Not so: another server is to lead, or a higher view was promised."""

    view: ViewId
    promised: ViewId
    leader: ServerId
    """Who is to lead, as far as this server knows."""


class Accept(Struct, frozen=True, array_like=True, tag=True):
    """What is under way here has stopped."""

    view: ViewId
    origin: Origin
    reached: tuple[ServerId, ...]
    counter: int
    ready: tuple[UpdateId, ...]
    """Updates that this server is ready for."""
    decided: tuple[tuple[UpdateId, bytes], ...]
    """Updates that it knows to be decided and that may not be done everywhere, each as `Commit.everything`."""


class Install(Struct, frozen=True, array_like=True, tag=True):
    """Finish these updates, drop all others that are under way, and be in the view."""

    view: ViewId
    members: tuple[tuple[ServerId, Origin], ...]
    """Sorted."""
    counter: int
    """Above all that any member has seen."""
    commits: tuple[bytes, ...]


class Outside(Struct, frozen=True, array_like=True, tag=True):
    """The members of this view do without you: one of them does not reach you."""

    view: ViewId
    members: tuple[ServerId, ...]


class Entering(Struct, frozen=True, array_like=True, tag=True):
    """To the smallest of one origin: these arcs enter here from others; suspend them."""

    arcs: tuple[ArcId, ...]


class Settled(Struct, frozen=True, array_like=True, tag=True):
    """To the leader, from the smallest of one origin: what had to be suspended is."""


class Open(Struct, frozen=True, array_like=True, tag=True):
    """All members are settled: updates may begin."""


class Recall(Struct, frozen=True, array_like=True, tag=True):
    """To the children's home: say again what these stored records are to hold; it was released when a view ended."""

    arcs: tuple[ArcId, ...]


class KnownArc(NamedTuple):
    """What one end of an arc knows of it."""

    arc: ArcId
    is_present: bool
    kind: NodeKind
    cost: int
    version: int
    writer: int


class Held(Struct, frozen=True, array_like=True, tag=True):
    """From the parents' home to the children's: the arcs between us that are suspended here."""

    arcs: tuple[KnownArc, ...]


class HeldToo(Struct, frozen=True, array_like=True, tag=True):
    """The answer: what is newer here, and what is suspended here and was not named."""

    arcs: tuple[KnownArc, ...]
    unconfirmed: tuple[ArcId, ...] = ()
    """Of these, arcs that were joined here: the parent may never have been."""


class Healed(Struct, frozen=True, array_like=True, tag=True):
    """To the leader: what this server was to settle is settled."""


class AllHealed(Struct, frozen=True, array_like=True, tag=True):
    """All members have settled what they were to: nothing is known at one end of an arc alone."""


class Offer(Struct, frozen=True, array_like=True, tag=True):
    """From a coordinator: what updates have made of your nodes that were decided when you were out of reach."""

    final: Priority
    groups: tuple[GroupChange, ...]
    arcs: tuple[KnownArc, ...]


class TakeCut(Struct, frozen=True, array_like=True, tag=True):
    """All servers are ready for a cut: whoever hears of it first from anybody takes it before anything else."""

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
    | Release
    | Released
    | TakeCut
    | Entering
    | Settled
    | Open
    | Recall
    | Held
    | HeldToo
    | Healed
    | AllHealed
)
"""Messages that only those of one view listen to."""

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
    | Recall
    | Held
    | HeldToo
    | Healed
    | AllHealed
    | Offer
)
"""About views, and what was done while servers were apart."""

Message = InView | Block | ViewMessage


class Enclosed(Struct, frozen=True, array_like=True, tag=True):
    """A message of a view, encoded."""

    view: ViewId
    encoded: bytes


FIRST_VIEW = ViewId(0, ServerId(""))
"""The view of servers that have lost nobody: whoever meets is in it."""

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
        raise NotAMessageError("a message that is enclosed twice")
    return found.view, inner


def _decode(encoded: bytes) -> Message | Enclosed:
    try:
        found: Message | Enclosed = _DECODER.decode(decompressed(encoded))
    except (msgspec.DecodeError, RecursionError, zlib.error) as error:
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
