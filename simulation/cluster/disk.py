"""A simulated disk. It keeps the rows of a database, and writes the records of a step completely or not at all.

A quick disk writes at once. On a slow disk, steps pile up while a write is under way, and share the next write (group
commit). A crash loses the steps that wait; the steps of the write under way survive all together or not at all. A
failing disk writes no step until it works again, and steps pile up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from delivery.model.events import DeliveryEvent
from delivery.server import ServerEffects
from namegraph import (
    ArcRecord,
    ChangeRecord,
    Event,
    Lane,
    LogRecord,
    NodeIndex,
    NodeRecord,
    OutcomeRecord,
    PeerMet,
    ProtocolRow,
    Records,
    RequestId,
    ServerId,
    StoredState,
    VirtualNodeRecord,
    change_sizes,
)
from namegraph.events import Reply

WRITTEN_SHARE = 0.5
"""Share of writes under way at a crash that survive it."""


class Inflow(NamedTuple):
    """Messages that a server receives from one sender on one lane."""

    sender: ServerId
    lane: Lane


@dataclass(slots=True, eq=False)
class TakenStep:
    """A step that a server has taken, with the output that waits until the step is durable."""

    event: Event | DeliveryEvent
    effects: ServerEffects
    replies: list[Reply]
    """Replies that wait until the step is durable."""
    receipts: dict[Inflow, int]
    """Receipts to send once the step is durable: the number of the last letter handled by then."""
    instant: int
    """Number of steps of all servers up to this one."""
    place: int
    """Position of the step in the history of the cluster."""
    crash_at: float | None = None
    """Share of its output that leaves before the server crashes, from 0 (none) to 1 (all). None: the server does not
    crash.
    """
    handled_before: dict[Inflow, int] = field(default_factory=dict)
    """For each inflow whose letters the step handled (and did not pass over): the number handled through before the
    step.
    """
    held: list[HeldAnswer] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class HeldAnswer:
    """An answer that rests on a step. It is released once the step is durable, or lost in a crash."""

    let_out: Callable[[], None]
    lose: Callable[[], None]


class StepQueue:
    """The steps of one server that are not durable, in order."""

    def __init__(self) -> None:
        self.mean_delay = 0.0
        """Mean duration of a write. 0: a write takes no time."""
        self.failures = 0
        """Number of failures under which the disk writes nothing. Waiting steps are written when the last failure has
        ended.
        """
        self.writing: list[TakenStep] = []
        self.waiting: list[TakenStep] = []
        self.leaving: list[TakenStep] = []
        """Durable steps that have still to release their output."""

    @property
    def is_quick(self) -> bool:
        """True if the next step can be written at once."""
        return self.is_empty and not self.mean_delay and not self.failures

    def put_back(self) -> None:
        """Put the steps of a failed write back in front of the steps that wait."""
        self.waiting = self.writing + self.waiting
        self.writing = []

    @property
    def is_empty(self) -> bool:
        """True if every step is durable."""
        return not (self.writing or self.waiting)

    def steps(self) -> list[TakenStep]:
        """Return all steps that are not durable."""
        return [*self.writing, *self.waiting]

    def first_letter_held(self, receiver: ServerId, lane: Lane = Lane.LETTERS) -> int | None:
        """Return the number of the first letter to a server that must not leave yet. None if every letter may leave."""
        numbers: list[int] = []
        for step in [*self.leaving, *self.steps()]:
            if isinstance(step.event, PeerMet) and step.event.peer == receiver:
                return 1
            letters = step.effects.messages
            numbers += [letter.number for letter in letters if (letter.receiver, letter.lane) == (receiver, lane)]
        return min(numbers, default=None)

    def handled_before(self, sender: ServerId, lane: Lane = Lane.LETTERS) -> int | None:
        """Return the number of the sender's last letter before those whose effects wait. None if no effects wait."""
        inflow = Inflow(sender, lane)
        return next((step.handled_before[inflow] for step in self.steps() if inflow in step.handled_before), None)

    def begin_again(self, peers: Collection[ServerId]) -> None:
        """Drop waiting letters and receipts of some peers: their channels begin anew, and these belong to the
        old ones.
        """
        for step in self.steps():
            messages = step.effects.messages
            messages[:] = [letter for letter in messages if letter.receiver not in peers]
            for numbers in (step.receipts, step.handled_before):
                for inflow in [inflow for inflow in numbers if inflow.sender in peers]:
                    del numbers[inflow]

    def lose(self, chance: Random) -> tuple[list[TakenStep], list[TakenStep]]:
        """Crash: return the steps that survive on the disk, and the steps that are lost."""
        is_written = bool(self.writing) and chance.random() < WRITTEN_SHARE
        written, lost = (self.writing, self.waiting) if is_written else ([], self.steps())
        self.writing, self.waiting = [], []
        return written, lost


