"""Gateways: mailboxes for all processes of this server that match a pattern. Each process served is a bit in audiences.

    entry is to be logged --> who is below, matches, and has no number --> gets a number, durable --> a bit
                              (where they are many, some in each step before it)
    gateway reads an entry --> bits of its own in the audience: none, not for it --> the names of its recipients
    not in a group any more, or served by none, and no audience has the bit --> the number is free, and given again

A process that a gateway serves, a *recipient*, has a number beside that of its mailbox, if it has one. Numbers of
recipients lie above those of all mailboxes, so a bit shows its kind. A recipient is one bit, whatever the number of
gateways that serve it: an audience stays one bitmap.

See docs/protocol-messages.md, "Log, audiences, mailboxes".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from pyroaring import BitMap

from delivery.mailboxes.mailboxes import Mailboxes
from delivery.model.agenda import Agenda, Work
from delivery.model.words import patterns_of, serves
from namegraph import NODES, DurableMap, DurableState, NodeId, packed

FIRST_RECIPIENT = 2**31
"""Lowest number of a recipient."""

NUMBERS_END = 2**32
"""Bound above all numbers in audiences."""

LOOKED_AT = 300
"""Recipients that one step checks for removal. The next step goes on."""


class Recipients(NamedTuple):
    """Some recipients of a gateway."""

    names_version: int
    """Version of the names: with equal versions, a number names one process."""
    numbers: BitMap


NOBODY = Recipients(0, BitMap())


class Gateways:
    """All recipients, and the gateways that serve them."""

    def __init__(self, durable: DurableState, mailboxes: Mailboxes, agenda: Agenda) -> None:
        self._mailboxes, self._agenda = mailboxes, agenda
        self._numbers = DurableMap(durable, "recipient", NODES, packed(int))
        """Numbers of recipients, by process."""
        self._names = {number: name for name, number in self._numbers.items()}
        top = max(self._names, default=FIRST_RECIPIENT - 1) + 1
        self._free = BitMap(range(FIRST_RECIPIENT, top)) - BitMap(self._names)
        """Free numbers below `_next`."""
        self._next = top
        self.version = 0
        """Version that rises when a recipient is forgotten: its number may name another process from then on."""
        self._served: dict[int, BitMap] = {}
        """Recipients by number of a gateway, as of `_served_at`."""
        self._served_at = -1
        """Version of the mailboxes at which `_served` was computed."""
        self._turns = deque(self._numbers)
        """All recipients, in the order in which they are checked."""
        self._to_look = 0
        """Number of recipients to check before steps have no such work."""
        self._numbered_since = 0
        """Number of recipients numbered since the last `look_again`."""

    # -- served recipients

    def served(self, gateway: int) -> BitMap:
        """Return the present recipients of a gateway. The caller must not change the bitmap."""
        return self._current().get(gateway, BitMap())

    def reading(self, audience: BitMap) -> list[int]:
        """Return the gateways that have a recipient in an audience."""
        if not self._names:
            return []
        return [number for number, served in self._current().items() if served.intersect(audience)]

    def recipients(self, gateway: int, audience: BitMap) -> Recipients:
        """Return the recipients of a gateway in an audience. Empty if the number is not that of a gateway."""
        served = self._current().get(gateway)
        return NOBODY if served is None else Recipients(self.version, served & audience)

    def names(self, recipients: Recipients) -> list[NodeId]:
        """Return the names of recipients, in the order of their numbers.

        Some entry of the log must still be for them.
        """
        assert recipients.names_version == self.version or not recipients.numbers, "numbers may have other names now"
        return [self._names[number] for number in recipients.numbers]

    def among(self, processes: Iterable[NodeId]) -> BitMap:
        """Return the numbers of those processes that are recipients of some gateway."""
        served = self._current().values()
        if not served:
            return BitMap()
        numbers = self._numbers
        return BitMap(numbers[process] for process in processes if process in numbers) & BitMap.union(*served)

    def lacking(self, processes: Iterable[NodeId]) -> list[NodeId]:
        """Return those processes that a gateway must serve and that have no number yet."""
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
        """Return the number of a recipient. None if the process is not a recipient."""
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
                self._note_work()
        return self._served

    def _matching(self, pattern: NodeId) -> BitMap:
        return BitMap(number for name, number in self._numbers.items() if serves(pattern, name))

    # -- numbers

    def number(self, processes: Iterable[NodeId]) -> None:
        """Give numbers to those processes that have none."""
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
        """Return numbers for new recipients, free numbers first."""
        given = BitMap(self._free[:count])
        self._free -= given
        more = count - len(given)
        self._next += more
        return [*given, *range(self._next - more, self._next)]

    def look_again(self) -> None:
        """Schedule checks of recipients after an audience was forgotten: recipients in no other audience may be
        forgotten.

        The checks exceed the numbers given meanwhile, so that recipients without a group do not accumulate.
        """
        self._to_look = min(len(self._numbers), self._to_look + LOOKED_AT + 2 * self._numbered_since)
        self._numbered_since = 0
        self._note_work()

    def _note_work(self) -> None:
        if self._to_look:
            self._agenda.mark_at_once(Work.RECIPIENTS)
        else:
            self._agenda.take_off(Work.RECIPIENTS)

    def forget(self, lives_here: Callable[[NodeId], bool], in_audiences: Callable[[], BitMap]) -> None:
        """Check some recipients. Forget each that is in no group here, or has no gateway, once no audience has its bit.

        `lives_here`: true of a process that is in a group here. `in_audiences`: returns all numbers in audiences.
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
        self._note_work()

    def _forget(self, name: NodeId) -> None:
        number = self._numbers.pop(name)
        del self._names[number]
        self._free.add(number)
        for served in self._served.values():
            served.discard(number)

    def __contains__(self, mailbox: int) -> bool:
        """True if a mailbox is that of a gateway."""
        return mailbox in self._current()

    def __len__(self) -> int:
        return len(self._numbers)
