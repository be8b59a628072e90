"""Frames of the stream between two servers, as values, and their encoding.

`decode` returns a frame for all bytes. Bytes without meaning become `Malformed`, which is a fault of the peer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, assert_never

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from namegraph import InvalidNameError, Lane, ServerId, Subnet, agreed_version, parse_subnet
from nameserver.config.addresses import InvalidAddressError, parse_address
from shadowtree.v1 import peer_pb2

TEXT_LIMIT = 500
"""Most characters of a reason that are kept. Reasons are shown to operators, and may come from any server."""


RELEASE_LIMIT = 50
"""Most characters of the version of a program."""

ADDRESS_LIMIT = 300
"""Most characters of an address. A DNS name has at most 253."""

OWN_SUBNETS_LIMIT = 10_000
"""Most subnets of one server, and most subnets that it may expect at one address."""

DATAGRAMS_LIMIT = 1_000
"""Most datagrams in one frame. The receiver handles them in one go."""

GRACE_MS_LIMIT = 60_000
"""Longest grace that a server can ask for. Callers wait meanwhile."""

KNOWN_SERVERS_LIMIT = 1_000
"""Most servers that a server can name as met.

The limit is far above real numbers, and small enough to compare the servers with the table here.
"""

KNOWN_SUBNETS_LIMIT = 20_000
"""Most subnets of all these servers together."""

RELAY_FIELD = 8
"""Number of the frames that a server before tunnels asks others to pass on.

It takes silence for an answer. A refusal would end its session, and with it all that works.
"""


class GoodbyeReason(IntEnum):
    """Reason of the end of a session. The numbers are those of the wire."""

    UNSPECIFIED = peer_pb2.PeerFrame.Goodbye.REASON_UNSPECIFIED
    OTHER_VERSION = peer_pb2.PeerFrame.Goodbye.REASON_OTHER_VERSION
    MALFORMED = peer_pb2.PeerFrame.Goodbye.REASON_MALFORMED
    ITSELF = peer_pb2.PeerFrame.Goodbye.REASON_ITSELF
    NOT_A_PEER = peer_pb2.PeerFrame.Goodbye.REASON_NOT_A_PEER
    SUBNET_CLAIMED_TWICE = peer_pb2.PeerFrame.Goodbye.REASON_SUBNET_CLAIMED_TWICE
    WRONG_SUBNETS = peer_pb2.PeerFrame.Goodbye.REASON_WRONG_SUBNETS
    LETTERS_LOST = peer_pb2.PeerFrame.Goodbye.REASON_LETTERS_LOST
    OUT_OF_ORDER = peer_pb2.PeerFrame.Goodbye.REASON_OUT_OF_ORDER
    REPLACED = peer_pb2.PeerFrame.Goodbye.REASON_REPLACED
    LEAVING = peer_pb2.PeerFrame.Goodbye.REASON_LEAVING
    NOT_HEARD = peer_pb2.PeerFrame.Goodbye.REASON_NOT_HEARD
    SUSPECTED = peer_pb2.PeerFrame.Goodbye.REASON_SUSPECTED
    GONE_BACK = peer_pb2.PeerFrame.Goodbye.REASON_GONE_BACK
    BEGUN_AGAIN = peer_pb2.PeerFrame.Goodbye.REASON_BEGUN_AGAIN
    NOT_AUTHENTIC = peer_pb2.PeerFrame.Goodbye.REASON_NOT_AUTHENTIC

    @property
    def is_refusal(self) -> bool:
        """True if a new attempt helps only after an operator has changed something."""
        return self not in _PASSING


_PASSING = frozenset(
    (
        GoodbyeReason.OUT_OF_ORDER,
        GoodbyeReason.REPLACED,
        GoodbyeReason.LEAVING,
        GoodbyeReason.NOT_HEARD,
        GoodbyeReason.SUSPECTED,
        GoodbyeReason.GONE_BACK,
        GoodbyeReason.BEGUN_AGAIN,
    )
)


class KnownServer(NamedTuple):
    """A server that the sender of a frame has met."""

    server: ServerId
    subnets: tuple[Subnet, ...]
    """Subnets of the server in the sender's table, sorted."""


