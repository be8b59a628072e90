"""Mailboxes of processes, of groups and of gateways, and the subscriptions that read them: named cursors in the log.

    no mailbox --open--> mailbox n, from now on --close--> none; its number is not given again
    subscription:  cursor --acknowledge--> further, never back        epoch rises with each endpoint that takes it over

A mailbox that has no subscription yet keeps all that it gets, as if one stood where it was opened. That of a group, its
*archive*, does so always: who is new reads it from there.

Source: delivery.md section 9.
"""

from __future__ import annotations

import heapq
from array import array
from collections import Counter

import numpy
from msgspec import Struct
from pyroaring import BitMap

from delivery.model.words import Position, is_pattern
from delivery.wire.posts import PARCEL_MESSAGES_LIMIT
from namegraph import NODES, TEXTS, DurableMap, DurableState, KeyForm, NodeId, Slices, packed, sorted_in_slices

MAILBOXES_LIMIT = 1_000_000

GATEWAYS_LIMIT = 16
"""Gateways for patterns of foreign subnets. Each gateway looks at every entry of the log.

`*` and the patterns of the server's own subnets have places besides.
"""

SUBSCRIPTIONS_LIMIT = 256
"""Named subscriptions of one mailbox. The unnamed subscription has a place besides."""

SUBSCRIPTIONS_OF_CALLER_LIMIT = 16
"""Named subscriptions of one mailbox that one caller made."""

SubscriptionKey = tuple[int, str]
"""The number of a mailbox, and the name of one of its subscriptions."""


class Mailbox(Struct, frozen=True, array_like=True):
    """What is known of a mailbox."""

    number: int
    opened_at: int
    """The first entry of the log that can be for it."""
    is_archive: bool = False
    """Whether it was opened for a group: what its subscriptions have acknowledged is kept, while the log has room."""


class Cursor(Struct, frozen=True, array_like=True):
    """How far a subscription has acknowledged, and how often it was taken over."""

    entry: int
    item: int
    epoch: int
    made_by: str = ""
    """Caller that made the subscription, as the shell names callers; empty if it is not known."""

    @property
    def position(self) -> Position:
        """As of clients."""
        return Position(self.entry, self.item)


_NOBODY = 2**63 - 1
"""In place of where a mailbox stands: there is none of this number."""


def _place(position: Position) -> int:
    """A position as one number, in the same order."""
    return position.entry * (PARCEL_MESSAGES_LIMIT + 1) + position.item + 1


def _read_key(text: str) -> SubscriptionKey:
    number, _, name = text.partition(" ")
    return int(number), name


_KEYS = KeyForm[SubscriptionKey](lambda key: f"{key[0]} {key[1]}", _read_key)


