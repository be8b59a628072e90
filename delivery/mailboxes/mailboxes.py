"""Mailboxes of processes, of groups and of gateways, and the subscriptions that read them: named cursors in the log.

    no mailbox --open--> mailbox n, from now on --close--> none; its number is not given again
    subscription:  cursor --acknowledge--> further, never back        epoch rises with each endpoint that takes it over

A mailbox without a subscription keeps all its messages, as if a cursor stood where it was opened. The mailbox of a
group, its *archive*, always does: a new member reads it from there.

See docs/protocol-messages.md, "Log, audiences, mailboxes".
"""

from __future__ import annotations

import heapq
from array import array
from collections import Counter

import numpy
from msgspec import Struct
from pyroaring import BitMap

from delivery.model.agenda import Agenda, Work
from delivery.model.words import Position, is_pattern
from delivery.wire.posts import PARCEL_MESSAGES_LIMIT
from namegraph import NODES, TEXTS, DurableMap, DurableState, KeyForm, NodeId, Slices, packed, sorted_in_slices

MAILBOXES_LIMIT = 1_000_000

GATEWAYS_LIMIT = 16
"""Most gateways for patterns of foreign subnets. Each gateway looks at every entry of the log.

`*` and the patterns of the server's own subnets have places besides.
"""

SUBSCRIPTIONS_LIMIT = 256
"""Most named subscriptions of one mailbox. The unnamed subscription has a place besides."""

SUBSCRIPTIONS_OF_CALLER_LIMIT = 16
"""Most named subscriptions of one mailbox that one caller made."""

SubscriptionKey = tuple[int, str]
"""Number of a mailbox, and name of one of its subscriptions."""


class MailboxRecord(Struct, frozen=True, array_like=True):
    """Row of a mailbox."""

    number: int
    opened_at: int
    """First entry of the log that can be for the mailbox."""
    is_archive: bool = False
    """True if the mailbox was opened for a group.

    Entries that its subscriptions acknowledged stay while the log has room.
    """


class Cursor(Struct, frozen=True, array_like=True):
    """Acknowledged position of a subscription, and number of endpoints that took it over."""

    entry: int
    item: int
    epoch: int
    made_by: str = ""
    """Caller that made the subscription, as the shell names callers. Empty if the caller is not known."""

    @property
    def position(self) -> Position:
        """Position in the form of clients."""
        return Position(self.entry, self.item)


_NOBODY = 2**63 - 1
"""Value of `_slowest` for a number without a mailbox."""


def _place(position: Position) -> int:
    """Return a position as one number, in the same order."""
    return position.entry * (PARCEL_MESSAGES_LIMIT + 1) + position.item + 1


def _read_key(text: str) -> SubscriptionKey:
    number, _, name = text.partition(" ")
    return int(number), name


_KEYS = KeyForm[SubscriptionKey](lambda key: f"{key[0]} {key[1]}", _read_key)


