"""Messages between servers about parcels. Encoded in the MessagePack format.

    origin --Parcel--> each server below --Confirm--> origin --Over--> those that remember who got it
    server, as its lanes begin anew --Remembered--> origin --Over--> it, of those that are settled
    origin --Stub--> a server that had nobody for what was sent last --Confirm, or Want--> origin --Parcel--> it
    origin --Lost--> a server that started again, and had not confirmed what is in memory --Confirm--> origin
    server --Claims--> origin --Elsewhere--> it       which foreign processes it has, and which of them others serve
    origin --Datagram--> each server below --Onward--> origin       these two are in no lane: they may be lost
    server <--Carried--> server       posts that are kept in memory: all the rest of this page, in lanes in memory
    origin --Probe--> a server that may have had what is to be sent again --Probed, behind its Confirms--> origin

See docs/protocol-messages.md, "Who is below" and "Accepted, settled, sent again".
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec
from msgspec import Struct

from delivery.model.words import (
    DATAGRAM_BYTES_LIMIT,
    HEADERS_BYTES_LIMIT,
    PAYLOAD_BYTES_LIMIT,
    TARGETS_LIMIT,
    Kept,
    MessageContent,
    Quality,
)
from namegraph import UNDECODABLE, NodeId, ServerId, TargetSet, are_canonical

PARCEL_MESSAGES_LIMIT = 1_000
"""Most messages in a parcel: a parcel is handled in one step."""

PARCEL_BYTES_LIMIT = 256 * 1024
"""Most bytes of the messages in a parcel. A larger message is alone in its parcel."""

LARGEST_PARCEL_BYTES = PAYLOAD_BYTES_LIMIT + HEADERS_BYTES_LIMIT + 256 * 1024
"""Largest encoded parcel: one message of the largest size, or many, and the names of all targets and exceptions."""

LARGEST_DATAGRAM_BYTES = DATAGRAM_BYTES_LIMIT + HEADERS_BYTES_LIMIT + 256 * 1024
"""Largest encoded datagram: a message of the largest size, the names of all targets and exceptions, and servers."""

ONWARD_LIMIT = 10_000
"""Most downstream servers that one message may name. The receiver takes fewer (`servers_below.py`)."""

NUMBER_LIMIT = 2**62

SENDER_ID_LIMIT = 128

HASH_BYTES = 16
HASHES_LIMIT = 20_000
"""Most hashes of added or removed names in one post."""

REMEMBERED_LIMIT = 1_000
"""Most parcels named in one `Remembered`: each may be answered by a post."""


class Parcel(Struct, frozen=True, array_like=True, tag="parcel"):
    """Consecutive messages of one sequence, which travel, are stored and are logged as one."""

    sequence: int
    """Number that the origin gave the sequence: one target set at one quality."""
    start: int
    """Start of the origin in which it accepted the messages. A later start has a higher number."""
    first_serial: int
    targets: TargetSet
    quality: Quality
    messages: tuple[MessageContent, ...]
    round: int = 0
    """Number of the round. Above 0, the parcel is posted again to servers that had it before.

    Such a round serves members that were behind suspended arcs. The log entry that it makes is late.
    """
    is_replayed: bool = False
    """True if the parcel is posted to a server that missed it before, even if that server has later serials.

    The round of such a parcel is above 0.
    """
    kept: Kept = Kept.DURABLE
    assigner: int = 0
    """Start of the origin that assigns foreign processes to servers.

    0 if the origin assigns none: servers of earlier versions do not.
    """
    accepted_in: int = 0
    """Number of the view in which the origin accepted the messages.

    A server in an earlier view may not know the arcs that the origin has left unilaterally since.
    """

    def message_id(self, index: int) -> str:
        """Return the id of a message of this parcel, unique among all servers."""
        return message_id(self.first_serial + index, self.targets, self.sequence, self.start, self.kept)

    def message_ids(self) -> list[str]:
        """Return the ids of all messages of this parcel."""
        after_serial = message_id(0, self.targets, self.sequence, self.start, self.kept)[1:]
        serials = range(self.first_serial, self.first_serial + len(self.messages))
        return [f"{serial}{after_serial}" for serial in serials]


class Confirm(Struct, frozen=True, array_like=True, tag="confirm"):
    """Confirmation that a parcel is durable at this server, and logged if it has recipients there.

    "This server" is the server that sends the confirmation.
    """

    sequence: int
    start: int
    first_serial: int
    mailboxes: int
    """Number of mailboxes at this server that get the parcel."""
    onward: tuple[ServerId, ...]
    """Downstream servers in the graph of this server, including those behind suspended arcs."""
    round: int = 0
    """Round of the parcel."""
    apart: tuple[ServerId, ...] = ()
    """Servers of `onward` that are out of reach: suspended arcs below the targets lead to them."""
    is_remembered: bool = False
    """True if this server remembers the recipients of the parcel until `Over`."""
    takes_stubs: bool = False
    """True if this server can read stubs. Servers of earlier versions cannot."""
    is_of_stub: bool = False
    """True if only the stub of the parcel has come: it has no recipients at this server."""
    has_left_out: bool = False
    """True if a foreign process is left out, because another server serves it, or the origin has not assigned it
    yet."""
    assigner: int = 0
    """Start of the origin whose assignment was followed."""
    number: int = 0
    """Number of the last `Elsewhere` of that start that was followed."""
    onward_before: tuple[ServerId, ...] = ()
    """Servers that may have been downstream when the parcel was accepted, and are not any more.

    Each is named once in a sequence, and again each time that paths to it were lost again.
    """


Version = tuple[int, int]
"""Version of the claims of a server: its start, and a number that rises."""


class Claims(Struct, frozen=True, array_like=True, tag="claims"):
    """Foreign processes in the audience of a sequence at this server: the changes since the last claims."""

    sequence: int
    start: int
    """Start of the origin."""
    first_serial: int
    """Serial of the first parcel for which the claims hold."""
    version: Version
    is_whole: bool
    """True if earlier claims are void."""
    added: bytes
    removed: bytes
    """Hashes of the names in `added`, and in `removed`, concatenated."""


class Elsewhere(Struct, frozen=True, array_like=True, tag="elsewhere"):
    """Claimed processes that another server serves: the changes.

    The receiver serves all its other claimed processes.
    """

    sequence: int
    start: int
    """Start of the origin."""
    first_serial: int
    """First parcel for which other servers serve the added processes, and the receiver serves the removed ones."""
    number: int
    """Number of the `Elsewhere` among those to one server, rising by 1."""
    version: Version
    """Version of the claims that this answers."""
    added: bytes = b""
    removed: bytes = b""
    """Hashes of the names in `added`, and in `removed`, concatenated."""


class Stub(Struct, frozen=True, array_like=True, tag="stub"):
    """A parcel without its messages, for a server that had no recipients for the last parcel.

    A server without recipients confirms the stub as it would the parcel. A server with recipients answers `Want`.
    """

    sequence: int
    start: int
    first_serial: int
    targets: TargetSet
    quality: Quality
    messages: int
    """Number of messages in the parcel."""


class Want(Struct, frozen=True, array_like=True, tag="want"):
    """Request for a parcel of which the stub has come: this server has recipients.

    Until the parcel comes, this server keeps no state of it.
    """

    sequence: int
    start: int
    first_serial: int


class Remembered(Struct, frozen=True, array_like=True, tag="remembered"):
    """Parcels whose recipients this server remembers.

    It is sent as a lane begins again, which may have lost an `Over`.
    """

    sequence: int
    start: int
    first_serials: tuple[int, ...]


class Over(Struct, frozen=True, array_like=True, tag="over"):
    """A parcel is settled. Its receiver may forget the recipients."""

    sequence: int
    start: int
    first_serial: int
    """First serial of the parcel. `NUMBER_LIMIT` if the origin forgets the whole sequence, which is settled."""


class Datagram(Struct, frozen=True, array_like=True, tag="datagram"):
    """A message that no server keeps."""

    serial: int
    """Serial, which rises with each datagram of the origin since its start, whatever the targets."""
    start: int
    """Start of the origin."""
    targets: TargetSet
    message: MessageContent
    onward: tuple[ServerId, ...] = ()
    """Downstream servers of the receiver that the origin knows."""

    @property
    def message_id(self) -> str:
        """Return the id of the datagram, unique among all servers."""
        return f"{self.serial}@{self.targets[0].name}~{self.start:x}"


class Onward(Struct, frozen=True, array_like=True, tag="onward"):
    """Answer to a datagram: the downstream servers of this server, which differ from those in the datagram."""

    start: int
    """Start in the datagram."""
    targets: TargetSet
    servers: tuple[ServerId, ...]
    """Downstream servers, sorted."""


class Probe(Struct, frozen=True, array_like=True, tag="probe"):
    """Request for an answer once all earlier posts are handled. Confirmations under way come before the answer."""

    number: int
    """Number that the answer repeats."""


class Probed(Struct, frozen=True, array_like=True, tag="probed"):
    """Answer to a probe: all posts before the probe are handled, and the parcels among them confirmed."""

    number: int


class Lost(Struct, frozen=True, array_like=True, tag="lost"):
    """Parcels of one sequence, kept in memory, that were for a server and are not sent to it.

    The server confirms it as if it were the newest of these parcels.
    """

    sequence: int
    start: int
    first_serial: int
    """First serial of the newest of these parcels."""
    targets: TargetSet
    parcels: int


class Carried(Struct, frozen=True, array_like=True, tag="carried"):
    """Pieces of posts that are kept in memory, from one start of a server to one start of another."""

    start: int
    """Start of the sender."""
    to_start: int
    """Start of the receiver that the sender knows. 0 asks the receiver for its start."""
    through: int
    """Number of the last handled piece of the opposite lane."""
    first: int
    """Number of the first piece in `pieces`."""
    pieces: tuple[tuple[bytes, bool], ...]
    """Pieces, each with True if a post ends with it."""


PostMessage = Parcel | Stub | Confirm | Claims | Elsewhere | Want | Remembered | Over | Probe | Probed | Lost

_DECODER = msgspec.msgpack.Decoder(PostMessage)
_DATAGRAMS_DECODER = msgspec.msgpack.Decoder(Datagram | Onward | Carried)
_ENCODER = msgspec.msgpack.Encoder()


def hashes_of(joined: bytes) -> list[bytes]:
    """Split joined hashes."""
    return [joined[begin : begin + HASH_BYTES] for begin in range(0, len(joined), HASH_BYTES)]


class NotAPostError(ValueError):
    """Bytes that no correct server posts."""


def encode(message: PostMessage | Datagram | Onward | Carried) -> bytes:
    """Encode a message."""
    return _ENCODER.encode(message)


def decode(encoded: bytes) -> PostMessage:
    """Decode a post of another server. Types, names, numbers and sizes are checked. Raises `NotAPostError`."""
    if len(encoded) > LARGEST_PARCEL_BYTES:
        raise NotAPostError("larger than any parcel")
    try:
        message: PostMessage = _DECODER.decode(encoded)
    except UNDECODABLE as error:
        raise NotAPostError(str(error)) from None
    if isinstance(message, Probe | Probed):
        numbers = [message.number]
    elif isinstance(message, Remembered):
        numbers = [message.sequence, message.start, *message.first_serials]
        if len(message.first_serials) > REMEMBERED_LIMIT:
            raise NotAPostError("too many parcels")
    else:
        numbers = [message.sequence, message.start, message.first_serial]
        numbers += [getattr(message, name, 0) for name in ("round", "parcels", "number", "assigner")]
    if not all(0 <= number <= NUMBER_LIMIT for number in numbers):
        raise NotAPostError("an impossible number")
    if isinstance(message, Parcel):
        _require_possible(message)
    elif isinstance(message, Lost):
        _require_possible_targets(message.targets)
    elif isinstance(message, Stub):
        _require_possible_targets(message.targets)
        if not 0 < message.messages <= PARCEL_MESSAGES_LIMIT:
            raise NotAPostError("no message, or too many")
    elif isinstance(message, Confirm) and (
        max(map(len, (message.onward, message.apart, message.onward_before))) > ONWARD_LIMIT or message.mailboxes < 0
    ):
        raise NotAPostError("an impossible confirmation")
    elif isinstance(message, Claims | Elsewhere):
        _require_possible_hashes(message)
    return message


def decode_datagram(encoded: bytes) -> Datagram | Onward | Carried:
    """Decode a message of another server that is in no lane, with the checks of `decode`. Raises `NotAPostError`."""
    if len(encoded) > LARGEST_DATAGRAM_BYTES:
        raise NotAPostError("larger than any datagram")
    try:
        found: Datagram | Onward | Carried = _DATAGRAMS_DECODER.decode(encoded)
    except UNDECODABLE as error:
        raise NotAPostError(str(error)) from None
    if isinstance(found, Carried):
        if not all(0 <= number <= NUMBER_LIMIT for number in (found.start, found.to_start, found.through, found.first)):
            raise NotAPostError("an impossible number")
        return found
    _require_possible_targets(found.targets)
    servers = found.onward if isinstance(found, Datagram) else found.servers
    numbers = (found.start, found.serial) if isinstance(found, Datagram) else (found.start,)
    if len(servers) > ONWARD_LIMIT or not all(0 <= number <= NUMBER_LIMIT for number in numbers):
        raise NotAPostError("an impossible number, or too many servers")
    if isinstance(found, Datagram) and len(found.message.payload) > DATAGRAM_BYTES_LIMIT:
        raise NotAPostError("a datagram that is too large")
    return found


def decode_stored_post(encoded: bytes) -> PostMessage:
    """Decode a post that this server has stored."""
    message: PostMessage = _DECODER.decode(encoded)
    return message


def decode_stored(encoded: bytes) -> Parcel:
    """Decode a parcel of this server's own log."""
    parcel = decode_stored_post(encoded)
    assert isinstance(parcel, Parcel)
    return parcel


