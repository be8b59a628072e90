"""One lane of a session: letters that leave and letters that come, each with numbers of their own.

    outbox --> whole letters together | parts of a large one --> receipt
    numbers that come: the next one --> handled; one of before --> counted, dropped; a later one --> the session ends

No copy of a letter is held here, only the number of the last one sent. Both lanes go by the same rules, and differ in
their limits (`LIMITS`). Of posts no more are under way, sent and not confirmed, than a window holds: their receiver
may have to keep them in memory, while servers agree on a view say. Both ends count alike, so that one which sends more
is at fault. Source: delivery.md section 11.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from namegraph import POST_BYTES_LIMIT, Lane, PeerLetter, ServerId
from nameserver.session.frames import Goodbye, GoodbyeReason, LetterPart, Letters
from nameserver.session.session_events import Faulted, FaultKind, LettersCame, ReceiptCame, SessionEvent

FRAME_BYTES_LIMIT = 256 * 1024
"""Bytes of letters in one frame: large enough to cost little per letter, small enough that receipts get between.

At a megabit a second it takes less time than the pause that is accepted; only whole frames are signs of life.
"""

FRAME_LETTERS_LIMIT = 1_000
"""Letters in one frame: the receiver handles them in one go, and serves nobody else meanwhile."""

LETTER_BYTES_LIMIT = 256 * 1024 * 1024
"""A letter is put together in memory: room for the part of the largest import that concerns one server, compressed."""

POSTS_FRAME_BYTES_LIMIT = 64 * 1024
"""Bytes of posts in one frame: a vote that is written meanwhile waits for it, half a millisecond on a gigabit."""

UNCONFIRMED_POSTS_BYTES_LIMIT = 8 * 1024 * 1024
"""Posts under way: what the receiver may have to hold in memory of one server; at 20 ms there and back, 400 MB/s."""

POST_OVERHEAD_BYTES = 256
"""What a post costs its receiver beside its bytes: many small ones are not held for nothing either."""

OVERTAKEN = Goodbye(GoodbyeReason.REPLACED, "another session has gone further")
OUT_OF_TURN = Goodbye(GoodbyeReason.MALFORMED, "a frame that does not belong where it came")


@dataclass(frozen=True, slots=True)
class LaneLimits:
    """What there may be of one lane."""

    frame_bytes: int
    """Of letters in one frame; a larger letter leaves in parts of this size."""
    frame_letters: int
    letter_bytes: int
    unconfirmed_bytes: int | None
    """Of letters sent and not confirmed; None: the receiver handles each when it comes, so no more are held."""


LIMITS: Mapping[Lane, LaneLimits] = {
    Lane.LETTERS: LaneLimits(FRAME_BYTES_LIMIT, FRAME_LETTERS_LIMIT, LETTER_BYTES_LIMIT, None),
    Lane.POST: LaneLimits(
        POSTS_FRAME_BYTES_LIMIT, FRAME_LETTERS_LIMIT, POST_BYTES_LIMIT, UNCONFIRMED_POSTS_BYTES_LIMIT
    ),
}

NOUNS = {Lane.LETTERS: "letter", Lane.POST: "post"}


class Outbox(Protocol):
    """The letters of one lane of this server, as far as a session needs them."""

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


class _Window:
    """Letters that are not confirmed, and what they come to."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._sizes: deque[tuple[int, int]] = deque()
        """Numbers and sizes, in order; of letters without a limit nothing is remembered."""
        self._bytes = 0

    def takes(self, number: int, size: int) -> bool:
        """Count one more letter, unless it does not fit any more; one alone always does."""
        if self._limit is None:
            return True
        size += POST_OVERHEAD_BYTES
        if self._sizes and self._bytes + size > self._limit:
            return False
        self._sizes.append((number, size))
        self._bytes += size
        return True

    def confirm(self, through: int) -> None:
        """Letters through a number count no more."""
        while self._sizes and self._sizes[0][0] <= through:
            self._bytes -= self._sizes.popleft()[1]