@dataclass(frozen=True, slots=True)
class Hello:
    """Introduction of a server."""

    protocol_version: int
    """Oldest version that the server speaks."""
    server: ServerId
    subnets: tuple[Subnet, ...]
    start: int
    """Number drawn when the server started."""
    session: int
    addressed_subnets: tuple[Subnet, ...]
    incarnation: int = 0
    """Number drawn when the server last found that its database is an older copy. Durable."""
    known: tuple[KnownServer, ...] = ()
    """Other servers that the server has met."""
    newest_version: int = 0
    """Newest version that the server speaks. 0 if it speaks only the oldest."""
    release: str = ""
    """Version of the server's program, for people. Empty if the server does not say."""
    address: str = ""
    """Address for calls: ``HOST:PORT``, or ``:PORT`` at the host that the server dials from.

    Empty if it does not say.
    """
    through: ServerId | None = None
    """Server that carries the tunnel through which the sender dialled. None if there is no tunnel."""

    @property
    def agreed_version(self) -> int | None:
        """Version that both servers speak. None if there is none."""
        return agreed_version(oldest=self.protocol_version, newest=max(self.protocol_version, self.newest_version))


@dataclass(frozen=True, slots=True)
class Letters:
    """Whole letters of one lane, in order, without gaps. At least one letter."""

    session: int
    first_number: int
    letters: tuple[bytes, ...]
    handled_through: int
    posts_handled_through: int = 0
    lane: Lane = Lane.LETTERS


@dataclass(frozen=True, slots=True)
class LetterPart:
    """Part of a letter that is too large for one frame."""

    session: int
    number: int
    part: bytes
    is_last: bool
    handled_through: int
    posts_handled_through: int = 0
    lane: Lane = Lane.LETTERS


@dataclass(frozen=True, slots=True)
class DatagramFrame:
    """Datagrams, which are not kept. At least one datagram."""

    session: int
    datagrams: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Receipt:
    """Receipt: the effects of the other server's letters and posts are durable through these numbers."""

    session: int
    handled_through: int
    posts_handled_through: int = 0


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Sign of life of a server without other frames to send."""

    session: int
    number: int
    heard: int
    """Number of the last heartbeat that the sender received. 0 if none."""
    held_us: int
    """Time from that heartbeat to this one, in microseconds."""
    view: str = ""
    """Name of the view that the sender is in."""
    cannot_write: str = ""
    """Reason why the sender has not been able to write its database for a while. Empty while it can."""


class ToldCheckpoint(NamedTuple):
    """Checkpoint of the sender's audit log, as in `namegraph.Checkpoint`."""

    sequence: int
    hash: bytes
    at: int
    before: int
    key: bytes
    signature: bytes


@dataclass(frozen=True, slots=True)
class Acquaintances:
    """Other servers that the sender has met, and its newest checkpoint, after either changed since its hello."""

    session: int
    known: tuple[KnownServer, ...]
    checkpoint: ToldCheckpoint | None = None


@dataclass(frozen=True, slots=True)
class Leaving:
    """Announcement of a planned stop. The sender finishes the updates under way, and begins none."""

    session: int
    grace_ms: int = 0
    """Time from the goodbye for which the sender asks its peers to wait. 0 for no wait."""


@dataclass(frozen=True, slots=True)
class Goodbye:
    """Last frame of a session, with the reason of its end in one line."""

    reason: GoodbyeReason
    message: str
    grace_ms: int = 0
    """Grace as in `Leaving`."""


@dataclass(frozen=True, slots=True)
class Retired:
    """Received frame of a kind that only older servers send. It is dropped, and no fault."""


@dataclass(frozen=True, slots=True)
class Malformed:
    """Received bytes that are no frame."""

    why: str


Frame = Hello | Letters | LetterPart | DatagramFrame | Receipt | Heartbeat | Acquaintances | Leaving | Goodbye


