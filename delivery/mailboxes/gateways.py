"""Gateways: mailboxes for all processes here that match a pattern. Whom some gateway serves is a bit in audiences.

    entry is to be logged --> who is below, matches, and has no number --> gets a number, durable --> a bit
                              (where they are many, some in each step before it)
    gateway reads an entry --> bits of its own in the audience: none, not for it --> the names of its recipients
    not in a group any more, or served by none, and no audience has the bit --> the number is free, and given again

A process that is served, a *recipient*, has a number beside that of its mailbox, if it has one. Numbers of recipients
lie above those of all mailboxes, so a bit says which of the two it is. A recipient is a bit, whatever the number of
gateways that serve it: an audience stays one bitmap.

Source: delivery.md sections 4 and 9.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from pyroaring import BitMap

from delivery.mailboxes.mailboxes import Mailboxes
from delivery.model.words import patterns_of, serves
from namegraph import NODES, DurableMap, DurableState, NodeId, packed

FIRST_RECIPIENT = 2**31
"""The lowest number of recipients."""

NUMBERS_END = 2**32
"""Above all numbers in audiences."""

LOOKED_AT = 300
"""Recipients that one step looks at to see who is to be forgotten; the next one goes on."""


class Recipients(NamedTuple):
    """Some of those whom a gateway serves."""

    names_version: int
    """Of two with the same, a number names one process."""
    numbers: BitMap


NOBODY = Recipients(0, BitMap())


class Gateways:
    """Which recipients there are, and which gateway serves whom."""

    def __init__(self, durable: DurableState, mailboxes: Mailboxes) -> None:
        self._mailboxes = mailboxes
        self._numbers = DurableMap(durable, "recipient", NODES, packed(int))
        """By process."""
        self._names = {number: name for name, number in self._numbers.items()}
        top = max(self._names, default=FIRST_RECIPIENT - 1) + 1
        self._free = BitMap(range(FIRST_RECIPIENT, top)) - BitMap(self._names)
        """Those below `_next` that nobody has."""
        self._next = top
        self.version = 0
        """Rises when a recipient is forgotten: its number may be another one's from then on."""
        self._served: dict[int, BitMap] = {}
        """By number of a gateway, its recipients: as of `_served_at`."""
        self._served_at = -1
        """The version of the mailboxes."""
        self._turns = deque(self._numbers)
        """All recipients, in the order in which they are looked at."""
        self._to_look = 0
        """How many are to be looked at before a step has nothing to do."""
        self._numbered_since = 0
        """How many were given numbers since it was last said that some may be forgotten."""

    # -- who is served

    def served(self, gateway: int) -> BitMap:
        """The recipients of a gateway, whom it would serve now. The caller must not change it."""
        return self._current().get(gateway, BitMap())

    def reading(self, audience: BitMap) -> list[int]:
        """The gateways that have a recipient in an audience."""
        if not self._names:
            return []
        return [number for number, served in self._current().items() if served.intersect(audience)]

    def recipients(self, gateway: int, audience: BitMap) -> Recipients:
        """Of an audience, whom a gateway serves: nobody, where it is no gateway."""
        served = self._current().get(gateway)
        return NOBODY if served is None else Recipients(self.version, served & audience)

    def names(self, recipients: Recipients) -> list[NodeId]:
        """Their names, in the order of their numbers, while some entry of the log is for them."""
        assert recipients.names_version == self.version or not recipients.numbers, "numbers may have other names now"
        return [self._names[number] for number in recipients.numbers]

    def among(self, processes: Iterable[NodeId]) -> BitMap:
        """Those of some processes that are recipients, and that some gateway serves."""
        served = self._current().values()
        if not served:
            return BitMap()
        numbers = self._numbers
        return BitMap(numbers[process] for process in processes if process in numbers) & BitMap.union(*served)

    def lacking(self, processes: Iterable[NodeId]) -> list[NodeId]:
        """Those of some processes that a gateway is to serve, and that have no number yet."""
        gateways = self._mailboxes.gateways
        if not gateways:
            return []
        numbers = self._numbers
        return [
            process
            for process in processes
            if process not in numbers and any(pattern in gateways for pattern in patterns_of(process))
        ]

    def number_of(self, process: NodeId) -> int | None:
        """The number of a recipient; None: it is none."""
        return self._numbers.get(process)

    def _current(self) -> dict[int, BitMap]:
        if self._served_at != self._mailboxes.version:
            before, gateways = self._served, self._mailboxes.gateways
            self._served = {
                number: before[number] if number in before else self._matching(pattern)
                for pattern, number in gateways.items()
            }
            self._served_at = self._mailboxes.version
            if before.keys() - self._served.keys():
                self._to_look = len(self._numbers)
        return self._served

    def _matching(self, pattern: NodeId) -> BitMap:
        return BitMap(number for name, number in self._numbers.items() if serves(pattern, name))

    # -- numbers

    def number(self, processes: Iterable[NodeId]) -> None:
        """Give numbers to those of some processes that have none."""
        served = self._current()
        new = [process for process in dict.fromkeys(processes) if process not in self._numbers]
        for process, number in zip(new, self._new_numbers(len(new)), strict=True):
            self._numbers[process] = number
            self._names[number] = process
        self._turns.extend(new)
        self._numbered_since += len(new)
        gateways = self._mailboxes.gateways
        for process in new:
            for pattern in patterns_of(process):
                if pattern in gateways:
                    served[gateways[pattern]].add(self._numbers[process])

    def _new_numbers(self, count: int) -> list[int]:
        """Free ones first."""
        given = BitMap(self._free[:count])
        self._free -= given
        more = count - len(given)
        self._next += more
        return [*given, *range(self._next - more, self._next)]

    def look_again(self) -> None:
        """Some audience is gone: who was in that alone may be forgotten.

        More are looked at than were given numbers meanwhile, so that those who left cannot become the more.
        """
        self._to_look = min(len(self._numbers), self._to_look + LOOKED_AT + 2 * self._numbered_since)
        self._numbered_since = 0

    @property
    def has_more(self) -> bool:
        """Whether some are still to be looked at."""
        return self._to_look > 0

    def forget(self, lives_here: Callable[[NodeId], bool], in_audiences: Callable[[], BitMap]) -> None:
        """Look at a few: who is in no group here, or is served by nobody, is forgotten once no audience has the bit.

        `lives_here`: whether a process is in a group here. `in_audiences`: all numbers that some audience has.
        """
        served = self._current().values()
        if not self._to_look:
            return
        looked_at = [self._turns.popleft() for _ in range(min(self._to_look, LOOKED_AT, len(self._turns)))]
        self._to_look = min(self._to_look - len(looked_at), len(self._turns))
        idle = {
            name
            for name in looked_at
            if not (lives_here(name) and any(self._numbers[name] in recipients for recipients in served))
        }
        kept, before = in_audiences() if idle else BitMap(), len(self._numbers)
        for name in looked_at:
            if name in idle and self._numbers[name] not in kept:
                self._forget(name)
            else:
                self._turns.append(name)
        self.version += len(self._numbers) != before

    def _forget(self, name: NodeId) -> None:
        number = self._numbers.pop(name)
        del self._names[number]
        self._free.add(number)
        for served in self._served.values():
            served.discard(number)

    def __contains__(self, mailbox: int) -> bool:
        """Whether a mailbox is that of a gateway."""
        return mailbox in self._current()

    def __len__(self) -> int:
        return len(self._numbers)
