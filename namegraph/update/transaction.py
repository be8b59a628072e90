"""What a coordinator knows of an update that is not over, and what of that is durable.

before the decision    the servers that were asked: after a crash they are told that the update came to nothing
after the decision     the participants that are not done; what each must do is in the durable letters to them
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from namegraph.model.changes import NO_ORIGIN, Origin
from namegraph.model.names import NodeId, ServerId
from namegraph.model.operations import Composite, JoinArc
from namegraph.model.outcomes import GraphEffect, Outcome
from namegraph.model.priorities import Priority
from namegraph.model.rows import RequestId
from namegraph.state.context import NEVER
from namegraph.state.durable_maps import ValueForm, packed
from namegraph.update.control_report import ControlReport
from namegraph.update.import_plan import ImportOperations
from namegraph.wire.message_parts import Cover, Step, UpdateId
from namegraph.wire.update_messages import Ready, Refuse


class Phase(Enum):
    """How far an update is."""

    WAITING = 0
    """For a view that is open."""
    ORDER = 1
    READY = 2
    DECIDED = 3
    FINISHED = 4
    """Decided before the present view was installed: its caller is answered when that opens."""
    QUEUED = 5
    """The update waits for the end of others: as many of this server are under way as may be."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What an update is to do. A `read` has no operations, nor has a `cut`."""

    operations: tuple[tuple[int, Step], ...] | ImportOperations
    """Each with its place in what the client asked for, from 1."""
    size: int
    """Operations that the client asked for."""
    read: NodeId | None = None
    is_import: bool = False
    is_own: bool = False
    """Whether this server began it by itself: no caller waits, and no outcome is remembered."""
    reports_control: bool = False
    """Whether the caller wants to know what became controlled or released."""
    cut: str | None = None
    without: ServerId | None = None
    """A server that must be out of reach: where it is back, nothing is done."""
    origin: Origin = NO_ORIGIN
    composite: Composite | None = None
    """The request for which this server found the operations; the server finds them again as the update begins."""
    elsewhere: tuple[NodeId, ...] = ()
    """The field of `UpdateCommand`."""

    @property
    def joins_offline(self) -> bool:
        """Whether it joins arcs that may wait for a server which is away."""
        if isinstance(self.operations, ImportOperations):
            return False
        return any(isinstance(operation, JoinArc) and operation.offline for _, operation in self.operations)


@dataclass(frozen=True, slots=True)
class Ended:
    """An update that was decided, or came to nothing. `place`: where in the order of updates, if that was known."""

    update_id: UpdateId
    outcome: Outcome
    place: Priority | None


@dataclass(frozen=True, slots=True)
class BegunAgain:
    """An update goes on under another id: nothing of it was done as yet."""

    before: UpdateId
    now: UpdateId


@dataclass(frozen=True, slots=True)
class Over:
    """An update is over everywhere: its caller can be answered."""

    update_id: UpdateId
    is_done: bool = True
    """Whether it was decided."""
    is_confirmed: bool = False
    """Whether another server told of its end, so that it is durable everywhere."""
    effects: tuple[GraphEffect, ...] = ()
    """What became controlled or released, where the caller wants to know."""


class TransactionRow(NamedTuple):
    """The durable part of an update: the servers to tell that it came to nothing, or those that are not done.

    What was decided is in the `DecisionLog`: it is large, and this is written again whenever one more is done.
    """

    update_id: UpdateId
    is_decided: bool
    servers: tuple[ServerId, ...]
    request_id: RequestId
    final: Priority | None
    told: tuple[ControlReport, ...] = ()
    """What participants that are done said of nodes that became controlled or released."""
    is_finished_by_view: bool = False
    """Whether a view was installed since it was decided, and is not open."""