def message_id(serial: int, targets: TargetSet, sequence: int, start: int, kept: Kept = Kept.DURABLE) -> str:
    """Return the id of a message, unique among all servers: `serial@addressed#start`.

    The id has `+sequence` if there are several targets, or exceptions. For a message kept in memory, the `+` is
    followed by `~`, with the sequence number behind it if there is one.
    """
    first = targets[0]
    mark = "~" if kept is Kept.MEMORY else ""
    if len(targets) > 1 or first.excluding:
        mark += str(sequence)
    return f"{serial}@{first.name}{mark and '+' + mark}#{start}"


_MESSAGE_ID = re.compile(r"(\d+)@(.+?)(?:\+(~?)(\d*))?#(\d+)")


class NamedMessage(NamedTuple):
    """Parts of a message id."""

    serial: int
    addressed: NodeId
    sequence: int
    """Number of the sequence. 0 for the sequence of the addressed target alone."""
    start: int
    kept: Kept


def read_message_id(name: str) -> NamedMessage | None:
    """Parse an id that `message_id` made. None if the text has another form."""
    found = _MESSAGE_ID.fullmatch(name)
    if found is None:
        return None
    serial, addressed, mark, sequence, start = found.groups()
    kept = Kept.MEMORY if mark else Kept.DURABLE
    return NamedMessage(int(serial), NodeId(addressed), int(sequence or 0), int(start), kept)