def encode(frame: Frame) -> bytes:
    """Return the encoded frame."""
    message = peer_pb2.PeerFrame
    match frame:
        case Hello(version, server, subnets, start, session, addressed_subnets, incarnation, known):
            wire = message(
                hello=message.Hello(
                    protocol_version=version,
                    newest_protocol_version=frame.newest_version,
                    release=frame.release,
                    address=frame.address,
                    through=frame.through or "",
                    server=server,
                    subnets=subnets,
                    start=start,
                    session=session,
                    addressed_subnets=addressed_subnets,
                    incarnation=incarnation,
                    known=map(_wire_of_known, known),
                )
            )
        case Letters():
            letters = message.Letters(
                session=frame.session,
                first_number=frame.first_number,
                letters=frame.letters,
                handled_through=frame.handled_through,
                posts_handled_through=frame.posts_handled_through,
            )
            wire = message(letters=letters) if frame.lane is Lane.LETTERS else message(posts=letters)
        case LetterPart():
            part = message.LetterPart(
                session=frame.session,
                number=frame.number,
                part=frame.part,
                is_last=frame.is_last,
                handled_through=frame.handled_through,
                posts_handled_through=frame.posts_handled_through,
            )
            wire = message(letter_part=part) if frame.lane is Lane.LETTERS else message(post_part=part)
        case DatagramFrame(session, datagrams):
            wire = message(datagrams=message.Datagrams(session=session, datagrams=datagrams))
        case Receipt(session, handled_through, posts_handled_through):
            receipt = message.Receipt(
                session=session, handled_through=handled_through, posts_handled_through=posts_handled_through
            )
            wire = message(receipt=receipt)
        case Heartbeat(session, number, heard, held_us, view, cannot_write):
            beat = message.Heartbeat(
                session=session,
                number=number,
                heard=heard,
                held_us=held_us,
                view=view,
                cannot_write=cannot_write,
            )
            wire = message(heartbeat=beat)
        case Acquaintances(session, known, checkpoint):
            told = None if checkpoint is None else _wire_of_checkpoint(checkpoint)
            known_there = map(_wire_of_known, known)
            wire = message(acquaintances=message.Acquaintances(session=session, known=known_there, checkpoint=told))
        case Leaving(session, grace_ms):
            wire = message(leaving=message.Leaving(session=session, grace_ms=grace_ms))
        case Goodbye(reason, text, grace_ms):
            wire = message(goodbye=message.Goodbye(reason=reason.value, message=text, grace_ms=grace_ms))
        case _:
            assert_never(frame)
    return wire.SerializeToString()


def decode(data: bytes) -> Frame | Retired | Malformed:
    """Return the decoded frame."""
    try:
        wire = peer_pb2.PeerFrame.FromString(data)
    except DecodeError:
        return Malformed("bytes that are no frame")
    match wire.WhichOneof("content"):
        case "hello":
            return _hello(wire.hello)
        case "letters":
            return _letters(wire.letters, Lane.LETTERS)
        case "letter_part":
            return _letter_part(wire.letter_part, Lane.LETTERS)
        case "posts":
            return _letters(wire.posts, Lane.POST)
        case "post_part":
            return _letter_part(wire.post_part, Lane.POST)
        case "datagrams":
            if not 0 < len(wire.datagrams.datagrams) <= DATAGRAMS_LIMIT:
                return Malformed("no datagrams, or too many")
            return DatagramFrame(wire.datagrams.session, tuple(wire.datagrams.datagrams))
        case "receipt":
            receipt = wire.receipt
            return Receipt(receipt.session, receipt.handled_through, receipt.posts_handled_through)
        case "heartbeat":
            beat = wire.heartbeat
            return Heartbeat(
                beat.session,
                beat.number,
                beat.heard,
                beat.held_us,
                beat.view,
                _printable(beat.cannot_write),
            )
        case "acquaintances":
            return _acquaintances(wire.acquaintances)
        case "leaving":
            return Leaving(wire.leaving.session, _grace_ms(wire.leaving))
        case "goodbye":
            return _goodbye(wire.goodbye)
        case _ if _is_retired(wire):
            return Retired()
        case _:
            return Malformed("a frame without content, or of a kind that is not known")


def _is_retired(wire: peer_pb2.PeerFrame) -> bool:
    unknown = UnknownFieldSet(wire)
    return any(unknown[position].field_number == RELAY_FIELD for position in range(len(unknown)))


def _letters(wire: peer_pb2.PeerFrame.Letters, lane: Lane) -> Letters | Malformed:
    if not wire.letters or not wire.first_number:
        return Malformed("letters without letters or without a number")
    letters = tuple(wire.letters)
    return Letters(wire.session, wire.first_number, letters, wire.handled_through, wire.posts_handled_through, lane)


def _letter_part(wire: peer_pb2.PeerFrame.LetterPart, lane: Lane) -> LetterPart | Malformed:
    if not wire.part or not wire.number:
        return Malformed("an empty part of a letter, or one without a number")
    return LetterPart(
        wire.session, wire.number, wire.part, wire.is_last, wire.handled_through, wire.posts_handled_through, lane
    )