class Disk:
    """The durable state of one server."""

    def __init__(self, server: ServerId) -> None:
        self._server = server
        self._counter = 0
        self._nodes: dict[NodeIndex, NodeRecord] = {}
        self._arcs: dict[tuple[NodeIndex, NodeIndex], ArcRecord] = {}
        self._virtual_nodes: dict[int, VirtualNodeRecord] = {}
        self._outcomes: dict[RequestId, OutcomeRecord] = {}
        self._protocol: dict[tuple[str, str], bytes] = {}
        self.changes: dict[int, ChangeRecord] = {}
        """The record of changes, by number."""
        self.log: dict[int, LogRecord] = {}
        """The log of messages, by position."""

    def copy(self) -> Disk:
        """Return a copy, as a backup made now would hold."""
        made = Disk(self._server)
        made._counter = self._counter
        made._nodes, made._arcs = dict(self._nodes), dict(self._arcs)
        made._virtual_nodes, made._outcomes = dict(self._virtual_nodes), dict(self._outcomes)
        made._protocol, made.changes = dict(self._protocol), dict(self.changes)
        made.log = dict(self.log)
        return made

    def write(self, records: Records) -> None:
        """Make records durable."""
        if records.is_empty():
            return
        self._nodes.update((record.node, record) for record in records.nodes)
        for virtual_node in records.virtual_nodes:
            if virtual_node.present:
                self._virtual_nodes[virtual_node.number] = virtual_node
            else:
                self._virtual_nodes.pop(virtual_node.number, None)
        self._outcomes.update((record.request_id, record) for record in records.outcomes)
        for arc in records.arcs:
            if arc.version:
                self._arcs[arc.parent, arc.child] = arc
            else:
                self._arcs.pop((arc.parent, arc.child), None)
        for part, key, value in records.protocol:
            if value is None:
                self._protocol.pop((part, key), None)
            else:
                self._protocol[part, key] = value
        self.changes.update((record.number, record) for record in records.changes)
        self.log.update((record.position, record) for record in records.log)
        if records.cut_log_through is not None:
            self.log = {position: record for position, record in self.log.items() if position > records.cut_log_through}
        for position in records.log_gone:
            self.log.pop(position, None)
        if records.counter is not None:
            self._counter = records.counter

    def read(self) -> StoredState:
        """Return the state that a starting server reads."""
        return StoredState(
            server=self._server,
            counter=self._counter,
            nodes=[self._nodes[node] for node in sorted(self._nodes)],
            virtual_nodes=list(self._virtual_nodes.values()),
            arcs=list(self._arcs.values()),
            outcomes=sorted(self._outcomes.values(), key=lambda outcome: outcome.sequence),
            protocol=[ProtocolRow(part, key, value) for (part, key), value in self._protocol.items()],
            last_change=max(self.changes, default=0),
            change_sizes=change_sizes(self.changes.values()),
            last_change_hash=self.changes[max(self.changes)].hash if self.changes else b"",
        )
