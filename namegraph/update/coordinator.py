"""Coordinator of updates: orders them with all participants, computes the outcome alone, and decides.

    ORDER ---- all voted ----> READY ---- all ready, all covered ----> DECIDED
      |                          |
      +--------- Abort <---------+

Before the decision, an update ends without a trace in four cases: a participant refuses, its deadline passes, a
server that it needs is out of reach, or this server restarts. A decided update is kept until every participant is
done.

A group that is deleted with force may have arcs that only its home knows. The update then begins again, with the
leaves of these arcs. A read takes part in the ordering like an update. At its turn every participant reports the
nodes that it reaches; the read changes nothing.

The final priority, the highest vote, is announced as soon as it is known. A participant that only a `Ready` names
gets `Order` with the final priority, and answers `Ready`. If one vote alone is missing, that server is told the
highest of the other votes. Its own vote then tells it the final priority (`Order.highest_vote`). The caller is
answered when all participants are done, so every later read, at any server, sees the update.

Source: NG 6.2, 6.4; docs/protocol-updates.md, "Many servers".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from namegraph.graph.apply_delta import name_effects
from namegraph.model.names import NodeId, ServerId
from namegraph.model.operations import CreateGroup, DeleteGroup, JoinArc, LeaveArc, Operation, SetPolicy
from namegraph.model.outcomes import Committed, ImportCounts
from namegraph.model.peer_faults import PeerFault
from namegraph.model.priorities import Priority, revision_of
from namegraph.model.protocol_versions import LISTS_VERSION, RIGHTS_VERSION
from namegraph.model.refusals import Reason, Refusal, RefusedError
from namegraph.model.rows import NodeKind, RequestId
from namegraph.state.context import ServerContext
from namegraph.state.durable_maps import UPDATES, DurableMap
from namegraph.state.pending_requests import told_request_id
from namegraph.state.wait_limits import WaitLimits
from namegraph.update.arc_authority import authority_over, marked
from namegraph.update.arc_outcomes import UnsaidError
from namegraph.update.commit_share import share_of
from namegraph.update.composite import expand, left_groups, renames_in, unchanged_of
from namegraph.update.control_report import ControlReport, united_reports
from namegraph.update.decision import Decision, decide
from namegraph.update.import_plan import ImportOperations
from namegraph.update.locality import companions_judged
from namegraph.update.operation_rights import replacements_of, word_for
from namegraph.update.participant import Participant
from namegraph.update.participant_shares import parts_of, stated_size
from namegraph.update.transaction import RUNNING, BegunAgain, Ended, Over, Phase, Plan, Transaction
from namegraph.wire.arc_sets import count_of, each_arc
from namegraph.wire.codec import encode_outcome
from namegraph.wire.message_parts import CallerWord, Cover, OnwardServers, PendingEntry, Step, Update, UpdateId
from namegraph.wire.older_forms import outcome_in_columns
from namegraph.wire.update_messages import (
    GIVEN_UP,
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
    UpdateOutcome,
    Vote,
)

COORDINATED = "coordinated"
"""Rows: an update under way, by update."""

ATTEMPTS_LIMIT = 100
"""Attempts of a client's update, which begins again when other updates change the arcs that it has to leave."""

_NOT_BEGUN = (Phase.WAITING, Phase.QUEUED)

_MISSING = {
    Phase.WAITING: "agreed on who is there",
    Phase.ORDER: "voted",
    Phase.READY: "were ready",
}
"""Action that servers had not taken when a deadline passed, by phase. The text continues a sentence."""

OWN_PART_LATER_FROM = 10_000
"""Operations, or arcs of an outcome, from which this server does its own part after the other servers were told. A part
of this size takes a second or more, in which the other servers can work too."""

COORDINATED_LIMIT = 1_000
"""Updates of clients, over several servers, that are not over: under way, or queued here."""

BEGUN_LIMIT = 100
"""Updates of clients that are under way at once. Other servers keep state of each until it is decided."""

QUEUED_OPERATIONS_LIMIT = 100
"""Operations of an update that may be queued. A larger update begins at once."""

ROOTS_LIMIT = 100
"""Entry nodes of an update up to which all are named to every server that it leads to.

An update with more entry nodes, such as an import or a settlement of arcs, finds its participants along the arcs.
Its messages stay as small as its parts.
"""

KEPT_CHANGING = "others kept changing the arcs that this update has to leave; nothing was done, try again"