def _hello(hello: peer_pb2.PeerFrame.Hello) -> Hello | Malformed:
    versions_alone = Hello(
        hello.protocol_version, ServerId(""), (), 0, 0, (), newest_version=hello.newest_protocol_version
    )
    if versions_alone.agreed_version is None:
        # The rest of a hello of another version cannot be judged here.
        return versions_alone
    if max(len(hello.subnets), len(hello.addressed_subnets)) > OWN_SUBNETS_LIMIT:
        return Malformed(f"a hello with more than {OWN_SUBNETS_LIMIT} subnets")
    if _are_too_many(hello.known):
        return Malformed(f"a hello with more than {KNOWN_SERVERS_LIMIT} acquaintances, or too many subnets of theirs")
    try:
        server = ServerId(parse_subnet(hello.server))
        through = ServerId(parse_subnet(hello.through)) if hello.through else None
        subnets = _subnets(hello.subnets)
        addressed_subnets = _subnets(hello.addressed_subnets)
        known = _known(hello.known)
    except InvalidNameError as error:
        return Malformed(f"a hello with an {error}")
    if not subnets or not hello.session:
        return Malformed("a hello without subnets or without a session")
    return Hello(
        hello.protocol_version,
        server,
        subnets,
        hello.start,
        hello.session,
        addressed_subnets,
        hello.incarnation,
        known,
        hello.newest_protocol_version,
        _printable(hello.release)[:RELEASE_LIMIT],
        _announced(hello.address),
        through,
    )


def _announced(address: str) -> str:
    """Return an announced address. Empty if it is not an address, as if the server did not say."""
    try:
        parse_address(f"host{address}" if address.startswith(":") else address, lowest_port=1)
    except InvalidAddressError:
        return ""
    return address if len(address) <= ADDRESS_LIMIT else ""


def _acquaintances(frame: peer_pb2.PeerFrame.Acquaintances) -> Acquaintances | Malformed:
    if _are_too_many(frame.known):
        return Malformed(f"more than {KNOWN_SERVERS_LIMIT} acquaintances, or too many subnets of theirs")
    told = frame.checkpoint if frame.HasField("checkpoint") else None
    try:
        return Acquaintances(frame.session, _known(frame.known), None if told is None else _read_checkpoint(told))
    except InvalidNameError as error:
        return Malformed(f"acquaintances with an {error}")


def _read_checkpoint(told: peer_pb2.PeerFrame.AuditCheckpoint) -> ToldCheckpoint:
    return ToldCheckpoint(told.sequence, told.hash, told.at_ms, told.before, told.key, told.signature)


def _are_too_many(known: Sequence[peer_pb2.PeerFrame.KnownServer]) -> bool:
    return len(known) > KNOWN_SERVERS_LIMIT or sum(len(each.subnets) for each in known) > KNOWN_SUBNETS_LIMIT


def _wire_of_checkpoint(told: ToldCheckpoint) -> peer_pb2.PeerFrame.AuditCheckpoint:
    return peer_pb2.PeerFrame.AuditCheckpoint(
        sequence=told.sequence,
        hash=told.hash,
        at_ms=told.at,
        before=told.before,
        key=told.key,
        signature=told.signature,
    )


def _wire_of_known(known: KnownServer) -> peer_pb2.PeerFrame.KnownServer:
    return peer_pb2.PeerFrame.KnownServer(server=known.server, subnets=known.subnets)


def _known(known: Iterable[peer_pb2.PeerFrame.KnownServer]) -> tuple[KnownServer, ...]:
    return tuple(sorted(KnownServer(ServerId(parse_subnet(each.server)), _subnets(each.subnets)) for each in known))


def _subnets(texts: Iterable[str]) -> tuple[Subnet, ...]:
    return tuple(sorted({parse_subnet(text) for text in texts}))


def _goodbye(goodbye: peer_pb2.PeerFrame.Goodbye) -> Goodbye:
    reasons = GoodbyeReason._value2member_map_
    reason = GoodbyeReason(goodbye.reason) if goodbye.reason in reasons else GoodbyeReason.UNSPECIFIED
    return Goodbye(reason, _printable(goodbye.message), _grace_ms(goodbye))


def _grace_ms(frame: peer_pb2.PeerFrame.Leaving | peer_pb2.PeerFrame.Goodbye) -> int:
    return min(frame.grace_ms, GRACE_MS_LIMIT)


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)[:TEXT_LIMIT]