@dataclass(slots=True)
class Transaction:
    """What a coordinator knows of one update."""

    update_id: UpdateId
    request_id: RequestId
    plan: Plan
    deadline: float | None
    tentative: Priority
    attempt: int = 1
    phase: Phase = Phase.ORDER
    roots: frozenset[NodeId] = frozenset()
    """The entry nodes that its operations name: below them lies all that it affects."""
    wanted: dict[ServerId, Cover] = field(default_factory=dict)
    asked: dict[ServerId, Cover] = field(default_factory=dict)
    """What the entry at each server covers: what it was asked for, and what its votes said is covered too."""
    votes_due: Counter[ServerId] = field(default_factory=Counter)
    highest_vote: Priority = NEVER
    last_voter: ServerId | None = None
    """The server that was asked last to vote, when all others had."""
    above: dict[NodeId, None] = field(default_factory=dict)
    """The parents of arcs to be joined, and what is above them, as their homes know."""
    final: Priority = NEVER
    judges: dict[ServerId, None] = field(default_factory=dict)
    """The servers that judge its operations."""
    early: list[tuple[ServerId, Ready | Refuse]] = field(default_factory=list)
    """Answers of servers that learned the final priority from the last voter before it was known here."""
    readies: dict[ServerId, Ready] = field(default_factory=dict)
    refuses: dict[ServerId, Refuse] = field(default_factory=dict)
    holders: dict[ServerId, None] = field(default_factory=dict)
    """Servers that were handed an entry and may be no participants."""
    apply_own_share_later: bool = False
    """Whether this server does its own part of the outcome in a later step."""
    not_done: dict[ServerId, None] = field(default_factory=dict)
    told: tuple[ControlReport, ...] = ()

    def want(self, server: ServerId, *, ends: Iterable[NodeId] = (), entry_nodes: Iterable[NodeId] = ()) -> None:
        """Let the entry at a server cover these nodes too."""
        cover = self.wanted.get(server, Cover(frozenset(), frozenset()))
        self.wanted[server] = Cover(cover.ends.union(ends), cover.entry_nodes.union(entry_nodes))

    def is_covered(self) -> bool:
        """Whether each participant is ready for all that is affected there."""
        return all(
            server in self.readies and self.readies[server].cover.contains(cover)
            for server, cover in self.wanted.items()
        )

    def is_judged(self) -> bool:
        """Whether all servers that judge its operations have answered."""
        return all(server in self.readies or server in self.refuses for server in self.judges)

    @property
    def is_decided(self) -> bool:
        """Whether it has an outcome."""
        return self.phase in (Phase.DECIDED, Phase.FINISHED)

    @property
    def known_final(self) -> Priority | None:
        """The final priority; None while it is not known."""
        return None if self.phase in (Phase.WAITING, Phase.QUEUED, Phase.ORDER) else self.final


def _write(running: Transaction) -> bytes:
    servers = running.not_done if running.is_decided else {**running.asked, **running.holders}
    return _INVOLVED.write(
        TransactionRow(
            running.update_id,
            running.is_decided,
            tuple(sorted(servers)),
            running.request_id,
            running.final if running.is_decided else None,
            running.told,
            running.phase is Phase.FINISHED,
        )
    )


def _read(encoded: bytes) -> Transaction:
    found = _INVOLVED.read(encoded)
    phase = Phase.FINISHED if found.is_finished_by_view else Phase.DECIDED if found.is_decided else Phase.ORDER
    # Of updates that are decided, those without a request are this server's own.
    plan = Plan((), 0, is_own=found.is_decided and not found.request_id)
    running = Transaction(found.update_id, found.request_id, plan, None, NEVER, phase=phase)
    servers = dict.fromkeys(found.servers)
    if not found.is_decided:
        running.holders = servers
        return running
    assert found.final is not None
    running.final, running.not_done = found.final, servers
    running.told = found.told
    running.apply_own_share_later = True  # or not: nobody knows any more
    return running


_INVOLVED = packed(TransactionRow)
RUNNING = ValueForm[Transaction](_write, _read)
"""What is durable of an update under way; the rest of it is not known any more where it is read back."""
