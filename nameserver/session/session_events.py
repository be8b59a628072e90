"""What a session says of what came, for the shell to act on in order."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from namegraph import Lane
from nameserver.session.frames import Heartbeat, Hello, KnownServer, Relay


class FaultKind(StrEnum):
    """What a peer did that no correct server does."""

    GARBAGE = "garbage"
    UNEXPECTED = "out of turn"
    OLD_SESSION = "from another session"
    REPEATED = "repeated letter"
    OUT_OF_ORDER = "letter out of order"
    TOO_LARGE = "letter too large"
    TOO_MUCH = "more than may be unconfirmed"
    UNEARNED_RECEIPT = "receipt for what was not sent"


@dataclass(frozen=True, slots=True)
class Opened:
    """Both sides know each other and where to go on."""

    hello: Hello


@dataclass(frozen=True, slots=True)
class LettersCame:
    """Letters to handle, in order."""

    first_number: int
    letters: tuple[bytes, ...]
    lane: Lane = Lane.LETTERS
    received: int = 0
    """Number through which the other server has handled letters, where it said that with letters; else 0."""


@dataclass(frozen=True, slots=True)
class DatagramsCame:
    """What nobody keeps."""

    datagrams: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class ReceiptCame:
    """The other server has handled what it was sent, through this number."""

    through: int
    lane: Lane = Lane.LETTERS


@dataclass(frozen=True, slots=True)
class Faulted:
    """The other server is at fault; what it sent was dropped."""

    kind: FaultKind


@dataclass(frozen=True, slots=True)
class HeartbeatCame:
    """The other server is there."""

    heartbeat: Heartbeat


@dataclass(frozen=True, slots=True)
class RelayCame:
    """The other server asks to pass a frame on, or passes one on to this server."""

    relay: Relay


@dataclass(frozen=True, slots=True)
class AcquaintancesCame:
    """The other server has met others since its hello, or forgotten them."""

    known: tuple[KnownServer, ...]


@dataclass(frozen=True, slots=True)
class LeavingCame:
    """The other server is being stopped."""

    grace_ms: int = 0
    """For how long, from its goodbye on, it asks to be waited for."""


SessionEvent = (
    Opened
    | LettersCame
    | DatagramsCame
    | ReceiptCame
    | HeartbeatCame
    | RelayCame
    | AcquaintancesCame
    | LeavingCame
    | Faulted
)
