"""One name server's protocol state, driven by `step`. This file only routes: each idea has a file of its own.

    command -> collect (changes) -> compute (virtual_nodes) -> commit -> records, replies

An update of one participant runs through these three in one step: it is ordered by the priority counter, and no other
is under way. Source: protocol.md sections 3 and 5.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from namegraph.ancestry import AncestorSets
from namegraph.changes import Changes, Collector, collect_import
from namegraph.commit import commit, name_effects
from namegraph.events import (
    Committed,
    Effects,
    Event,
    ImportCommand,
    ImportCounts,
    Outcome,
    Reply,
    UpdateCommand,
)
from namegraph.graph import NameGraph
from namegraph.names import NodeId, ServerId, Subnet
from namegraph.outcomes import REQUEST_ID_LENGTH_LIMIT, OutcomeMemory, digest_of
from namegraph.priorities import Priority, parse_revision
from namegraph.records import Records, StoredState
from namegraph.refusals import Reason, RefusedError, refuse
from namegraph.restore import restore_graph
from namegraph.subnets import SubnetTable
from namegraph.virtual_nodes import compute_topology


class ServerCore:
    """The state of one server. `graph` and `ancestors` may be read by everybody and are changed by `step` alone."""

    def __init__(self, *, server: ServerId, subnets: Iterable[Subnet]) -> None:
        self.server = server
        self.graph = NameGraph()
        self.ancestors = AncestorSets(self.graph)
        self._table = SubnetTable(dict.fromkeys(subnets, server))
        self._counter = 0
        self._outcomes = OutcomeMemory()

    @classmethod
    def restore(cls, state: StoredState, *, subnets: Iterable[Subnet]) -> ServerCore:
        """The core as it was when `state` was written; raises `InconsistentStateError`."""
        core = cls(server=state.server, subnets=subnets)
        core.graph = restore_graph(state)
        core.ancestors = AncestorSets(core.graph)
        core._counter = state.counter
        core._outcomes = OutcomeMemory(state.outcomes)
        return core

    @property
    def subnets(self) -> tuple[Subnet, ...]:
        """The subnets this server owns, sorted."""
        return self._table.owned_by(self.server)

    @property
    def revision(self) -> str:
        """Names the newest update that was committed here."""
        return Priority(self._counter, self.server).as_revision()

    def home_of(self, group: NodeId) -> ServerId:
        """The server that owns a group that exists here."""
        home = self._table.home_of(group)
        return self.server if home is None else home

    def knows_subnet_of(self, name: NodeId) -> bool:
        """Whether somebody is known to own the name's subnet."""
        return self._table.home_of(name) is not None

    def step(self, event: Event, now: float) -> Effects:
        """Take one event in; return what the shell must make durable and then let out. `now` is in seconds."""
        match event:
            case UpdateCommand() | ImportCommand():
                return self._update(event, now)
            case _:
                assert_never(event)

    def require_revision(self, revision: str) -> None:
        """Return if the state reflects this revision; raises `RefusedError` otherwise."""
        try:
            wanted = parse_revision(revision)
        except ValueError as error:
            raise refuse(Reason.INVALID_REQUEST, str(error), revision=revision[:100]) from None
        if wanted.server != self.server or wanted.counter > self._counter:
            raise refuse(
                Reason.UNAVAILABLE,
                f"the server {self.server} has not seen the update {revision} (its newest is {self.revision})",
                revision=revision,
                server=self.server,
            )

    def _update(self, command: UpdateCommand | ImportCommand, now: float) -> Effects:
        records = Records()
        try:
            outcome = self._first_answer_or_outcome(command, now, records)
        except RefusedError as error:
            outcome = error.refusal
        return Effects(records, [Reply(command.ticket, outcome)])

    def _first_answer_or_outcome(self, command: UpdateCommand | ImportCommand, now: float, records: Records) -> Outcome:
        """Raises `RefusedError` where nothing is to be remembered: the request itself is at fault, or too late."""
        if not (0 < len(command.request_id) <= REQUEST_ID_LENGTH_LIMIT and command.request_id.isprintable()):
            raise refuse(
                Reason.INVALID_REQUEST, f"a request id has 1 to {REQUEST_ID_LENGTH_LIMIT} printable characters"
            )
        digest = digest_of(command)
        first = self._outcomes.first_answer(command.request_id, digest)
        if first is not None:
            return first
        if command.deadline is not None and now > command.deadline:
            raise refuse(
                Reason.DEADLINE_EXCEEDED,
                "the deadline passed before the update's turn came; nothing was done",
            )
        outcome = self._execute(command, records)
        self._outcomes.remember(command.request_id, digest, outcome, records)
        return outcome

    def _execute(self, command: UpdateCommand | ImportCommand, records: Records) -> Outcome:
        graph = self.graph
        interned_from = len(graph.ids)
        try:
            changes = self._collect(command)
        except RefusedError as error:
            graph.forget_interned(interned_from)
            return error.refusal
        final_priority = Priority(self._counter + 1, self.server)
        topology = compute_topology(graph, self.ancestors, changes, final_priority=final_priority)
        written, effects = commit(
            graph,
            self.ancestors,
            changes,
            topology,
            final_priority=final_priority,
            interned_from=interned_from,
            reports_control=isinstance(command, UpdateCommand),
        )
        self._counter = final_priority.counter
        records.extend(written)
        revision = final_priority.as_revision()
        if isinstance(command, ImportCommand):
            counts = ImportCounts(len(changes.added), changes.groups_created, changes.already_there)
            return Committed(revision, counts=counts)
        return Committed(revision, name_effects(graph, self._table, self.server, effects))

    def _collect(self, command: UpdateCommand | ImportCommand) -> Changes:
        match command:
            case UpdateCommand():
                return Collector(self.graph, self._table, self.server).collect(command.operations)
            case ImportCommand():
                return collect_import(self.graph, self._table, self.server, command)
