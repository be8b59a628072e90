"""One name server's protocol state, driven by `step`. This file only routes: each idea has a file of its own.

The questions that may be asked between two steps are in `queries.py`.

    command --> concerns this server alone (`update/locality.py`)?
                  yes --> collect (`admission`) -> compute (`virtual_node_changes`) -> commit --> records, replies
                  no  --> coordinator <== messages ==> participants of all servers -------> messages, later replies

An update of one participant runs through the upper line in one step. The priority counter orders it, and no other
update of its nodes is under way.

Source: docs/protocol-updates.md, "An update, from command to answer" and "Many servers".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from heapq import nsmallest
from math import ceil
from typing import Self, assert_never

from namegraph.events import (
    AddPeer,
    AuditEvent,
    CheckpointCame,
    ConfigurePeer,
    Cut,
    CutCommand,
    Effects,
    Event,
    ImportCommand,
    KeepAccess,
    KeepCheckpoint,
    Lane,
    NoteEvents,
    PeerLeaving,
    PeerLost,
    PeerMessage,
    PeerMet,
    PeerPosts,
    PeerReceived,
    PeerRestored,
    ReadCommand,
    RemovePeer,
    Reply,
    Restored,
    RetirePeer,
    SetDetails,
    Tick,
    TurningEvent,
    UpdateCommand,
    Write,
)
from namegraph.graph.apply_delta import commit, name_effects
from namegraph.graph.delta import GraphDelta
from namegraph.graph.name_graph import NameGraph
from namegraph.graph.virtual_node_changes import compute_topology
from namegraph.model.audit_chain import ALLOWED, Checkpoint, Fact
from namegraph.model.changes import NO_ORIGIN, Origin
from namegraph.model.names import NodeId, ServerId, Subnet
from namegraph.model.operations import Composite, JoinArc, LeaveArc, Operation, SetPolicy
from namegraph.model.outcomes import Committed, ImportCounts, Outcome
from namegraph.model.ownership import OwnershipTable
from namegraph.model.peer_faults import PeerFault
from namegraph.model.policies import ServerPolicy
from namegraph.model.priorities import Priority, parse_revision, revision_of
from namegraph.model.refusals import Reason, Refusal, RefusedError, refuse
from namegraph.model.rows import NodeKind, Records, RequestId, StoredState
from namegraph.model.slices import at_once
from namegraph.queries import CoreQueries
from namegraph.replication.ancestry_store import AncestryStore
from namegraph.rights.callers import CallerFacts
from namegraph.rights.principals import ANONYMOUS, OPERATOR
from namegraph.snapshot.consistent_cut import MarkersPending
from namegraph.state.access_rows import AccessRows
from namegraph.state.checkpoints import Checkpoints, Heard
from namegraph.state.context import NEVER, ServerContext
from namegraph.state.durable_maps import DurableState
from namegraph.state.future_view_buffer import FutureViewBuffer
from namegraph.state.given_up import GivenUp, GivenUpServers
from namegraph.state.incarnations import FIRST_INCARNATION, Incarnations
from namegraph.state.peer_table import PeerTable
from namegraph.state.pending_requests import PendingRequest, PendingRequests, own_request
from namegraph.state.recovery import InconsistentStateError, restore_graph
from namegraph.state.reliable_channels import Channels
from namegraph.state.request_log import REQUEST_ID_LENGTH_LIMIT, RequestLog, digest_of
from namegraph.state.wait_limits import AttentiveClock, WaitLimits
from namegraph.update.admission import OperationCollector, collect_import
from namegraph.update.arc_authority import authority_over, marked
from namegraph.update.commit_share import read_share
from namegraph.update.composite import (
    expand,
    home_of_composite,
    left_groups,
    names_in_composite,
    renames_in,
    unchanged_of,
)
from namegraph.update.coordinator import Coordinator
from namegraph.update.entry_timeouts import AttemptTimeouts, EntryTimeouts
from namegraph.update.forgetting import Forgetting
from namegraph.update.import_plan import ImportOperations
from namegraph.update.locality import (
    concerns_one_server,
    import_concerns_one_server,
    names_in,
    not_for_this_server,
    require_kinds_of_waiting,
)
from namegraph.update.operation_rights import (
    RIGHTS_REASONS,
    OperationRights,
    Replacements,
    new_policies,
    own_word,
    replacements_of,
    require_rights,
)
from namegraph.update.order_queue import Entries
from namegraph.update.participant import Participant
from namegraph.update.recorded_changes import changes_of_delta, keep_policies
from namegraph.update.set_details import details_given, keep_details, set_details
from namegraph.update.transaction import BegunAgain, Ended, Over, Plan
from namegraph.verify.leaps import Leaps
from namegraph.verify.peer_rules import PeerRules
from namegraph.views.view_change import ViewChange
from namegraph.wire.codec import Message, NotAMessageError, counts_in_view, decode_in_view, encode
from namegraph.wire.update_messages import (
    Abort,
    Commit,
    Done,
    Drop,
    Final,
    Holding,
    Order,
    OrderFor,
    Ready,
    Refuse,
    TakeCut,
    Vote,
)
from namegraph.wire.value_limits import highest_legal
from namegraph.wire.view_messages import ForgetLeft, HintedOutcome, LeftForgotten

FORGOTTEN_AT_ONCE = 10_000
"""Most rows of the audit log that one checkpoint forgets because of their age: a tenth of a second of deleting. A clock
that leaps ahead by years does not empty the log at once."""

RETIRED_AT_ONCE = 5_000
"""Arcs with a server that is gone for good that one update leaves. Other updates wait for it."""


class ServerCore(CoreQueries):
    """The state of one server. Every module may read `graph` and `ancestors`; `step` alone changes them."""

    def __init__(
        self, *, server: ServerId, subnets: Iterable[Subnet], peers: Mapping[Subnet, ServerId] | None = None
    ) -> None:
        """`peers`: owners of all other subnets that are known."""
        table = OwnershipTable({**(peers or {}), **dict.fromkeys(subnets, server)})
        self._start(ServerContext(server=server, table=table, graph=NameGraph()), configured={})
        self._outcomes = RequestLog()

    @classmethod
    def restore(
        cls, state: StoredState, *, subnets: Iterable[Subnet], peers: Mapping[Subnet, str] | None = None
    ) -> Self:
        """Return the core as it was when `state` was written. Raises `InconsistentStateError`.

        `peers`: addresses of the servers of other subnets, from the configuration. Messages to other servers about
        updates that did not survive are among `channels.kept`. Feed a `Tick` to make them durable.
        """
        core = cls.__new__(cls)
        table = OwnershipTable(dict.fromkeys(subnets, state.server))
        durable = DurableState(state.protocol)
        context = ServerContext(server=state.server, table=table, graph=NameGraph(), durable=durable)
        core._start(context, configured=peers or {})
        if durable.parts_left():
            raise InconsistentStateError(f"rows of parts that are not known: {', '.join(durable.parts_left())}")
        restore_graph(state, context)
        context.counter = context.counter_at_start = state.counter
        context.change_log.restore(
            state.last_change,
            state.change_sizes,
            newest=Priority(state.counter, state.server),
            last_hash=state.last_change_hash,
        )
        core.records.restore()
        core._outcomes = RequestLog(state.outcomes)
        core._participant.restore()
        core._restore_requests()
        return core

    def _start(self, context: ServerContext, *, configured: Mapping[Subnet, str]) -> None:
        self.server = context.server
        self.graph = context.graph
        self._context = context
        self._table = context.table
        self.peers = PeerTable(context, configured=configured)
        self.channels = Channels(context.durable)
        self.channels.met(context.server)
        self.posts = self._make_posts(context.durable)
        self.posts.met(context.server)
        self.incarnations = Incarnations(context.durable)
        self.checkpoints = Checkpoints(context.durable)
        self.access = AccessRows(context.durable)
        context.has_gone_back = self.incarnations.own != FIRST_INCARNATION
        self.records = AncestryStore(context)
        self.entries = Entries(context, self.records)
        self._forgetting = Forgetting(context, self.records, self.entries)
        self._participant = Participant(context, self.records, self.entries)
        self._coordinator = Coordinator(context, self._participant)
        self._rules = PeerRules(context, self.records, self.entries, self._coordinator)
        self._leaps = Leaps(context)
        self._views = ViewChange(context, self._participant, self._coordinator, self._rules)
        self._early = FutureViewBuffer(context.durable)
        self._requests = PendingRequests()
        self._cuts_waiting = MarkersPending(self.channels)
        self._cuts_taken: list[Cut] = []
        """Cuts that were taken in this step."""
        self._turns_wait_since = None
        self._wait_limits = self._views.agreement.limits = WaitLimits()
        self._attentive = AttentiveClock()
        self._given_up = GivenUpServers()
        self._mistrusted = GivenUpServers()
        self._renewing: dict[ServerId, float] = {}
        """Coordinators that do not decide, each with the time on the attentive clock at which a view was asked for."""
        self._entry_timeouts = EntryTimeouts(context, self.entries)
        self._attempt_timeouts = AttemptTimeouts()

    def _restore_requests(self) -> None:
        for found in self._coordinator.restore():
            digest = self._outcomes.digest_of_first(found.request_id)
            if digest is None:
                # Its outcome was forgotten after so many later updates, so no caller can ask for it again.
                digest = ""
            asked = PendingRequest(found.request_id, digest, [], place=found.final)
            asked.outcome = self._outcomes.first_answer(found.request_id, digest) if digest else None
            self._requests.begin(found.update_id, asked)

    @property
    def durable(self) -> DurableState:
        """Rows of all parts of this server. Extensions of the core keep their rows there too."""
        return self._context.durable

    def _make_posts(self, durable: DurableState) -> Channels:
        """Return the channels of the lane for messages to groups."""
        return Channels(durable, Lane.POST)

    def channels_of(self, lane: Lane) -> Channels:
        """Return the channels of one lane."""
        return self.channels if lane is Lane.LETTERS else self.posts

    @property
    def cuts_wait(self) -> bool:
        """True if a cut waits until letters are received. The next receipt may let updates go on."""
        return bool(self._cuts_waiting)

    def keep_changes(self, size_bytes: int) -> None:
        """Set the size of the rows of the audit log that are kept."""
        self._context.change_log.kept_bytes = size_bytes

    def protect(self, policy: ServerPolicy | None) -> None:
        """Judge the callers of all updates from now on, by this policy of the server and the policies of groups.

        None: every caller may do everything. Call between two steps.
        """
        self._context.server_policy = policy

    def limit_absences(self, seconds: float | None) -> None:
        """Set the absence in seconds after which no tombstones are kept for a server. None: they are kept for ever."""
        self._context.absences.limit_seconds = seconds

    def leave_own_parts_for_later(self) -> None:
        """Do this server's own part of every update that it coordinates in a later step, as for a large update.

        For simulations, whose updates are small.
        """
        self._coordinator.own_share_later_from = 0

    def limit_begun(self, count: int) -> None:
        """Limit the updates of clients under way at once; later ones are queued. For simulations, which have few."""
        self._coordinator.begun_limit = count

    def forget_at_once(self) -> None:
        """Forget tombstones as soon as possible, not once many have come together. For simulations."""
        self._forgetting.begins_at = 1

    def step(self, event: Event, now: float) -> Effects:
        """Process one event. Return the effects that the shell must make durable and then let out. `now` is in
        seconds."""
        effects = Effects(Records())
        self._process(event, effects, now)
        effects.records.protocol += self._context.durable.take_rows()
        return effects

    def _process(self, event: Event, effects: Effects, now: float) -> None:
        """Handle an event by the parts that it concerns. The caller takes the rows of durable maps.

        A post concerns the delivery half alone. A receipt concerns cuts alone, which wait for letters to be received.
        """
        counter = self._context.counter
        match event:
            case PeerReceived(peer, through, lane):
                self.channels_of(lane).received(peer, through)
                if self._cuts_waiting:
                    self._finish_turns(event, effects, counter, now)
            case PeerPosts(posts):
                for post in posts:
                    self._take_post(post)
            case PeerMessage(lane=Lane.POST):
                self._take_post(event)
            case NoteEvents() | KeepCheckpoint() | CheckpointCame() | KeepAccess():
                self._keep_audit(event)
                self._context.change_log.take_rows(effects.records)
            case _:
                self._carry_out(event, effects, now)
                self._finish_turns(event, effects, counter, now)

    def note_event(
        self, kind: str, facts: Mapping[str, Fact], origin: Origin = NO_ORIGIN, *, decision: str = "", rule: str = ""
    ) -> None:
        """Write an event to the audit log, in the transaction of the step under way."""
        counter = self._context.counter
        self._context.change_log.note_event(kind, facts, origin, counter=counter, decision=decision, rule=rule)

    def _keep_audit(self, event: AuditEvent) -> None:
        match event:
            case NoteEvents(entries):
                for entry in entries:
                    self.note_event(entry.kind, entry.facts, entry.origin, decision=entry.decision, rule=entry.rule)
            case KeepCheckpoint(checkpoint, forget_before):
                self.checkpoints.keep(checkpoint)
                log = self._context.change_log
                log.forget_through(min(self.checkpoints.older_than(forget_before), log.first + FORGOTTEN_AT_ONCE))
            case CheckpointCame(peer, checkpoint):
                self._take_checkpoint(peer, checkpoint)
            case KeepAccess(rows, entry):
                self.access.keep(rows)
                if entry is not None:
                    self.note_event(entry.kind, entry.facts, entry.origin, decision=entry.decision, rule=entry.rule)

    def _take_checkpoint(self, peer: ServerId, checkpoint: Checkpoint) -> None:
        if checkpoint.server != peer or not checkpoint.is_legal():
            self.channels.faults[peer, PeerFault.NOT_LEGAL] += 1
            return
        if self.checkpoints.heard(peer, checkpoint) is Heard.CONTRADICTS:
            facts: dict[str, Fact] = {"server": peer, "sequence": checkpoint.sequence, "hash": checkpoint.hash.hex()}
            self.note_event("checkpoint_went_back", facts)

    def _carry_out(self, event: TurningEvent, effects: Effects, now: float) -> None:
        """Carry out an event after which turns may come."""
        match event:
            case UpdateCommand() | ImportCommand() | SetDetails():
                reply = self._take_update(event, now, effects.records)
                if reply is not None:
                    effects.replies.append(reply)
            case ReadCommand():
                self._read(event, now, effects)
            case CutCommand():
                self._cut(event, now, effects)
            case RetirePeer():
                self._retire(event, now, effects)
            case PeerMessage():
                self._take_letter(event, now)
            case PeerMet(peer, subnets, version):
                self._context.versions[peer] = version
                self.channels.met(peer)
                self.posts.met(peer)
                self.peers.met(peer, subnets)
                self._views.met(peer)
            case PeerLeaving(peer, why):
                self._context.lost[peer] = why
            case PeerLost(peer, why):
                self._context.lost[peer] = why
                self._coordinator.peer_lost(peer)
                self._views.agreement.lost(peer)
            case Restored(incarnation):
                self._go_back(incarnation)
                self.note_event("restored", {"incarnation": incarnation})
            case PeerRestored(peer, incarnation):
                self.incarnations.heard_of(peer, incarnation)
                self._context.forgotten.gone_back(peer)
                self._begin_again_with(peer, "it goes on from an older copy of its database")
                self._views.agreement.lost(peer)
            case AddPeer() | RemovePeer() | ConfigurePeer():
                effects.replies.append(Reply(event.ticket, self._change_peers(event)))
                self._views.agreement.reconsider()
            case Tick(is_deaf):
                self._coordinator.tick(now)
                if self._attentive.looked_at is not None:
                    self._look_at_waits(now, is_deaf=is_deaf)
            case _:
                assert_never(event)

    def _look_at_waits(self, now: float, *, is_deaf: bool) -> None:
        """End the waits for other servers that have taken too long."""
        limits, attentive = self._wait_limits, self._attentive
        if limits is None or not attentive.look(now, limits, is_deaf=is_deaf):
            return
        silent = self._views.look(attentive.seconds, limits)
        if self._context.view_change_in_progress:
            self._entry_timeouts.forget_all()
            self._attempt_timeouts.forget_all()
        else:
            overdue = self._entry_timeouts.look(attentive.seconds, limits)
            for update_id in overdue.to_give_up:
                self._participant.give_up(update_id)
            for update_id in overdue.to_forget:
                self._participant.forget_refused(update_id)
            for server in [server for server in self._renewing if server not in overdue.silent]:
                del self._renewing[server]
            for server, why in overdue.silent.items():
                if server not in self._renewing:
                    self._mistrust(server, why, now, limits)
                elif attentive.seconds - self._renewing[server] >= limits.install:
                    silent[server] = why
            for update_id in self._attempt_timeouts.look(self._coordinator.attempts(limits), now):
                self._coordinator.end_attempt(update_id)
        for server, why in silent.items():
            self._give_up(server, why, now, limits)

    def _mistrust(self, server: ServerId, why: str, now: float, limits: WaitLimits) -> None:
        """Take part in no update of a coordinator for a while, and end those under way by a view of the same servers.

        No server parts from another one for that. Only without such a view is the coordinator given up.
        """
        self._renewing[server] = self._attentive.seconds
        if self._mistrusted.at(server, now) is not None:
            # Only updates that it begins by itself are left, which settle changes made while servers were apart.
            self._give_up(server, why, now, limits)
            return
        self._mistrusted.give_up(server, why, now, limits)
        self.channels.faults[server, PeerFault.TOO_SLOW] += 1
        self._views.agreement.renew(server, limits)

    def mistrusted(self, now: float) -> Mapping[ServerId, GivenUp]:
        """Return the coordinators whose updates this server takes no part in yet, because they did not decide."""
        return self._mistrusted.all(now)

    def _give_up(self, server: ServerId, why: str, now: float, limits: WaitLimits) -> None:
        """Count a connected server as lost, because it does not do what this one waits for. The shell ends its
        session."""
        context = self._context
        if server == self.server or server in context.lost:
            return
        self._given_up.give_up(server, why, now, limits)
        self.channels.faults[server, PeerFault.TOO_SLOW] += 1
        context.lost[server] = why
        self._coordinator.peer_lost(server)
        self._views.agreement.lost(server)

    def given_up(self, now: float) -> Mapping[ServerId, GivenUp]:
        """Return the connected servers that are not taken back yet, because they let this one wait for too long."""
        return self._given_up.all(now)

    def limit_waits(self, limits: WaitLimits | None) -> None:
        """Set the limits of waits for other servers. None: this server waits for ever."""
        self._wait_limits = self._views.agreement.limits = limits

    def let_be_slow(self, may_be_slow: Callable[[ServerId], bool]) -> None:
        """Set which coordinators have more time for large updates. All of them have by default."""
        self._entry_timeouts.may_be_slow = may_be_slow

    def _take_update(self, command: Write, now: float, records: Records) -> Reply | None:
        """Return the reply to a write. None if it must wait for other servers."""
        try:
            return self._first_answer_or_outcome(command, now, records)
        except RefusedError as error:
            return Reply(command.ticket, error.refusal)

    def _place_of(self, outcome: Outcome) -> Priority:
        """Return the place in the order of an outcome of this step. A refusal stands right after all updates seen
        here."""
        if isinstance(outcome, Committed):
            return parse_revision(outcome.revision).final
        return Priority(self._context.counter + 1, NEVER.server)

    def _first_answer_or_outcome(self, command: Write, now: float, records: Records) -> Reply | None:
        """Return the first answer to a request, or its outcome. None if the answer must wait for other servers.

        Raises `RefusedError` if nothing is to be remembered: the request itself, or the deadline, is the cause.
        """
        if not (0 < len(command.request_id) <= REQUEST_ID_LENGTH_LIMIT and command.request_id.isprintable()):
            raise refuse(
                Reason.INVALID_REQUEST, f"a request id has 1 to {REQUEST_ID_LENGTH_LIMIT} printable characters"
            )
        command = replace(command, request_id=self._own_request_id(command.request_id, command.origin.principal))
        digest = digest_of(command)
        if self._requests.wait_with(command.request_id, digest, command.ticket):
            return None
        first = self._outcomes.first_answer(command.request_id, digest)
        if first is not None:
            place = self._place_of(first) if isinstance(first, Committed) else None
            return Reply(command.ticket, first, place)
        if command.deadline is not None and now > command.deadline:
            raise _deadline_passed()
        if isinstance(command, SetDetails):
            set_outcome = set_details(self._context, self.records, command, revision=self.revision)
            if isinstance(set_outcome, Committed):
                facts: dict[str, Fact] = {"groups": len(command.changes), "first": min(command.changes, default="")}
                self.note_event("details_set", facts, command.origin, decision=ALLOWED)
            if not self._left_no_trace(set_outcome):
                self._outcomes.remember(command.request_id, digest, set_outcome, records)
            return Reply(command.ticket, set_outcome)
        if isinstance(command, UpdateCommand) and command.composite is not None:
            try:
                command = replace(command, operations=self._expanded(command.composite, command.elsewhere))
            except RefusedError as error:
                if not self._left_no_trace(error.refusal):
                    self._outcomes.remember(command.request_id, digest, error.refusal, records)
                return Reply(command.ticket, error.refusal)
            if not command.operations:
                outcome: Outcome = Committed(self.revision)
                self._outcomes.remember(command.request_id, digest, outcome, records)
                return Reply(command.ticket, outcome)
        if not self._context.is_alone and not self._concerns_this_server_alone(command):
            self._coordinator.require_room()
            plan = _plan_of(command, self._context)
            self._require_rights(command)
            update_id = self._coordinator.start(plan, request_id=command.request_id, deadline=command.deadline)
            asked = PendingRequest(command.request_id, digest, [command.ticket], details=details_given(command))
            self._requests.begin(update_id, asked)
            return None
        outcome = self._execute(command, records)
        if self._left_no_trace(outcome):
            return Reply(command.ticket, outcome)
        keep_details(self._context, details_given(command), outcome)
        self._outcomes.remember(command.request_id, digest, outcome, records)
        return Reply(command.ticket, outcome, self._place_of(outcome))

    def _require_rights(self, command: UpdateCommand | ImportCommand) -> None:
        """Refuse an update that this server would refuse for the rights of its caller, before it locks anything."""
        caller = _caller_of(command, self._context)
        if caller is None:
            return
        operations: Iterable[Operation]
        replacements: Replacements = ()
        size = 1
        if isinstance(command, ImportCommand):
            operations = (each for _, each in ImportOperations(self._context, command))
        else:
            operations, replacements = command.operations, replacements_of(command.composite)
            size = 1 if command.composite is not None else len(operations)
        require_rights(self._context, self.records, caller, operations, size=size, replacements=replacements)

    def _left_no_trace(self, outcome: Outcome) -> bool:
        """Return True if a repeated request tries again: the cause was a deadline, a server, or a right.

        A group that the caller may not view is missing for that caller. Refusals for hidden and for missing groups are
        forgotten alike.
        """
        if not isinstance(outcome, Refusal):
            return False
        is_hidden = outcome.reason is Reason.GROUP_NOT_FOUND and self._context.server_policy is not None
        return is_hidden or outcome.reason in _NO_TRACE

    def _expanded(self, composite: Composite, elsewhere: Iterable[NodeId]) -> tuple[Operation, ...]:
        """Return the operations of a composite command. Raises `RefusedError` if another server must be asked."""
        context = self._context
        if home_of_composite(context, composite) != self.server:
            raise not_for_this_server(context, names_in_composite(composite)[0])
        return expand(context, composite, elsewhere)

    def _concerns_this_server_alone(self, command: UpdateCommand | ImportCommand) -> bool:
        """Return True if an update concerns this server alone.

        Raises `RefusedError` if another server must be asked, or if the update needs a server that was never met.
        """
        context = self._context
        match command:
            case UpdateCommand(operations=operations):
                names = names_in(operations)
                first = names[:1]
                concerns_one = concerns_one_server(context, self.records, self.entries, operations)
            case ImportCommand(names=names):
                first = [names[position] for position in (*command.parents[:1], *command.groups[:1])]
                concerns_one = import_concerns_one_server(context, self.records, self.entries, command)
        if isinstance(command, UpdateCommand):
            require_kinds_of_waiting(context, command.operations)
        for name in names:
            self.peers.require_met(name)
        is_composite = isinstance(command, UpdateCommand) and command.composite is not None
        is_ours = is_composite or not first or context.home_of(first[0]) == self.server
        if not is_ours and not self._stands_in(command):
            raise not_for_this_server(context, first[0])
        return concerns_one

    def _stands_in(self, command: UpdateCommand | ImportCommand) -> bool:
        """Return True if an update begins with an arc whose child lives here and that its parent's home cannot know."""
        context = self._context
        first = marked(context, command.operations[0]) if isinstance(command, UpdateCommand) else None
        if not isinstance(first, JoinArc | LeaveArc):
            return False
        says = authority_over(context, first)
        # The home of the child may end an arc, too. Its word counts at the home of the parent.
        is_ended_below = isinstance(first, LeaveArc) and says.is_child_here and context.server_policy is not None
        return says.begins_here or is_ended_below

    def _read(self, command: ReadCommand, now: float, effects: Effects) -> None:
        group = command.group
        try:
            self.peers.require_met(group)
            if command.deadline is not None and now > command.deadline:
                raise _deadline_passed()
            if self._context.home_of(group) != self.server:
                raise not_for_this_server(self._context, group)
            self._coordinator.require_room()
        except RefusedError as error:
            effects.replies.append(Reply(command.ticket, error.refusal))
            return
        update_id = self._coordinator.start(
            Plan((), 0, read=group), request_id=RequestId(""), deadline=command.deadline
        )
        self._requests.begin(update_id, PendingRequest(own_request("read", update_id), "", [command.ticket]))

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
        self._requests.begin(update_id, PendingRequest(own_request("cut", update_id), "", [command.ticket]))

    def _retire(self, command: RetirePeer, now: float, effects: Effects) -> None:
        context = self._context
        try:
            server = self.peers.retire(command.subnet)
            if command.deadline is not None and now > command.deadline:
                raise _deadline_passed()
        except RefusedError as error:
            effects.replies.append(Reply(command.ticket, error.refusal))
            return
        arcs = nsmallest(RETIRED_AT_ONCE, at_once(self.suspended_with_subnet(command.subnet)))
        if not arcs:
            effects.replies.append(Reply(command.ticket, Committed(self.revision)))
            return
        steps = tuple((1, marked(context, LeaveArc(*arc, if_needed=True))) for arc in arcs)
        plan = Plan(steps, 1, without=server, caller=None if context.server_policy is None else _OPERATOR_FACTS)
        update_id = self._coordinator.start(plan, request_id=RequestId(""), deadline=command.deadline)
        self._requests.begin(update_id, PendingRequest(own_request("retire", update_id), "", [command.ticket]))

    def _change_peers(self, command: AddPeer | RemovePeer | ConfigurePeer) -> Outcome:
        try:
            match command:
                case AddPeer(_, subnet, address, origin, trust):
                    before = self.peer_addresses.get(subnet)
                    self.peers.add(subnet, address, trust)
                    facts = {"subnet": subnet, "address": address, "before": before}
                    self.note_event("peer_added", facts, origin, decision=ALLOWED)
                case RemovePeer(_, subnet, origin):
                    if self.peers.is_anothers(subnet):
                        self.records.forget_unused(subnet)
                    self.peers.remove(subnet)
                    self.note_event("peer_removed", {"subnet": subnet}, origin, decision=ALLOWED)
                case ConfigurePeer(_, subnet, None):
                    if self.peers.is_anothers(subnet):
                        self.records.forget_unused(subnet)
                    self.peers.configure_no_longer(subnet)
                    self.note_event("peer_configured", {"subnet": subnet, "address": None})
                case ConfigurePeer(_, subnet, str(address)):
                    self.peers.configure(subnet, address)
                    self.note_event("peer_configured", {"subnet": subnet, "address": address})
        except RefusedError as error:
            return error.refusal
        return Committed(self.revision)

    def _go_back(self, incarnation: int) -> None:
        """Go on from an older copy of the database, apart from all other servers until they are met."""
        context = self._context
        context.counter = self.incarnations.begin(incarnation, counter=context.counter)
        context.go_back()
        for server in self.servers_met:
            self._begin_again_with(server, "this server goes on from an older copy of its database")
        self._views.agreement.begin_again(leap=incarnation)

    def _begin_again_with(self, server: ServerId, why: str) -> None:
        self._context.lost[server] = why
        for encoded in self.channels.begin_again(server):
            _, message = decode_in_view(encoded)
            if isinstance(message, HintedOutcome):
                self._views.healing.offer_again(server, message)
        self.posts.begin_again(server)
        self._coordinator.peer_lost(server)

    def _take_letter(self, letter: PeerMessage, now: float) -> None:
        sender = letter.sender
        if letter.received:
            self.channels.received(sender, letter.received)
        if not self.channels.take(sender, letter.number):
            return
        try:
            view, message = decode_in_view(letter.encoded)
        except NotAMessageError:
            self.channels.faults[sender, PeerFault.UNREADABLE] += 1
            return
        if counts_in_view(message) and (view != self._context.view or self._context.view_change_in_progress):
            if not self._early.keep(view, sender, letter.encoded, context=self._context):
                self.channels.faults[sender, PeerFault.TOO_EARLY] += 1
            return
        self._receive_from(sender, message, now)

    def _take_post(self, post: PeerMessage) -> None:
        """Take a letter of the lane for messages to groups. The core itself does not read it."""
        self.posts.take(post.sender, post.number)

    def _receive_from(self, sender: ServerId, message: Message, now: float) -> None:
        highest = highest_legal(message, self.graph.index)
        if highest is None:
            self.channels.faults[sender, PeerFault.NOT_LEGAL] += 1
            return
        if not self._leaps.take(highest, sender=sender, now=now):
            self.channels.faults[sender, PeerFault.LEAP] += 1
            self.channels.leaps_refused[sender] = highest
            return
        fault = self._rules.fault_in(message, sender=sender)
        if fault is not None:
            self.channels.faults[sender, fault] += 1
            if isinstance(message, Ready):
                self._coordinator.give_up(message.update_id, sender, fault)
            return
        mistrusted = self._mistrusted.at(sender, now)
        if mistrusted is not None and _is_of_client(message):
            order = message.order if isinstance(message, OrderFor) else message
            assert isinstance(order, Order)
            seconds = ceil(mistrusted.until - now)
            self._participant.decline(order.update.update_id, f"{sender} {mistrusted.why}", seconds=seconds)
            return
        self._receive(sender, message)

    def _finish_turns(self, event: Event, effects: Effects, counter_before: int, now: float) -> None:
        """Handle the server's messages to itself and all turns that have come, then let the rest out."""
        context, records = self._context, effects.records
        self._take_turns(effects, now)
        while ready := self._cuts_waiting.take_ready():
            for update_id in ready:
                self._participant.ready_for_cut(update_id)
            self._take_turns(effects, now)
        if self._cuts_taken:
            effects.cuts.extend(self._cuts_taken)
            self._cuts_taken.clear()
        for told in self._coordinator.events:
            self._answer(told, effects)
        self._coordinator.events.clear()
        if context.counter != counter_before:
            records.counter = context.counter
        if context.renames.is_due(now):
            context.renames.count(now)
        if context.absences.is_due(now):
            context.absences.count(context.absent(), now)
        if isinstance(event, Tick) or not records.is_empty() or context.durable.must_write:
            # A step that changes nothing, such as a refusal, forgets nothing either.
            self._forgetting.advance(now)
            self._let_out(effects)
        self.records.take_rows(records)
        context.change_log.take_rows(records)
        self._views.note_view()
        if context.faults:
            self.channels.faults.update(context.faults)
            context.faults = []
        self._turns_wait_since = now if effects.cuts else None
        if self._wait_limits is not None:
            self._attentive.run(now, waits=self._waits_for_others())

    def _waits_for_others(self) -> bool:
        """Return True if this server may be waiting for other servers."""
        context = self._context
        return bool(
            self.entries.by_update
            or self._coordinator.is_any_running
            or context.view_change_in_progress
            or not context.view_active
        )

    def _answer(self, event: BegunAgain | Ended | Over, effects: Effects) -> None:
        """Tell callers the results of their updates."""
        requests, outcomes, records = self._requests, self._outcomes, effects.records
        match event:
            case BegunAgain(before, now):
                requests.begun_again(before, now)
            case Ended(update_id, outcome, place):
                asked = requests.ended(update_id, outcome, place)
                keep_details(self._context, asked.details, outcome)
                if asked.digest and not self._left_no_trace(outcome):
                    outcomes.remember(asked.request_id, asked.digest, outcome, records)
            case Over(update_id):
                if event.effects:
                    asked = requests.complete(update_id, event.effects)
                    outcomes.complete(asked.request_id, asked.outcome, records)
                effects.replies.extend(requests.answer(update_id, is_confirmed=event.is_confirmed))

    def _take_turns(self, effects: Effects, now: float) -> None:
        context = self._context
        self._views.advance()
        while context.loopback or (not self._cuts_taken and self._has_more_to_do()):
            while context.loopback:
                self._receive(self.server, context.loopback.popleft())
            for sender, message in self._early.take(context):
                self._receive_from(sender, message, now)
            self._views.advance()
        self._let_out(effects)
        if cuts := self._participant.cuts_turned:
            self._cuts_waiting.add(cuts, list(filter(context.is_in_view, self.servers_met)))
            cuts.clear()

    def _let_out(self, effects: Effects) -> None:
        context = self._context
        for receiver, message, view in context.outbox:
            effects.messages.append(self.channels.send(receiver, encode(message, view)))
        context.outbox.clear()

    def _has_more_to_do(self) -> bool:
        has_more = self._early.has_come(self._context) or self._participant.take_next_turn()
        return has_more or self._coordinator.begin_next()

    def _receive(self, sender: ServerId, message: Message) -> None:
        if self._context.view_change_in_progress and counts_in_view(message):
            return  # The view that it belongs to is given up.
        match message:
            case Order():
                self._participant.order(message)
            case OrderFor(order, word):
                self._participant.order(order, word)
            case Vote():
                self._coordinator.vote(sender, message)
            case Final():
                self._participant.final(message)
            case Ready():
                self._coordinator.ready(sender, message)
            case Refuse():
                self._coordinator.refuse(sender, message)
            case Commit():
                self._commit(sender, message)
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
            case ForgetLeft():
                self._forgetting.agree(sender, message)
            case LeftForgotten():
                self._forgetting.agreed(sender, message)
            case _:
                self._views.receive(sender, message)

    def _commit(self, sender: ServerId, commit: Commit) -> None:
        """Apply this server's share of an outcome, unless it does not follow from this server's agreement."""
        try:
            share = read_share(commit.outcome, self._context, update_id=commit.update_id)
        except NotAMessageError:
            self.channels.faults[sender, PeerFault.UNREADABLE] += 1
            return
        fault = self._rules.fault_in_share(share)
        if fault is None:
            self._participant.commit(commit, share)
        else:
            self.channels.faults[sender, fault] += 1

    def _execute(self, command: UpdateCommand | ImportCommand, records: Records) -> Outcome:
        graph = self.graph
        since = graph.mark()
        try:
            changes = self._collect(command)
        except RefusedError as error:
            graph.forget_interned(since)
            return error.refusal
        final_priority = Priority(self._context.counter + 1, self.server)
        renames = () if isinstance(command, ImportCommand) else renames_in(command.composite, command.operations)
        self._context.note_renames(renames)
        created = []
        for node, kind in changes.kinds.items():
            if NodeKind.GROUP in (kind, graph.kind(node)):
                self._context.note_group(graph.ids[node], final_priority, is_present=kind is NodeKind.GROUP)
                if kind is NodeKind.GROUP:
                    created.append(graph.ids[node])
        self._context.change_log.note(final_priority, self.server, command.origin, changes_of_delta(graph, changes))
        topology = compute_topology(graph, self.ancestors, changes, final_priority=final_priority)
        written, effects = commit(
            graph,
            self.ancestors,
            changes,
            topology,
            final_priority=final_priority,
            since=since,
            reports_control=isinstance(command, UpdateCommand) and command.reports_control,
        )
        self._context.counter = final_priority.counter
        self._set_policies(command, created, renames)
        self.records.all_recorded()
        records.extend(written)
        revision = revision_of(final_priority, coordinator=self.server)
        if isinstance(command, ImportCommand):
            counts = ImportCounts(len(changes.added), changes.groups_created, changes.already_there)
            return Committed(revision, counts=counts)
        effects_named = name_effects(graph, self._table, self.server, effects)
        left = left_groups(command.composite, command.operations)
        unchanged = unchanged_of(command.composite, changes.unchanged)
        return Committed(revision, effects_named, unchanged=unchanged, left=left)

    def _collect(self, command: UpdateCommand | ImportCommand) -> GraphDelta:
        match command:
            case UpdateCommand():
                operations, caller = command.operations, _caller_of(command, self._context)
                rights = None
                if caller is not None:
                    word = own_word(caller, replacements_of(command.composite))
                    rights = OperationRights(self._context, self.records, word, coordinator=self.server)
                size = 1 if command.composite is not None else len(operations)
                collector = OperationCollector(self._context, rights=rights)
                return collector.collect(list(enumerate(operations, start=1)), size=size)
            case ImportCommand():
                self._require_rights(command)
                return collect_import(self._context, command)

    def _set_policies(
        self, command: UpdateCommand | ImportCommand, created: list[NodeId], renames: Replacements
    ) -> None:
        """Set the policies of the groups that an update of this server alone creates, or names."""
        caller = _caller_of(command, self._context)
        operations = () if isinstance(command, ImportCommand) else command.operations
        if caller is not None or any(isinstance(each, SetPolicy) for each in operations):
            new = new_policies(self._context, operations, created, maker=caller, renames=renames)
            keep_policies(self._context, new, operations, command.origin)


