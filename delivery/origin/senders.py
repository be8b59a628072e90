"""Deduplication: a retried message is accepted once, and the origin stores no message for it.

A sender numbers its messages to each addressed target from 1. The origin keeps the highest number with its answer, in
one row. Each target counts by itself, so it does not matter which server is its home. A client that does not number may
give a request id. The origin remembers the last request ids.

See docs/protocol-messages.md, "Accepted, settled, sent again".
"""

from __future__ import annotations

from collections import OrderedDict, deque

from msgspec import Struct

from namegraph import TEXTS, DurableMap, DurableState, KeyForm, NodeId, Reason, packed, refuse

REQUESTS_REMEMBERED = 10_000
SENDERS_REMEMBERED = 100_000
SENDER_REMEMBERED_MS = 7 * 86_400_000
"""Milliseconds for which a sender is remembered after its last message to a target, on the clock of this server."""

Numbering = tuple[str, NodeId]
"""Id of a sender, and the target that its messages are addressed to."""


def _read_numbering(text: str) -> Numbering:
    sender, _, addressed = text.rpartition("\n")
    return sender, NodeId(addressed)


_NUMBERINGS = KeyForm[Numbering](lambda key: f"{key[0]}\n{key[1]}", _read_numbering)


class _Last(Struct, frozen=True, array_like=True):
    """Last message of a sender to a target."""

    number: int
    message_id: str
    sent_at_ms: int = 0


_NONE = _Last(0, "")


class Senders:
    """Last messages, by sender and by request id."""

    def __init__(self, durable: DurableState, *, begin_anywhere: bool = False) -> None:
        """Load the last messages.

        `begin_anywhere`: True if a sender that is not remembered may continue with any number.
        """
        self._begin_anywhere = begin_anywhere
        self._last = DurableMap(durable, "sender", _NUMBERINGS, packed(_Last))
        by_time = sorted((last.sent_at_ms, numbering) for numbering, last in self._last.items())
        self._silent = OrderedDict.fromkeys(numbering for _, numbering in by_time)
        """Remembered senders with their targets, the longest silent first."""
        self._requests = DurableMap(durable, "sent request", TEXTS, packed(tuple[int, str]))
        """Order of arrival as a number, and message id, by request id."""
        in_order = sorted((came, request) for request, (came, _) in self._requests.items())
        self._order = deque(request for _, request in in_order)
        self._came = in_order[-1][0] if in_order else 0
        self._ahead: dict[Numbering, int] = {}
        """Highest numbers of senders whose messages wait for the next parcel."""

    def first_answer(self, numbering: Numbering, number: int, request_id: str) -> str | None:
        """Return the id that a retried message got before. None if the message is new.

        Raises `RefusedError` if the number is out of sequence.
        """
        if not number:
            return self._requests.get(request_id, (0, None))[1] if request_id else None
        last = self._last.get(numbering, _NONE)
        if number == last.number:
            return last.message_id
        expected = self._ahead.get(numbering, last.number) + 1
        is_remembered = expected > 1 or not self._begin_anywhere
        if number != expected and is_remembered:
            raise refuse(
                Reason.OUT_OF_SEQUENCE,
                f"the next message of {numbering[0]} to {numbering[1]} is number {expected}, not {number}",
                expected=str(expected),
                sender=numbering[0],
                target=numbering[1],
            )
        return None

    def next_number(self, numbering: Numbering) -> int:
        """Return the number of a sender's next message. Messages that are in no parcel yet do not count."""
        return self._last.get(numbering, _NONE).number + 1

    def begin(self, numbering: Numbering, number: int) -> None:
        """Note that a message goes with the next parcel."""
        if number:
            self._ahead[numbering] = number

    def remember(self, numbering: Numbering, number: int, message_id: str, *, sent_at_ms: int) -> None:
        """Remember a numbered message that is in a parcel, and durable with it, as all messages before it are."""
        if self._ahead.get(numbering) == number:
            del self._ahead[numbering]
        # Parcels of one step are not in the order of the numbers: messages to several target sets have one row.
        if number > self._last.get(numbering, _NONE).number:
            self._last[numbering] = _Last(number, message_id, sent_at_ms)
            self._silent[numbering] = None
            self._silent.move_to_end(numbering)
        self._forget_silent(sent_at_ms)

    def remember_request(self, request_id: str, message_id: str) -> None:
        """Remember a message without a number that is in a parcel, and durable with it.

        An empty id is not remembered.
        """
        if request_id:
            self._came += 1
            self._requests[request_id] = (self._came, message_id)
            self._order.append(request_id)
            if len(self._order) > REQUESTS_REMEMBERED:
                del self._requests[self._order.popleft()]

    def take_over(self, other: Senders, addressed: NodeId) -> None:
        """Copy the last numbers of messages to a target from another table."""
        for numbering, last in other._last.items():
            if numbering[1] == addressed and last.number > self._last.get(numbering, _NONE).number:
                self._last[numbering] = last
                self._silent[numbering] = None
                self._silent.move_to_end(numbering)

    def rename(self, old: NodeId, new: NodeId) -> None:
        """Continue the numbers of messages to a renamed group under its new name."""
        for numbering in [each for each in self._silent if each[1] == old]:
            renamed = numbering[0], new
            last = self._last.pop(numbering)
            del self._silent[numbering]
            if last.number > self._last.get(renamed, _NONE).number:
                self._last[renamed] = last
                self._silent[renamed] = None
        for numbering in [each for each in self._ahead if each[1] == old]:
            self._ahead[numbering[0], new] = self._ahead.pop(numbering)

    def _forget_silent(self, now_ms: int) -> None:
        """Forget the longest silent senders, those beyond the limit or silent for too long."""
        while True:
            longest = next(iter(self._silent))
            silent_ms = now_ms - self._last[longest].sent_at_ms
            if len(self._silent) <= SENDERS_REMEMBERED and silent_ms <= SENDER_REMEMBERED_MS:
                return
            del self._silent[longest], self._last[longest]
