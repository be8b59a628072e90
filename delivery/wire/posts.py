"""What servers tell one another of messages: parcels, and what becomes of them. Encoded in the MessagePack format.

    origin --Parcel--> each server below --Confirm--> origin --Over--> those that remember who got it
    server, as its lanes begin anew --Remembered--> origin --Over--> it, of those that are settled
    origin --Stub--> a server that had nobody for what was sent last --Confirm, or Want--> origin --Parcel--> it
    origin --Lost--> a server that started again, and had not confirmed what is in memory --Confirm--> origin
    server --Claims--> origin --Elsewhere--> it       which processes that no server owns it has, and whom others serve
    origin --Datagram--> each server below --Onward--> origin       these two are in no lane: they may be lost
    server <--Carried--> server       what is kept in memory: the rest of this page, in lanes that are in memory, too
    origin --Probe--> a server that may have had what is to be sent again --Probed, behind its Confirms--> origin

Source: delivery.md sections 4 and 5.
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
    Message,
    Quality,
)
from namegraph import NodeId, ServerId, TargetSet, are_canonical

PARCEL_MESSAGES_LIMIT = 1_000
"""A parcel is handled in one step."""

PARCEL_BYTES_LIMIT = 256 * 1024
"""Of its messages together, but for a larger one that is alone in it."""

LARGEST_PARCEL_BYTES = PAYLOAD_BYTES_LIMIT + HEADERS_BYTES_LIMIT + 256 * 1024
"""Encoded: one message of the largest size, or many, and the names of all targets and exceptions."""

LARGEST_DATAGRAM_BYTES = DATAGRAM_BYTES_LIMIT + HEADERS_BYTES_LIMIT + 256 * 1024
"""Encoded: a message of the largest size, the names of all targets and exceptions, and servers."""

ONWARD_LIMIT = 10_000
"""Servers that one message may name as further below: fewer are taken (`servers_below.py`)."""

NUMBER_LIMIT = 2**62

SENDER_ID_LIMIT = 128

HASH_BYTES = 16
HASHES_LIMIT = 20_000
"""Of names that come or go, in one post."""

REMEMBERED_LIMIT = 1_000
"""Of parcels that are named at once: each may be answered by a post."""


class Parcel(Struct, frozen=True, array_like=True, tag="parcel"):
    """Consecutive messages of one sequence: they travel, are stored and are logged as one."""

    sequence: int
    """The number that the origin gave the sequence: one target set at one quality."""
    start: int
    """Of the origin, that in which it accepted them: a higher one came later."""
    first_serial: int
    targets: TargetSet
    quality: Quality
    messages: tuple[Message, ...]
    round: int = 0
    """Above 0: posted once more, to whom it was posted before, for those who were behind suspended arcs then. What
    comes of it is late."""
    is_replayed: bool = False
    """Posted again to a server that did not get it before, whatever that one has got of the sequence since. Its round
    is above 0."""
    kept: Kept = Kept.DURABLE
    assigner: int = 0
    """The start of the origin that says which server serves a process that no server owns; 0: none does, for servers of
    before do not."""
    accepted_in: int = 0
    """The number of the view in which the origin accepted them. Whoever is in an earlier one may not know what the
    origin has left by itself since."""

    def message_id(self, index: int) -> str:
        """What names a message of this parcel, among all servers."""
        return message_id(self.first_serial + index, self.targets, self.sequence, self.start, self.kept)

    def message_ids(self) -> list[str]:
        """The same of all of them."""
        after_serial = message_id(0, self.targets, self.sequence, self.start, self.kept)[1:]
        serials = range(self.first_serial, self.first_serial + len(self.messages))
        return [f"{serial}{after_serial}" for serial in serials]


class Confirm(Struct, frozen=True, array_like=True, tag="confirm"):
    """A parcel is durable here, and in the log if anybody here gets it."""

    sequence: int
    start: int
    first_serial: int
    mailboxes: int
    """How many here get it."""
    onward: tuple[ServerId, ...]
    """Servers further below, as the graph here says; those behind suspended arcs too."""
    round: int = 0
    """That of the parcel."""
    apart: tuple[ServerId, ...] = ()
    """Of `onward`, those that are out of reach, behind suspended arcs below its targets, as the graph here says."""
    is_remembered: bool = False
    """Whether it is remembered here who got it: until `Over`."""
    takes_stubs: bool = False
    """Whether a stub can be read here: servers of before cannot."""
    is_of_stub: bool = False
    """Whether its stub alone has come: nobody here gets it."""
    has_left_out: bool = False
    """Whether somebody whom no server owns is left out, for others serve that one, or nobody has said yet."""
    assigner: int = 0
    """The start of the origin whose word was followed in that."""
    number: int = 0
    """Of the last `Elsewhere` of that start."""
    onward_before: tuple[ServerId, ...] = ()
    """Servers that may have been further below when it was accepted, of those that are not any more; each is named once
    in a sequence, and again when ways to it were lost again."""


Version = tuple[int, int]
"""Of what a server has claimed: its start, and a number that rises."""


class Claims(Struct, frozen=True, array_like=True, tag="claims"):
    """Which processes that no server owns are in the audience of a sequence here: what is different since."""

    sequence: int
    start: int
    """Of the origin."""
    first_serial: int
    """Of the parcel with which this is so first."""
    version: Version
    is_whole: bool
    """Whether what was claimed before counts no more."""
    added: bytes
    removed: bytes
    """Hashes of their names, one after another."""


class Elsewhere(Struct, frozen=True, array_like=True, tag="elsewhere"):
    """Whom other servers serve, of those whom one has claimed: what is different since. All others it serves itself."""

    sequence: int
    start: int
    """Of the origin."""
    first_serial: int
    """With which parcel others begin to serve those who are added, and this server those who are removed."""
    number: int
    """Of these to one server, rising by 1."""
    version: Version
    """Of the claims that this answers."""
    added: bytes = b""
    removed: bytes = b""
    """Hashes of their names, one after another."""


class Stub(Struct, frozen=True, array_like=True, tag="stub"):
    """A parcel without its messages, for a server that had nobody for what was sent last.

    Whoever has nobody for it confirms it like the parcel. Whoever has somebody wants the parcel.
    """

    sequence: int
    start: int
    first_serial: int
    targets: TargetSet
    quality: Quality
    messages: int
    """How many there are."""


class Want(Struct, frozen=True, array_like=True, tag="want"):
    """Somebody here gets a parcel of which a stub has come. Until the parcel comes, nothing of it is known here."""

    sequence: int
    start: int
    first_serial: int


class Remembered(Struct, frozen=True, array_like=True, tag="remembered"):
    """It is remembered here who got parcels: said as a lane begins anew, on which an `Over` may have been lost."""

    sequence: int
    start: int
    first_serials: tuple[int, ...]


class Over(Struct, frozen=True, array_like=True, tag="over"):
    """A parcel is settled: who got it need not be remembered any more."""

    sequence: int
    start: int
    first_serial: int
    """`NUMBER_LIMIT`: the origin forgets the whole sequence, of which all is settled."""


class Datagram(Struct, frozen=True, array_like=True, tag="datagram"):
    """A message that nobody keeps."""

    serial: int
    """Rises with each datagram of the origin, whatever its targets, from its start on."""
    start: int
    """Names that start."""
    targets: TargetSet
    message: Message
    onward: tuple[ServerId, ...] = ()
    """What the origin knows of the servers further below that its receiver knows of."""

    @property
    def message_id(self) -> str:
        """What names it among all servers."""
        return f"{self.serial}@{self.targets[0].name}~{self.start:x}"


class Onward(Struct, frozen=True, array_like=True, tag="onward"):
    """Of a server that was sent a datagram: the servers further below that it knows of, not those it was told."""

    start: int
    """That of the datagram."""
    targets: TargetSet
    servers: tuple[ServerId, ...]
    """Sorted."""


class Probe(Struct, frozen=True, array_like=True, tag="probe"):
    """Say when all before this is handled: confirmations that are still on their way come before the answer."""

    number: int
    """To be given back."""


class Probed(Struct, frozen=True, array_like=True, tag="probed"):
    """All that was posted before a probe is handled here, and confirmed as far as it was a parcel."""

    number: int


class Lost(Struct, frozen=True, array_like=True, tag="lost"):
    """Of what is kept in memory: parcels of one sequence that a server is not sent, though they were for it.

    It is confirmed as the newest of them.
    """

    sequence: int
    start: int
    first_serial: int
    """Of the newest."""
    targets: TargetSet
    parcels: int


class Carried(Struct, frozen=True, array_like=True, tag="carried"):
    """Pieces of posts that are in memory alone, from one start of a server to one start of another."""

    start: int
    """Of the server that says it."""
    to_start: int
    """Of the one that it is said to, as far as that is known: 0 asks which it is."""
    through: int
    """The last piece that is handled of those that came the other way."""
    first: int
    """The number of the first of the pieces."""
    pieces: tuple[tuple[bytes, bool], ...]
    """Each with whether a post ends with it."""


PostMessage = Parcel | Stub | Confirm | Claims | Elsewhere | Want | Remembered | Over | Probe | Probed | Lost

_DECODER = msgspec.msgpack.Decoder(PostMessage)
_DATAGRAMS_DECODER = msgspec.msgpack.Decoder(Datagram | Onward | Carried)
_ENCODER = msgspec.msgpack.Encoder()


def hashes_of(joined: bytes) -> list[bytes]:
    """The hashes that were joined."""
    return [joined[begin : begin + HASH_BYTES] for begin in range(0, len(joined), HASH_BYTES)]


class NotAPostError(ValueError):
    """Bytes that no correct server posts."""


def encode(message: PostMessage | Datagram | Onward | Carried) -> bytes:
    """The message as bytes."""
    return _ENCODER.encode(message)


def decode(encoded: bytes) -> PostMessage:
    """Read what another server posted: types, names, numbers and sizes are checked. Raises `NotAPostError`."""
    if len(encoded) > LARGEST_PARCEL_BYTES:
        raise NotAPostError("larger than any parcel")
    try:
        message: PostMessage = _DECODER.decode(encoded)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
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
    """Read what another server sent in no lane, checked as all else. Raises `NotAPostError`."""
    if len(encoded) > LARGEST_DATAGRAM_BYTES:
        raise NotAPostError("larger than any datagram")
    try:
        found: Datagram | Onward | Carried = _DATAGRAMS_DECODER.decode(encoded)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
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
    """What this server itself has posted."""
    message: PostMessage = _DECODER.decode(encoded)
    return message


def decode_stored(encoded: bytes) -> Parcel:
    """A parcel of this server's own log."""
    parcel = decode_stored_post(encoded)
    assert isinstance(parcel, Parcel)
    return parcel