def _plan_of(command: UpdateCommand | ImportCommand, context: ServerContext) -> Plan:
    match command:
        case UpdateCommand(operations=operations):
            if context.unconfirmed:
                operations = tuple(marked(context, operation) for operation in operations)
            numbered = tuple(enumerate(operations, start=1))
            size = 1 if command.composite is not None else len(operations)
            return Plan(
                numbered,
                size,
                reports_control=command.reports_control,
                origin=command.origin,
                composite=command.composite,
                elsewhere=command.elsewhere,
                caller=_caller_of(command, context),
            )
        case ImportCommand():
            # For its caller, an import is one operation.
            operations_of = ImportOperations(context, command)
            return Plan(operations_of, 1, is_import=True, origin=command.origin, caller=_caller_of(command, context))


def _caller_of(command: UpdateCommand | ImportCommand, context: ServerContext) -> CallerFacts | None:
    """Return the caller of a command. None if this server judges no callers."""
    if context.server_policy is None:
        return None
    return command.caller or CallerFacts(ANONYMOUS)


_NO_TRACE = frozenset([Reason.DEADLINE_EXCEEDED, Reason.UNAVAILABLE, *RIGHTS_REASONS])
"""Reasons of refusals that are not remembered by request id."""

_OPERATOR_FACTS = CallerFacts(OPERATOR)


def _deadline_passed() -> RefusedError:
    return refuse(Reason.DEADLINE_EXCEEDED, "the deadline passed before the update's turn came; nothing was done")


def _is_of_client(message: Message) -> bool:
    """Return True for a request to take part in a client's update, in a read or in a cut."""
    order = message.order if isinstance(message, OrderFor) else message
    if not isinstance(order, Order):
        return False
    return order.update.is_of_client or order.update.read is not None or order.update.cut is not None
