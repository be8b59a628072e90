"""The sequences of an origin: one target set at one quality each, with its number, its next serial, and its last use.

    first parcel --> busy --all parcels settled--> idle --not used for long, or beyond a limit--> forgotten
                       ^                             |
                       '--------next parcel----------'

No number and no serial is given again, so no message id is either.

See docs/protocol-messages.md, "Accepted, settled, sent again".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Struct

from delivery.model.agenda import Agenda, Work
from delivery.model.uptime import Uptime
from delivery.model.words import Quality
from delivery.origin.unsettled import IDLE, Sequence
from delivery.wire.posts import NUMBER_LIMIT, Over
from namegraph import TEXTS, DurableMap, DurableState, NodeId, Reason, ServerId, TargetSet, is_plain, packed, refuse

PLAIN_SEQUENCES_LIMIT = 10_000
"""Most remembered idle sequences of a single target without exceptions: one for each group in use."""

OTHER_SEQUENCES_LIMIT = 1_000
"""Most remembered idle sequences of several targets, or with exceptions."""

BUSY_SEQUENCES_LIMIT = 10_000
"""Most sequences with messages that not all servers have."""

CROWD_LIMIT = 1_000
"""Busy sequences of several targets, or with exceptions, beyond which the shell delays new ones."""

SEQUENCE_SECONDS = 7 * 86_400.0
"""Running time after its last message for which a sequence is remembered."""

FORGOTTEN_OF_A_STEP = 200
"""Most sequences that one step forgets: as many as a step can make."""


class SequenceRow(Struct, array_like=True):
    """A sequence: one target set at one quality."""

    targets: TargetSet
    quality: Quality
    next_serial: int
    """Serial of the next message."""
    start: int = 0
    """Start in which the last message was accepted."""
    used_at: float = 0.0
    """Running time of the last message."""

    @property
    def is_plain(self) -> bool:
        """True if there is a single target without exceptions."""
        return is_plain(self.targets)


class Forgotten(NamedTuple):
    """A sequence that the origin has forgotten."""

    number: int
    receivers: tuple[ServerId, ...] | None
    """Servers that had parcels of the sequence, sorted.

    None for a sequence from before the start of the origin: any server may be one.
    """
    over: Over
    """Post that announces the end of the sequence."""


class SequenceTable:
    """All sequences of this server."""

    def __init__(
        self,
        durable: DurableState,
        rows: DurableMap[int, SequenceRow],
        states: dict[int, Sequence],
        server: ServerId,
        running: Uptime,
        agenda: Agenda,
    ) -> None:
        """`rows`: by number. `states`: state of the sequences in memory, by number."""
        self.rows, self._states, self._server = rows, states, server
        self._running, self._agenda = running, agenda
        self._numbers = {(row.targets, row.quality): number for number, row in rows.items()}
        self._alone = {row.targets[0].name: number for number, row in rows.items() if len(row.targets) == 1}
        """Number of a sequence for each single target, with exceptions or without: exceptions change no server
        below."""
        self._ends = DurableMap(durable, "sequence ends", TEXTS, packed(tuple[int, int]))
        """Last sequence number, and first serial of new sequences: one value, without a key.

        No sequence number is given again. The serial is above those of all forgotten sequences, so no message id is
        given again.
        """
        self._last_number, self._first_serial = self._ends.get("", (max(rows, default=0), 1))
        self._last_number_at_start = self._last_number
        self.limits = {True: PLAIN_SEQUENCES_LIMIT, False: OTHER_SEQUENCES_LIMIT}
        """Limits of idle sequences: True for plain ones, False for other ones."""
        self._idle: dict[bool, dict[int, None]] = {True: {}, False: {}}
        """Idle sequences, the least recently used first: True for plain ones, False for other ones."""
        self._others = sum(not row.is_plain for row in rows.values())
        """Number of sequences of several targets, or with exceptions."""
        for number, of in sorted(rows.items(), key=lambda each: (each[1].used_at, each[0])):
            if number not in states:
                self._idle[of.is_plain][number] = None
        agenda.mark(Work.SEQUENCES)

    def __bool__(self) -> bool:
        """True if any sequence is remembered."""
        return bool(self.rows)

    def __contains__(self, number: int) -> bool:
        """True if the sequence of a number is remembered."""
        return number in self.rows

    def number_of(self, targets: TargetSet, quality: Quality) -> int:
        """Return the number of a sequence. 0 if it is not remembered."""
        return self._numbers.get((targets, quality), 0)

    def numbers_of(self, targets: TargetSet) -> list[int]:
        """Return the numbers of the sequences of a target set, by quality. 0 for one that is not remembered."""
        return [self.number_of(targets, quality) for quality in Quality]

    def number_alone(self, name: NodeId) -> int:
        """Return the number of a sequence with this single target, with exceptions or without. 0 if there is none."""
        return self._alone.get(name, 0)

    def number_for(self, targets: TargetSet, quality: Quality) -> int:
        """Return the number of a sequence. A sequence that is not remembered begins."""
        number = self._numbers.get((targets, quality))
        if number is None:
            self._last_number += 1
            number = self._numbers[targets, quality] = self._last_number
            self._ends[""] = (self._last_number, self._first_serial)
            self.rows[number] = SequenceRow(targets, quality, self._first_serial)
            if not self._agenda.is_timed(Work.UPTIME):
                self._agenda.mark(Work.UPTIME)
            if len(targets) == 1:
                self._alone[targets[0].name] = number
            self._others += not is_plain(targets)
        return number

    def note_busy(self, number: int) -> None:
        """Note that a parcel of a sequence is not settled."""
        self._idle[self.rows[number].is_plain].pop(number, None)

    def note_idle(self, number: int) -> None:
        """Note that all parcels of a sequence are settled, as the most recently used idle sequence."""
        row = self.rows[number]
        idle = self._idle[row.is_plain]
        idle.pop(number, None)
        idle[number] = None
        if len(idle) > self.limits[row.is_plain]:
            self._agenda.mark(Work.SEQUENCES)
        self._agenda.mark_from(Work.SEQUENCES, row.used_at + SEQUENCE_SECONDS)

    def require_place(self, targets: TargetSet, quality: Quality) -> None:
        """Raise `RefusedError` if a message would make another sequence busy, and too many are."""
        busy = len(self.rows) - sum(map(len, self._idle.values()))
        if busy < BUSY_SEQUENCES_LIMIT:
            return
        number = self._numbers.get((targets, quality))
        if number is None or any(number in idle for idle in self._idle.values()):
            raise refuse(
                Reason.BACKLOG_FULL,
                f"messages to {busy} sets of targets wait for servers that are out of reach; try again later",
            )

    def is_crowded(self, targets: TargetSet, *, coming: int) -> bool:
        """True if a message would make another sequence of several targets, or with exceptions, busy, and many are.

        `coming`: number of sequences that wait for their next parcels. The method may be called while a step runs in
        another thread.
        """
        if is_plain(targets) or self._others - len(self._idle[False]) + coming < CROWD_LIMIT:
            return False
        numbers = [self._numbers.get((targets, each)) for each in Quality]
        return not any(number is not None and number not in self._idle[False] for number in numbers)

    def forget_idle(self) -> Iterator[Forgotten]:
        """Forget the idle sequences beyond the limits, and those not used for long."""
        at = self._running.seconds
        room = FORGOTTEN_OF_A_STEP
        for kind, idle in self._idle.items():
            while idle and room:
                number = next(iter(idle))
                if len(idle) <= self.limits[kind] and at - self.rows[number].used_at < SEQUENCE_SECONDS:
                    break
                room -= 1
                del idle[number]
                yield self._forget(number)
        if not room:
            self._agenda.mark(Work.SEQUENCES)
        if not self._agenda.is_timed(Work.SEQUENCES):
            used_at = [self.rows[number].used_at for idle in self._idle.values() for number in idle]
            if used_at:
                self._agenda.mark_from(Work.SEQUENCES, min(used_at) + SEQUENCE_SECONDS)

    def _forget(self, number: int) -> Forgotten:
        row, sequence = self.rows.pop(number), self._states.pop(number, IDLE)
        del self._numbers[row.targets, row.quality]
        if self._alone.get(row.targets[0].name) == number:
            del self._alone[row.targets[0].name]
        self._others -= not row.is_plain
        if row.next_serial > self._first_serial:
            self._first_serial = row.next_serial
            self._ends[""] = (self._last_number, self._first_serial)
        receivers = None
        if number > self._last_number_at_start:
            receivers = tuple(sorted(sequence.receivers - {self._server}))
        return Forgotten(number, receivers, Over(number, row.start, NUMBER_LIMIT))

    def is_forgotten(self, number: int) -> bool:
        """True if a sequence of this number existed and was forgotten."""
        return 0 < number <= self._last_number and number not in self.rows

    def next_serial(self, number: int) -> int:
        """Return the serial of the next message of a sequence."""
        return self.rows[number].next_serial

    def targets_of(self, sequence: int) -> TargetSet:
        """Return the target set of a sequence."""
        return self.rows[sequence].targets