def kept_of(name: str) -> Kept:
    """Return the storage of a message, from its id. An id that does not parse counts as durable."""
    found = read_message_id(name)
    return Kept.DURABLE if found is None else found.kept


def _require_possible_targets(targets: TargetSet) -> None:
    names: list[NodeId] = []
    for target in targets:
        names += [target.name, *target.excluding]
    if not 0 < len(targets) <= TARGETS_LIMIT or len(names) > TARGETS_LIMIT * (TARGETS_LIMIT + 1):
        raise NotAPostError("no target, or too many")
    if not are_canonical(names):
        raise NotAPostError("an invalid name")


def _require_possible_hashes(message: Claims | Elsewhere) -> None:
    for joined in (message.added, message.removed):
        if len(joined) % HASH_BYTES or len(joined) > HASHES_LIMIT * HASH_BYTES:
            raise NotAPostError("no hashes, or too many")
    if not all(0 <= number <= NUMBER_LIMIT for number in message.version):
        raise NotAPostError("an impossible version")


def _require_possible(parcel: Parcel) -> None:
    _require_possible_targets(parcel.targets)
    if not 0 < len(parcel.messages) <= PARCEL_MESSAGES_LIMIT:
        raise NotAPostError("no message, or too many")
    if any(len(message.payload) > PAYLOAD_BYTES_LIMIT for message in parcel.messages):
        raise NotAPostError("a message that is too large")
