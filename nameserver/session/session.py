"""One session between two servers over one stream, as a state machine that knows no network.

    dialled here --> GREETING ---+   hello of the other server, found good
                                 +-------------------------------------------> RESUMING   each tells by a receipt
    dialled there -> LISTENING --+                                                |       where the other goes on
                                                                                  v
    any state -- goodbye, loss, or a fault that cannot be passed over --> ENDED   OPEN    letters and receipts

Frames are asked for, not pushed: the shell takes `next_frame` whenever the one before has left. So a letter leaves at
once on an idle stream, and those that come while a frame is under way go together in the next one. No copy of a letter
is held here, only the number of the last one sent.

Letters leave, and receipts are given, only for what is durable (`Post`). Within a session their numbers rise without
gaps; what breaks this is a fault of the peer, counted and dropped, and a gap ends the session, so that the next one
goes on from what was handled. Source: architecture.md, "Between servers"; protocol.md section 6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from typing import Protocol, assert_never

from namegraph import PeerLetter, ServerId
from nameserver.session.frames import (
    Acquaintances,
    Frame,
    Goodbye,
    GoodbyeReason,
    Heartbeat,
    Hello,
    KnownServer,
    Leaving,
    LetterPart,
    Letters,
    Malformed,
    Receipt,
    Relay,
)
from nameserver.session.session_tiebreak import SessionNumbers

FRAME_BYTES_LIMIT = 256 * 1024
"""Bytes of letters in one frame: large enough to cost little per letter, small enough that receipts get between.

At a megabit a second it takes less time than the pause that is accepted; only whole frames are signs of life.
"""

FRAME_LETTERS_LIMIT = 1_000
"""Letters in one frame: the receiver handles them in one go, and serves nobody else meanwhile."""

LETTER_BYTES_LIMIT = 256 * 1024 * 1024
"""A letter is put together in memory: room for the part of the largest import that concerns one server, compressed."""

_OVERTAKEN = Goodbye(GoodbyeReason.REPLACED, "another session has gone further")


class State(Enum):
    """Where a session stands."""

    GREETING = "greeting"
    LISTENING = "listening"
    RESUMING = "resuming"
    OPEN = "open"
    ENDED = "ended"


class FaultKind(StrEnum):
    """What a peer did that no correct server does."""

    GARBAGE = "garbage"
    UNEXPECTED = "out of turn"
    OLD_SESSION = "from another session"
    REPEATED = "repeated letter"
    OUT_OF_ORDER = "letter out of order"
    TOO_LARGE = "letter too large"
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


@dataclass(frozen=True, slots=True)
class ReceiptCame:
    """The other server has handled what it was sent, through this number."""

    through: int


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
    Opened | LettersCame | ReceiptCame | HeartbeatCame | RelayCame | AcquaintancesCame | LeavingCame | Faulted
)


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a session ended. `reason` is None where the connection was lost without a word."""

    reason: GoodbyeReason | None
    message: str
    is_by_peer: bool = False
    grace_ms: int = 0
    """For how long the other server asks to be waited for, as it is coming back."""
    has_gone_back: bool = False
    """Whether it showed that this server's database is an older copy of itself."""


class Post(Protocol):
    """The letters of this server, as far as a session needs them."""

    def letters_after(self, receiver: ServerId, number: int) -> Iterator[PeerLetter]:
        """The letters beyond a number that may leave, in order."""

    def sent_through(self, receiver: ServerId) -> int:
        """The number of the last letter there is."""

    def left_through(self, receiver: ServerId) -> int:
        """The number of the last letter that can have left."""

    def is_met(self, server: ServerId) -> bool:
        """Whether a server was met since this one started."""

    def forgotten_through(self, receiver: ServerId) -> int:
        """The number of the last letter that is not kept, because its receiver has handled it."""

    def handled_through(self, sender: ServerId) -> int:
        """The number of the last letter of a sender of which all that it caused is durable."""