class SessionLane:
    """One lane of a session with a peer that has said who it is."""

    def __init__(
        self,
        lane: Lane,
        peer: ServerId,
        outbox: Outbox,
        limits: LaneLimits,
        *,
        part: Callable[[Goodbye], None],
        fault: Callable[[FaultKind, Goodbye | None], list[SessionEvent]],
    ) -> None:
        """`part` ends the session; `fault` gives what is to be said of one, and with a word ends the session too."""
        self.lane = lane
        self._peer = peer
        self._outbox = outbox
        self._limits = limits
        self._end = part
        self._fault = fault
        self._sent_through = 0
        self._sent_of_next = 0
        """Bytes of the next letter that have left in parts."""
        self._received_through = 0
        """Through which letter the peer has given a receipt."""
        self._under_way = _Window(limits.unconfirmed_bytes)
        self._next_expected = 0
        """0: the peer was not told where to go on."""
        self._parts = bytearray()
        self._came = _Window(limits.unconfirmed_bytes)
        """Of which the peer was told nothing yet."""

    # -- what leaves

    def handled_through(self) -> int:
        """The receipt that can be given now."""
        return self._outbox.handled_through(self._peer)

    def tell(self, handled_through: int) -> None:
        """A receipt leaves; the first one tells the peer where to go on."""
        if not self._next_expected:
            self._next_expected = handled_through + 1
        self._came.confirm(handled_through)

    def next_frame(self, session: int, receipts: tuple[int, int]) -> Letters | LetterPart | None:
        """The next letters that may leave, with receipts of both lanes; None where there are none, or the session ends.

        They count as sent.
        """
        together: list[bytes] = []
        size = 0
        for letter in self._outbox.letters_after(self._peer, self._sent_through):
            if letter.number != self._sent_through + len(together) + 1:
                self._end(OVERTAKEN)
                return None
            size += len(letter.encoded)
            if size > self._limits.frame_bytes or len(together) == self._limits.frame_letters:
                if not together:
                    return self._next_part(letter, session, receipts)
                break
            if not self._under_way.takes(letter.number, len(letter.encoded)):
                break
            together.append(letter.encoded)
        if not together:
            return None
        first_number = self._sent_through + 1
        self._sent_through += len(together)
        return Letters(session, first_number, tuple(together), *receipts, self.lane)

    def _next_part(self, letter: PeerLetter, session: int, receipts: tuple[int, int]) -> LetterPart | None:
        if not self._sent_of_next and not self._under_way.takes(letter.number, len(letter.encoded)):
            return None
        end = self._sent_of_next + self._limits.frame_bytes
        part = letter.encoded[self._sent_of_next : end]
        is_last = end >= len(letter.encoded)
        self._sent_of_next = 0 if is_last else end
        if is_last:
            self._sent_through = letter.number
        return LetterPart(session, letter.number, part, is_last, *receipts, self.lane)

    # -- where to go on

    def is_behind(self, handled_through: int) -> bool:
        """Whether the peer has not handled what it has confirmed once."""
        return handled_through < self._outbox.forgotten_through(self._peer)

    def is_beyond(self, handled_through: int) -> bool:
        """Whether the peer has handled what cannot have left."""
        return handled_through > self._outbox.left_through(self._peer)

    def complaint(self, handled_through: int) -> str | None:
        """What does not fit, in one line; None where all does."""
        noun = NOUNS[self.lane]
        if self.is_behind(handled_through):
            other = f"it had handled {noun} {self._outbox.forgotten_through(self._peer)} before"
        elif self.is_beyond(handled_through):
            other = f"{noun} {self._outbox.left_through(self._peer)} is the last one to it"
        else:
            return None
        return f"{self._peer} has handled {noun} {handled_through}, but {other}"

    def resume(self, handled_through: int) -> ReceiptCame:
        """Go on after what the peer has handled."""
        self._sent_through = self._received_through = handled_through
        return ReceiptCame(handled_through, self.lane)

    # -- what comes

    def take_receipt(self, handled_through: int) -> list[SessionEvent]:
        """The peer says through which number it has handled letters."""
        if self.is_beyond(handled_through):
            return self._fault(FaultKind.UNEARNED_RECEIPT, None)
        # It may be more than this session has sent: letters of the one before were handled after this one had begun.
        if handled_through <= self._received_through:
            return []
        self._received_through = handled_through
        self._under_way.confirm(handled_through)
        return [ReceiptCame(handled_through, self.lane)]

    def take_letters(self, first_number: int, letters: tuple[bytes, ...]) -> list[SessionEvent]:
        """Whole letters came."""
        if not self._next_expected or self._parts:
            return self._out_of_turn()
        if first_number > self._next_expected:
            return self._gap(first_number)
        events: list[SessionEvent] = []
        if first_number < self._next_expected:
            events.append(Faulted(FaultKind.REPEATED))
            letters = letters[self._next_expected - first_number :]
        for number, letter in enumerate(letters, start=self._next_expected):
            fault = self._beyond_limits(number, len(letter))
            if fault is not None:
                return events + fault
        if letters:
            events.append(LettersCame(self._next_expected, letters, self.lane))
            self._next_expected += len(letters)
        return events

    def take_part(self, number: int, part: bytes, *, is_last: bool) -> list[SessionEvent]:
        """A part of a letter came."""
        if not self._next_expected:
            return self._out_of_turn()
        if number > self._next_expected:
            return self._gap(number)
        if number < self._next_expected:
            return self._fault(FaultKind.REPEATED, None)
        if len(self._parts) + len(part) > self._limits.letter_bytes:
            return self._too_large()
        self._parts += part
        if not is_last:
            return []
        letter, self._parts = bytes(self._parts), bytearray()
        fault = self._beyond_limits(number, len(letter))
        if fault is not None:
            return fault
        self._next_expected += 1
        return [LettersCame(number, (letter,), self.lane)]

    def forget_parts(self) -> None:
        """The session is over."""
        self._parts = bytearray()

    def _beyond_limits(self, number: int, size: int) -> list[SessionEvent] | None:
        """The fault of a letter that is too large, or one too many; None where it may come: it is counted then."""
        if size > self._limits.letter_bytes:
            return self._too_large()
        if self._came.takes(number, size):
            return None
        why = f"more than {self._limits.unconfirmed_bytes} bytes of {NOUNS[self.lane]}s that are not confirmed"
        return self._fault(FaultKind.TOO_MUCH, Goodbye(GoodbyeReason.MALFORMED, why))

    def _too_large(self) -> list[SessionEvent]:
        why = f"a {NOUNS[self.lane]} of more than {self._limits.letter_bytes} bytes"
        return self._fault(FaultKind.TOO_LARGE, Goodbye(GoodbyeReason.MALFORMED, why))

    def _out_of_turn(self) -> list[SessionEvent]:
        return self._fault(FaultKind.UNEXPECTED, OUT_OF_TURN)

    def _gap(self, number: int) -> list[SessionEvent]:
        why = f"{NOUNS[self.lane]} {number} came where {self._next_expected} was next"
        return self._fault(FaultKind.OUT_OF_ORDER, Goodbye(GoodbyeReason.OUT_OF_ORDER, why))
