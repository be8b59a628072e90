"""Listeners without a mailbox: ephemeral subscriptions. Each begins now, and ends with its stream or this server.

    Subscribe --> a number in audiences, if the process has none yet --> entries are for it --> StopListening --> none

Their state is in memory alone, except for the number, which is not given again. A listener has acknowledged each
message that it was handed, so it holds back cutting the log only as far as it is behind.

See docs/protocol-messages.md, "Log, audiences, mailboxes".
"""

from __future__ import annotations

from collections.abc import Callable

from delivery.mailboxes.mailboxes import ReaderPlaces
from delivery.model.agenda import Agenda, Work
from delivery.model.words import Position
from namegraph import NodeId


class Listeners:
    """All ephemeral subscriptions of this server, each known by the ticket that began it."""

    def __init__(self, agenda: Agenda) -> None:
        self._agenda = agenda
        self.numbers: dict[NodeId, int] = {}
        """Numbers in audiences, by process: one number for all listeners of a process."""
        self.version = 0
        """Version that rises when a process gets a number, or loses it."""
        self._of: dict[NodeId, set[int]] = {}
        """Tickets of the listeners, by process."""
        self._places: dict[int, tuple[NodeId, Position]] = {}
        """Process of each listener, and position through which it was handed its messages, by ticket."""
        self._needed = ReaderPlaces()

    def begin(self, ticket: int, process: NodeId, *, at: Position, new_number: Callable[[], int]) -> int:
        """Begin a subscription for a process at a position. Return the number of the process in audiences."""
        if process not in self.numbers:
            self.numbers[process] = new_number()
            self.version += 1
        self._of.setdefault(process, set()).add(ticket)
        self._places[ticket] = process, at
        self._needed.add(at.entry)
        return self.numbers[process]

    def move(self, number: int, ticket: int, through: Position) -> None:
        """Advance one listener of the process with this number. It was handed its messages through a position."""
        process, before = self._places.get(ticket, (None, through))
        if process is not None and self.numbers[process] == number and through > before:
            self._places[ticket] = process, through
            self._needed.remove(before.entry)
            self._needed.add(through.entry)
            self._agenda.mark(Work.RETENTION)

    def end(self, ticket: int) -> None:
        """End a subscription. The call has no effect if the ticket has no subscription."""
        if ticket not in self._places:
            return
        process, place = self._places.pop(ticket)
        self._needed.remove(place.entry)
        self._agenda.mark(Work.RETENTION)
        self._of[process].discard(ticket)
        if not self._of[process]:
            del self._of[process], self.numbers[process]
            self.version += 1

    def rename(self, old: NodeId, new: NodeId) -> None:
        """Move the listeners of a renamed group to its new name, unless the new name has listeners."""
        if old not in self.numbers or new in self.numbers:
            return
        self.numbers[new], self._of[new] = self.numbers.pop(old), self._of.pop(old)
        for ticket in self._of[new]:
            self._places[ticket] = new, self._places[ticket][1]
        self.version += 1

    def needed_from(self) -> int | None:
        """Return the oldest entry that some listener may not have been handed. None if there are no listeners."""
        return self._needed.smallest()

    def __contains__(self, ticket: int) -> bool:
        return ticket in self._places

    def __len__(self) -> int:
        return len(self._places)
