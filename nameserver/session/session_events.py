"""Events of a session, for the shell to act on in order."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from namegraph import Lane
from nameserver.session.frames import Heartbeat, Hello, KnownServer, ToldCheckpoint


class FaultKind(StrEnum):
    """Faults of a peer that no correct server has."""

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
    """The session is open: both ends know each other and the numbers to go on from."""

    hello: Hello


@dataclass(frozen=True, slots=True)
class LettersCame:
    """Letters to handle, in order."""

    first_number: int
    letters: tuple[bytes, ...]
    lane: Lane = Lane.LETTERS
    received: int = 0
    """Number through which the peer has handled letters, if it said so with these letters. 0 otherwise."""


@dataclass(frozen=True, slots=True)
class DatagramsCame:
    """Datagrams, which are not kept."""

    datagrams: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class ReceiptCame:
    """The peer has handled letters or posts through this number."""

    through: int
    lane: Lane = Lane.LETTERS


@dataclass(frozen=True, slots=True)
class Faulted:
    """The peer made a fault. Its frame was dropped."""

    kind: FaultKind


@dataclass(frozen=True, slots=True)
class HeartbeatCame:
    """The peer is there."""

    heartbeat: Heartbeat


@dataclass(frozen=True, slots=True)
class AcquaintancesCame:
    """The peer has met or forgotten other servers since its hello, or has a newer checkpoint."""

    known: tuple[KnownServer, ...]
    checkpoint: ToldCheckpoint | None = None


@dataclass(frozen=True, slots=True)
class LeavingCame:
    """The peer announced a planned stop."""

    grace_ms: int = 0
    """Time from the goodbye for which the peer asks its peers to wait."""


SessionEvent = (
    Opened | LettersCame | DatagramsCame | ReceiptCame | HeartbeatCame | AcquaintancesCame | LeavingCame | Faulted
)
