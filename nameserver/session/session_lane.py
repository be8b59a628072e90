"""One lane of a session: letters that leave and letters that come, each with their own numbers.

    outbox --> whole letters together | parts of a large one --> receipt
    numbers that come: the next one --> handled; one of before --> counted, dropped; a later one --> the session ends

A lane holds no copy of a letter, only the number of the last letter sent. Both lanes have the same rules and different
limits (`LIMITS`). Posts that are sent and not confirmed have a window, because their receiver may have to keep them in
memory, for instance while servers agree on a view. Both ends count alike, so a peer that sends more is at fault.
Source: docs/decisions/0025-the-lane.md.
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
"""Bytes of letters in one frame: large enough for a small cost per letter, small enough that receipts get between.

At a megabit a second a frame takes less time than the accepted pause. Only whole frames are signs of life.
"""

FRAME_LETTERS_LIMIT = 1_000
"""Letters in one frame. The receiver handles them in one go, and serves no other task meanwhile."""

LETTER_BYTES_LIMIT = 256 * 1024 * 1024
"""Bytes of one letter, which is put together in memory.

The limit has room for one server's part of the largest import, compressed.
"""

POSTS_FRAME_BYTES_LIMIT = 64 * 1024
"""Bytes of posts in one frame. A vote that is written meanwhile waits half a millisecond for it on a gigabit link."""

UNCONFIRMED_POSTS_BYTES_LIMIT = 8 * 1024 * 1024
"""Bytes of posts under way.

The receiver may have to hold as much in memory for one server.

At a round trip of 20 ms this allows 400 MB/s.
"""

POST_OVERHEAD_BYTES = 256
"""Cost of a post at its receiver beside its bytes, so that many small posts count too."""

OVERTAKEN = Goodbye(GoodbyeReason.REPLACED, "another session has gone further")
OUT_OF_TURN = Goodbye(GoodbyeReason.MALFORMED, "a frame that does not belong where it came")


@dataclass(frozen=True, slots=True)
class LaneLimits:
    """Limits of one lane."""

    frame_bytes: int
    """Bytes of letters in one frame. A larger letter leaves in parts of this size."""
    frame_letters: int
    letter_bytes: int
    unconfirmed_bytes: int | None
    """Bytes of letters sent and not confirmed.

    None if the receiver handles each letter when it comes, so that it never holds more.
    """


LIMITS: Mapping[Lane, LaneLimits] = {
    Lane.LETTERS: LaneLimits(FRAME_BYTES_LIMIT, FRAME_LETTERS_LIMIT, LETTER_BYTES_LIMIT, None),
    Lane.POST: LaneLimits(
        POSTS_FRAME_BYTES_LIMIT, FRAME_LETTERS_LIMIT, POST_BYTES_LIMIT, UNCONFIRMED_POSTS_BYTES_LIMIT
    ),
}

NOUNS = {Lane.LETTERS: "letter", Lane.POST: "post"}


class Outbox(Protocol):
    """Letters of one lane of this server, as far as a session needs them."""

    def letters_after(self, receiver: ServerId, number: int) -> Iterator[PeerLetter]:
        """Yield the letters beyond a number that may leave, in order."""

    def sent_through(self, receiver: ServerId) -> int:
        """Return the number of the last letter."""

    def left_through(self, receiver: ServerId) -> int:
        """Return the number of the last letter that can have left."""

    def is_met(self, server: ServerId) -> bool:
        """Return True if a server was met since this server started."""

    def forgotten_through(self, receiver: ServerId) -> int:
        """Return the number of the last letter that is not kept, because its receiver has handled it."""

    def handled_through(self, sender: ServerId) -> int:
        """Return the number of the last letter of a sender whose effects are all durable."""


class _Window:
    """Letters that are not confirmed, and their total size."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._sizes: deque[tuple[int, int]] = deque()
        """Numbers and sizes in order. Empty for a lane without a limit."""
        self._bytes = 0

    def takes(self, number: int, size: int) -> bool:
        """Count one more letter. Return False if it does not fit. A single letter always fits."""
        if self._limit is None:
            return True
        size += POST_OVERHEAD_BYTES
        if self._sizes and self._bytes + size > self._limit:
            return False
        self._sizes.append((number, size))
        self._bytes += size
        return True

    def confirm(self, through: int) -> None:
        """Stop counting letters through a number."""
        while self._sizes and self._sizes[0][0] <= through:
            self._bytes -= self._sizes.popleft()[1]


class SessionLane:
    """One lane of a session with a peer that has introduced itself."""

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
        """Create a lane.

        `part`: ends the session. `fault`: returns the events of a fault, and ends the session if a goodbye is given.
        """
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
        """Number through which the peer has given a receipt."""
        self._under_way = _Window(limits.unconfirmed_bytes)
        self._next_expected = 0
        """Number of the next letter of the peer. 0 if the peer was not told where to go on."""
        self._parts = bytearray()
        self._came = _Window(limits.unconfirmed_bytes)
        """Letters of the peer without a receipt."""

    # -- sending

    def handled_through(self) -> int:
        """Return the receipt that can be given now."""
        return self._outbox.handled_through(self._peer)

    def tell(self, handled_through: int) -> None:
        """Note that a receipt leaves. The first one tells the peer where to go on."""
        if not self._next_expected:
            self._next_expected = handled_through + 1
        self._came.confirm(handled_through)

    def next_frame(self, session: int, receipts: tuple[int, int]) -> Letters | LetterPart | None:
        """Return the next letters that may leave, with receipts of both lanes.

        They count as sent.

        None if there are no such letters, or if the session ends.
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

    # -- resuming

    def is_behind(self, handled_through: int) -> bool:
        """Return True if the peer has not handled letters that it has confirmed once."""
        return handled_through < self._outbox.forgotten_through(self._peer)

    def is_beyond(self, handled_through: int) -> bool:
        """Return True if the peer has handled letters that cannot have left."""
        return handled_through > self._outbox.left_through(self._peer)

    def complaint(self, handled_through: int) -> str | None:
        """Return the mismatch in one line. None if the numbers fit."""
        noun = NOUNS[self.lane]
        if self.is_behind(handled_through):
            other = f"it had handled {noun} {self._outbox.forgotten_through(self._peer)} before"
        elif self.is_beyond(handled_through):
            other = f"{noun} {self._outbox.left_through(self._peer)} is the last one to it"
        else:
            return None
        return f"{self._peer} has handled {noun} {handled_through}, but {other}"

    def resume(self, handled_through: int) -> ReceiptCame:
        """Go on after the letters that the peer has handled."""
        self._sent_through = self._received_through = handled_through
        return ReceiptCame(handled_through, self.lane)

    # -- receiving

    def take_receipt(self, handled_through: int) -> list[SessionEvent]:
        """Take a receipt of the peer for letters through a number."""
        if self.is_beyond(handled_through):
            return self._fault(FaultKind.UNEARNED_RECEIPT, None)
        # The number may be beyond the letters of this session: letters of the previous session were handled after this
        # one had begun.
        if handled_through <= self._received_through:
            return []
        self._received_through = handled_through
        self._under_way.confirm(handled_through)
        return [ReceiptCame(handled_through, self.lane)]

    def take_letters(self, first_number: int, letters: tuple[bytes, ...]) -> list[SessionEvent]:
        """Take whole letters."""
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
        """Take a part of a letter."""
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
        """Forget the parts of a letter, because the session is over."""
        self._parts = bytearray()

    def _beyond_limits(self, number: int, size: int) -> list[SessionEvent] | None:
        """Return the fault of a letter that is too large, or beyond the window.

        None if it may come, and then count it.
        """
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
