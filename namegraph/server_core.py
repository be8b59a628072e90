"""One name server's protocol state, driven by `step`. This file only routes: each idea has a file of its own.
What may be asked of it between two steps is in `core_reads.py`.

    command --> concerns this server alone (scope)?
                  yes --> collect (changes) -> compute (virtual_nodes) -> commit --------> records, replies
                  no  --> coordinator <== messages ==> participants of all servers ------> messages, later replies

An update of one participant runs through the upper line in one step: it is ordered by the priority counter, and nothing
that it affects is under way. Source: protocol.md sections 3 and 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import assert_never

from msgspec import structs

from namegraph.ancestry_records import AncestryRecords
from namegraph.changes import Changes, Collector, collect_import
from namegraph.channels import Channels
from namegraph.commit import commit, name_effects
from namegraph.coordinator import Coordinator
from namegraph.core_reads import CoreReads
from namegraph.cuts import CutsWaiting
from namegraph.durable import DurableState
from namegraph.early_letters import EarlyLetters
from namegraph.events import (
    AddPeer,
    Committed,
    Cut,
    CutCommand,
    Effects,
    Event,
    ImportCommand,
    ImportCounts,
    JoinArc,
    LeaveArc,
    Operation,
    Outcome,
    PeerLeaving,
    PeerLost,
    PeerMessage,
    PeerMet,
    PeerReceived,
    PeerRestored,
    ReadCommand,
    RemovePeer,
    Reply,
    Restored,
    RetirePeer,
    Tick,
    UpdateCommand,
)
from namegraph.graph import NameGraph
from namegraph.import_operations import ImportOperations
from namegraph.incarnations import FIRST_INCARNATION, Incarnations
from namegraph.legal_values import are_legal
from namegraph.messages import (
    Abort,
    Commit,
    Done,
    Drop,
    Final,
    Holding,
    InView,
    Message,
    NotAMessageError,
    Offer,
    Order,
    Ready,
    Refuse,
    TakeCut,
    Vote,
    decode_in_view,
    encode,
)
from namegraph.names import ServerId, Subnet
from namegraph.ordering import Entries
from namegraph.outcomes import REQUEST_ID_LENGTH_LIMIT, OutcomeMemory, digest_of
from namegraph.own_part import own_part
from namegraph.participant import Participant
from namegraph.peer_faults import NOT_LEGAL, fault_in
from namegraph.peers import Peers
from namegraph.priorities import Priority, parse_revision, revision_of
from namegraph.records import NodeKind, Records, RequestId, StoredState
from namegraph.refusals import Reason, Refusal, RefusedError, refuse
from namegraph.requests import Asked, Requests, own_request
from namegraph.restore import InconsistentStateError, restore_graph
from namegraph.running import Plan
from namegraph.scope import (
    concerns_one_server,
    import_concerns_one_server,
    names_in,
    not_for_this_server,
    require_kinds_of_waiting,
)
from namegraph.site import NEVER, Site
from namegraph.subnets import SubnetTable
from namegraph.suspension import suspended_with_subnet
from namegraph.view_change import ViewChange
from namegraph.virtual_nodes import compute_topology

RETIRED_AT_ONCE = 5_000
"""Arcs with a server that is gone for good which are left by one update: others wait for it."""

UNREADABLE = "unreadable message"
"""A fault of a peer."""


class ServerCore(CoreReads):
    """The state of one server. `graph` and `ancestors` may be read by everybody and are changed by `step` alone."""

    def __init__(
        self, *, server: ServerId, subnets: Iterable[Subnet], peers: Mapping[Subnet, ServerId] | None = None
    ) -> None:
        """`peers` names the owners of all other subnets that are known."""
        table = SubnetTable({**(peers or {}), **dict.fromkeys(subnets, server)})
        self._start(Site(server=server, table=table, graph=NameGraph()), configured={})
        self._outcomes = OutcomeMemory()

    @classmethod
    def restore(
        cls, state: StoredState, *, subnets: Iterable[Subnet], peers: Mapping[Subnet, str] | None = None
    ) -> ServerCore:
        """The core as it was when `state` was written; raises `InconsistentStateError`.

        `peers`: where the configuration says that the servers of other subnets are. What must be told to other servers
        about updates that did not survive is among `channels.kept`; feed a `Tick` to have it durable.
        """
        core = cls.__new__(cls)
        table = SubnetTable(dict.fromkeys(subnets, state.server))
        durable = DurableState(state.protocol)
        site = Site(server=state.server, table=table, graph=NameGraph(), durable=durable)
        core._start(site, configured=peers or {})
        if durable.parts_left():
            raise InconsistentStateError(f"rows of parts that are not known: {', '.join(durable.parts_left())}")
        restore_graph(state, site)
        site.counter = state.counter
        core.records.restore()
        core._outcomes = OutcomeMemory(state.outcomes)
        core._participant.restore()
        core._restore_requests()
        return core

    def _start(self, site: Site, *, configured: Mapping[Subnet, str]) -> None:
        self.server = site.server
        self.told_revision = None
        self.graph = site.graph
        self._site = site
        self._table = site.table
        self.peers = Peers(site, configured=configured)
        self.channels = Channels(site.durable)
        self.channels.met(site.server)
        self.incarnations = Incarnations(site.durable)
        site.has_gone_back = self.incarnations.own != FIRST_INCARNATION
        self.records = AncestryRecords(site)
        self.entries = Entries(site, self.records)
        self._participant = Participant(site, self.records, self.entries)
        self._coordinator = Coordinator(site, self._participant)
        self._views = ViewChange(site, self._participant, self._coordinator)
        self._early = EarlyLetters(site.durable)
        self._requests = Requests()
        self._cuts_waiting = CutsWaiting(self.channels)
        self._cuts_taken: list[Cut] = []
        """In this step."""
        self._turns_wait_since = None

    def _restore_requests(self) -> None:
        for found in self._coordinator.restore():
            digest = self._outcomes.digest_of_first(found.request_id)
            if digest is None:
                # So many updates since that its outcome was forgotten: nobody can ask for it again.
                digest = ""
            asked = Asked(found.request_id, digest, [], place=found.final)
            asked.outcome = self._outcomes.first_answer(found.request_id, digest) if digest else None
            self._requests.begin(found.update_id, asked)

    def leave_own_parts_for_later(self) -> None:
        """Do this server's own part of every update that it coordinates as that of a large one is done: in a step of
        its own. For simulations, whose updates are small."""
        self._coordinator.own_part_later_from = 0

    def step(self, event: Event, now: float) -> Effects:
        """Take one event in; return what the shell must make durable and then let out. `now` is in seconds."""
        effects = Effects(Records())
        counter = self._site.counter
        match event:
            case UpdateCommand() | ImportCommand():
                reply = self._take_update(event, now, effects.records)
                if reply is not None:
                    effects.replies.append(reply)
                    if not (self.entries.by_update or self._views.healing.has_new_groups):
                        return effects
            case ReadCommand():
                self._read(event, now, effects)
            case CutCommand():
                self._cut(event, now, effects)
            case RetirePeer():
                self._retire(event, now, effects)
            case PeerMessage():
                self._take_letter(event)
            case PeerReceived(peer, through):
                self.channels.received(peer, through)
            case PeerMet(peer, subnets):
                self.channels.met(peer)
                self.peers.met(peer, subnets)
                self._views.met(peer)
            case PeerLeaving(peer, why):
                self._site.lost[peer] = why
            case PeerLost(peer, why):
                self._site.lost[peer] = why
                self._coordinator.peer_lost(peer)
                self._views.agreement.lost(peer)
            case Restored(incarnation):
                self._go_back(incarnation)
            case PeerRestored(peer, incarnation):
                self.incarnations.heard_of(peer, incarnation)
                self._begin_again_with(peer, "it goes on from an older copy of its database")
                self._views.agreement.lost(peer)
            case AddPeer() | RemovePeer():
                effects.replies.append(Reply(event.ticket, self._change_peers(event)))
                self._views.agreement.reconsider()
            case Tick():
                self._coordinator.tick(now)
            case _:
                assert_never(event)
        self._finish_step(effects, counter)
        self._turns_wait_since = now if effects.cuts else None
        return effects

    def _take_update(self, command: UpdateCommand | ImportCommand, now: float, records: Records) -> Reply | None:
        """The reply, or None where it must wait for others."""
        try:
            return self._first_answer_or_outcome(command, now, records)
        except RefusedError as error:
            return Reply(command.ticket, error.refusal)

    def _place_of(self, outcome: Outcome) -> Priority:
        """Where in the order an outcome of this step stands: a refusal right after all that was seen here."""
        if isinstance(outcome, Committed):
            return parse_revision(outcome.revision).final
        return Priority(self._site.counter + 1, NEVER.server)

    def _first_answer_or_outcome(
        self, command: UpdateCommand | ImportCommand, now: float, records: Records
    ) -> Reply | None:
        """None where the answer must wait for others.

        Raises `RefusedError` where nothing is to be remembered: the request itself is at fault, or the time.
        """
        if not (0 < len(command.request_id) <= REQUEST_ID_LENGTH_LIMIT and command.request_id.isprintable()):
            raise refuse(
                Reason.INVALID_REQUEST, f"a request id has 1 to {REQUEST_ID_LENGTH_LIMIT} printable characters"
            )
        digest = digest_of(command)
        if self._requests.wait_with(command.request_id, digest, command.ticket):
            return None
        first = self._outcomes.first_answer(command.request_id, digest)
        if first is not None:
            place = self._place_of(first) if isinstance(first, Committed) else None
            return Reply(command.ticket, first, place)
        if command.deadline is not None and now > command.deadline:
            raise _deadline_passed()
        if not self._site.is_alone and not self._concerns_this_server_alone(command):
            plan = _plan_of(command, self._site)
            update_id = self._coordinator.start(plan, request_id=command.request_id, deadline=command.deadline)
            self._requests.begin(update_id, Asked(command.request_id, digest, [command.ticket]))
            return None
        outcome = self._execute(command, records)
        if _left_no_trace(outcome):
            return Reply(command.ticket, outcome)
        self._outcomes.remember(command.request_id, digest, outcome, records)
        return Reply(command.ticket, outcome, self._place_of(outcome))

    def _concerns_this_server_alone(self, command: UpdateCommand | ImportCommand) -> bool:
        """Raises `RefusedError` where another server must be asked, or one is needed that was never met."""
        site = self._site
        match command:
            case UpdateCommand(operations=operations):
                names = names_in(operations)
                first = names[:1]
                concerns_one = concerns_one_server(site, self.records, self.entries, operations)
            case ImportCommand(names=names):
                first = [names[position] for position in (*command.parents[:1], *command.groups[:1])]
                concerns_one = import_concerns_one_server(site, self.records, self.entries, command)
        if isinstance(command, UpdateCommand):
            require_kinds_of_waiting(site, command.operations)
        for name in names:
            self.peers.require_met(name)
        if first and site.home_of(first[0]) != self.server and not self._stands_in(command):
            raise not_for_this_server(site, first[0])
        return concerns_one

    def _stands_in(self, command: UpdateCommand | ImportCommand) -> bool:
        """Whether an update is of an arc whose child is at home here, and of which its parent's home cannot know."""
        site = self._site
        match command:
            case UpdateCommand(operations=(LeaveArc(parent, child), *_)) if site.is_suspended(parent, child):
                return site.is_unconfirmed(parent, child) or site.can_leave_below(parent=parent, child=child)
            case UpdateCommand(operations=(JoinArc(parent, child, offline=True), *_)):
                return site.stands_in(parent=parent, child=child)
        return False

    def _read(self, command: ReadCommand, now: float, effects: Effects) -> None:
        group = command.group
        try:
            self.peers.require_met(group)
            if command.deadline is not None and now > command.deadline:
                raise _deadline_passed()
            if self._site.home_of(group) != self.server:
                raise not_for_this_server(self._site, group)
        except RefusedError as error:
            effects.replies.append(Reply(command.ticket, error.refusal))
            return
        update_id = self._coordinator.start(
            Plan((), 0, read=group), request_id=RequestId(""), deadline=command.deadline
        )
        self._requests.begin(update_id, Asked(own_request("read", update_id), "", [command.ticket]))

    def _cut(self, command: CutCommand, now: float, effects: Effects) -> None:
        try:
            self.peers.require_all_met()
            if command.deadline is not None and now > command.deadline:
                raise _deadline_passed()
        except RefusedError as error:
            effects.replies.append(Reply(command.ticket, error.refusal))
            return
        update_id = self._coordinator.start(
            Plan((), 0, cut=command.name), request_id=RequestId(""), deadline=command.deadline
        )
        self._requests.begin(update_id, Asked(own_request("cut", update_id), "", [command.ticket]))

    def _retire(self, command: RetirePeer, now: float, effects: Effects) -> None:
        site = self._site
        try:
            server = self.peers.retire(command.subnet)
            if command.deadline is not None and now > command.deadline:
                raise _deadline_passed()
        except RefusedError as error:
            effects.replies.append(Reply(command.ticket, error.refusal))
            return
        arcs = suspended_with_subnet(site, command.subnet)[:RETIRED_AT_ONCE]
        if not arcs:
            effects.replies.append(Reply(command.ticket, Committed(self.revision)))
            return
        steps = tuple((1, _marked(LeaveArc(*arc, if_needed=True), site)) for arc in arcs)
        plan = Plan(steps, 1, without=server)
        update_id = self._coordinator.start(plan, request_id=RequestId(""), deadline=command.deadline)
        self._requests.begin(update_id, Asked(own_request("retire", update_id), "", [command.ticket]))

    def _change_peers(self, command: AddPeer | RemovePeer) -> Outcome:
        try:
            match command:
                case AddPeer(_, subnet, address):
                    self.peers.add(subnet, address)
                case RemovePeer(_, subnet):
                    if self.peers.is_anothers(subnet):
                        self.records.forget_unused(subnet)
                    self.peers.remove(subnet)
        except RefusedError as error:
            return error.refusal
        return Committed(self.revision)

    def _go_back(self, incarnation: int) -> None:
        """Go on from an older copy of the database, apart from all others until they are met."""
        site = self._site
        site.counter = self.incarnations.begin(incarnation, counter=site.counter)
        site.go_back()
        for server in self.servers_met:
            self._begin_again_with(server, "this server goes on from an older copy of its database")
        self._views.agreement.begin_again(leap=incarnation)

    def _begin_again_with(self, server: ServerId, why: str) -> None:
        self._site.lost[server] = why
        for encoded in self.channels.begin_again(server):
            _, message = decode_in_view(encoded)
            if isinstance(message, Offer):
                self._views.healing.offer_again(server, message)
        self._coordinator.peer_lost(server)

    def _take_letter(self, letter: PeerMessage) -> None:
        sender = letter.sender
        if not self.channels.take(sender, letter.number):
            return
        try:
            view, message = decode_in_view(letter.encoded)
        except NotAMessageError:
            self.channels.faults[sender, UNREADABLE] += 1
            return
        if isinstance(message, InView) and (view != self._site.view or self._site.is_frozen):
            self._early.keep(view, sender, letter.encoded, site=self._site)
            return
        self._receive_from(sender, message)

    def _receive_from(self, sender: ServerId, message: Message) -> None:
        if not are_legal(message, self._table):
            self.channels.faults[sender, NOT_LEGAL] += 1
            return
        if isinstance(message, Commit):
            try:
                message = own_part(message, self._site)
            except NotAMessageError:
                self.channels.faults[sender, UNREADABLE] += 1
                return
        fault = fault_in(message, sender=sender, site=self._site, entries=self.entries)
        if fault is None and isinstance(message, Commit):
            fault = self._participant.fault_in(message)
        if fault is None and isinstance(message, Ready | Refuse):
            fault = self._coordinator.fault_in(message, sender=sender)
        if fault is not None:
            self.channels.faults[sender, fault] += 1
            if isinstance(message, Ready):
                self._coordinator.give_up(message.update_id, sender, fault)
            return
        self._receive(sender, message)

    def _finish_step(self, effects: Effects, counter_before: int) -> None:
        """Handle the server's messages to itself and all turns that have come; then let the rest out."""
        site, records = self._site, effects.records
        self._take_turns(effects)
        while ready := self._cuts_waiting.take_ready():
            for update_id in ready:
                self._participant.ready_for_cut(update_id)
            self._take_turns(effects)
        effects.cuts.extend(self._cuts_taken)
        self._cuts_taken.clear()
        coordinator, requests = self._coordinator, self._requests
        for before, now in coordinator.begun_again:
            requests.begun_again(before, now)
        for ended in coordinator.ended:
            asked = requests.ended(ended.update_id, ended.outcome, ended.place)
            if asked.digest and not _left_no_trace(ended.outcome):
                self._outcomes.remember(asked.request_id, asked.digest, ended.outcome, records)
        for update_id in coordinator.answerable:
            # What became controlled is known by this step alone, until it is durable.
            is_confirmed = update_id in coordinator.confirmed and update_id not in coordinator.controlled
            if update_id in coordinator.controlled:
                asked = requests.complete(update_id, coordinator.controlled[update_id])
                self._outcomes.complete(asked.request_id, asked.outcome, records)
            effects.replies.extend(requests.answer(update_id, is_confirmed=is_confirmed))
        coordinator.begun_again.clear()
        coordinator.ended.clear()
        coordinator.answerable.clear()
        coordinator.confirmed.clear()
        coordinator.controlled.clear()
        if site.counter != counter_before:
            records.counter = site.counter
        self.records.take_rows(records)
        self._views.note_view()
        records.protocol += site.durable.take_rows()
        self.channels.faults.update(site.faults)
        site.faults = []

    def _take_turns(self, effects: Effects) -> None:
        site = self._site
        self._views.look_after()
        while site.own_messages or (not self._cuts_taken and self._has_more_to_do()):
            while site.own_messages:
                self._receive(self.server, site.own_messages.popleft())
            for sender, message in self._early.take(site):
                self._receive_from(sender, message)
            self._views.look_after()
        for receiver, message, view in site.outbox:
            effects.messages.append(self.channels.send(receiver, encode(message, view)))
        site.outbox.clear()
        participant = self._participant
        self._cuts_waiting.add(participant.cuts_turned, filter(site.is_in_view, self.servers_met))
        participant.cuts_turned.clear()

    def _has_more_to_do(self) -> bool:
        return self._early.has_come(self._site) or self._participant.take_next_turn()

    def _receive(self, sender: ServerId, message: Message) -> None:
        if self._site.is_frozen and isinstance(message, InView):
            return  # The view that it belongs to is given up.
        match message:
            case Order():
                self._participant.order(message)
            case Vote():
                self._coordinator.vote(sender, message)
            case Final():
                self._participant.final(message)
            case Ready():
                self._coordinator.ready(sender, message)
            case Refuse():
                self._coordinator.refuse(sender, message)
            case Commit():
                self._participant.commit(message)
            case Done():
                self._coordinator.done(sender, message)
            case Abort():
                self._participant.abort(message)
            case Holding():
                self._coordinator.holding(sender, message)
            case Drop():
                self._participant.drop(message)
            case TakeCut(update_id):
                cut = self._participant.take_cut(update_id)
                if cut is not None:
                    self._cuts_taken.append(cut)
            case _:
                self._views.receive(sender, message)

    def _execute(self, command: UpdateCommand | ImportCommand, records: Records) -> Outcome:
        graph = self.graph
        interned_from = len(graph.ids)
        try:
            changes = self._collect(command)
        except RefusedError as error:
            graph.forget_interned(interned_from)
            return error.refusal
        final_priority = Priority(self._site.counter + 1, self.server)
        for node, kind in changes.kinds.items():
            if NodeKind.GROUP in (kind, graph.kind(node)):
                self._site.note_group(graph.ids[node], final_priority, is_present=kind is NodeKind.GROUP)
        topology = compute_topology(graph, self.ancestors, changes, final_priority=final_priority)
        written, effects = commit(
            graph,
            self.ancestors,
            changes,
            topology,
            final_priority=final_priority,
            interned_from=interned_from,
            reports_control=isinstance(command, UpdateCommand) and command.reports_control,
        )
        self._site.counter = final_priority.counter
        self.records.all_recorded()
        records.extend(written)
        records.protocol += self._site.durable.take_rows()
        revision = revision_of(final_priority, coordinator=self.server)
        if isinstance(command, ImportCommand):
            counts = ImportCounts(len(changes.added), changes.groups_created, changes.already_there)
            return Committed(revision, counts=counts)
        return Committed(revision, name_effects(graph, self._table, self.server, effects))

    def _collect(self, command: UpdateCommand | ImportCommand) -> Changes:
        match command:
            case UpdateCommand():
                operations = command.operations
                return Collector(self._site).collect(list(enumerate(operations, start=1)), size=len(operations))
            case ImportCommand():
                return collect_import(self.graph, self._table, self.server, command)


def _plan_of(command: UpdateCommand | ImportCommand, site: Site) -> Plan:
    match command:
        case UpdateCommand(operations=operations):
            if site.unconfirmed:
                operations = tuple(_marked(operation, site) for operation in operations)
            numbered = tuple(enumerate(operations, start=1))
            return Plan(numbered, len(operations), reports_control=command.reports_control)
        case ImportCommand():
            # To those who asked for it, it is one operation.
            return Plan(ImportOperations(site, command), 1, is_import=True)


def _marked(operation: Operation, site: Site) -> Operation:
    match operation:
        case LeaveArc(parent, child) if site.is_unconfirmed(parent, child):
            return structs.replace(operation, is_unconfirmed=True)
    return operation


def _left_no_trace(outcome: Outcome) -> bool:
    """Whether an update was given up because of the time or of a server: asked for again, it is tried again."""
    return isinstance(outcome, Refusal) and outcome.reason in (Reason.DEADLINE_EXCEEDED, Reason.UNAVAILABLE)


def _deadline_passed() -> RefusedError:
    return refuse(Reason.DEADLINE_EXCEEDED, "the deadline passed before the update's turn came; nothing was done")