class Coordinator:
    """All updates that this server coordinates and that are not done everywhere."""

    def __init__(self, context: ServerContext, participant: Participant) -> None:
        self._context = context
        self._participant = participant
        self.own_share_later_from = OWN_PART_LATER_FROM
        self.begun_limit = BEGUN_LIMIT
        self._running = DurableMap(context.durable, COORDINATED, UPDATES, RUNNING)
        self.events: list[BegunAgain | Ended | Over] = []
        """Events of the updates of clients in this step, in order."""
        self.own_events: list[BegunAgain | Ended | Over] = []
        """Events of the updates that this server began itself in this step, in order."""

    def require_room(self) -> None:
        """Raise `RefusedError` if too many updates are under way for another one of a client."""
        if len(self._running) >= COORDINATED_LIMIT:
            text = f"{COORDINATED_LIMIT} updates over several servers are under way here; nothing was done, try again"
            raise RefusedError(Refusal(Reason.UNAVAILABLE, text))

    def start(
        self,
        plan: Plan,
        *,
        request_id: RequestId,
        deadline: float | None,
        attempt: int = 1,
        instead_of: UpdateId | None = None,
    ) -> UpdateId:
        """Start a new update, or one that begins again. Return its id."""
        context = self._context
        tentative = context.next_priority()
        # Counters never fall, not even by a restart, so no two updates of this coordinator share one.
        update_id = UpdateId(context.server, tentative.counter)
        running = self._running[update_id] = Transaction(update_id, request_id, plan, deadline, tentative, attempt)
        if instead_of is not None:
            self._tell(running, BegunAgain(instead_of, update_id))
        if not plan.is_own and (context.view_change_in_progress or not context.view_active):
            running.phase = Phase.WAITING
            return update_id
        if _may_be_queued(plan) and self._begun_of_clients() > self.begun_limit:
            running.phase = Phase.QUEUED
            return update_id
        if plan.without is not None and context.is_in_view(plan.without):
            self._abort(running, Refusal(Reason.UNAVAILABLE, f"the server {plan.without} is back; nothing was done"))
            return update_id
        if plan.composite is not None:
            found = self._found_anew(plan)
            if isinstance(found, Refusal):
                self._abort(running, found)
                return update_id
            if not found.operations:
                self._end_empty(running)
                return update_id
            plan = running.plan = found
        old = None if isinstance(plan.operations, ImportOperations) else self._without_policies(plan)
        if old is not None:
            why = f"the server {old} is of an earlier version and keeps no policies; nothing was done"
            self._abort(running, Refusal(Reason.UNAVAILABLE, why, {"server": old}))
            return update_id
        covers: dict[ServerId, tuple[dict[NodeId, None], dict[NodeId, None]]] = {}
        if plan.read is not None:
            covers[context.home_of(plan.read)] = ({}, {plan.read: None})
        if plan.cut is not None:
            covers.update((server, ({}, {})) for server in context.table.servers())
        if isinstance(plan.operations, ImportOperations):
            covers |= plan.operations.ends()
        for _, operation in () if isinstance(plan.operations, ImportOperations) else plan.operations:
            match operation:
                case CreateGroup(group) | DeleteGroup(group) | SetPolicy(group):
                    covers.setdefault(context.home_of(group), ({}, {}))[0][group] = None
                case _:
                    for home, node, is_entry in authority_over(context, operation).asked:
                        covers.setdefault(home, ({}, {}))[is_entry][node] = None
        if context.server_policy is not None and not isinstance(plan.operations, ImportOperations):
            for base in _companions_judged(plan):
                covers.setdefault(context.home_of(base), ({}, {}))[0][base] = None
        running.judges = dict.fromkeys(covers)
        roots = dict.fromkeys(node for _, entry_nodes in covers.values() for node in entry_nodes)
        if len(roots) <= ROOTS_LIMIT:
            running.roots = frozenset(roots)
        for server, (ends, entry_nodes) in covers.items():
            running.want(server, ends=ends, entry_nodes=running.roots.union(entry_nodes))
        self._ask(running)
        return update_id

    def vote(self, sender: ServerId, vote: Vote) -> None:
        """Count a vote. The last vote makes the final priority known."""
        self._context.see(vote.priority)
        running = self._running.get(vote.update_id)
        if running is None or running.phase is not Phase.ORDER or not running.votes_due[sender]:
            return
        running.votes_due[sender] -= 1
        running.highest_vote = max(running.highest_vote, vote.priority)
        running.above.update(dict.fromkeys(vote.above))
        self._add_leads(running, vote.leads)
        if vote.entered:
            running.want(sender, entry_nodes=vote.entered)
            running.asked[sender] = running.asked[sender].extended(Cover(frozenset(), frozenset(vote.entered)))
        self._ask(running)
        if running.phase is not Phase.ORDER or running.votes_due.total():
            return
        running.final, running.phase = running.highest_vote, Phase.READY
        knows_it = sender == running.last_voter and not vote.leads
        is_large = len(running.plan.operations) >= self.own_share_later_from
        send = self._context.send_via_log if is_large else self._context.send
        for server in self._involved(running):
            if not (knows_it and server == sender):
                send(server, Final(vote.update_id, running.final, tuple(running.above)))
        for early_one, answer in running.early:
            if isinstance(answer, Ready):
                self.ready(early_one, answer)
            else:
                self.refuse(early_one, answer)

    def ready(self, sender: ServerId, ready: Ready) -> None:
        """Count a yes vote. Decide with the last one."""
        running = self._running.get(ready.update_id)
        self._keep_early(running, sender, ready)
        if running is None or running.phase is not Phase.READY:
            return
        running.readies[sender] = ready
        if running.refuses:
            self._end_refused(running)
            return
        self._add_leads(running, ready.leads)
        self._ask(running)
        if running.phase is Phase.READY and running.is_covered():
            self._compute(running)

    def waiting_for_answers(self, update_id: UpdateId) -> Transaction | None:
        """Return the update while the answers of its participants still count. None afterwards."""
        running = self._running.get(update_id)
        return running if running is not None and running.phase in (Phase.ORDER, Phase.READY) else None

    def give_up(self, update_id: UpdateId, sender: ServerId, fault: PeerFault) -> None:
        """End an update whose participant sent an invalid answer. That participant may not know the owner of a
        subnet."""
        running = self.waiting_for_answers(update_id)
        if running is not None and sender in running.asked:
            why = f"the server {sender} is at fault: it {fault}; nothing was done"
            self._abort(running, Refusal(Reason.UNAVAILABLE, f"{why} (are all servers in its table of peers?)"))

    def refuse(self, sender: ServerId, refuse: Refuse) -> None:
        """Record that a participant refuses. The update ends, or begins again, once all servers that judge it have
        answered.

        A participant that gave its entry up judges nothing any more.
        """
        running = self._running.get(refuse.update_id)
        if running is not None and running.phase in (Phase.ORDER, Phase.READY) and _is_given_up(refuse, running):
            self._begin_anew(running, refuse.refusal)
            return
        self._keep_early(running, sender, refuse)
        if running is None or running.phase is not Phase.READY:
            return
        running.refuses[sender] = refuse
        self._end_refused(running)

    def _keep_early(self, running: Transaction | None, sender: ServerId, answer: Ready | Refuse) -> None:
        # The last voter knows the final priority before its vote arrives here, and may have handed it on with an entry.
        if running is not None and running.phase is Phase.ORDER:
            running.early.append((sender, answer))

    def attempts(self, limits: WaitLimits) -> Iterator[tuple[UpdateId, float]]:
        """Yield the undecided updates that wait for votes or answers, each with the limit of one attempt in seconds."""
        for running in self._running.values():
            if running.phase in (Phase.ORDER, Phase.READY):
                yield running.update_id, limits.attempt + limits.allowance(stated_size(running.plan))

    def end_attempt(self, update_id: UpdateId) -> None:
        """End an attempt that takes too long, and begin again."""
        running = self._running.get(update_id)
        if running is None or running.phase not in (Phase.ORDER, Phase.READY):
            return
        missing = self._missing(running)
        why = f"{running.update_id.coordinator} gave the update up: not all servers {_MISSING[running.phase]} in time"
        self._begin_anew(running, Refusal(Reason.UNAVAILABLE, f"{why} ({missing}); nothing was done, try again"))

    def silent_in(self, update_id: UpdateId) -> list[ServerId]:
        """Return the other servers that have not answered the present attempt of an update, sorted."""
        running = self._running.get(update_id)
        if running is None or running.phase not in (Phase.ORDER, Phase.READY):
            return []
        return [server for server in self._waited_for(running) if server != self._context.server]

    def _begin_anew(self, running: Transaction, refusal: Refusal) -> None:
        """Begin an update again because it took too long. An update that takes long to begin is refused instead."""
        is_small = running.plan.is_own or _may_be_queued(running.plan)
        if not is_small or (running.attempt >= ATTEMPTS_LIMIT and not running.plan.is_own):
            self._abort(running, refusal)
            return
        self._end_without_trace(running)
        self._start_again(running, running.plan, attempt=running.attempt + 1)

    def tick(self, now: float) -> None:
        """End the updates whose deadline has passed."""
        for running in list(self._running.values()):
            if not running.is_decided and running.deadline is not None and now > running.deadline:
                if running.phase is Phase.QUEUED:
                    why = f"the deadline passed while {self.begun_limit} earlier updates of this server were under way"
                else:
                    what = f"{_MISSING[running.phase]} ({self._missing(running)})"
                    why = f"the deadline passed before all servers {what}"
                why = f"{why}; nothing was done"
                self._abort(running, Refusal(Reason.DEADLINE_EXCEEDED, why))

    def next_deadline(self) -> float | None:
        """Return the earliest time at which `tick` has something to do. None if no deadline is pending."""
        deadlines = [
            running.deadline
            for running in self._running.values()
            if running.deadline is not None and not running.is_decided
        ]
        return min(deadlines, default=None)

    def peer_lost(self, server: ServerId) -> None:
        """End the updates that need a server which is out of reach."""
        for running in list(self._running.values()):
            if not running.is_decided and server in running.asked:
                self._miss(running, server)

    def _miss(self, running: Transaction, server: ServerId) -> None:
        """Let an update wait for a view without a server that is out of reach. Abort it if no such view helps."""
        plan, context = running.plan, self._context
        # In that view, the part of the update at that server is suspended. Arcs joined offline are suspended from the
        # start.
        is_judge = server in running.judges and not (plan.is_import or plan.joins_offline)
        if plan.is_own or is_judge or not (context.is_in_view(server) and context.has_met(server)):
            self._abort(running, self._out_of_reach(server))
        else:
            self._wait(running)

    def _wait(self, running: Transaction) -> None:
        """Let an update begin anew when a view is open."""
        self._end_without_trace(running)
        self._running[running.update_id] = _begun_later(running)

    def end_view(self) -> list[Transaction]:
        """End everything under way. Return the updates that were decided in all views since the last open one.

        Decided updates are finished by the other members. Undecided updates of clients begin again.
        """
        # A view that was never opened may not have reached all its members, so some may still lack decided outcomes.
        found = []
        for running in list(self._running.values()):
            if running.is_decided:
                found.append(running)
                running.phase = Phase.FINISHED
                self._running.touch(running.update_id)
            elif running.plan.is_own:
                del self._running[running.update_id]
            elif running.phase is not Phase.WAITING:
                self._running[running.update_id] = _begun_later(running)
        return found

    def open_view(self) -> None:
        """Answer the callers of updates that the view before decided, and begin waiting updates."""
        for update_id, running in list(self._running.items()):
            if running.phase is not Phase.FINISHED:
                continue
            self._end_decided(running)
            self._tell(running, Over(update_id, effects=united_reports(running.told)))
        self.begin_waiting()

    def begin_waiting(self) -> None:
        """Begin the updates that wait for an open view."""
        for running in list(self._running.values()):
            if running.phase is Phase.WAITING:
                del self._running[running.update_id]
                self._start_again(running, running.plan, attempt=running.attempt)

    def begin_next(self) -> bool:
        """Begin the update that is queued for longest, if it may begin. Return True if one was begun."""
        queued = next((each for each in self._running.values() if each.phase is Phase.QUEUED), None)
        if queued is None or self._context.view_change_in_progress or self._begun_of_clients() >= self.begun_limit:
            return False
        del self._running[queued.update_id]
        self._start_again(queued, queued.plan, attempt=queued.attempt)
        return True

    def _begun_of_clients(self) -> int:
        """Return the number of clients' updates that are under way, and known to other servers."""
        if len(self._running) < self.begun_limit:
            return len(self._running)  # An upper bound suffices if it is below the limit.
        return sum(not each.plan.is_own and each.phase not in _NOT_BEGUN for each in self._running.values())

    def is_waited_for(self, counter: int) -> bool:
        """Return True if a decided update at or below a counter is not done everywhere."""
        # A read may ask while a step in another thread begins or ends updates, so it iterates over a copy.
        all_running = list(self._running.values())
        return any(running.phase is Phase.DECIDED and running.final.counter <= counter for running in all_running)

    def has_decided(self, update_id: UpdateId) -> bool:
        """Return True if an update of this coordinator is decided, and not done everywhere."""
        running = self._running.get(update_id)
        return running is not None and running.phase is Phase.DECIDED

    def under_way(self) -> list[UpdateId]:
        """Return the updates that are not over, sorted."""
        return [running.update_id for running, _ in self.all_running()]

    def phases(self) -> list[tuple[RequestId, str]]:
        """Return the request id and the phase of each update that is not over."""
        return [
            (told_request_id(running.request_id), running.phase.name.lower())
            for running in list(self._running.values())
        ]

    def all_running(self) -> list[tuple[Transaction, tuple[ServerId, ...]]]:
        """Return the updates that are not over, sorted, each with the servers that it waits for."""
        return [
            (running, tuple(sorted(running.not_done) if running.phase is Phase.DECIDED else self._waited_for(running)))
            for _, running in sorted(self._running.items())
            if running.phase is not Phase.FINISHED
        ]

    def holding(self, sender: ServerId, holding: Holding) -> None:
        """Tell a server that was handed an entry the final priority, or that the update is over."""
        running = self._running.get(holding.update_id)
        if running is None or running.phase in _NOT_BEGUN or running.is_decided:
            self._context.send(sender, Drop(holding.update_id))
            return
        running.holders[sender] = None
        self._running.touch(holding.update_id)
        if running.phase is not Phase.ORDER:
            self._context.send(sender, Final(holding.update_id, running.final))

    def done(self, sender: ServerId, done: Done) -> None:
        """Record that a participant is done. After the last one, the caller can be answered."""
        running = self._running.get(done.update_id)
        if running is None or running.phase is not Phase.DECIDED:
            return
        if sender not in running.not_done:
            return
        del running.not_done[sender]
        self._running.touch(done.update_id)
        if done.controlled or done.released:
            running.told += (ControlReport(sender, done.controlled, done.released),)
        if not running.not_done:
            self._end_decided(running)
            # This server's own part is durable then too, because it was done before the other servers could know the
            # outcome. But the controlled nodes are known from this step alone, until the step is durable.
            is_confirmed = sender != self._context.server and not running.apply_own_share_later and not running.told
            self._tell(running, Over(done.update_id, is_confirmed=is_confirmed, effects=united_reports(running.told)))

    @property
    def is_any_running(self) -> bool:
        """True if any update of this coordinator is not over."""
        return bool(self._running)

    def is_idle(self) -> bool:
        """Return True if no update of this coordinator is under way."""
        return all(running.phase is Phase.FINISHED for running in self._running.values())

    def _ask(self, running: Transaction) -> None:
        """Send `Order` to every server whose entry does not cover the wanted nodes.

        A server whose vote is due is not asked again before it votes: the vote may say that the entry covers the
        nodes. This server votes first, within the step, so that it knows if one other vote alone is missing.
        """
        final = None if running.phase is Phase.ORDER else running.final
        to_ask = []
        for server in sorted(running.wanted):
            asked = running.asked.get(server)
            if asked is None or not (running.votes_due[server] or asked.contains(running.wanted[server])):
                to_ask.append(server)
        for server in to_ask:
            if self._context.is_away(server) or not self._context.has_met(server):
                self._miss(running, server)
                return
        is_last = final is None and len(to_ask) == 1 and not running.votes_due.total()
        if to_ask:
            running.last_voter = to_ask[0] if is_last else None
        if not is_last and final is None and self._context.server in to_ask:
            to_ask = [self._context.server]
        parts = parts_of(running, [server for server in to_ask if server not in running.asked], context=self._context)
        # A server that was asked before knows the operations.
        plan = running.plan
        known = Update(running.update_id, (), stated_size(plan), (), plan.read, cut=plan.cut)
        for server in to_ask:
            before = running.asked.get(server)
            cover = running.asked[server] = running.wanted[server]
            if before is not None:
                cover = Cover(cover.ends - before.ends, cover.entry_nodes - before.entry_nodes)
            if final is None:
                running.votes_due[server] += 1
            self._running.touch(running.update_id)
            above = tuple(running.above) if is_last or final is not None else ()
            highest_vote = running.highest_vote if is_last else None
            part = parts.get(server, known)
            over_below = min(self._running).number
            order = Order(part, running.tentative, cover, final, above, highest_vote, over_below)
            word = self._word_for(running, server) if server in parts else None
            self._context.send(server, order if word is None else OrderFor(order, word))

    def _without_policies(self, plan: Plan) -> ServerId | None:
        """Return a server that is to set a policy and does not know policies. None if there is none."""
        context = self._context
        homes = [context.home_of(each.group) for each in _of_clients(plan) if isinstance(each, SetPolicy)]
        others = (home for home in homes if home != context.server)
        return next((home for home in others if not context.speaks(home, RIGHTS_VERSION)), None)

    def _word_for(self, running: Transaction, server: ServerId) -> CallerWord | None:
        """Return this server's word to a participant on the caller of an update. None if it says nothing."""
        context, plan = self._context, running.plan
        if plan.caller is None or not (server == context.server or context.speaks(server, RIGHTS_VERSION)):
            return None
        word = word_for(
            context, self._participant.records, plan.caller, server, _of_clients(plan), replacements_of(plan.composite)
        )
        running.words[server] = word
        return word

    def _is_word_kept(self, running: Transaction) -> bool:
        """Return True if what other servers were told of the caller still holds."""
        context, plan = self._context, running.plan
        for server, told in running.words.items():
            if server == context.server or plan.caller is None:
                continue
            now = word_for(
                context,
                self._participant.records,
                plan.caller,
                server,
                _of_clients(plan),
                replacements_of(plan.composite),
            )
            if not (set(told.groups) <= set(now.groups) and set(told.vouched) <= set(now.vouched)):
                return False
        return True

    def _add_leads(self, running: Transaction, leads: OnwardServers) -> None:
        for server, nodes in leads:
            running.want(server, entry_nodes=running.roots.union(nodes))

    def _involved(self, running: Transaction) -> list[ServerId]:
        return sorted({**running.asked, **running.holders})

    def _end_decided(self, running: Transaction) -> None:
        del self._running[running.update_id]
        self._participant.decided.forget(running.update_id)

    def _end_without_trace(self, running: Transaction) -> None:
        """Let all involved servers forget an update."""
        update_id = running.update_id
        del self._running[update_id]
        for server in self._involved(running):
            self._context.send(server, Abort(update_id))

    def _end_refused(self, running: Transaction) -> None:
        """End an update by the first of its operations that cannot be done, as a single server would."""
        if not running.is_judged():
            return
        _, first = min(running.refuses.items(), key=lambda item: self._rank(running, *item))
        if running.plan.composite is not None:
            self._end_refused_composite(running, first)
            return
        if not (first.to_leave or _group_gone(running, first) or self._is_joined_since(running, first)):
            self._abort_in_order(running, first.refusal)
        elif running.attempt >= ATTEMPTS_LIMIT and not running.plan.is_own:
            self._abort(running, Refusal(Reason.UNAVAILABLE, KEPT_CHANGING))
        else:
            self._begin_again(running, first)

    def _end_refused_composite(self, running: Transaction, first: Refuse) -> None:
        """Begin again if the graph now calls for other operations. Otherwise refuse the update."""
        plan = running.plan
        gone = first.refusal.facts.get("group") if first.refusal.reason is Reason.GROUP_NOT_FOUND else None
        plan = replace(plan, elsewhere=tuple(group for group in plan.elsewhere if group != gone))
        found = self._found_anew(plan)
        if isinstance(found, Refusal):
            self._abort_in_order(running, found)
        elif found.operations != running.plan.operations:
            self._begin_composite_again(running, found)
        else:
            self._abort_in_order(running, first.refusal)

    def _begin_composite_again(self, running: Transaction, plan: Plan) -> None:
        if running.attempt >= ATTEMPTS_LIMIT:
            self._abort(running, Refusal(Reason.UNAVAILABLE, KEPT_CHANGING))
            return
        self._end_without_trace(running)
        self._start_again(running, plan, attempt=running.attempt + 1)

    def _begin_told_again(self, running: Transaction) -> None:
        """Begin an update again, because the caller has left a group that gave a right at another server."""
        if running.attempt >= ATTEMPTS_LIMIT:
            self._abort(running, Refusal(Reason.UNAVAILABLE, KEPT_CHANGING))
            return
        self._end_without_trace(running)
        self._start_again(running, running.plan, attempt=running.attempt + 1)

    def _found_anew(self, plan: Plan) -> Plan | Refusal:
        """Return the plan with the operations that its command stands for now, or the refusal of the command."""
        assert plan.composite is not None
        context = self._context
        try:
            operations = expand(context, plan.composite, plan.elsewhere)
        except RefusedError as error:
            return error.refusal
        return replace(plan, operations=tuple(enumerate((marked(context, each) for each in operations), start=1)))

    def _end_empty(self, running: Transaction) -> None:
        """End an update without operations."""
        self._end_without_trace(running)
        outcome = Committed(revision_of(running.tentative, coordinator=self._context.server))
        self._tell(running, Ended(running.update_id, outcome, None), Over(running.update_id))

    def _is_joined_since(self, running: Transaction, refuse: Refuse) -> bool:
        """Return True if the home of a parent has joined an arc that this server was to leave by itself."""
        refused = [operation for number, operation in running.plan.operations if number == refuse.number]
        leaves = [operation for operation in refused if isinstance(operation, LeaveArc)]
        return any(marked(self._context, leave) != leave for leave in leaves)

    def _rank(self, running: Transaction, server: ServerId, refuse: Refuse) -> tuple[int, bool, bool]:
        """Return a sort key that orders refusals as a single server meets them.

        Within one join, the parent comes first, then the child, then the presence of the arc.
        """
        parents = [
            operation.parent
            for number, operation in running.plan.operations
            if number == refuse.number and isinstance(operation, JoinArc | LeaveArc)
        ]
        is_parents_home = bool(parents) and self._context.home_of(parents[0]) == server
        return refuse.number, refuse.refusal.reason is Reason.ALREADY_MEMBER, not is_parents_home

    def _abort(self, running: Transaction, refusal: Refusal, *, place: Priority | None = None) -> None:
        """End an update that is refused. `place`: its place in the order of updates. None if a deadline or a server is
        the cause."""
        self._end_without_trace(running)
        self._tell(running, Ended(running.update_id, refusal, place), Over(running.update_id, is_done=False))

    def _abort_in_order(self, running: Transaction, refusal: Refusal) -> None:
        """End an update that is refused at its turn. The refusal has a place in the order, unless a server is the
        cause."""
        is_for_server = refusal.reason is Reason.UNAVAILABLE
        self._abort(running, refusal, place=None if is_for_server else running.final)

    def _begin_again(self, running: Transaction, refuse: Refuse) -> None:
        self._end_without_trace(running)
        more = [(refuse.number, marked(self._context, LeaveArc(*arc, if_needed=True))) for arc in refuse.to_leave]
        gone = _group_gone(running, refuse)
        operations: list[tuple[int, Step]] = []
        for number, operation in running.plan.operations:
            if number == refuse.number and isinstance(operation, DeleteGroup):
                operations += more
            if not isinstance(operation, LeaveArc):
                operations.append((number, operation))
            elif number != refuse.number or operation.parent != gone:
                operations.append((number, marked(self._context, operation)))
        plan = replace(running.plan, operations=tuple(operations))
        self._start_again(running, plan, attempt=running.attempt + 1)

    def _start_again(self, running: Transaction, plan: Plan, *, attempt: int) -> None:
        before = running.update_id
        self.start(plan, request_id=running.request_id, deadline=running.deadline, attempt=attempt, instead_of=before)

    def _tell(self, running: Transaction, *events: BegunAgain | Ended | Over) -> None:
        (self.own_events if running.plan.is_own else self.events).extend(events)

    def _out_of_reach(self, server: ServerId) -> Refusal:
        return self._context.out_of_reach(server).refusal

    def _waited_for(self, running: Transaction) -> list[ServerId]:
        if running.phase is Phase.ORDER:
            return sorted(server for server, due in running.votes_due.items() if due)
        return sorted(
            server
            for server, cover in running.wanted.items()
            if server not in running.readies or not running.readies[server].cover.contains(cover)
        )

    def _missing(self, running: Transaction) -> str:
        """Return, in words, the servers that an update waits for.

        This server itself is waited for only while an earlier update here waits for other servers.
        """
        here = self._context.server
        servers = [server for server in self._waited_for(running) if server != here]
        others = self._waited_for_before(running.update_id) if len(servers) < len(self._waited_for(running)) else []
        missing = [f"missing: {', '.join(servers)}"] if servers else []
        if others:
            missing.append(f"an earlier update waits for {', '.join(others)}")
        return "; ".join(missing) or "missing: this server"

    def _waited_for_before(self, update_id: UpdateId) -> list[ServerId]:
        """Return the other servers for which earlier updates here wait, sorted. An update has to wait for these earlier
        updates."""
        found: set[ServerId] = set()
        for before in self._participant.all_before(update_id):
            running = self._running.get(before)
            if running is None:
                found.add(before.coordinator)
            elif running.is_decided:
                found.update(running.not_done)
            else:
                found.update(self._waited_for(running))
        return sorted(found - {self._context.server})

    def _compute(self, running: Transaction) -> None:
        if running.plan.read is not None:
            self._finish_read(running)
            return
        if running.plan.cut is not None:
            self._finish_cut(running)
            return
        if running.words and not self._is_word_kept(running):
            self._begin_told_again(running)
            return
        plan, operations = running.plan, _single_operations(running.plan)
        if plan.composite is not None:
            found = self._found_anew(plan)
            if isinstance(found, Refusal):
                self._abort_in_order(running, found)
                return
            if found.operations != plan.operations:
                self._begin_composite_again(running, found)
                return
        try:
            decision = decide(
                running.update_id,
                running.readies,
                final=running.final,
                origin=plan.origin,
                renames=renames_in(plan.composite, operations),
            )
        except UnsaidError as error:
            server = self._context.home_of(error.node)
            self._context.faults.append((server, PeerFault.UNSAID))
            self._abort(running, Refusal(Reason.UNAVAILABLE, f"the server {server} is at fault: {error}"))
            return
        self._decide(running, decision)

    def _finish_read(self, running: Transaction) -> None:
        told = {member for ready in running.readies.values() for member in ready.members}
        groups = {member.node for member in told if member.kind is NodeKind.GROUP}
        # A process that was joined while its server was away may turn out to be a group.
        members = {member for member in told if member.kind is NodeKind.GROUP or member.node not in groups}
        apart = {node for ready in running.readies.values() for node in ready.unreachable}
        entered = {member.node for member in members} - {running.plan.read}
        unreachable = tuple(sorted(apart - entered))
        self._end_without_trace(running)
        revision = revision_of(running.final, coordinator=self._context.server)
        outcome = Committed(revision, members=tuple(sorted(members)), unreachable=unreachable)
        self._tell(running, Ended(running.update_id, outcome, running.final), Over(running.update_id))

    def _finish_cut(self, running: Transaction) -> None:
        update_id = running.update_id
        del self._running[update_id]
        for server in self._involved(running):
            self._context.send(server, TakeCut(update_id))
        revision = revision_of(running.final, coordinator=self._context.server)
        self._tell(running, Ended(update_id, Committed(revision), running.final), Over(update_id))

    def _decide(self, running: Transaction, decision: Decision) -> None:
        """Tell all participants the decision. Decision, sending and this server's own share are one step, unless it is
        large."""
        context, outcome = self._context, decision.outcome
        update_id = running.update_id
        running.phase = Phase.DECIDED
        self._running.touch(update_id)
        running.not_done = dict.fromkeys(sorted(running.asked))
        for server in sorted(running.holders):
            if server not in running.asked:
                context.send(server, Drop(update_id))
        handed_on = self._to_hand_on(running, decision)
        encoded = encode_outcome(self._as_read_by(running.not_done, outcome))
        self._participant.decided.keep(update_id, encoded)
        # Sharing helps only among three or more servers. When the coordinator is lost, which may have no part itself,
        # one participant can know the outcome and another lack it.
        is_shared = len({context.server, *running.asked}) > 2
        commit = Commit(update_id, encoded, handed_on, is_shared)
        for server in running.not_done:
            if server != context.server:
                context.send(server, commit)
        if not running.plan.is_own:
            self._tell(running, Ended(update_id, self._committed(running, decision), running.final))
        running.readies = {}
        running.plan = Plan((), 0, is_own=running.plan.is_own)
        if context.server not in running.asked:
            return
        if count_of(outcome.arcs) >= self.own_share_later_from:
            running.apply_own_share_later = True
            context.send_via_log(context.server, commit)
        else:
            self._participant.commit(commit, share_of(outcome, context))

    def _as_read_by(self, servers: Iterable[ServerId], outcome: UpdateOutcome) -> UpdateOutcome:
        """Return an outcome in a form that all its participants read. It is encoded once for all of them."""
        context = self._context
        for server in servers:
            if server != context.server and not context.speaks(server, LISTS_VERSION):
                return outcome_in_columns(outcome)
        return outcome

    def _to_hand_on(self, running: Transaction, decision: Decision) -> tuple[PendingEntry, ...]:
        """Return the entries of other updates that follow nodes above the joined parents."""
        here = [tail for tail in decision.joined_parents if self._context.home_of(tail) == self._context.server]
        found = {
            pending.update_id: pending
            for server in sorted(running.asked)
            if server != self._context.server
            for pending in running.readies[server].pending
        }
        for pending in self._participant.pending_at(here, but=running.update_id):
            found[pending.update_id] = pending
        return tuple(found[update_id] for update_id in sorted(found))

    def _committed(self, running: Transaction, decision: Decision) -> Committed:
        revision = revision_of(running.final, coordinator=self._context.server)
        if running.plan.is_import:
            created = sum(change.is_present for change in decision.outcome.groups)
            return Committed(revision, counts=ImportCounts(decision.joined_count, created, decision.already_there))
        effects = name_effects(decision.after.graph, self._context.table, self._context.server, decision.effects)
        # A faulty server may name a place that the update does not have.
        places = len(running.plan.operations)
        unchanged = tuple(place for place in decision.unchanged if 1 <= place <= places)
        unchanged = unchanged_of(running.plan.composite, unchanged)
        return Committed(revision, effects, unchanged=unchanged, left=_left(running.plan, decision))

    def restore(self) -> list[Transaction]:
        """Let all servers forget the updates that were not decided before the restart. Return the decided updates with
        a caller."""
        for running in list(self._running.values()):
            if not running.is_decided:
                self._end_without_trace(running)
        return [running for running in self._running.values() if not running.plan.is_own]


