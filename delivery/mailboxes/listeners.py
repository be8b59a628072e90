"""Who listens without a mailbox: ephemeral subscriptions. Each begins now, and ends with its stream or this server.

    Subscribe --> a number in audiences, if the process has none yet --> entries are for it --> StopListening --> none

All of this is in memory alone, but for the number, which is not given again: so nothing is left of one. What a listener
was handed it has acknowledged, so it keeps the log from being cut only as far as it is behind.

Source: delivery.md section 9.
"""

from __future__ import annotations

from collections.abc import Callable

from delivery.mailboxes.mailboxes import Places
from delivery.model.words import Position
from namegraph import NodeId


class Listeners:
    """All ephemeral subscriptions of this server; each has the ticket that began it."""

    def __init__(self) -> None:
        self.numbers: dict[NodeId, int] = {}
        """In audiences, by process: one for all who listen for it."""
        self.version = 0
        """Rises when a process gets a number, or loses it."""
        self._of: dict[NodeId, set[int]] = {}
        """By process, who listens."""
        self._places: dict[int, tuple[NodeId, Position]] = {}
        """For whom each listens, and all through where it was handed what it gets."""
        self._needed = Places()

    def begin(self, ticket: int, process: NodeId, *, at: Position, new_number: Callable[[], int]) -> int:
        """One listens for a process from a place on; returns the number that the process has in audiences."""
        if process not in self.numbers:
            self.numbers[process] = new_number()
            self.version += 1
        self._of.setdefault(process, set()).add(ticket)
        self._places[ticket] = process, at
        self._needed.add(at.entry)
        return self.numbers[process]

    def move(self, number: int, ticket: int, through: Position) -> None:
        """One, of a process with this number, was handed all that it gets through a place. Others stay as they are."""
        process, before = self._places.get(ticket, (None, through))
        if process is not None and self.numbers[process] == number and through > before:
            self._places[ticket] = process, through
            self._needed.remove(before.entry)
            self._needed.add(through.entry)

    def end(self, ticket: int) -> None:
        """One listens no more. Asked of one that does not, it does nothing."""
        if ticket not in self._places:
            return
        process, place = self._places.pop(ticket)
        self._needed.remove(place.entry)
        self._of[process].discard(ticket)
        if not self._of[process]:
            del self._of[process], self.numbers[process]
            self.version += 1

    def rename(self, old: NodeId, new: NodeId) -> None:
        """A group has a new name: those who listen for it go on under that, unless others listen for the new name."""
        if old not in self.numbers or new in self.numbers:
            return
        self.numbers[new], self._of[new] = self.numbers.pop(old), self._of.pop(old)
        for ticket in self._of[new]:
            self._places[ticket] = new, self._places[ticket][1]
        self.version += 1

    def needed_from(self) -> int | None:
        """The oldest entry that somebody may not have been handed; None where nobody listens."""
        return self._needed.smallest()

    def __contains__(self, ticket: int) -> bool:
        return ticket in self._places

    def __len__(self) -> int:
        return len(self._places)