class Mailboxes:
    """All mailboxes of this server."""

    def __init__(self, durable: DurableState) -> None:
        self._mailboxes = DurableMap(durable, "mailbox", NODES, packed(Mailbox))
        self._next = DurableMap(durable, "mailbox number", TEXTS, packed(int))
        """One value, without a key."""
        self._cursors = DurableMap(durable, "cursor", _KEYS, packed(Cursor))
        self.numbers: dict[NodeId, int] = {}
        """Of the mailboxes of processes and groups, by name."""
        self.gateways: dict[NodeId, int] = {}
        """Of those of gateways, by pattern."""
        for process, mailbox in self._mailboxes.items():
            self._numbered_as(process)[process] = mailbox.number
        self.version = 0
        """Rises when a mailbox is opened or closed."""
        self._idle: set[int] = {each.number for each in self._mailboxes.values()}
        """Of mailboxes that have no subscription."""
        self._subscriptions: dict[int, list[str]] = {each.number: [] for each in self._mailboxes.values()}
        self._needed = Places()
        self._slowest = array("q", [_NOBODY]) * self._next.get("", 1)
        """By number of a mailbox: through where all of its subscriptions have acknowledged."""
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
        """That of the mailbox of a process, a group or a gateway; None where there is none."""
        return self._numbered_as(name).get(name)

    def all(self) -> dict[NodeId, Mailbox]:
        """What is known of each, by whose it is."""
        return dict(self._mailboxes.items())

    def names(self) -> Slices[list[NodeId]]:
        """Whose mailboxes there are: sorted."""
        return sorted_in_slices(list(self._mailboxes))

    def open(self, process: NodeId, *, at: int, is_archive: bool = False) -> int:
        """The number of a new mailbox, for which entries from a position on can be."""
        number = self.new_number()
        self._mailboxes[process] = Mailbox(number, at, is_archive)
        self._numbered_as(process)[process] = number
        self._subscriptions[number] = []
        self._idle.add(number)
        self._needed.add(at)
        self._slowest[number] = _place(Position.before(at))
        self.version += 1
        return number

    def new_number(self) -> int:
        """A number in audiences that nobody had before."""
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
        self.version += 1

    def rename(self, old: NodeId, new: NodeId) -> None:
        """A group has a new name: its archive goes along, with all subscriptions, unless the new name has a mailbox."""
        if old not in self.numbers or new in self.numbers:
            return
        self._mailboxes[new] = self._mailboxes.pop(old)
        self.numbers[new] = self.numbers.pop(old)
        self.version += 1

    @property
    def numbered(self) -> int:
        """The highest number that a mailbox was given; 0 for none."""
        return self._next.get("", 1) - 1

    def opened_at(self, process: NodeId) -> int:
        """The first entry of the log that can be for a mailbox."""
        return self._mailboxes[process].opened_at

    def slowest(self, process: NodeId) -> Position:
        """Through where all subscriptions of a mailbox have acknowledged; without any, where it was opened."""
        opened = Position.before(self.opened_at(process))
        return min(self.subscriptions(process).values(), default=opened)

    def subscriptions(self, process: NodeId) -> dict[str, Position]:
        """How far each subscription of a mailbox has acknowledged, by name."""
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

    def cursor(self, key: SubscriptionKey) -> Cursor | None:
        """Where a subscription is; None where there is none of that name."""
        return self._cursors.get(key)

    def take_over(self, key: SubscriptionKey, position: Position) -> int:
        """A new endpoint reads a subscription from a position on; returns its epoch."""
        epoch = self._cursors[key].epoch + 1
        self._move(key, position, epoch)
        return epoch

    def acknowledge(self, key: SubscriptionKey, through: Position, *, epoch: int) -> bool:
        """Move a cursor on; False where another endpoint has taken it over. A cursor never goes back."""
        cursor = self._cursors.get(key)
        if cursor is None or cursor.epoch != epoch:
            return False
        if through > cursor.position:
            self._move(key, through, epoch)
        return True

    def have_readers(self, count: int) -> bool:
        """Whether every mailbox has a subscription, and these are so many in all."""
        return not self._idle and len(self._cursors) == count

    def _move(self, key: SubscriptionKey, position: Position, epoch: int) -> None:
        before = self._cursors[key]
        self._needed.remove(before.entry)
        self._needed.add(position.entry)
        self._cursors[key] = Cursor(position.entry, position.item, epoch, before.made_by)
        number = key[0]
        self._slowest[number] = min(
            _place(self._cursors[number, name].position) for name in self._subscriptions[number]
        )

    def _slowest_of(self, mailbox: Mailbox) -> int:
        cursors = [self._cursors[mailbox.number, name].position for name in self._subscriptions[mailbox.number]]
        return min(map(_place, cursors), default=_place(Position.before(mailbox.opened_at)))

    def behind(self, audience: BitMap, position: Position) -> int:
        """How many mailboxes of an audience have a subscription that has not acknowledged all through a position."""
        slowest = numpy.frombuffer(self._slowest, dtype=numpy.int64)
        numbers = numpy.array(audience.to_array(), dtype=numpy.int64)
        return int(numpy.count_nonzero(slowest[numbers[numbers < len(slowest)]] < _place(position)))

    def __len__(self) -> int:
        return len(self._mailboxes)

    def needed_from(self) -> int | None:
        """The position of the oldest entry that somebody has not passed; None where nobody reads."""
        return self._needed.smallest()


class Places:
    """How many readers stand at each entry, and the first of these."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._heap: list[int] = []

    def add(self, entry: int) -> None:
        """One more reader stands there."""
        if entry not in self._counts:
            heapq.heappush(self._heap, entry)
        self._counts[entry] += 1

    def remove(self, entry: int) -> None:
        """One reader fewer stands there."""
        self._counts[entry] -= 1

    def smallest(self) -> int | None:
        """The first entry at which a reader stands; None where there are no readers."""
        heap, counts = self._heap, self._counts
        while heap and not counts[heap[0]]:
            del counts[heapq.heappop(heap)]
        return heap[0] if heap else None
