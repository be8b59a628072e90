"""Who at this server gets what is sent to a target set: bitmaps that entries of the log refer to by number.

A server owns a process, so it knows all its ancestors: a mailbox is in the audience of a group exactly if the group is
among them. What is addressed to a group itself is for its archive, too. Whatever loops and shared subgroups there are,
each mailbox is one bit, and so is each recipient of gateways: an entry is for a gateway exactly if a recipient of its
own is in the audience. A bitmap is stored once, and shared by all entries until the membership changes.

Source: delivery.md sections 3 and 4.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from pyroaring import BitMap

from delivery.gateways import FIRST_RECIPIENT, NUMBERS_END, Gateways, Recipients
from delivery.listeners import Listeners
from delivery.mailboxes import Mailboxes
from delivery.reach import Reach
from namegraph import BYTES, NUMBERS, TEXTS, DurableMap, DurableState, NodeId, TargetSet, packed

NOBODY = 0
"""The number of the empty audience, which is not stored."""

KEPT_LIMIT = 10_000
"""Target sets whose audience is kept."""


class _Kept(NamedTuple):
    """What a target set reaches."""

    rests_on: tuple[int, ...]
    audience: BitMap
    lacking: tuple[NodeId, ...]
    """Who is to be served by a gateway, and had no number yet."""


class Audiences:
    """The audiences that entries refer to, and those of target sets in use."""

    def __init__(self, durable: DurableState, mailboxes: Mailboxes, listeners: Listeners, gateways: Gateways) -> None:
        """Those are who can be in them."""
        self._mailboxes = mailboxes
        self._listeners = listeners
        self._gateways = gateways
        self._stored = DurableMap(durable, "audience", NUMBERS, BYTES)
        self._next = DurableMap(durable, "audience number", TEXTS, packed(int))
        self._bitmaps = {number: BitMap.deserialize(encoded) for number, encoded in self._stored.items()}
        self._numbers = {encoded: number for number, encoded in self._stored.items()}
        self._last_use: dict[int, int] = {}
        """The last entry that refers to an audience; of those that are not here, the last one before the start."""
        self._kept: dict[TargetSet, _Kept] = {}

    def of(self, targets: TargetSet, reach: Reach) -> BitMap:
        """Whom a target set reaches at this instant, of those who have numbers. The caller must not change it."""
        return self._reached(targets, reach).audience

    def numbered(self, targets: TargetSet, reach: Reach) -> BitMap:
        """As `of`, once all whom gateways serve have numbers: for what is logged, or goes with a step."""
        lacking = self._reached(targets, reach).lacking
        if lacking:
            self._gateways.number(lacking)
            del self._kept[targets]
        return self.of(targets, reach)

    def _reached(self, targets: TargetSet, reach: Reach) -> _Kept:
        versions = (self._mailboxes.version, self._listeners.version, self._gateways.version)
        rests_on = (*versions, *self._versions(targets, reach))
        kept = self._kept.get(targets)
        if kept is not None and kept.rests_on == rests_on:
            return kept
        found, lacking = BitMap(), list[NodeId]()
        for target in targets:
            reached = self._below(target.name, reach)
            for name in target.excluding:
                reached -= self._below(name, reach)
            found |= reached
            lacking += self._gateways.lacking(processes_below(target.name, reach))
        if len(self._kept) >= KEPT_LIMIT:
            self._kept.clear()
        kept = self._kept[targets] = _Kept(rests_on, found, tuple(lacking))
        return kept

    def used_last(self, limit: int) -> list[TargetSet]:
        """Target sets that something was sent to since the server started, so many at most."""
        return list(self._kept)[-limit:]

    def _versions(self, targets: TargetSet, reach: Reach) -> list[int]:
        names = [name for target in targets for name in (target.name, *target.excluding)]
        # A process has nothing below it, whether it is a member here or not.
        return [reach.below(name).number for name in names] + [reach.lives_here(target.name) for target in targets]

    def _below(self, name: NodeId, reach: Reach) -> BitMap:
        processes = reach.below(name).processes
        found = BitMap()
        for numbers in filter(None, (self._mailboxes.numbers, self._listeners.numbers)):
            found |= BitMap(numbers[process] for process in processes if process in numbers)
            if name in numbers:
                found.add(numbers[name])
        found |= self._gateways.among(processes_below(name, reach))
        return found

    def readers(self, audience: BitMap) -> BitMap:
        """The mailboxes and listeners that an audience is for; a gateway is one. The caller must not change it."""
        reading = self._gateways.reading(audience)
        return without_recipients(audience) | BitMap(reading) if reading else without_recipients(audience)

    def is_for(self, number: int, reader: int) -> bool:
        """Whether an entry with the audience of a number is for a mailbox, a listener or a gateway."""
        audience = self.bitmap(number)
        return self._gateways.served(reader).intersect(audience) if reader in self._gateways else reader in audience

    def recipients(self, number: int, reader: int) -> Recipients:
        """Whom a gateway serves, of the audience of a number; nobody, of any other reader."""
        return self._gateways.recipients(reader, self.bitmap(number))

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

    def names(self, recipients: Recipients) -> list[NodeId]:
        """Their names, while some entry of the log is for them."""
        return self._gateways.names(recipients)

    def everybody(self) -> BitMap:
        """All who are in some audience that is stored."""
        return BitMap.union(BitMap(), *self._bitmaps.values())

    def __len__(self) -> int:
        return len(self._stored)


def without_recipients(audience: BitMap) -> BitMap:
    """The mailboxes and listeners of an audience. The caller must not change it."""
    if not audience or audience.max() < FIRST_RECIPIENT:
        return audience
    found = audience.copy()
    found.remove_range(FIRST_RECIPIENT, NUMBERS_END)
    return found


def processes_below(name: NodeId, reach: Reach) -> tuple[NodeId, ...]:
    """Who is below a group here; a process that is a member of some group here is below itself."""
    return (name,) if reach.lives_here(name) else reach.below(name).processes
