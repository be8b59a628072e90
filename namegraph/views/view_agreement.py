"""Agreement on the servers that reach one another: the smallest of them proposes a view, the others accept.

    Reach ---> leader            these I reach
               leader --- Propose --->  members         stop all updates under way
               leader <--- Accept ----  members         my state of these updates
               leader --- Install --->  members         finish this, drop the rest, be in the view
               leader -- ExcludedFromView -->  servers that the leader reaches and some member does not

A view is a set of servers of which each reaches each, over a common peer where need be. Its number is higher than
any that its members have promised. A member that accepts gives up its present view for good, even if the new view
is never installed. If the leader is lost meanwhile, another server leads, with a higher number. A member that waits
for a view and accepts another one sends `Decline` to the leader of the first. That leader may have installed the
first view.

While no server was ever lost, the first view holds all servers that meet, and nothing is agreed on.

A leader whose view is not installed in time is passed over, for ever longer: others lead meanwhile, with it as a
member. All servers judge a leader by the same limit, the leader itself included. A member that does not accept in time
is lost to its leader, whose view goes on without it.

Source: docs/protocol-partitions.md, "Views"; docs/decisions/0011-views.md, docs/decisions/0050-bounded-waits.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from namegraph.model.names import ServerId
from namegraph.state.context import ServerContext
from namegraph.state.wait_limits import WaitLimits
from namegraph.wire.message_parts import FIRST_VIEW, UpdateId, ViewId
from namegraph.wire.view_messages import Accept, Decline, ExcludedFromView, Install, Propose, Reach

DOES_NOT_AGREE = "does not agree on a view"
"""Reason of a member that was given up by the leader of a proposal."""


@dataclass(slots=True)
class _PassedOver:
    """A leader that let this server wait for too long, in seconds of the attentive clock."""

    until: float = 0.0
    times: int = 0


@dataclass(slots=True)
class _Proposal:
    """A view that this server has proposed."""

    view: ViewId
    servers: tuple[ServerId, ...]
    accepted: dict[ServerId, Accept] = field(default_factory=dict)
    looked_at_first: float | None = None
    """Time of the first look at the proposal, on the attentive clock."""


class Agreement:
    """One server's part in agreeing on views."""

    def __init__(
        self,
        context: ServerContext,
        give_up_view: Callable[[ViewId, tuple[ServerId, ...]], Accept],
    ) -> None:
        """`give_up_view` takes the promised view and the servers reached, stops all updates under way, and returns
        their state."""
        self._context = context
        self._give_up_view = give_up_view
        self._lost: dict[ServerId, None] = {}
        self._reports: dict[ServerId, Reach] = {}
        """Last report of the servers that a server reaches, by server."""
        self._outside_of: dict[ServerId, ViewId] = {}
        """Newest known view of a server that is, or was, its member while this server is not, by server."""
        self._declined: dict[ServerId, None] = {}
        self._proposal: _Proposal | None = None
        self._highest = 0
        """Highest number of a view that was heard of."""
        self._told: dict[ServerId, Reach] = {}
        """Last report of this server to each server that may lead it now."""
        self._is_stirred = False
        """True if any server was ever lost, as far as this one has heard."""
        self._waited: dict[ServerId, float] = {}
        """Seconds for which this server was in no view, by the leader that it waited for, since the last view."""
        self._passed_over: dict[ServerId, _PassedOver] = {}
        self._looked_at = 0.0
        """Time of the last look, on the attentive clock."""
        self.limits: WaitLimits | None = None
        """Limits of waits. None: this server waits for ever, and passes no leader over."""

    def met(self, server: ServerId) -> None:
        """Record that a server is reached."""
        for known in (self._lost, self._outside_of, self._declined):
            known.pop(server, None)
        self._told.pop(server, None)
        self.reconsider()

    def lost(self, server: ServerId) -> None:
        """Record that a server is not reached any more."""
        self._lost[server] = None
        self._is_stirred = True
        for known in (self._reports, self._outside_of, self._declined):
            known.pop(server, None)
        self.reconsider()

    def look(self, seconds: float, limits: WaitLimits) -> dict[ServerId, str]:
        """Judge the waits for a view. Return the members that do not accept, with the reason.

        `seconds`: time on the attentive clock.
        """
        context, passed = self._context, seconds - self._looked_at
        self._looked_at = seconds
        if not context.view_change_in_progress:
            self._waited.clear()
            if any(one.until and one.until <= seconds for one in self._passed_over.values()):
                self._end_passing_over(seconds)
            return {}
        self._end_passing_over(seconds)
        if self._proposal is not None:
            first = self._proposal.looked_at_first
            if first is None:
                self._proposal.looked_at_first = seconds
            elif seconds - first >= limits.accept:
                missing = [each for each in self._proposal.servers if each not in self._proposal.accepted]
                if missing:
                    return dict.fromkeys(missing, DOES_NOT_AGREE)
        else:
            self.reconsider()
        leader = context.promised.leader
        self._waited[leader] = self._waited.get(leader, 0.0) + passed
        if self._waited[leader] >= limits.install:
            self._waited.pop(leader, None)
            if leader == context.server:
                self._proposal = None
            self._pass_over(leader, limits, is_own=True)
            self._tell_order(context.promised)
            self.reconsider()
        return {}

    def renew(self, culprit: ServerId, limits: WaitLimits) -> None:
        """Ask for a view of the same servers, which ends the updates that a server does not decide, and let other
        servers lead.

        The report says so to all: it names the servers in the order in which they should lead, and no view.
        """
        context = self._context
        self._is_stirred = True
        self._pass_over(culprit, limits, is_own=False)
        self._tell_order(FIRST_VIEW)
        if self._first_to_lead(self._available()) == context.server:
            self._propose(self._clique([each for each in self._available() if each not in self._declined]))

    def _tell_order(self, view: ViewId) -> None:
        """Tell all servers that are reached in which order they should lead."""
        reached = self._reached()
        last = [server for server in reached if self._is_passed_over(server)]
        report = Reach(view, (*(server for server in reached if server not in last), *last))
        for server in reached:
            if server != self._context.server:
                self._context.post(server, report)
        self._told.clear()

    def _pass_over(self, leader: ServerId, limits: WaitLimits, *, is_own: bool) -> None:
        """Let other servers lead for a while, twice as long as the last time."""
        found = self._passed_over.setdefault(leader, _PassedOver())
        if found.until and not is_own:
            return
        found.until = self._looked_at + min(limits.install * 2.0**found.times, limits.longest_away)
        found.times = min(found.times + 1, 32)

    def _follow_order(self, reach: Reach) -> None:
        """Pass over the servers that another one names last, out of order. That leaves none of them out."""
        servers = reach.servers
        if self.limits is None or len(servers) < 2:
            return
        descents = [place for place in range(1, len(servers)) if servers[place] < servers[place - 1]]
        if descents:
            for server in servers[descents[0] :]:
                self._pass_over(server, self.limits, is_own=False)

    def _end_passing_over(self, seconds: float) -> None:
        over = [server for server, one in self._passed_over.items() if one.until and one.until <= seconds]
        for server in over:
            self._passed_over[server].until = 0.0
        if over:
            self.reconsider()

    def begin_again(self, *, leap: int) -> None:
        """Begin again after this server has gone back: in a view of its own, of a number never given, until others are
        met."""
        context = self._context
        self._lost = dict.fromkeys(server for server in context.table.servers() if server != context.server)
        self._reports, self._outside_of, self._declined, self._told = {}, {}, {}, {}
        self._is_stirred = True
        self._highest = max(self._highest, context.promised.number) + leap
        self._propose((context.server,))

    def reach(self, sender: ServerId, reach: Reach) -> None:
        """Record another server's report of the servers that it reaches. The report asks this server to lead."""
        self._reports[sender] = reach
        self._is_stirred = True
        self._declined.pop(sender, None)
        self._highest = max(self._highest, reach.view.number)
        self._follow_order(reach)
        self.reconsider()
        if self._context.view != FIRST_VIEW and self._proposal is None:
            self._leave_outside(sender)

    def outside(self, outside: ExcludedFromView) -> None:
        """Record that the members of another view have left this server out."""
        self._highest = max(self._highest, outside.view.number)
        self._is_stirred = True
        for server in outside.members:
            self._outside_of[server] = max(outside.view, self._outside_of.get(server, outside.view))
        self.reconsider()

    def propose(self, sender: ServerId, propose: Propose) -> None:
        """Accept a view, or decline it with the reason."""
        context = self._context
        self._highest = max(self._highest, propose.view.number)
        reached = self._reached()
        leader = self._first_to_lead(reached)
        leaders = {leader, self._first_to_lead(self._available())}
        if sender not in leaders or propose.view <= context.promised:
            context.post(sender, Decline(propose.view, context.promised, leader))
            return
        self._outside_of.clear()
        self._proposal = None
        before, was_waiting = context.promised, context.view_change_in_progress
        context.post(sender, self._give_up_view(propose.view, tuple(reached)))
        if was_waiting and before.leader not in (sender, context.server) and before.leader not in self._lost:
            # That leader may have installed the view, and wait for this server to be in it.
            context.post(before.leader, Decline(before, propose.view, sender))

    def decline(self, sender: ServerId, decline: Decline) -> None:
        """Record that a server declines a view, or has accepted it and gone on to another view before it began
        there."""
        self._highest = max(self._highest, decline.promised.number)
        proposed = self._context.view if self._proposal is None else self._proposal.view
        if decline.view != proposed:
            return
        self._proposal = None
        if self.limits is not None:
            # Another server leads there for now, or led in the meantime. The next look proposes again, to all.
            return
        if decline.leader != self._context.server:
            self._declined[sender] = None
        self.reconsider()

    def accept(self, sender: ServerId, accept: Accept) -> None:
        """Record an acceptance. The last one installs the view, unless one member does not reach another."""
        proposal = self._proposal
        if proposal is None or accept.view != proposal.view or sender not in proposal.servers:
            return
        proposal.accepted[sender] = accept
        self._reports[sender] = Reach(accept.view, accept.reached)
        if len(proposal.accepted) < len(proposal.servers):
            return
        are_there = all(self._is_still(server, proposal.view) for server in proposal.servers)
        if not are_there or self._clique(proposal.servers) != proposal.servers:
            self._proposal = None
            self.reconsider()
            return
        self._install(proposal)

    def installed(self, before: Iterable[ServerId]) -> None:
        """Record that a view was installed. Tell the servers outside it that asked this one to lead.

        Also tell members of the view before that are not in it, because the leader may not reach them.
        """
        context = self._context
        if context.view.leader != context.server:
            for server in before:
                if server not in context.members and server not in self._lost:
                    context.post(server, ExcludedFromView(context.view, tuple(context.members)))
        for server in sorted(self._reports):
            self._leave_outside(server)
        self.reconsider()

    def _leave_outside(self, server: ServerId) -> None:
        """Tell a larger server that this view leaves it out. A smaller server would lead itself, if it were reached."""
        context = self._context
        if server not in context.members and server > context.server:
            context.post(server, ExcludedFromView(context.view, tuple(context.members)))

    def reconsider(self) -> None:
        """Propose a view, or report to the smaller server that has to propose one, if anything has changed."""
        context = self._context
        if context.promised == FIRST_VIEW and not self._is_stirred:
            return
        reached, available = self._reached(), self._available()
        report = Reach(context.promised, tuple(reached))
        # The second leader is used as long as the first one leaves this server out.
        first_available = self._first_to_lead(available)
        leaders = {self._first_to_lead(reached), first_available} - {context.server}
        for leader in sorted(leaders):
            if self._told.get(leader) != report:
                context.post(leader, report)
        self._told = dict.fromkeys(leaders, report)
        if first_available == context.server:
            self._lead(self._clique([server for server in available if server not in self._declined]))
        else:
            self._proposal = None

    def _lead(self, servers: tuple[ServerId, ...]) -> None:
        context = self._context
        if self._proposal is not None and self._proposal.servers == servers:
            return
        is_agreed = (
            context.view != FIRST_VIEW
            and not context.view_change_in_progress
            and tuple(sorted(context.members)) == servers
        )
        reports = [self._reports[server] for server in servers if server in self._reports]
        if self._proposal is None and is_agreed and all(report.view == context.view for report in reports):
            return
        self._propose(servers)

    def _propose(self, servers: tuple[ServerId, ...]) -> None:
        context = self._context
        self._highest = max(self._highest, context.promised.number) + 1
        view = ViewId(self._highest, context.server)
        self._proposal = _Proposal(view, servers)
        own = self._give_up_view(view, tuple(self._reached()))
        for server in servers:
            if server != context.server:
                context.post(server, Propose(view))
        self.accept(context.server, own)

    def _install(self, proposal: _Proposal) -> None:
        context = self._context
        self._proposal = None
        accepted = proposal.accepted
        members = tuple((server, accepted[server].origin) for server in proposal.servers)
        counter = max(one.counter for one in accepted.values())
        decided: dict[UpdateId, bytes] = {}
        for server in proposal.servers:
            decided.update(accepted[server].decided)
        for server in proposal.servers:
            commits = tuple(decided[update_id] for update_id in accepted[server].ready if update_id in decided)
            context.post(server, Install(proposal.view, members, counter, commits))
        for server in self._available():
            if server not in accepted and server not in self._reports and server > context.server:
                context.post(server, ExcludedFromView(proposal.view, proposal.servers))

    def _reached(self) -> list[ServerId]:
        """Return this server and those that it reaches, sorted."""
        return [server for server in self._servers() if server not in self._lost]

    def _available(self) -> list[ServerId]:
        """Return the reached servers that have not left this one out."""
        return [server for server in self._reached() if not self._leaves_this_out(server)]

    def _first_to_lead(self, servers: list[ServerId]) -> ServerId:
        """Return the smallest of some sorted servers that is not passed over. The smallest if all are."""
        passed_over = self._passed_over
        if not passed_over:
            return servers[0]
        return next((each for each in servers if not self._is_passed_over(each)), servers[0])

    def _is_passed_over(self, server: ServerId) -> bool:
        found = self._passed_over.get(server)
        return found is not None and found.until > 0.0

    def _servers(self) -> list[ServerId]:
        return sorted({*self._context.table.servers(), self._context.server})

    def _clique(self, servers: Iterable[ServerId]) -> tuple[ServerId, ...]:
        """Return servers that all reach one another, as far as is known, taken greedily.

        Servers that are passed over come last, so that none of them displaces another server.
        """
        found: list[ServerId] = []
        for server in sorted(servers, key=lambda each: (self._is_passed_over(each), each)):
            if all(self._reaches(server, other) and self._reaches(other, server) for other in found):
                found.append(server)
        return tuple(sorted(found))

    def _leaves_this_out(self, server: ServerId) -> bool:
        """Return True if a server is in a view without this one, as far as is known, and has promised no view since."""
        view = self._outside_of.get(server)
        if view is None:
            return False
        context, known = self._context, []
        if server in self._reports:
            known.append(self._reports[server].view)
        if server in context.members:
            known.append(context.view)
        if server == context.promised.leader:
            known.append(context.promised)
        return all(promised < view for promised in known)

    def _is_still(self, server: ServerId, view: ViewId) -> bool:
        """Return True if a server that accepted a view still waits for it: it is not lost, and in no other view."""
        report = self._reports.get(server)
        return report is not None and report.view == view

    def _reaches(self, one: ServerId, other: ServerId) -> bool:
        if one == self._context.server:
            return other not in self._lost
        report = self._reports.get(one)
        return report is None or other in report.servers
