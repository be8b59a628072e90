"""A simulated disk: rows as a database would keep them, each step's records written whole or not at all.

A quick disk writes at once. On a slow one steps pile up while a write is under way, and go into the next one together
(group commit): a crash loses what waits, and what is being written is then wholly there, or wholly not. On one that
fails nothing is written, and steps pile up until it works again.
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
"""Of writes under way at a crash, those that are there afterwards."""


class Inflow(NamedTuple):
    """What comes to a server on one lane from another one."""

    sender: ServerId
    lane: Lane


@dataclass(slots=True, eq=False)
class Taken:
    """A step that was taken, and what waits until it is durable."""

    event: Event | DeliveryEvent
    effects: ServerEffects
    replies: list[Reply]
    """Those that wait for it."""
    receipts: dict[Inflow, int]
    """To be given once it is durable: through which number letters were handled then."""
    instant: int
    """How many steps of all servers were taken by then."""
    place: int
    """In the history of the cluster."""
    crash_at: float | None = None
    """How much of what it lets out leaves before the server crashes: from 0, nothing, to 1; None: it does not crash."""
    handled_before: dict[Inflow, int] = field(default_factory=dict)
    """Where letters were handled in it, and not passed over: through which number they were before."""
    held: list[Held] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Held:
    """An answer that rests on a step: let out once the step is durable, or lost by a crash."""

    let_out: Callable[[], None]
    lose: Callable[[], None]


class Queue:
    """The steps of one server that are not durable, in order."""

    def __init__(self) -> None:
        self.mean_delay = 0.0
        """Of a write; 0: it is done at once."""
        self.failures = 0
        """Troubles in which nothing can be written: what waits then is written when the last of them is over."""
        self.writing: list[Taken] = []
        self.waiting: list[Taken] = []
        self.leaving: list[Taken] = []
        """Durable, and about to let out what they hold."""

    @property
    def is_quick(self) -> bool:
        """Whether a step can be written at once."""
        return self.is_empty and not self.mean_delay and not self.failures

    def put_back(self) -> None:
        """What is being written could not be: it is tried again, before what came later."""
        self.waiting = self.writing + self.waiting
        self.writing = []

    @property
    def is_empty(self) -> bool:
        """Whether all is durable."""
        return not (self.writing or self.waiting)

    def steps(self) -> list[Taken]:
        """All of them."""
        return [*self.writing, *self.waiting]

    def first_letter_held(self, receiver: ServerId, lane: Lane = Lane.LETTERS) -> int | None:
        """The number of the first letter to a server that must not leave yet."""
        numbers: list[int] = []
        for step in [*self.leaving, *self.steps()]:
            if isinstance(step.event, PeerMet) and step.event.peer == receiver:
                return 1
            letters = step.effects.messages
            numbers += [letter.number for letter in letters if (letter.receiver, letter.lane) == (receiver, lane)]
        return min(numbers, default=None)

    def handled_before(self, sender: ServerId, lane: Lane = Lane.LETTERS) -> int | None:
        """The number of the last letter of a sender before those whose effects wait; None where none do."""
        inflow = Inflow(sender, lane)
        return next((step.handled_before[inflow] for step in self.steps() if inflow in step.handled_before), None)

    def begin_again(self, peers: Collection[ServerId]) -> None:
        """The channels to and from some servers begin again: what waits here belongs to those before."""
        for step in self.steps():
            messages = step.effects.messages
            messages[:] = [letter for letter in messages if letter.receiver not in peers]
            for numbers in (step.receipts, step.handled_before):
                for inflow in [inflow for inflow in numbers if inflow.sender in peers]:
                    del numbers[inflow]

    def lose(self, chance: Random) -> tuple[list[Taken], list[Taken]]:
        """The server crashes: what is durable all the same, and what is lost."""
        is_written = bool(self.writing) and chance.random() < WRITTEN_SHARE
        written, lost = (self.writing, self.waiting) if is_written else ([], self.steps())
        self.writing, self.waiting = [], []
        return written, lost


class Disk:
    """What one server has made durable."""

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
        """What a backup that is made now holds."""
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
        """What a server that starts finds."""
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
        )
