"""From one view to the next: what is under way ends, what is out of reach is suspended, what came back is settled.

    Propose --> give up the view: no message of it counts any more
    Install --> finish what any member knows to be decided, drop all else; suspend arcs to servers that were in another
                view: arcs that leave, at once; arcs that enter, by one update of all servers of one origin (Entering,
                to the smallest of them) --> Settled to the leader
    Open    --> updates begin; parents' homes and children's homes compare arcs (Held, DigestReply) and settle them

So all servers of an update agree on which servers are reachable. Members of one origin (`Cohort`) hold states that fit
together, whatever they missed of others. Between members of different origins, all arcs are suspended first, and then
joined again by ordinary updates.

Source: protocol.md section 7; decision 0011.
"""

from __future__ import annotations

from typing import NamedTuple, assert_never

from namegraph.model.names import ServerId
from namegraph.model.priorities import Priority
from namegraph.model.rows import RequestId
from namegraph.reconcile.reconciliation import Reconciliation
from namegraph.state.context import NEVER, ServerContext
from namegraph.state.durable_maps import SERVERS, TEXTS, DurableMap, packed, packed_small
from namegraph.state.view_phase import ViewEvent, ViewPhase
from namegraph.update.commit_share import read_share
from namegraph.update.coordinator import Coordinator
from namegraph.update.participant import Participant
from namegraph.update.transaction import BegunAgain, Over, Plan
from namegraph.verify.peer_rules import PeerRules
from namegraph.views.view_agreement import Agreement
from namegraph.wire.codec import NotAMessageError
from namegraph.wire.message_parts import FIRST_VIEW, ArcId, Cohort, SuspendArc, UpdateId, ViewId
from namegraph.wire.view_messages import (
    Accept,
    ArcDigest,
    Decline,
    DigestReply,
    ExcludedFromView,
    HintedOutcome,
    IncomingSuspended,
    Install,
    MemberReconciled,
    Open,
    Propose,
    Reach,
    SuspendIncoming,
    ViewMessage,
    ViewReconciled,
)

VIEW = "view"
"""Rows: the one row that says in which view this server is."""
ENTERING = "entering"
"""Rows: what is to be suspended, by the server that it enters."""


