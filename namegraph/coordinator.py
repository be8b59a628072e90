"""The coordinator of updates: orders them with all participants, computes the outcome alone, and decides.

    ORDER ---- all voted ----> READY ---- all ready, all covered ----> RELEASE ---- all released ----> DECIDED
      |                          |                                     (only where a new virtual node
      +--------- Abort <---------+                                      makes stored records wrong)

The final priority, the highest vote, is announced as soon as it is known. A participant that is found only by a `Ready`
gets `Order` with the final priority, and answers `Ready`. The caller is answered when all participants are done: who
reads afterwards, anywhere, sees the update.

Source: NG 6.2, 6.4; protocol.md section 5.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from namegraph.commit import name_effects
from namegraph.decision import Decision, decide
from namegraph.events import Committed, Outcome
from namegraph.messages import (
    Abort,
    Commit,
    Cover,
    Done,
    Drop,
    Final,
    Holding,
    Leads,
    Order,
    Ready,
    RecordVersion,
    Refuse,
    Release,
    Update,
    UpdateId,
    Vote,
)
from namegraph.names import NodeId, ServerId
from namegraph.participant import Participant
from namegraph.priorities import Priority
from namegraph.refusals import Reason, Refusal
from namegraph.site import NEVER, Site


class Phase(Enum):
    """How far an update is."""

    ORDER = 1
    READY = 2
    RELEASE = 3
    DECIDED = 4


@dataclass(slots=True)
class Running:
    """What a coordinator knows of one update."""

    update: Update
    deadline: float | None
    tentative: Priority
    phase: Phase = Phase.ORDER
    wanted: dict[ServerId, Cover] = field(default_factory=dict)
    asked: dict[ServerId, Cover] = field(default_factory=dict)
    votes_due: int = 0
    highest_vote: Priority = NEVER
    final: Priority = NEVER
    readies: dict[ServerId, Ready] = field(default_factory=dict)
    holders: dict[ServerId, None] = field(default_factory=dict)
    """Servers that were handed an entry and may be no participants."""
    releases_due: int = 0
    decision: Decision | None = None
    not_done: dict[ServerId, None] = field(default_factory=dict)

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


class Coordinator:
    """All updates that this server coordinates and that are not done everywhere."""

    def __init__(self, site: Site, participant: Participant) -> None:
        self._site = site
        self._participant = participant
        self._running: dict[UpdateId, Running] = {}
        self.outcomes: list[tuple[UpdateId, Outcome, Priority | None]] = []
        """Decided in this step, with the final priority if it was known; a commit is not to be answered yet."""
        self.answerable: list[UpdateId] = []
        """Over everywhere since this step."""

    def start(self, update: Update, *, deadline: float | None) -> None:
        """Take a new update."""
        running = Running(update, deadline, self._site.next_priority())
        self._running[update.update_id] = running
        for wish in update.wishes:
            parent, child = wish.arc
            running.want(self._site.home_of(parent), ends=[parent])
            running.want(self._site.home_below(parent=parent, child=child), entry_nodes=[child])
        self._ask(running)

    def vote(self, vote: Vote, now: float) -> None:
        """Count a vote; with the last one the final priority is known."""
        self._site.see(vote.priority)
        running = self._running.get(vote.update_id)
        if running is None or running.phase is not Phase.ORDER:
            return
        running.votes_due -= 1
        running.highest_vote = max(running.highest_vote, vote.priority)
        self._add_leads(running, vote.leads)
        self._ask(running)
        if running.votes_due:
            return
        if running.deadline is not None and now > running.deadline:
            self._abort(
                running,
                Refusal(Reason.DEADLINE_EXCEEDED, "the deadline passed before all servers had voted; nothing was done"),
            )
            return
        running.final, running.phase = running.highest_vote, Phase.READY
        for server in self._involved(running):
            self._site.send(server, Final(vote.update_id, running.final))

    def ready(self, sender: ServerId, ready: Ready) -> None:
        """Count a yes vote; decide with the last one."""
        running = self._running.get(ready.update_id)
        if running is None or running.phase is not Phase.READY:
            return
        running.readies[sender] = ready
        self._add_leads(running, ready.leads)
        self._ask(running)
        if running.is_covered():
            self._compute(running)

    def refuse(self, refuse: Refuse) -> None:
        """A participant's no ends the update."""
        running = self._running.get(refuse.update_id)
        if running is not None and running.phase is Phase.READY:
            self._abort(running, refuse.refusal)

    def released(self, update_id: UpdateId) -> None:
        """Count the answer to a `Release` of this coordinator."""
        running = self._running.get(update_id)
        if running is None or running.phase is not Phase.RELEASE:
            return
        running.releases_due -= 1
        if not running.releases_due:
            self._decide(running)

    def holding(self, sender: ServerId, holding: Holding) -> None:
        """A server was handed an entry: tell it the final priority, or that the update is over."""
        running = self._running.get(holding.update_id)
        if running is None or running.phase is Phase.DECIDED:
            self._site.send(sender, Drop(holding.update_id))
            return
        running.holders[sender] = None
        if running.phase is not Phase.ORDER:
            self._site.send(sender, Final(holding.update_id, running.final))

    def done(self, sender: ServerId, done: Done) -> None:
        """With the last one, the caller can be answered."""
        running = self._running.get(done.update_id)
        if running is None:
            return
        running.not_done.pop(sender, None)
        if not running.not_done:
            del self._running[done.update_id]
            self.answerable.append(done.update_id)

    def is_idle(self) -> bool:
        """Whether no update of this coordinator is under way."""
        return not self._running

    def _ask(self, running: Running) -> None:
        """Send `Order` wherever the entry does not cover what is wanted."""
        final = None if running.phase is Phase.ORDER else running.final
        for server in sorted(running.wanted):
            cover = running.wanted[server]
            asked = running.asked.get(server)
            if asked is not None and asked.contains(cover):
                continue
            running.asked[server] = cover
            running.votes_due += final is None
            self._site.send(server, Order(running.update, running.tentative, cover, final))

    def _add_leads(self, running: Running, leads: Leads) -> None:
        for server, nodes in leads:
            running.want(server, entry_nodes=nodes)

    def _involved(self, running: Running) -> list[ServerId]:
        return sorted({**running.asked, **running.holders})

    def _abort(self, running: Running, refusal: Refusal) -> None:
        update_id = running.update.update_id
        del self._running[update_id]
        for server in self._involved(running):
            self._site.send(server, Abort(update_id))
        final = None if running.phase is Phase.ORDER else running.final
        self.outcomes.append((update_id, refusal, final))
        self.answerable.append(update_id)

    def _compute(self, running: Running) -> None:
        decision = running.decision = decide(
            running.update, running.readies, final=running.final, home_of=self._site.home_of
        )
        if not decision.releases:
            self._decide(running)
            return
        running.phase = Phase.RELEASE
        running.releases_due = len(decision.releases)
        update_id = running.update.update_id
        for arc, keep in decision.releases.items():
            version = RecordVersion(running.final, is_block=False)
            self._site.send(self._site.home_of(arc.parent), Release(update_id, arc, keep, version))

    def _decide(self, running: Running) -> None:
        """Decision, sending and this server's own part are one step."""
        decision, update, site = running.decision, running.update, self._site
        assert decision is not None
        running.phase = Phase.DECIDED
        participants = sorted(running.asked)
        running.not_done = dict.fromkeys(participants)
        for server in sorted(running.holders):
            if server not in running.asked:
                site.send(server, Drop(update.update_id))
        tails = [wish.arc.parent for wish in update.wishes if wish.is_join]
        here = [tail for tail in tails if site.home_of(tail) == site.server]
        handed_on = {
            pending.update.update_id: pending
            for server in participants
            if server != site.server
            for pending in running.readies[server].pending
        }
        for pending in self._participant.pending_at(here, but=update.update_id):
            handed_on[pending.update.update_id] = pending
        pending_entries = tuple(handed_on[update_id] for update_id in sorted(handed_on))
        own: Commit | None = None
        for server in participants:
            commit = decision.part_of(server, running.readies[server], pending_entries)
            if server == site.server:
                own = commit
            else:
                site.send(server, commit)
        effects = name_effects(decision.after.graph, site.table, site.server, decision.effects)
        self.outcomes.append((update.update_id, Committed(running.final.as_revision(), effects), running.final))
        assert own is not None, "the coordinator is the home of the first parent"
        self._participant.commit(own)