class Session:
    """One end of a session. `ending` is set once it is over."""

    def __init__(
        self,
        *,
        is_dialled_here: bool,
        introduce: Callable[[int], Hello],
        judge: Callable[[Hello], Goodbye | None],
        is_known_start: Callable[[Hello], bool],
        numbers: SessionNumbers,
        post: Post,
    ) -> None:
        """`introduce` gives this server's hello for a session of a number, `judge` why a peer is refused.

        `is_known_start` tells whether a peer was met since it last started.
        """
        self.is_dialled_here = is_dialled_here
        self.state = State.GREETING if is_dialled_here else State.LISTENING
        self.number = numbers.propose() if is_dialled_here else 0
        self.hello: Hello | None = None
        """Of the peer, once it was found good."""
        self.ending: Ending | None = None
        self._introduce = introduce
        self._judge = judge
        self._is_known_start = is_known_start
        self._numbers = numbers
        self._post = post
        self._greeting: Hello | None = introduce(self.number) if is_dialled_here else None
        self._goodbye: Goodbye | None = None
        self._last_receipt: Receipt | None = None
        """To be given before the goodbye: it shows the peer whether its database, too, is an older copy."""
        self._leaves: int | None = None
        """The grace, in milliseconds, where the peer is still to be told that this server is being stopped."""
        self._known = () if self._greeting is None else self._greeting.known
        """What the peer is told of the servers that were met here, by the hello or later."""
        self._has_met_others = False
        """Whether that is still to be told."""
        self._sent_through = 0
        self._sent_of_next = 0
        """Bytes of the next letter that have left in parts."""
        self._received_through = 0
        """Through which letter the peer has given a receipt."""
        self._told: int | None = None
        """The last receipt given to the peer."""
        self._next_expected = 0
        self._parts = bytearray()

    @property
    def peer(self) -> ServerId:
        """Who is at the other end; to be asked only after its hello."""
        assert self.hello is not None
        return self.hello.server

    def is_with(self, server: ServerId) -> bool:
        """Whether a server is known to be at the other end."""
        return self.hello is not None and self.hello.server == server

    # -- what leaves

    @property
    def is_open_there(self) -> bool:
        """Whether the peer, once it has read all that was sent, counts the session as open too."""
        return self.state is State.OPEN and self._told is not None

    def next_frame(self) -> Frame | None:
        """What to send now; None: nothing before something happens. It counts as sent."""
        if self._last_receipt is not None:
            receipt, self._last_receipt = self._last_receipt, None
            return receipt
        if self._goodbye is not None:
            goodbye, self._goodbye = self._goodbye, None
            return goodbye
        if self._greeting is not None:
            greeting, self._greeting = self._greeting, None
            return greeting
        if self.state not in (State.RESUMING, State.OPEN):
            return None
        if self._leaves is not None and self.is_open_there:
            grace_ms, self._leaves = self._leaves, None
            return Leaving(self.number, grace_ms)
        if self._has_met_others and self.is_open_there:
            self._has_met_others = False
            return Acquaintances(self.number, self._known)
        handled_through = self._post.handled_through(self.peer)
        if self._told is None:
            self._next_expected = handled_through + 1
        frame: Frame | None = self._next_letters(handled_through) if self.state is State.OPEN else None
        if self.ending is not None:
            return self.next_frame()
        if frame is None and handled_through != self._told:
            frame = Receipt(self.number, handled_through)
        if frame is not None:
            self._told = handled_through
        return frame

    def _next_letters(self, handled_through: int) -> Letters | LetterPart | None:
        together: list[bytes] = []
        size = 0
        for letter in self._post.letters_after(self.peer, self._sent_through):
            if letter.number != self._sent_through + len(together) + 1:
                self.part(_OVERTAKEN)
                return None
            size += len(letter.encoded)
            if size > FRAME_BYTES_LIMIT or len(together) == FRAME_LETTERS_LIMIT:
                if not together:
                    return self._next_part(letter, handled_through)
                break
            together.append(letter.encoded)
        if not together:
            return None
        first_number = self._sent_through + 1
        self._sent_through += len(together)
        return Letters(self.number, first_number, tuple(together), handled_through)

    def _next_part(self, letter: PeerLetter, handled_through: int) -> LetterPart:
        end = self._sent_of_next + FRAME_BYTES_LIMIT
        part = letter.encoded[self._sent_of_next : end]
        is_last = end >= len(letter.encoded)
        self._sent_of_next = 0 if is_last else end
        if is_last:
            self._sent_through = letter.number
        return LetterPart(self.number, letter.number, part, is_last, handled_through)

    # -- what comes

    def receive(self, frame: Frame | Malformed) -> list[SessionEvent]:
        """Take what the peer sent; returns what it means, in order."""
        if self.state is State.ENDED:
            return []
        match frame:
            case Hello():
                return self._greeted(frame)
            case Letters(session, first_number, letters, handled_through):
                return self._numbered(session, handled_through, lambda: self._letters(first_number, letters))
            case LetterPart(session, number, part, is_last, handled_through):
                return self._numbered(session, handled_through, lambda: self._part(number, part, is_last=is_last))
            case Receipt(session, handled_through):
                return self._numbered(session, handled_through, list)
            case Heartbeat(session):
                return self._while_open(session, HeartbeatCame(frame))
            case Relay(session):
                return self._while_open(session, RelayCame(frame))
            case Acquaintances(session, known):
                return self._while_open(session, AcquaintancesCame(known))
            case Leaving(session, grace_ms):
                return self._while_open(session, LeavingCame(grace_ms))
            case Goodbye(reason, message, grace_ms):
                self._end(Ending(reason, message, is_by_peer=True, grace_ms=grace_ms))
                return []
            case Malformed(why):
                return self._fault(FaultKind.GARBAGE, Goodbye(GoodbyeReason.MALFORMED, why))
            case _:
                assert_never(frame)

    def lost(self, why: str) -> None:
        """Learn that the connection is gone."""
        self._end(Ending(None, why))

    def leave(self, grace_ms: int = 0) -> None:
        """Tell the peer that this server is being stopped, and for how long to wait for it; letters go on."""
        self._leaves = grace_ms

    def tell_known(self, known: tuple[KnownServer, ...]) -> None:
        """Tell the peer which other servers were met here, unless it was told just that."""
        if known != self._known:
            self._known = known
            self._has_met_others = True

    def part(self, goodbye: Goodbye) -> None:
        """End the session with a word."""
        if self.state is not State.ENDED:
            self._end(Ending(goodbye.reason, goodbye.message))
            self._goodbye = goodbye

    def _end(self, ending: Ending) -> None:
        if self.state is not State.ENDED:
            self.state = State.ENDED
            self.ending = ending
            self._greeting = None
            self._parts = bytearray()

    def _fault(self, kind: FaultKind, goodbye: Goodbye | None = None) -> list[SessionEvent]:
        if goodbye is not None:
            self.part(goodbye)
        return [Faulted(kind)]

    def _out_of_turn(self) -> list[SessionEvent]:
        why = Goodbye(GoodbyeReason.MALFORMED, "a frame that does not belong where it came")
        return self._fault(FaultKind.UNEXPECTED, why)

    def _greeted(self, hello: Hello) -> list[SessionEvent]:
        if self.state not in (State.GREETING, State.LISTENING):
            return self._out_of_turn()
        refusal = self._judge(hello)
        if refusal is not None:
            self.part(refusal)
            return []
        if self.state is State.GREETING:
            if hello.session < self.number:
                return self._out_of_turn()
            self.number = hello.session
            self._numbers.see(self.number)
        else:
            self.number = self._numbers.settle(hello.session)
            self._greeting = self._introduce(self.number)
            self._known = self._greeting.known
        self.hello = hello
        self.state = State.RESUMING
        return []

    def _numbered(
        self, session: int, handled_through: int, rest: Callable[[], list[SessionEvent]]
    ) -> list[SessionEvent]:
        if self.state not in (State.RESUMING, State.OPEN):
            return self._out_of_turn()
        if session != self.number:
            return self._fault(FaultKind.OLD_SESSION)
        events = self._resumed(handled_through) if self.state is State.RESUMING else self._receipt(handled_through)
        return events + rest() if self.state is State.OPEN else events

    def _resumed(self, handled_through: int) -> list[SessionEvent]:
        assert self.hello is not None
        left_through, forgotten_through = self._post.left_through(self.peer), self._post.forgotten_through(self.peer)
        is_behind = handled_through < forgotten_through
        if is_behind and self._is_known_start(self.hello):
            # Since it started it has given a later receipt, which overtook this one on another session.
            self.part(_OVERTAKEN)
            return []
        if is_behind or handled_through > left_through:
            self._part_with_older(handled_through, is_behind=is_behind)
            return []
        self._sent_through = self._received_through = handled_through
        self.state = State.OPEN
        return [Opened(self.hello), ReceiptCame(self._received_through)]

    def _part_with_older(self, handled_through: int, *, is_behind: bool) -> None:
        """End a session of two servers of which one knows less of the other than it has told, or was told, before."""
        peer, post = self.peer, self._post
        # Whom a server has met since it started it has told nothing that it does not know of.
        has_gone_back = handled_through > post.left_through(peer) and not post.is_met(peer)
        if self._told is None:
            self._last_receipt = Receipt(self.number, post.handled_through(peer))
        if is_behind or not has_gone_back:
            other = (
                f"it had handled letter {post.forgotten_through(peer)} before"
                if is_behind
                else f"letter {post.left_through(peer)} is the last one to it"
            )
            why = f"{peer} has handled letter {handled_through}, but {other}"
            self.part(
                Goodbye(GoodbyeReason.LETTERS_LOST, f"{why}: one of the two databases is older than it should be")
            )
        else:
            self.part(Goodbye(GoodbyeReason.GONE_BACK, f"{peer} has handled letters that are not known here any more"))
        assert self.ending is not None
        self.ending = replace(self.ending, has_gone_back=has_gone_back)

    def _receipt(self, handled_through: int) -> list[SessionEvent]:
        if handled_through > self._post.left_through(self.peer):
            return self._fault(FaultKind.UNEARNED_RECEIPT)
        # It may be more than this session has sent: letters of the one before were handled after this one had begun.
        if handled_through <= self._received_through:
            return []
        self._received_through = handled_through
        return [ReceiptCame(handled_through)]

    def _while_open(self, session: int, event: SessionEvent) -> list[SessionEvent]:
        if self.state is not State.OPEN:
            return self._out_of_turn()
        return self._fault(FaultKind.OLD_SESSION) if session != self.number else [event]

    def _letters(self, first_number: int, letters: tuple[bytes, ...]) -> list[SessionEvent]:
        if self._told is None or self._parts:
            return self._out_of_turn()
        if first_number > self._next_expected:
            return self._gap(first_number)
        events: list[SessionEvent] = []
        if first_number < self._next_expected:
            events.append(Faulted(FaultKind.REPEATED))
            letters = letters[self._next_expected - first_number :]
        if letters:
            events.append(LettersCame(self._next_expected, letters))
            self._next_expected += len(letters)
        return events

    def _part(self, number: int, part: bytes, *, is_last: bool) -> list[SessionEvent]:
        if self._told is None:
            return self._out_of_turn()
        if number > self._next_expected:
            return self._gap(number)
        if number < self._next_expected:
            return self._fault(FaultKind.REPEATED)
        if len(self._parts) + len(part) > LETTER_BYTES_LIMIT:
            why = Goodbye(GoodbyeReason.MALFORMED, f"a letter of more than {LETTER_BYTES_LIMIT} bytes")
            return self._fault(FaultKind.TOO_LARGE, why)
        self._parts += part
        if not is_last:
            return []
        letter, self._parts = bytes(self._parts), bytearray()
        self._next_expected += 1
        return [LettersCame(number, (letter,))]

    def _gap(self, number: int) -> list[SessionEvent]:
        why = f"letter {number} came where {self._next_expected} was next"
        return self._fault(FaultKind.OUT_OF_ORDER, Goodbye(GoodbyeReason.OUT_OF_ORDER, why))