def _of_clients(plan: Plan) -> list[Operation]:
    """Return the operations of a client's update. Empty for an import, which leaves no arc."""
    if isinstance(plan.operations, ImportOperations):
        return []
    return [each for _, each in plan.operations if isinstance(each, Operation)]


def _companions_judged(plan: Plan) -> list[NodeId]:
    return [base for operation in _of_clients(plan) for base in companions_judged(operation)]


def _single_operations(plan: Plan) -> list[Operation]:
    """Return the operations of a composite command."""
    if plan.composite is None or isinstance(plan.operations, ImportOperations):
        return []
    return [each for _, each in plan.operations if isinstance(each, CreateGroup | DeleteGroup | JoinArc | LeaveArc)]


def _left(plan: Plan, decision: Decision) -> tuple[NodeId, ...]:
    """Return the groups that the member left, as the homes of these groups report."""
    asked = left_groups(plan.composite, _single_operations(plan))
    if not asked:
        return ()
    gone = {change.arc.parent for change in each_arc(decision.outcome.arcs) if not change.is_present}
    return tuple(group for group in asked if group in gone)


def _group_gone(running: Transaction, refuse: Refuse) -> NodeId | None:
    """Return the missing group, if an arc of it was to be left before another group is deleted. None otherwise."""
    for number, operation in running.plan.operations:
        if number == refuse.number and isinstance(operation, DeleteGroup):
            is_missing = refuse.refusal.reason is Reason.GROUP_NOT_FOUND
            group = refuse.refusal.facts.get("group") if is_missing else None
            return None if group is None or group == operation.group else NodeId(group)
    return None


def _is_given_up(refuse: Refuse, running: Transaction) -> bool:
    """Return True if a participant has given its entry up. The home of a group refuses a reading without an operation,
    too."""
    is_judged = running.plan.read is not None and refuse.refusal.reason is not Reason.UNAVAILABLE
    return refuse.number == GIVEN_UP and not is_judged


def _may_be_queued(plan: Plan) -> bool:
    """Return True if an update takes little time to begin. A queued update begins in the step of another event."""
    is_large = plan.is_import or plan.composite is not None or len(plan.operations) > QUEUED_OPERATIONS_LIMIT
    return not (plan.is_own or is_large)


def _begun_later(running: Transaction) -> Transaction:
    """Return the update as it was before it began, waiting for an open view."""
    return Transaction(
        running.update_id,
        running.request_id,
        running.plan,
        running.deadline,
        running.tentative,
        running.attempt,
        phase=Phase.WAITING,
    )
