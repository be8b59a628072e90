"""Recipients at this server of the messages to a target set: bitmaps that entries of the log refer to by number.

A server knows all ancestors of the processes that it owns. A mailbox is in the audience of a group exactly if the group
is an ancestor of its process. Messages addressed to a group itself are for the archive of the group, too. Each mailbox
is one bit, whatever loops and shared subgroups there are. Each recipient of gateways is one bit, too: an entry is for a
gateway exactly if the audience has a recipient of the gateway. A bitmap is stored once, and shared by all entries until
the membership changes.

See docs/protocol-messages.md, "Log, audiences, mailboxes".
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from pyroaring import BitMap

from delivery.mailboxes.gateways import FIRST_RECIPIENT, NUMBERS_END, Gateways, Recipients
from delivery.mailboxes.listeners import Listeners
from delivery.mailboxes.mailboxes import Mailboxes
from delivery.model.reach import Reach
from namegraph import (
    BYTES,
    NUMBERS,
    TEXTS,
    DurableMap,
    DurableState,
    NodeId,
    Slices,
    TargetSet,
    at_once,
    in_slices,
    packed,
)

NOBODY = 0
"""Number of the empty audience, which is not stored."""

KEPT_LIMIT = 10_000
"""Most target sets whose audience is cached."""

ATTEMPTS = 3
"""Attempts to find an audience in slices before changes that interrupt it. The next attempt runs in one step."""

ITEMS_OF_A_NUMBER = 5
"""Cost of giving a process a number and storing the row, in processes looked at."""


Foreign = dict[NodeId, tuple[int, ...]]
"""Foreign processes, with their numbers in audiences."""


class _Kept(NamedTuple):
    """Cached audience of a target set."""

    rests_on: tuple[int, ...]
    audience: BitMap
    foreign: Foreign
    lacking: tuple[NodeId, ...]
    """Processes that a gateway must serve and that had no number yet."""


class _Finding(NamedTuple):
    """An audience that is being computed in slices."""

    rests_on: tuple[int, ...]
    slices: Slices[None]
    attempt: int


class Audiences:
    """Audiences that entries refer to, and audiences of target sets in use."""

    def __init__(self, durable: DurableState, mailboxes: Mailboxes, listeners: Listeners, gateways: Gateways) -> None:
        """Load the stored audiences. `mailboxes`, `listeners` and `gateways` are the possible members of audiences."""
        self._mailboxes = mailboxes
        self._listeners = listeners
        self._gateways = gateways
        self._stored = DurableMap(durable, "audience", NUMBERS, BYTES)
        self._next = DurableMap(durable, "audience number", TEXTS, packed(int))
        self._bitmaps = {number: BitMap.deserialize(encoded) for number, encoded in self._stored.items()}
        self._numbers = {encoded: number for number, encoded in self._stored.items()}
        self._last_use: dict[int, int] = {}
        """Position of the last entry that refers to an audience, by number of the audience.

        An audience from before the start is absent: its last entry is at most the last one before the start.
        """
        self._kept: dict[TargetSet, _Kept] = {}
        self._finding: dict[TargetSet, _Finding] = {}

    def of(self, targets: TargetSet, reach: Reach) -> BitMap:
        """Return the recipients of a target set at this instant that have numbers.

        The caller must not change the bitmap.
        """
        return self._reached(targets, reach).audience

    def numbered(self, targets: TargetSet, reach: Reach) -> BitMap:
        """Return the audience as `of` does, after all recipients of gateways have numbers, for entries and posts of a
        step."""
        return self._numbered(targets, reach).audience

    def foreign(self, targets: TargetSet, reach: Reach) -> Foreign:
        """Return the foreign processes in the audience that `numbered` returns.

        A process with only a listener is left out.
        """
        return self._numbered(targets, reach).foreign

    def prepare(self, targets: TargetSet, reach: Reach, room: int) -> int:
        """Do a part of the work of `numbered`, for at most `room` processes. Return the unused room: 0 if more is left
        to do.

        The caller repeats the call in later steps until room is left. After that, `numbered` is fast.
        """
        for target in targets:
            for name in (target.name, *target.excluding):
                room = reach.prepare(name, room)
                if room <= 0:
                    return 0
        room = self._find_some(targets, reach, room)
        if room <= 0 or not (lacking := self._kept[targets].lacking):
            return room
        count = min(-(-room // ITEMS_OF_A_NUMBER), len(lacking))
        self._number(targets, lacking[:count], lacking[count:])
        room -= count * ITEMS_OF_A_NUMBER
        return self._find_some(targets, reach, room) if room > 0 and count == len(lacking) else 0

    def _find_some(self, targets: TargetSet, reach: Reach, room: int) -> int:
        rests_on = self._rests_on(targets, reach)
        kept = self._kept.get(targets)
        if kept is not None and kept.rests_on == rests_on:
            self._finding.pop(targets, None)
            return room
        finding = self._finding.get(targets)
        if finding is None or finding.rests_on != rests_on:
            attempt = 1 if finding is None else finding.attempt + 1
            finding = self._finding[targets] = _Finding(rests_on, self._find(targets, reach, rests_on), attempt)
        if finding.attempt > ATTEMPTS:
            at_once(finding.slices)
        else:
            for looked_at in finding.slices:
                room -= looked_at
                if room <= 0:
                    return 0
        del self._finding[targets]
        return room

    def _number(self, targets: TargetSet, lacking: tuple[NodeId, ...], rest: tuple[NodeId, ...]) -> None:
        """Give numbers to some processes that a target set reaches. They show in its audience once `rest` is empty."""
        self._gateways.number(lacking)
        kept = self._kept.pop(targets)
        if rest:
            self._kept[targets] = kept._replace(lacking=rest)

    def _numbered(self, targets: TargetSet, reach: Reach) -> _Kept:
        found = self._reached(targets, reach)
        if not found.lacking:
            return found
        self._number(targets, found.lacking, ())
        return self._reached(targets, reach)

    def _reached(self, targets: TargetSet, reach: Reach) -> _Kept:
        rests_on = self._rests_on(targets, reach)
        kept = self._kept.get(targets)
        if kept is None or kept.rests_on != rests_on:
            at_once(self._find(targets, reach, rests_on))
        return self._kept[targets]

    def _find(self, targets: TargetSet, reach: Reach, rests_on: tuple[int, ...]) -> Slices[None]:
        """Compute the audience of a target set and cache it."""
        found, lacking, foreign = BitMap(), list[NodeId](), dict[NodeId, tuple[int, ...]]()
        for target in targets:
            reached = yield from self._below(target.name, reach)
            for name in target.excluding:
                reached -= yield from self._below(name, reach)
            found |= reached
            for some in in_slices(processes_below(target.name, reach)):
                lacking += self._gateways.lacking(some)
                foreign |= self._foreign(some, reach)
                yield len(some)
        if len(self._kept) >= KEPT_LIMIT:
            self._kept.clear()
        # A process with a number may be excepted, or no gateway may serve it any more.
        foreign = {name: left for name, numbers in foreign.items() if (left := _among(numbers, found))}
        before = self._kept.get(targets)
        if before is not None and before.foreign == foreign:
            # The same dict object shows callers that they need not examine it again.
            foreign = before.foreign
        self._kept[targets] = _Kept(rests_on, found, foreign, tuple(lacking))

    def _foreign(self, processes: Sequence[NodeId], reach: Reach) -> Foreign:
        found: Foreign = {}
        for name, home in zip(processes, reach.homes_of(processes), strict=True):
            if home is None:
                both = (self._mailboxes.numbers.get(name), self._gateways.number_of(name))
                if numbers := tuple(number for number in both if number is not None):
                    found[name] = numbers
        return found

    def used_last(self, limit: int) -> list[TargetSet]:
        """Return at most `limit` target sets to which messages were sent since the server started."""
        return list(self._kept)[-limit:]

    def _rests_on(self, targets: TargetSet, reach: Reach) -> tuple[int, ...]:
        """Return the versions on which an audience depends. Equal versions mean equal audiences."""
        versions = (self._mailboxes.version, self._listeners.version, self._gateways.version)
        return (*versions, *self._versions(targets, reach))

    def _versions(self, targets: TargetSet, reach: Reach) -> list[int]:
        names = [name for target in targets for name in (target.name, *target.excluding)]
        # A process has no members below it, whether it is a member at this server or not.
        return [reach.below(name).number for name in names] + [reach.lives_here(target.name) for target in targets]

    def _below(self, name: NodeId, reach: Reach) -> Slices[BitMap]:
        processes = reach.below(name).processes
        found = BitMap()
        for numbers in filter(None, (self._mailboxes.numbers, self._listeners.numbers)):
            for some in in_slices(processes):
                found |= BitMap(numbers[process] for process in some if process in numbers)
                yield len(some)
            addressed = reach.renamed_to(name) or name
            if addressed in numbers:
                found.add(numbers[addressed])
        for some in in_slices(processes_below(name, reach)):
            found |= self._gateways.among(some)
            yield len(some)
        return found

    def readers(self, audience: BitMap) -> BitMap:
        """Return the mailboxes and listeners of an audience.

        A gateway is one. The caller must not change the bitmap.
        """
        reading = self._gateways.reading(audience)
        return without_recipients(audience) | BitMap(reading) if reading else without_recipients(audience)

    def is_for(self, number: int, reader: int) -> bool:
        """True if an entry with the audience of a number is for a mailbox, a listener or a gateway."""
        audience = self.bitmap(number)
        return self._gateways.served(reader).intersect(audience) if reader in self._gateways else reader in audience

    def recipients(self, number: int, reader: int) -> Recipients:
        """Return the recipients of a gateway in the audience of a number. Empty for any other reader."""
        return self._gateways.recipients(reader, self.bitmap(number))

    def number_of(self, audience: BitMap) -> int:
        """Return the number of an audience, and store the audience."""
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
        """Return the audience of a number to which an entry of the log refers."""
        return self._bitmaps.get(number) or BitMap()

    def used(self, number: int, *, at: int) -> None:
        """Note that the entry at a position refers to an audience."""
        if number != NOBODY:
            self._last_use[number] = at

    def forget_unused(self, *, cut: int, started_at: int, needed: Collection[int]) -> None:
        """Forget the audiences to which only entries through `cut` refer, except for those in `needed`.

        `started_at`: the last position when this server started. Entries through it may refer to any older audience.
        """
        unused = [number for number in self._stored if self._last_use.get(number, started_at) <= cut]
        for number in unused:
            if number in needed:
                continue
            del self._numbers[self._stored.pop(number)]
            del self._bitmaps[number]
            self._last_use.pop(number, None)

    def names(self, recipients: Recipients) -> list[NodeId]:
        """Return the names of recipients. Some entry of the log must still be for them."""
        return self._gateways.names(recipients)

    def everybody(self) -> BitMap:
        """Return the union of all stored audiences."""
        return BitMap.union(BitMap(), *self._bitmaps.values())

    def __len__(self) -> int:
        return len(self._stored)


def _among(numbers: tuple[int, ...], audience: BitMap) -> tuple[int, ...]:
    return tuple(number for number in numbers if number in audience)


def without_recipients(audience: BitMap) -> BitMap:
    """Return the mailboxes and listeners of an audience. The caller must not change the bitmap."""
    if not audience or audience.max() < FIRST_RECIPIENT:
        return audience
    found = audience.copy()
    found.remove_range(FIRST_RECIPIENT, NUMBERS_END)
    return found


def processes_below(name: NodeId, reach: Reach) -> tuple[NodeId, ...]:
    """Return the processes below a group at this server. A process that is a member of a group here is below itself."""
    return (name,) if reach.lives_here(name) else reach.below(name).processes