class Mailboxes:
    """All mailboxes of this server."""

    def __init__(self, durable: DurableState, agenda: Agenda) -> None:
        self._agenda = agenda
        self._mailboxes = DurableMap(durable, "mailbox", NODES, packed(MailboxRecord))
        self._next = DurableMap(durable, "mailbox number", TEXTS, packed(int))
        """Next number in audiences: one value, without a key."""
        self._cursors = DurableMap(durable, "cursor", _KEYS, packed(Cursor))
        self.numbers: dict[NodeId, int] = {}
        """Numbers of the mailboxes of processes and groups, by name."""
        self.gateways: dict[NodeId, int] = {}
        """Numbers of the mailboxes of gateways, by pattern."""
        for process, mailbox in self._mailboxes.items():
            self._numbered_as(process)[process] = mailbox.number
        self.version = 0
        """Version that rises when a mailbox is opened, closed or renamed."""
        self._idle: set[int] = {each.number for each in self._mailboxes.values()}
        """Numbers of mailboxes without a subscription."""
        self._subscriptions: dict[int, list[str]] = {each.number: [] for each in self._mailboxes.values()}
        self._needed = ReaderPlaces()
        self._slowest = array("q", [_NOBODY]) * self._next.get("", 1)
        """Position through which all subscriptions of a mailbox have acknowledged, as `_place`, by number of the
        mailbox."""
        for number, name in self._cursors:
            self._subscriptions[number].append(name)
            self._idle.discard(number)
            self._needed.add(self._cursors[number, name].entry)
        for mailbox in self._mailboxes.values():
            if mailbox.is_archive or not self._subscriptions[mailbox.number]:
                self._needed.add(mailbox.opened_at)
            self._slowest[mailbox.number] = self._slowest_of(mailbox)

    def _numbered_as(self, name: NodeId) -> dict[NodeId, int]:
        return self.gateways if is_pattern(name) else self.numbers

    def number_of(self, name: NodeId) -> int | None:
        """Return the number of the mailbox of a process, a group or a gateway. None if it has no mailbox."""
        return self._numbered_as(name).get(name)

    def all(self) -> dict[NodeId, MailboxRecord]:
        """Return all mailboxes, by name of the owner."""
        return dict(self._mailboxes.items())

    def names(self) -> Slices[list[NodeId]]:
        """Return the names of the owners of all mailboxes, sorted."""
        return sorted_in_slices(list(self._mailboxes))

    def open(self, process: NodeId, *, at: int, is_archive: bool = False) -> int:
        """Open a mailbox for entries from a position on. Return its number."""
        number = self.new_number()
        self._mailboxes[process] = MailboxRecord(number, at, is_archive)
        self._numbered_as(process)[process] = number
        self._subscriptions[number] = []
        self._idle.add(number)
        self._needed.add(at)
        self._slowest[number] = _place(Position.before(at))
        self._changed()
        return number

    def new_number(self) -> int:
        """Return a new number in audiences. No number is given twice."""
        number = self._next.get("", 1)
        self._next[""] = number + 1
        self._slowest.append(_NOBODY)
        return number

    def close(self, process: NodeId) -> None:
        """Forget a mailbox and its subscriptions."""
        mailbox = self._mailboxes.pop(process)
        del self._numbered_as(process)[process]
        names = self._subscriptions.pop(mailbox.number)
        self._idle.discard(mailbox.number)
        if mailbox.is_archive or not names:
            self._needed.remove(mailbox.opened_at)
        for name in names:
            self._needed.remove(self._cursors.pop((mailbox.number, name)).entry)
        self._slowest[mailbox.number] = _NOBODY
        self._changed()

    def rename(self, old: NodeId, new: NodeId) -> None:
        """Move the archive of a renamed group, with its subscriptions, unless the new name has a mailbox."""
        if old not in self.numbers or new in self.numbers:
            return
        self._mailboxes[new] = self._mailboxes.pop(old)
        self.numbers[new] = self.numbers.pop(old)
        self._changed()

    def _changed(self) -> None:
        """Note that a mailbox was opened, closed or renamed."""
        self.version += 1
        self._agenda.mark(Work.RETENTION)
        self._agenda.mark(Work.RECIPIENTS)

    @property
    def numbered(self) -> int:
        """Highest number given so far. 0 if no number was given."""
        return self._next.get("", 1) - 1

    def opened_at(self, process: NodeId) -> int:
        """Return the first entry of the log that can be for a mailbox."""
        return self._mailboxes[process].opened_at

    def slowest(self, process: NodeId) -> Position:
        """Return the position through which all subscriptions of a mailbox have acknowledged.

        A mailbox without subscriptions counts from its opening.
        """
        opened = Position.before(self.opened_at(process))
        return min(self.subscriptions(process).values(), default=opened)

    def subscriptions(self, process: NodeId) -> dict[str, Position]:
        """Return the acknowledged position of each subscription of a mailbox, by name."""
        number = self._mailboxes[process].number
        return {name: self._cursors[number, name].position for name in self._subscriptions[number]}

    def made_by(self, process: NodeId, caller: str) -> int:
        """Count the named subscriptions of a mailbox that a caller made."""
        number = self._mailboxes[process].number
        names = self._subscriptions[number]
        return sum(bool(name) and self._cursors[number, name].made_by == caller for name in names)

    def begin(self, process: NodeId, name: str, cursor: Position, *, caller: str = "") -> None:
        """Make a subscription."""
        mailbox = self._mailboxes[process]
        if not (mailbox.is_archive or self._subscriptions[mailbox.number]):
            self._needed.remove(mailbox.opened_at)
        self._subscriptions[mailbox.number].append(name)
        self._idle.discard(mailbox.number)
        self._needed.add(cursor.entry)
        self._cursors[mailbox.number, name] = Cursor(cursor.entry, cursor.item, 0, caller)
        self._slowest[mailbox.number] = self._slowest_of(mailbox)
        self._agenda.mark(Work.RETENTION)

    def cursor(self, key: SubscriptionKey) -> Cursor | None:
        """Return the cursor of a subscription. None if the subscription does not exist."""
        return self._cursors.get(key)

    def take_over(self, key: SubscriptionKey, position: Position) -> int:
        """Let a new endpoint read a subscription from a position on. Return the new epoch."""
        epoch = self._cursors[key].epoch + 1
        self._move(key, position, epoch)
        return epoch

    def acknowledge(self, key: SubscriptionKey, through: Position, *, epoch: int) -> bool:
        """Advance a cursor.

        Return False if another endpoint has taken the subscription over. A cursor never goes back.
        """
        cursor = self._cursors.get(key)
        if cursor is None or cursor.epoch != epoch:
            return False
        if through > cursor.position:
            self._move(key, through, epoch)
        return True

    def have_readers(self, count: int) -> bool:
        """True if every mailbox has a subscription, and there are `count` subscriptions in all."""
        return not self._idle and len(self._cursors) == count

    def _move(self, key: SubscriptionKey, position: Position, epoch: int) -> None:
        before = self._cursors[key]
        self._needed.remove(before.entry)
        self._needed.add(position.entry)
        self._cursors[key] = Cursor(position.entry, position.item, epoch, before.made_by)
        if position.entry != before.entry:
            self._agenda.mark(Work.RETENTION)
        number = key[0]
        self._slowest[number] = min(
            _place(self._cursors[number, name].position) for name in self._subscriptions[number]
        )

    def _slowest_of(self, mailbox: MailboxRecord) -> int:
        cursors = [self._cursors[mailbox.number, name].position for name in self._subscriptions[mailbox.number]]
        return min(map(_place, cursors), default=_place(Position.before(mailbox.opened_at)))

    def behind(self, audience: BitMap, position: Position) -> int:
        """Return the number of mailboxes of an audience with a subscription that has not acknowledged a position."""
        slowest = numpy.frombuffer(self._slowest, dtype=numpy.int64)
        numbers = numpy.array(audience.to_array(), dtype=numpy.int64)
        return int(numpy.count_nonzero(slowest[numbers[numbers < len(slowest)]] < _place(position)))

    def __len__(self) -> int:
        return len(self._mailboxes)

    def needed_from(self) -> int | None:
        """Return the position of the oldest entry that some reader has not passed. None if there are no readers."""
        return self._needed.smallest()


class ReaderPlaces:
    """Number of readers at each entry, and the first entry with a reader."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._heap: list[int] = []

    def add(self, entry: int) -> None:
        """Add a reader at an entry."""
        if entry not in self._counts:
            heapq.heappush(self._heap, entry)
        self._counts[entry] += 1

    def remove(self, entry: int) -> None:
        """Remove a reader from an entry."""
        self._counts[entry] -= 1

    def smallest(self) -> int | None:
        """Return the first entry with a reader. None if there are no readers."""
        heap, counts = self._heap, self._counts
        while heap and not counts[heap[0]]:
            del counts[heapq.heappop(heap)]
        return heap[0] if heap else None