class ViewChange:
    """What one server does when views end and begin."""

    def __init__(
        self, context: ServerContext, participant: Participant, coordinator: Coordinator, rules: PeerRules
    ) -> None:
        self._context = context
        self._rules = rules
        self._participant = participant
        self._coordinator = coordinator
        self._records = participant.records
        self.agreement = Agreement(context, self.give_up_view)
        self.healing = Reconciliation(context, participant, coordinator)
        self._suspending: UpdateId | None = None
        self._entering = DurableMap(context.durable, ENTERING, SERVERS, packed_small(tuple[ArcId, ...]))
        """What is to be suspended, by the server that it enters."""
        self._due: dict[ServerId, None] = {}
        """Servers from which arcs may enter here that are to be suspended: in this view, or in one before that did not
        last until all was done."""
        self._settled: dict[ServerId, None] = {}
        """In the view that this server leads: the origins, by their smallest, that have suspended what they must."""
        self._healed: dict[ServerId, None] = {}
        """In the view that this server leads: the members that have settled all that they must."""
        self._view = DurableMap(context.durable, VIEW, TEXTS, packed(_ViewRow))
        """One value, without a key: what is durable of the view, as it was when the last step ended."""
        self._must_resume = bool(self._view)
        for found in self._view.values():
            context.view, context.members, context.promised = found.view, dict(found.members), found.promised
            context.phase, context.origin, context.view_floor = found.phase, found.origin, found.begins
            self._settled, self._due = dict.fromkeys(found.settled), dict.fromkeys(found.due)
            self._healed = dict.fromkeys(found.healed)

    def give_up_view(self, view: ViewId, reached: tuple[ServerId, ...]) -> Accept:
        """Stop what is under way, for good; return what is known of it."""
        context = self._context
        context.promised = view
        return Accept(
            view,
            context.origin,
            reached,
            context.counter,
            self._participant.ready_updates(),
            tuple(self._participant.decided.all_kept()),
        )

    def receive(self, sender: ServerId, message: ViewMessage) -> None:
        """Handle a message about views, or about what was done while apart; this server's own too."""
        match message:
            case Reach():
                self.agreement.reach(sender, message)
            case Propose():
                self.agreement.propose(sender, message)
            case Decline():
                self.agreement.decline(sender, message)
            case Accept():
                self.agreement.accept(sender, message)
            case ExcludedFromView():
                self.agreement.outside(message)
            case Install():
                self.install(message)
            case SuspendIncoming():
                self.entering(sender, message)
            case IncomingSuspended():
                self.settled(sender)
            case Open():
                self.open()
            case ArcDigest():
                self.healing.held(sender, message)
            case DigestReply():
                self.healing.held_too(sender, message)
            case MemberReconciled():
                self.healed(sender)
            case ViewReconciled():
                self.reconciled()
            case HintedOutcome():
                self.healing.offer(sender, message)
            case _:
                assert_never(message)

    def met(self, server: ServerId) -> None:
        """A server is reached again. If no other member is lost, what waits for the next view goes on in this one."""
        context = self._context
        self.agreement.met(server)
        if context.view_change_in_progress or any(context.is_in_view(lost) for lost in context.lost):
            return
        if context.view_active:
            self._coordinator.begin_waiting()
            self.healing.go_on()
        elif self._suspending is None:
            self._suspend_all()

    def install(self, install: Install) -> None:
        """Finish what is decided, drop the rest, and be in the view."""
        context = self._context
        if install.view != context.promised or not context.view_change_in_progress:
            return
        # Two orders matter. Outcomes are applied, and doubts noted, while their entries are there, and in the view in
        # which they were decided: an arc is unconfirmed if its parent's home was away then, which the new view may
        # contain. What asks which servers were in another view comes once the members of the new one are known.
        context.counter = max(context.counter, install.counter)
        for outcome in install.commits:
            self._finish(outcome)
        self._participant.remember_doubts(dict(install.members))
        self._participant.end_view()
        undone = self._coordinator.end_view()
        before = tuple(context.members)
        context.view, context.members = install.view, dict(install.members)
        self._enter_phase_after(ViewEvent.INSTALLED)
        context.origin = Cohort(install.view, self._cohort_leader_of(context.members[context.server]))
        context.view_floor = Priority(install.counter + 1, NEVER.server)
        self._settled, self._healed, self._suspending = {}, {}, None
        self._entering.clear()
        self.healing.view_ended(undone)
        self._participant.decided.installed()
        self._participant.suspend_leaving()
        self.agreement.installed(before)
        self._due.update(dict.fromkeys(server for server in context.table.servers() if context.has_diverged(server)))
        arcs = self._records.entering_from(self._due.__contains__)
        context.send(self._cohort_leader_of(context.members[context.server]), SuspendIncoming(tuple(arcs)))

    def _finish(self, outcome: bytes) -> None:
        try:
            share = read_share(outcome, self._context)
        except NotAMessageError:
            return
        if not self._participant.is_ready(share.update_id):
            return
        fault = self._rules.fault_in_share(share)
        if fault is None:
            self._participant.finish(outcome, share)
        else:
            # The kept copy or its coordinator is faulty. The coordinator is counted: nothing says who kept the copy.
            self._context.faults.append((share.update_id.coordinator, fault))

    def entering(self, sender: ServerId, entering: SuspendIncoming) -> None:
        """As the smallest of one origin: once all have reported, suspend what enters any of them, in one update.

        One update for each server would be wrong. An arc that one server suspends may be above another server only by
        way of servers that are away. No entry then leads from one to the other, and the second update would compute
        over loops that the first has broken.
        """
        self._entering[sender] = entering.arcs
        self._suspend_all()

    def settled(self, sender: ServerId) -> None:
        """As the leader: count an origin that has suspended what it must; open the view with the last one."""
        context = self._context
        self._settled[sender] = None
        groups = {self._cohort_leader_of(origin) for origin in context.members.values()}
        if context.view_active or not self._settled.keys() >= groups:
            return
        for server in sorted(context.members):
            context.send(server, Open())

    def open(self) -> None:
        """All origins have suspended what they must: let updates begin."""
        context = self._context
        if not self._enter_phase_after(ViewEvent.OPENED):
            return
        context.origin = Cohort(context.view, ServerId(""))
        self._due = {}
        self._entering.clear()
        self._participant.decided.opened()
        self._coordinator.open_view()
        self.healing.view_opened()

    def healed(self, sender: ServerId) -> None:
        """As the leader: count a member that has settled all that it must; the view is healed with the last one."""
        context = self._context
        self._healed[sender] = None
        if not context.is_healed and self._healed.keys() >= context.members.keys():
            for server in sorted(context.members):
                context.send(server, ViewReconciled())

    def reconciled(self) -> None:
        """All members have settled all that they must: what others in the view know is known here too."""
        context = self._context
        if not self._enter_phase_after(ViewEvent.RECONCILED):
            return
        context.catch_up()
        if not context.is_parted:
            context.group_versions.forget_all(context.view_floor)

    def _enter_phase_after(self, event: ViewEvent) -> bool:
        """Whether an event has a meaning in the phase of this view, which it ends then."""
        phase = self._context.phase.after(event)
        if phase is None:
            return False
        self._context.phase = phase
        return True

    def advance(self) -> None:
        """Go on with what this server does by itself. Called within each step, until nothing is left to do."""
        if self._must_resume:
            self._resume()
        if self.healing.has_new_groups:
            self.healing.try_again()
        events, self._coordinator.own_events = self._coordinator.own_events, []
        for event in events:
            match event:
                case BegunAgain(before, now):
                    self.healing.begun_again(before, now)
                case Over(update_id, is_done) if update_id == self._suspending:
                    self._suspending = None
                    if is_done:
                        self._say_settled()
                case Over(update_id, is_done):
                    self.healing.ended(update_id, is_done=is_done)

    def _resume(self) -> None:
        """After a restart: begin again what is not durable because it can be begun again."""
        self._must_resume = False
        self.agreement.reconsider()
        if self._context.view == FIRST_VIEW or self._context.view_change_in_progress:
            return
        if self._context.view_active:
            self.healing.view_opened()
        elif self._suspending is None:
            self._suspend_all()

    def _cohort_leader_of(self, origin: Cohort) -> ServerId:
        """The server that speaks for all of one origin."""
        return min(server for server, other in self._context.members.items() if other == origin)

    def _suspend_all(self) -> None:
        context = self._context
        group = {server for server in context.members if not context.has_diverged(server)}
        if min(group) != context.server or not self._entering.keys() >= group:
            return
        arcs = sorted(arc for server in group for arc in self._entering[server])
        if not arcs:
            self._say_settled()
            return
        operations = tuple((1, SuspendArc(*arc)) for arc in arcs)
        plan = Plan(operations, 1, is_own=True)
        self._suspending = self._coordinator.start(plan, request_id=RequestId(""), deadline=None)

    def _say_settled(self) -> None:
        context = self._context
        # Who opens the view first may join an arc anew: it is not to be suspended once more.
        self._entering.clear()
        context.send(context.view.leader, IncomingSuspended())

    def note_view(self) -> None:
        """Let what is durable of the view be what it is now. Called at the end of each step."""
        context = self._context
        if context.promised == FIRST_VIEW:
            return
        row = _ViewRow(
            context.view,
            tuple(context.members.items()),
            context.promised,
            context.view_active,
            tuple(self._settled),
            tuple(self._due),
            context.origin,
            context.view_floor,
            context.is_healed,
            tuple(self._healed),
        )
        if row != self._view.get(""):
            self._view[""] = row


class _ViewRow(NamedTuple):
    view: ViewId
    members: tuple[tuple[ServerId, Cohort], ...]
    promised: ViewId
    view_active: bool
    settled: tuple[ServerId, ...]
    due: tuple[ServerId, ...]
    origin: Cohort
    begins: Priority
    is_healed: bool
    healed: tuple[ServerId, ...]

    @property
    def phase(self) -> ViewPhase:
        if self.view == FIRST_VIEW:
            return ViewPhase.FIRST
        if not self.view_active:
            return ViewPhase.SUSPENDING
        return ViewPhase.HEALED if self.is_healed else ViewPhase.HEALING