def message_id(serial: int, targets: TargetSet, sequence: int, start: int, kept: Kept = Kept.DURABLE) -> str:
    """Names a message among all servers: `serial@addressed#start`.

    With `+sequence` where there is a set; with `~` before that number, or alone, where it is kept in memory.
    """
    first = targets[0]
    mark = "~" if kept is Kept.MEMORY else ""
    if len(targets) > 1 or first.excluding:
        mark += str(sequence)
    return f"{serial}@{first.name}{mark and '+' + mark}#{start}"


_MESSAGE_ID = re.compile(r"(\d+)@(.+?)(?:\+(~?)(\d*))?#(\d+)")


class NamedMessage(NamedTuple):
    """What the id of a message tells."""

    serial: int
    addressed: NodeId
    sequence: int
    """0: that of the addressed alone."""
    start: int
    kept: Kept


def read_message_id(name: str) -> NamedMessage | None:
    """The parts of what `message_id` gave; None where it gives nothing like it."""
    found = _MESSAGE_ID.fullmatch(name)
    if found is None:
        return None
    serial, addressed, mark, sequence, start = found.groups()
    kept = Kept.MEMORY if mark else Kept.DURABLE
    return NamedMessage(int(serial), NodeId(addressed), int(sequence or 0), int(start), kept)


def kept_of(name: str) -> Kept:
    """How a message is kept, as its id tells."""
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
