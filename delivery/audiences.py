"""Who of this server's mailboxes gets what is sent to a target set: bitmaps that entries of the log refer to by number.

A server owns a process, so it knows all its ancestors: a mailbox is in the audience of a group exactly if the group is
among them. What is addressed to a group itself is for its archive, too. Whatever loops and shared subgroups there are,
each mailbox is one bit. A bitmap is stored once, and shared by all entries until the membership changes.

Source: delivery.md sections 3 and 4.
"""

from __future__ import annotations

from collections.abc import Collection

from pyroaring import BitMap

from delivery.listeners import Listeners
from delivery.mailboxes import Mailboxes
from delivery.model import TargetSet
from delivery.reach import Reach
from namegraph import BYTES, NUMBERS, TEXTS, DurableMap, DurableState, NodeId, packed

NOBODY = 0
"""The number of the empty audience, which is not stored."""

KEPT_LIMIT = 10_000
"""Target sets whose audience is kept."""


class Audiences:
    """The audiences that entries refer to, and those of target sets in use."""

    def __init__(self, durable: DurableState, mailboxes: Mailboxes, listeners: Listeners) -> None:
        """Those are who can be in them."""
        self._mailboxes = mailboxes
        self._listeners = listeners
        self._stored = DurableMap(durable, "audience", NUMBERS, BYTES)
        self._next = DurableMap(durable, "audience number", TEXTS, packed(int))
        self._bitmaps = {number: BitMap.deserialize(encoded) for number, encoded in self._stored.items()}
        self._numbers = {encoded: number for number, encoded in self._stored.items()}
        self._last_use: dict[int, int] = {}
        """The last entry that refers to an audience; of those that are not here, the last one before the start."""
        self._kept: dict[TargetSet, tuple[tuple[int, ...], BitMap]] = {}
        """By target set: what it rests on, and the audience."""

    def of(self, targets: TargetSet, reach: Reach) -> BitMap:
        """The mailboxes that a target set reaches at this instant. The caller must not change it."""
        rests_on = (self._mailboxes.version, self._listeners.version, *self._versions(targets, reach))
        kept = self._kept.get(targets)
        if kept is not None and kept[0] == rests_on:
            return kept[1]
        found = BitMap()
        for target in targets:
            reached = self._below(target.name, reach)
            for name in target.excluding:
                reached -= self._below(name, reach)
            found |= reached
        if len(self._kept) >= KEPT_LIMIT:
            self._kept.clear()
        self._kept[targets] = (rests_on, found)
        return found

    def used_last(self, limit: int) -> list[TargetSet]:
        """Target sets that something was sent to since the server started, so many at most."""
        return list(self._kept)[-limit:]

    def _versions(self, targets: TargetSet, reach: Reach) -> list[int]:
        return [reach.below(name).number for target in targets for name in (target.name, *target.excluding)]

    def _below(self, name: NodeId, reach: Reach) -> BitMap:
        processes = reach.below(name).processes
        found = BitMap()
        for numbers in filter(None, (self._mailboxes.numbers, self._listeners.numbers)):
            found |= BitMap(numbers[process] for process in processes if process in numbers)
            if name in numbers:
                found.add(numbers[name])
        return found

    def number_of(self, audience: BitMap) -> int:
        """The number of an audience, stored from now on."""
        if not audience:
            return NOBODY
        encoded = bytes(audience.serialize())
        number = self._numbers.get(encoded)
        if number is None:
            number = self._next.get("", 1)
            self._next[""] = number + 1
            self._stored[number] = encoded
            self._bitmaps[number] = audience.copy()
            self._numbers[encoded] = number
        return number

    def bitmap(self, number: int) -> BitMap:
        """The audience of a number that an entry of the log refers to."""
        return self._bitmaps.get(number) or BitMap()

    def used(self, number: int, *, at: int) -> None:
        """An entry refers to an audience."""
        if number != NOBODY:
            self._last_use[number] = at

    def forget_unused(self, *, cut: int, started_at: int, needed: Collection[int]) -> None:
        """Forget the audiences to which only entries at `cut` and before refer, but for some that are needed.

        `started_at`: the last position when this server started; audiences of before may be used up to that.
        """
        unused = [number for number in self._stored if self._last_use.get(number, started_at) <= cut]
        for number in unused:
            if number in needed:
                continue
            del self._numbers[self._stored.pop(number)]
            del self._bitmaps[number]
            self._last_use.pop(number, None)

    def __len__(self) -> int:
        return len(self._stored)
