"""Sending again: a message that is sent twice is accepted once, without any memory of messages.

A sender numbers its messages, and the origin keeps the highest number with its answer: one row a sender. Who numbers
nothing may give a request id; the origin remembers the last of them.

Source: delivery.md section 5, item 3.
"""

from __future__ import annotations

from collections import deque

from namegraph import TEXTS, DurableMap, DurableState, Reason, packed, refuse

REQUESTS_REMEMBERED = 10_000
SENDERS_REMEMBERED = 100_000


class Senders:
    """What was sent last, by sender, and by request id."""

    def __init__(self, durable: DurableState) -> None:
        self._last = DurableMap(durable, "sender", TEXTS, packed(tuple[int, str]))
        """The highest number, and the id of its message."""
        self._requests = DurableMap(durable, "sent request", TEXTS, packed(tuple[int, str]))
        """When it came, as a number, and the id of its message; by request id."""
        in_order = sorted((came, request) for request, (came, _) in self._requests.items())
        self._order = deque(request for _, request in in_order)
        self._came = in_order[-1][0] if in_order else 0
        self._ahead: dict[str, int] = {}
        """The highest numbers of senders whose messages wait for the next parcel."""

    def first_answer(self, sender: str, number: int, request_id: str) -> str | None:
        """The id that this very message was given before; None where it is new.

        Raises `RefusedError` where it is out of sequence.
        """
        if not number:
            return self._requests.get(request_id, (0, None))[1] if request_id else None
        last, message_id = self._last.get(sender, (0, ""))
        if number == last:
            return message_id
        expected = self._ahead.get(sender, last) + 1
        if number != expected:
            raise refuse(
                Reason.OUT_OF_SEQUENCE,
                f"the next message of {sender} is number {expected}, not {number}",
                expected=str(expected),
                sender=sender,
            )
        return None

    def begin(self, sender: str, number: int) -> None:
        """A message is to go with the next parcel."""
        if number:
            self._ahead[sender] = number

    def remember(self, sender: str, number: int, request_id: str, message_id: str) -> None:
        """A message is in a parcel, and durable with it."""
        if number:
            if self._ahead.get(sender) == number:
                del self._ahead[sender]
            self._last[sender] = (number, message_id)
            if len(self._last) > SENDERS_REMEMBERED:
                del self._last[next(iter(self._last))]
        elif request_id:
            self._came += 1
            self._requests[request_id] = (self._came, message_id)
            self._order.append(request_id)
            if len(self._order) > REQUESTS_REMEMBERED:
                del self._requests[self._order.popleft()]
