"""One name server's protocol state, driven by `step`. This file only routes: each idea has a file of its own.

    command --> concerns this server alone (scope)?
                  yes --> collect (changes) -> compute (virtual_nodes) -> commit --------> records, replies
                  no  --> coordinator <== messages ==> participants of all servers ------> messages, later replies

An update of one participant runs through the upper line in one step: it is ordered by the priority counter, and nothing
that it affects is under way. Source: protocol.md sections 3 and 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import assert_never

from namegraph.ancestry import AncestorSets
from namegraph.ancestry_records import AncestryRecords
from namegraph.boundary import Boundary
from namegraph.changes import Changes, Collector, collect_import
from namegraph.commit import commit, name_effects
from namegraph.coordinator import Coordinator
from namegraph.events import (
    Committed,
    CreateGroup,
    DeleteGroup,
    Effects,
    Event,
    ImportCommand,
    ImportCounts,
    JoinArc,
    LeaveArc,
    Operation,
    Outcome,
    PeerMessage,
    Reply,
    UpdateCommand,
)
from namegraph.graph import NameGraph
from namegraph.messages import (
    Abort,
    Block,
    Commit,
    Done,
    Drop,
    Final,
    Holding,
    Message,
    Order,
    Ready,
    Refuse,
    Release,
    Released,
    Update,
    UpdateId,
    Vote,
)
from namegraph.names import NodeId, ServerId, Subnet
from namegraph.ordering import Entries
from namegraph.outcomes import REQUEST_ID_LENGTH_LIMIT, OutcomeMemory, digest_of
from namegraph.participant import Participant
from namegraph.priorities import Priority, parse_revision
from namegraph.records import Records, RequestId, StoredState
from namegraph.refusals import Reason, RefusedError, refuse
from namegraph.restore import restore_graph
from namegraph.scope import (
    concerns_one_server,
    import_concerns_one_server,
    import_not_for_this_server,
    not_for_this_server,
    wishes_of,
)
from namegraph.site import NEVER, Site
from namegraph.subnets import SubnetTable
from namegraph.virtual_nodes import compute_topology


@dataclass(slots=True)
class _Asked:
    """A request whose update is under way, and who waits for its outcome."""

    request_id: RequestId
    digest: str
    tickets: list[int]
    outcome: Outcome | None = None
    place: Priority | None = None


class ServerCore:
    """The state of one server. `graph` and `ancestors` may be read by everybody and are changed by `step` alone."""

    def __init__(
        self, *, server: ServerId, subnets: Iterable[Subnet], peers: Mapping[Subnet, ServerId] | None = None
    ) -> None:
        """`peers` names the owners of all other subnets that are known."""
        self._start(server, SubnetTable({**(peers or {}), **dict.fromkeys(subnets, server)}), NameGraph())
        self._outcomes = OutcomeMemory()

    @classmethod
    def restore(cls, state: StoredState, *, subnets: Iterable[Subnet]) -> ServerCore:
        """The core as it was when `state` was written; raises `InconsistentStateError`."""
        core = cls(server=state.server, subnets=subnets)
        core._start(state.server, core._table, restore_graph(state))
        core._site.counter = state.counter
        core._outcomes = OutcomeMemory(state.outcomes)
        return core

    def _start(self, server: ServerId, table: SubnetTable, graph: NameGraph) -> None:
        self.server = server
        self.graph = graph
        self._table = table
        self._site = Site(server=server, table=table, graph=graph)
        self.ancestors: AncestorSets = self._site.ancestors
        self.records = AncestryRecords(self._site)
        self.entries = Entries(self._site)
        self.boundary = Boundary(self._site, self.records)
        self._participant = Participant(self._site, self.records, self.entries, self.boundary)
        self._coordinator = Coordinator(self._site, self._participant)
        self._asked: dict[UpdateId, _Asked] = {}
        self._under_way: dict[RequestId, UpdateId] = {}
        self._updates_begun = 0

    @property
    def subnets(self) -> tuple[Subnet, ...]:
        """The subnets this server owns, sorted."""
        return self._table.owned_by(self.server)

    @property
    def revision(self) -> str:
        """Names the newest update that was committed here."""
        return Priority(self._site.counter, self.server).as_revision()

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
            case PeerMessage(sender, message):
                counter = self._site.counter
                self._receive(sender, message, now)
                effects = Effects(Records())
                self._finish_step(effects, now, counter)
                return effects
            case _:
                assert_never(event)

    def is_idle(self) -> bool:
        """Whether no update is under way here."""
        return not self.entries.by_update and self._coordinator.is_idle()

    def require_revision(self, revision: str) -> None:
        """Return if the state reflects this revision; raises `RefusedError` otherwise."""
        try:
            wanted = parse_revision(revision)
        except ValueError as error:
            raise refuse(Reason.INVALID_REQUEST, str(error), revision=revision[:100]) from None
        if wanted.server != self.server or wanted.counter > self._site.counter:
            raise refuse(
                Reason.UNAVAILABLE,
                f"the server {self.server} has not seen the update {revision} (its newest is {self.revision})",
                revision=revision,
                server=self.server,
            )

    def _update(self, command: UpdateCommand | ImportCommand, now: float) -> Effects:
        effects = Effects(Records())
        counter = self._site.counter
        try:
            outcome = self._first_answer_or_outcome(command, now, effects.records)
        except RefusedError as error:
            outcome = error.refusal
        if outcome is None:
            self._finish_step(effects, now, counter)
        else:
            effects.replies.append(Reply(command.ticket, outcome, self._place_of(outcome)))
        return effects

    def _place_of(self, outcome: Outcome) -> Priority:
        """Where in the order an outcome of this step stands: a refusal right after all that was seen here."""
        counter = self._site.counter
        return Priority(counter, self.server) if isinstance(outcome, Committed) else Priority(counter + 1, NEVER.server)

    def _first_answer_or_outcome(
        self, command: UpdateCommand | ImportCommand, now: float, records: Records
    ) -> Outcome | None:
        """None where the answer must wait for others.

        Raises `RefusedError` where nothing is to be remembered: the request itself is at fault, or the time.
        """
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
        if self._table.has_several_servers and (
            command.request_id in self._under_way or not self._concerns_this_server_alone(command)
        ):
            self._ask_others(command, digest)
            return None
        outcome = self._execute(command, records)
        self._outcomes.remember(command.request_id, digest, outcome, records)
        return outcome

    def _concerns_this_server_alone(self, command: UpdateCommand | ImportCommand) -> bool:
        match command:
            case UpdateCommand():
                first = _first_node(command.operations)
                if first is not None and self._site.home_of(first) != self.server:
                    raise not_for_this_server(self._site, first)
                return concerns_one_server(self._site, self.records, self.entries, command.operations)
            case ImportCommand():
                return import_concerns_one_server(self._site, self.records, self.entries, command)

    def _ask_others(self, command: UpdateCommand | ImportCommand, digest: str) -> None:
        if isinstance(command, ImportCommand):
            raise import_not_for_this_server()
        under_way = self._under_way.get(command.request_id)
        if under_way is not None:
            asked = self._asked[under_way]
            if asked.digest != digest:
                raise refuse(
                    Reason.INVALID_REQUEST,
                    f"the request id {command.request_id!r} was used for another update; choose a new one",
                    request_id=command.request_id,
                )
            asked.tickets.append(command.ticket)
            return
        wishes = wishes_of(command.operations)
        self._updates_begun += 1
        update_id = UpdateId(self.server, self._updates_begun)
        self._asked[update_id] = _Asked(command.request_id, digest, [command.ticket])
        self._under_way[command.request_id] = update_id
        self._coordinator.start(Update(update_id, wishes), deadline=command.deadline)

    def _finish_step(self, effects: Effects, now: float, counter_before: int) -> None:
        """Handle the server's messages to itself and all turns that have come; then let the rest out."""
        site = self._site
        while site.own_messages or self._participant.take_next_turn():
            while site.own_messages:
                self._receive(self.server, site.own_messages.popleft(), now)
        effects.messages.extend(site.outbox)
        site.outbox.clear()
        for update_id, outcome, place in self._coordinator.outcomes:
            asked = self._asked[update_id]
            asked.outcome, asked.place = outcome, place
            self._outcomes.remember(asked.request_id, asked.digest, outcome, effects.records)
        for update_id in self._coordinator.answerable:
            asked = self._asked.pop(update_id)
            del self._under_way[asked.request_id]
            assert asked.outcome is not None
            effects.replies.extend(Reply(ticket, asked.outcome, asked.place) for ticket in asked.tickets)
        self._coordinator.outcomes.clear()
        self._coordinator.answerable.clear()
        if site.counter != counter_before:
            effects.records.counter = site.counter

    def _receive(self, sender: ServerId, message: Message, now: float) -> None:
        match message:
            case Order():
                self._participant.order(message)
            case Vote():
                self._coordinator.vote(message, now)
            case Final():
                self._participant.final(message)
            case Ready():
                self._coordinator.ready(sender, message)
            case Refuse():
                self._coordinator.refuse(message)
            case Commit():
                self._participant.commit(message)
            case Done():
                self._coordinator.done(sender, message)
            case Abort(update_id):
                self._participant.abort(update_id)
            case Holding():
                self._coordinator.holding(sender, message)
            case Drop():
                self._participant.drop(message)
            case Release():
                self._participant.release(message)
                self._site.send(sender, Released(message.update_id))
            case Released(update_id):
                if not self._participant.released(update_id):
                    self._coordinator.released(update_id)
            case Block():
                self.boundary.store(message.arc, message.nodes, message.version)
            case _:
                assert_never(message)

    def _execute(self, command: UpdateCommand | ImportCommand, records: Records) -> Outcome:
        graph = self.graph
        interned_from = len(graph.ids)
        try:
            changes = self._collect(command)
        except RefusedError as error:
            graph.forget_interned(interned_from)
            return error.refusal
        final_priority = Priority(self._site.counter + 1, self.server)
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
        self._site.counter = final_priority.counter
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


def _first_node(operations: tuple[Operation, ...]) -> NodeId | None:
    """The node whose home is asked for an update: the parent of its first arc."""
    for operation in operations:
        match operation:
            case CreateGroup(group) | DeleteGroup(group):
                return group
            case JoinArc(parent) | LeaveArc(parent):
                return parent
    return None
