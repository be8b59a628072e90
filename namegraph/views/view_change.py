"""Change of view: end the updates under way, suspend arcs to servers out of reach, settle arcs of servers that are
back.

    Propose --> give up the view: no message of it counts any more
    Install --> finish the updates that any member knows to be decided, drop all others; suspend arcs to servers that
                were in another view: arcs that leave, at once; arcs that enter, by one update of all servers of one
                origin (SuspendIncoming, to the smallest of them) --> IncomingSuspended to the leader
    Open    --> updates begin; parents' homes and children's homes compare arcs (ArcDigest, DigestReply), settle them

All servers of an update therefore agree on the servers that are reachable. Members of one origin (`Cohort`) hold
states that fit together, whatever they missed of other servers. Between members of different origins, all arcs are
suspended first, and then joined again by ordinary updates.

Source: docs/protocol-partitions.md, "Servers that part"; docs/decisions/0011-views.md.
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
from namegraph.state.wait_limits import WaitLimits
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
"""Rows: the one row of the view that this server is in."""
ENTERING = "entering"
"""Rows: arcs to be suspended, by the server that they enter."""


DOES_NOT_ANSWER = "does not answer a suspension of arcs"
"""Reason of a participant that was given up."""
DOES_NOT_SUSPEND = "does not suspend arcs"
"""Reason of a server that was given up: it speaks for an origin, and lets a view wait."""
DOES_NOT_OPEN = "does not open its view"
"""Reason of a leader that was given up."""


class ViewChange:
    """One server's actions when views end and begin."""

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
        self._installed_at: float | None = None
        """Time of the first look at a view that is not open, on the attentive clock."""
        self._entering = DurableMap(context.durable, ENTERING, SERVERS, packed_small(tuple[ArcId, ...]))
        """Arcs to be suspended, by the server that they enter."""
        self._due: dict[ServerId, None] = {}
        """Servers whose arcs into this server may have to be suspended, in this view or in an earlier view that ended
        before all was done."""
        self._settled: dict[ServerId, None] = {}
        """Origins, by their smallest server, that have suspended all their arcs. Used in a view that this server
        leads."""
        self._healed: dict[ServerId, None] = {}
        """Members that have settled all their arcs. Used in a view that this server leads."""
        self._view = DurableMap(context.durable, VIEW, TEXTS, packed(_ViewRow))
        """A single value, under the empty key: the durable part of the view, as of the end of the last step."""
        self._must_resume = bool(self._view)
        for found in self._view.values():
            context.view, context.members, context.promised = found.view, dict(found.members), found.promised
            context.phase, context.origin, context.view_floor = found.phase, found.origin, found.begins
            self._settled, self._due = dict.fromkeys(found.settled), dict.fromkeys(found.due)
            self._healed = dict.fromkeys(found.healed)

    def give_up_view(self, view: ViewId, reached: tuple[ServerId, ...]) -> Accept:
        """Stop all updates under way, for good. Return their state."""
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

    def look(self, seconds: float, limits: WaitLimits) -> dict[ServerId, str]:
        """Judge the waits for other servers while a view is agreed on, and until it is open. Return the servers that
        were waited for in vain, with the reason.

        `seconds`: time on the attentive clock.
        """
        context = self._context
        silent = self.agreement.look(seconds, limits)
        if context.view_change_in_progress or context.view_active:
            self._installed_at = None
            return silent
        if self._installed_at is None:
            self._installed_at = seconds
        waited = seconds - self._installed_at
        if self._suspending is not None and waited >= limits.answer:
            silent.update(dict.fromkeys(self._coordinator.silent_in(self._suspending), DOES_NOT_ANSWER))
        if context.view.leader == context.server and waited >= limits.settle:
            leaders = {self._cohort_leader_of(origin) for origin in context.members.values()}
            missing = sorted(leaders - self._settled.keys() - {context.server})
            silent.update(dict.fromkeys(missing, DOES_NOT_SUSPEND))
        elif context.view.leader != context.server and waited >= limits.open:
            silent[context.view.leader] = DOES_NOT_OPEN
        return silent

    def receive(self, sender: ServerId, message: ViewMessage) -> None:
        """Handle a message about views, or about changes made while apart. Messages of this server to itself are
        included."""
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
        """Record that a server is reached again. If no other member is lost, waiting updates go on in the present
        view."""
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
        """Install a view: finish the decided updates, and drop the rest."""
        context = self._context
        if install.view != context.promised or not context.view_change_in_progress:
            return
        # Two orders matter. Outcomes are applied, and doubts noted, while their entries are there, and in the view in
        # which they were decided. The reason: an arc is unconfirmed if its parent's home was away then, and the new
        # view may contain that home. Questions about servers of other views come once the members of the new view are
        # known.
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
        self._installed_at = None
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
            # The kept copy or its coordinator is faulty. The coordinator is counted, because the keeper of the copy is
            # unknown.
            self._context.faults.append((share.update_id.coordinator, fault))

    def entering(self, sender: ServerId, entering: SuspendIncoming) -> None:
        """Collect the entering arcs of one origin, as its smallest server. Once all have reported, suspend them in one
        update.

        One update for each server would be wrong. An arc that one server suspends may be above another server only
        by way of servers that are away. No entry then leads from one to the other, and the second update would
        compute over loops that the first has broken.
        """
        self._entering[sender] = entering.arcs
        self._suspend_all()

    def settled(self, sender: ServerId) -> None:
        """Count, as the leader, an origin that has suspended all its arcs. The last one opens the view."""
        context = self._context
        self._settled[sender] = None
        groups = {self._cohort_leader_of(origin) for origin in context.members.values()}
        if context.view_active or not self._settled.keys() >= groups:
            return
        for server in sorted(context.members):
            context.send(server, Open())

    def open(self) -> None:
        """Let updates begin, because all origins have suspended all their arcs."""
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
        """Count, as the leader, a member that has settled all its arcs. With the last one, the view is healed."""
        context = self._context
        self._healed[sender] = None
        if not context.is_healed and self._healed.keys() >= context.members.keys():
            for server in sorted(context.members):
                context.send(server, ViewReconciled())

    def reconciled(self) -> None:
        """Enter the healed phase: all members have settled all their arcs, so this server knows all that other members
        know."""
        context = self._context
        if not self._enter_phase_after(ViewEvent.RECONCILED):
            return
        context.catch_up()
        if not context.is_parted:
            context.group_versions.forget_all(context.view_floor)

    def _enter_phase_after(self, event: ViewEvent) -> bool:
        """Enter the phase to which an event leads. Return False if the event is ignored in the present phase."""
        phase = self._context.phase.after(event)
        if phase is None:
            return False
        self._context.phase = phase
        return True

    def advance(self) -> None:
        """Go on with the work that this server does by itself. Called within each step, until nothing is left to do."""
        if self._must_resume:
            self._resume()
        if self.healing.has_new_groups:
            self.healing.try_again()
        events, self._coordinator.own_events = self._coordinator.own_events, []
        for event in events:
            match event:
                case BegunAgain(before, now) if before == self._suspending:
                    self._suspending = now
                case BegunAgain(before, now):
                    self.healing.begun_again(before, now)
                case Over(update_id, is_done) if update_id == self._suspending:
                    self._suspending = None
                    if is_done:
                        self._say_settled()
                case Over(update_id, is_done):
                    self.healing.ended(update_id, is_done=is_done)

    def _resume(self) -> None:
        """Begin again, after a restart, the work that is not durable because it can be begun again."""
        self._must_resume = False
        self.agreement.reconsider()
        if self._context.view == FIRST_VIEW or self._context.view_change_in_progress:
            return
        if self._context.view_active:
            self.healing.view_opened()
        elif self._suspending is None:
            self._suspend_all()

    def _cohort_leader_of(self, origin: Cohort) -> ServerId:
        """Return the server that speaks for all servers of one origin."""
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
        # The server that opens the view first may join an arc anew. That arc must not be suspended once more.
        self._entering.clear()
        context.send(context.view.leader, IncomingSuspended())

    def note_view(self) -> None:
        """Update the durable part of the view. Called at the end of each step."""
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
