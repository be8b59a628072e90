"""State of an update that is not over at its coordinator, and the durable part of it.

Durable content of an update, by its phase:

    before the decision    the servers that were asked: after a crash they are told that the update came to nothing
    after the decision     the participants that are not done; their tasks are in the durable letters to them
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
from namegraph.rights.callers import CallerFacts
from namegraph.state.context import NEVER
from namegraph.state.durable_maps import ValueForm, packed
from namegraph.update.control_report import ControlReport
from namegraph.update.import_plan import ImportOperations
from namegraph.wire.message_parts import CallerWord, Cover, Step, UpdateId
from namegraph.wire.update_messages import Ready, Refuse


class Phase(Enum):
    """Progress of an update at its coordinator."""

    WAITING = 0
    """The update waits for an open view."""
    ORDER = 1
    READY = 2
    DECIDED = 3
    FINISHED = 4
    """The update was decided before the present view was installed. Its caller is answered when that view opens."""
    QUEUED = 5
    """The update waits for the end of earlier ones, because this server has the most updates under way that it may
    have."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Purpose of an update. A `read` has no operations, nor has a `cut`."""

    operations: tuple[tuple[int, Step], ...] | ImportOperations
    """Operations, each with its place in the client's request, from 1."""
    size: int
    """Number of operations in the client's request."""
    read: NodeId | None = None
    is_import: bool = False
    is_own: bool = False
    """True if this server began the update by itself. No caller waits, and no outcome is remembered."""
    reports_control: bool = False
    """True if the caller wants to know which nodes became controlled or released."""
    cut: str | None = None
    without: ServerId | None = None
    """Server that must be out of reach. If it is back, nothing is done."""
    origin: Origin = NO_ORIGIN
    composite: Composite | None = None
    """Request for which this server found the operations. The server finds them again as the update begins."""
    elsewhere: tuple[NodeId, ...] = ()
    """The field `UpdateCommand.elsewhere`."""
    caller: CallerFacts | None = None
    """Caller of a client's update. None if this server judges no callers, or began the update itself."""

    @property
    def joins_offline(self) -> bool:
        """True if the update joins arcs that may wait for a server which is away."""
        if isinstance(self.operations, ImportOperations):
            return False
        return any(isinstance(operation, JoinArc) and operation.offline for _, operation in self.operations)


@dataclass(frozen=True, slots=True)
class Ended:
    """An update that was decided, or came to nothing. `place`: its place in the order of updates. None if not known."""

    update_id: UpdateId
    outcome: Outcome
    place: Priority | None


@dataclass(frozen=True, slots=True)
class BegunAgain:
    """An update goes on under another id, before any of it was done."""

    before: UpdateId
    now: UpdateId


@dataclass(frozen=True, slots=True)
class Over:
    """An update is over everywhere. Its caller can be answered."""

    update_id: UpdateId
    is_done: bool = True
    """True if the update was decided."""
    is_confirmed: bool = False
    """True if another server reported the end, so that it is durable everywhere."""
    effects: tuple[GraphEffect, ...] = ()
    """Nodes that became controlled or released, if the caller wants to know."""


class TransactionRow(NamedTuple):
    """The durable part of an update. `servers`: before the decision, those to tell that it came to nothing; later,
    those that are not done.

    The outcome is in the `DecisionLog`, because it is large, and this row is written again whenever one more server
    is done.
    """

    update_id: UpdateId
    is_decided: bool
    servers: tuple[ServerId, ...]
    request_id: RequestId
    final: Priority | None
    told: tuple[ControlReport, ...] = ()
    """Reports of participants that are done, on nodes that became controlled or released."""
    is_finished_by_view: bool = False
    """True if a view was installed after the decision, and is not open."""


@dataclass(slots=True)
class Transaction:
    """State of one update at its coordinator."""

    update_id: UpdateId
    request_id: RequestId
    plan: Plan
    deadline: float | None
    tentative: Priority
    attempt: int = 1
    phase: Phase = Phase.ORDER
    roots: frozenset[NodeId] = frozenset()
    """Entry nodes that its operations name. All affected nodes lie below them."""
    wanted: dict[ServerId, Cover] = field(default_factory=dict)
    asked: dict[ServerId, Cover] = field(default_factory=dict)
    """Cover of the entry at each server: the nodes that were asked for, and those that its votes said are covered
    too."""
    votes_due: Counter[ServerId] = field(default_factory=Counter)
    highest_vote: Priority = NEVER
    last_voter: ServerId | None = None
    """Server that was asked last to vote, when all other servers had voted."""
    above: dict[NodeId, None] = field(default_factory=dict)
    """Parents of arcs to be joined, and the groups above them, as their homes report."""
    final: Priority = NEVER
    judges: dict[ServerId, None] = field(default_factory=dict)
    """Servers that judge its operations."""
    early: list[tuple[ServerId, Ready | Refuse]] = field(default_factory=list)
    """Answers of servers that learned the final priority from the last voter before it was known here."""
    readies: dict[ServerId, Ready] = field(default_factory=dict)
    refuses: dict[ServerId, Refuse] = field(default_factory=dict)
    holders: dict[ServerId, None] = field(default_factory=dict)
    """Servers that were handed an entry and may be no participants."""
    apply_own_share_later: bool = False
    """True if this server does its own part of the outcome in a later step."""
    not_done: dict[ServerId, None] = field(default_factory=dict)
    told: tuple[ControlReport, ...] = ()
    words: dict[ServerId, CallerWord] = field(default_factory=dict)
    """Words on the caller that participants were told."""

    def want(self, server: ServerId, *, ends: Iterable[NodeId] = (), entry_nodes: Iterable[NodeId] = ()) -> None:
        """Extend the wanted cover at a server by these nodes."""
        cover = self.wanted.get(server, Cover(frozenset(), frozenset()))
        self.wanted[server] = Cover(cover.ends.union(ends), cover.entry_nodes.union(entry_nodes))

    def is_covered(self) -> bool:
        """Return True if each participant is ready for all its affected nodes."""
        return all(
            server in self.readies and self.readies[server].cover.contains(cover)
            for server, cover in self.wanted.items()
        )

    def is_judged(self) -> bool:
        """Return True if all servers that judge its operations have answered."""
        return all(server in self.readies or server in self.refuses for server in self.judges)

    @property
    def is_decided(self) -> bool:
        """True if it has an outcome."""
        return self.phase in (Phase.DECIDED, Phase.FINISHED)

    @property
    def known_final(self) -> Priority | None:
        """Final priority. None while it is not known."""
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
    # Decided updates without a request are this server's own.
    plan = Plan((), 0, is_own=found.is_decided and not found.request_id)
    running = Transaction(found.update_id, found.request_id, plan, None, NEVER, phase=phase)
    servers = dict.fromkeys(found.servers)
    if not found.is_decided:
        running.holders = servers
        return running
    assert found.final is not None
    running.final, running.not_done = found.final, servers
    running.told = found.told
    running.apply_own_share_later = True  # The former value is not known after a restart.
    return running


_INVOLVED = packed(TransactionRow)
RUNNING = ValueForm[Transaction](_write, _read)
"""The durable part of an update under way. The rest is lost in a restart."""
