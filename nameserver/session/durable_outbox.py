"""Output that may leave: durable letters to servers that are met, and receipts for durable effects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from namegraph import Channels, Lane, PeerLetter, ServerId


class UndurableLetters(Protocol):
    """Letters and effects that still wait for the database."""

    def first_letter_held(self, receiver: ServerId, lane: Lane) -> int | None:
        """Return the number of the first letter to a server that waits for the database. None if no letter waits."""

    def handled_before_flush(self, sender: ServerId, lane: Lane) -> int | None:
        """Return the number of the last letter of a sender before the letters whose effects wait.

        None if no effects wait.
        """


class DurableOutbox:
    """Numbered channels of the core, of one lane, in the state that a crash now would leave."""

    def __init__(self, channels: Channels, undurable: UndurableLetters) -> None:
        self._channels = channels
        self._undurable = undurable
        self.sent_through = channels.sent_through
        self.left_through = channels.left_through
        self.forgotten_through = channels.forgotten_through
        self.is_met = channels.is_met

    def letters_after(self, receiver: ServerId, number: int) -> Iterator[PeerLetter]:
        """Yield the letters beyond a number that may leave, in order."""
        if self.sent_through(receiver) <= number:
            return
        through = self.left_through(receiver)
        first_held = self._undurable.first_letter_held(receiver, self._channels.lane)
        for letter in self._channels.kept(receiver, after=number):
            if letter.number > through or (first_held is not None and letter.number >= first_held):
                return
            yield letter

    def handled_through(self, sender: ServerId) -> int:
        """Return the number of the last letter of a sender whose effects are all durable."""
        before_flush = self._undurable.handled_before_flush(sender, self._channels.lane)
        return self._channels.handled_through(sender) if before_flush is None else before_flush
