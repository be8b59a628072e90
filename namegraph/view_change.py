"""From one view to the next: what is under way ends, what is out of reach is suspended, what came back is settled.

    Propose --> give up the view: no message of it counts any more
    Install --> finish what any member knows to be decided, drop all else; suspend arcs to servers that were in another
                view: arcs that leave, at once; arcs that enter, by one update of all servers of one origin (Entering,
                to the smallest of them) --> Settled to the leader
    Open    --> updates begin; parents' homes and children's homes compare arcs (Held, HeldToo) and settle them

So all servers of an update agree on which servers are reachable. Members of one origin (`Origin`) hold states that fit
together, whatever they missed of others. Between members of different origins, all arcs are suspended first, and then
joined again by ordinary updates.

Source: protocol.md section 7; decision 0011.
"""

from __future__ import annotations

from typing import NamedTuple, assert_never

from namegraph.agreement import Agreement
from namegraph.coordinator import Coordinator
from namegraph.durable import SERVERS, TEXTS, DurableMap, packed, packed_small
from namegraph.healing import Healing
from namegraph.message_parts import FIRST_VIEW, ArcId, Origin, SuspendArc, UpdateId, ViewId
from namegraph.messages import (
    Accept,
    AllHealed,
    Decline,
    Entering,
    Healed,
    Held,
    HeldToo,
    Install,
    Offer,
    Open,
    Outside,
    Propose,
    Reach,
    Settled,
    ViewMessage,
)
from namegraph.names import ServerId
from namegraph.participant import Participant
from namegraph.priorities import Priority
from namegraph.records import RequestId
from namegraph.running import Plan
from namegraph.site import NEVER, Site

VIEW = "view"
"""Rows: the one row that says in which view this server is."""
ENTERING = "entering"
"""Rows: what is to be suspended, by the server that it enters."""


class ViewChange:
    """What one server does when views end and begin."""

    def __init__(self, site: Site, participant: Participant, coordinator: Coordinator) -> None:
        self._site = site
        self._participant = participant
        self._coordinator = coordinator
        self._records = participant.records
        self.agreement = Agreement(site, self.give_up_view)
        self.healing = Healing(site, participant, coordinator)
        self._suspending: UpdateId | None = None
        self._entering = DurableMap(site.durable, ENTERING, SERVERS, packed_small(tuple[ArcId, ...]))
        """What is to be suspended, by the server that it enters."""
        self._due: dict[ServerId, None] = {}
        """Servers from which arcs may enter here that are to be suspended: in this view, or in one before that did not
        last until all was done."""
        self._settled: dict[ServerId, None] = {}
        """In the view that this server leads: the origins, by their smallest, that have suspended what they must."""
        self._healed: dict[ServerId, None] = {}
        """In the view that this server leads: the members that have settled all that they must."""
        self._view = DurableMap(site.durable, VIEW, TEXTS, packed(_ViewRow))
        """One value, without a key: what is durable of the view, as it was when the last step ended."""
        self._must_resume = bool(self._view)
        for found in self._view.values():
            site.view, site.members, site.promised = found.view, dict(found.members), found.promised
            site.is_open, site.origin, site.view_begins = found.is_open, found.origin, found.begins
            site.is_healed, self._healed = found.is_healed, dict.fromkeys(found.healed)
            self._settled, self._due = dict.fromkeys(found.settled), dict.fromkeys(found.due)

    def give_up_view(self, view: ViewId, reached: tuple[ServerId, ...]) -> Accept:
        """Stop what is under way, for good; return what is known of it."""
        site = self._site
        site.promised = view
        decided = {**dict(self._participant.decided.all_kept()), **dict(self._coordinator.decided())}
        return Accept(
            view,
            site.origin,
            reached,
            site.counter,
            self._participant.ready_updates(),
            tuple(sorted(decided.items())),
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
            case Outside():
                self.agreement.outside(sender, message)
            case Install():
                self.install(message)
            case Entering():
                self.entering(sender, message)
            case Settled():
                self.settled(sender)
            case Open():
                self.open()
            case Held():
                self.healing.held(sender, message)
            case HeldToo():
                self.healing.held_too(sender, message)
            case Healed():
                self.healed(sender)
            case AllHealed():
                self._site.catch_up()
                if not self._site.is_parted:
                    self._site.groups_apart.forget_all(self._site.view_begins)
            case Offer():
                self.healing.offer(sender, message)
            case _:
                assert_never(message)

    def met(self, server: ServerId) -> None:
        """A server is reached again. If no other member is lost, what waits for the next view goes on in this one."""
        site = self._site
        self.agreement.met(server)
        if site.is_frozen or any(site.is_in_view(lost) for lost in site.lost):
            return
        if site.is_open:
            self._coordinator.begin_waiting()
            self.healing.go_on()
        elif self._suspending is None:
            self._suspend_all()

    def install(self, install: Install) -> None:
        """Finish what is decided, drop the rest, and be in the view."""
        site = self._site
        if install.view != site.promised:
            return
        site.counter = max(site.counter, install.counter)
        for everything in install.commits:
            self._participant.finish(everything)
        self._participant.remember_doubts(dict(install.members))
        self._participant.end_view()
        undone = self._coordinator.end_view()
        before = tuple(site.members)
        site.view, site.members, site.is_open = install.view, dict(install.members), False
        site.origin = Origin(install.view, self._smallest_of(site.members[site.server]))
        site.view_begins = Priority(install.counter + 1, NEVER.server)
        self._settled, self._healed, self._suspending = {}, {}, None
        site.is_healed = False
        self._entering.clear()
        self.healing.view_ended(undone)
        self._participant.decided.installed()
        self._participant.suspend_leaving()
        self.agreement.installed(before)
        self._due.update(dict.fromkeys(server for server in site.table.servers() if site.is_apart(server)))
        arcs = self._records.entering_from(self._due.__contains__)
        site.send(self._smallest_of(site.members[site.server]), Entering(tuple(arcs)))

    def entering(self, sender: ServerId, entering: Entering) -> None:
        """As the smallest of one origin: once all have reported, suspend what enters any of them, in one update.

        One update for each server would be wrong. An arc that one server suspends may be above another server only by
        way of servers that are away. No entry then leads from one to the other, and the second update would compute
        over loops that the first has broken.
        """
        self._entering[sender] = entering.arcs
        self._suspend_all()

    def settled(self, sender: ServerId) -> None:
        """As the leader: count an origin that has suspended what it must; open the view with the last one."""
        site = self._site
        self._settled[sender] = None
        groups = {self._smallest_of(origin) for origin in site.members.values()}
        if site.is_open or not self._settled.keys() >= groups:
            return
        for server in sorted(site.members):
            site.send(server, Open())

    def open(self) -> None:
        """All origins have suspended what they must: let updates begin."""
        site = self._site
        if site.is_open:
            return
        site.is_open = True
        site.origin = Origin(site.view, ServerId(""))
        self._due = {}
        self._entering.clear()
        self._participant.decided.opened()
        self._coordinator.open_view()
        self.healing.view_opened()

    def healed(self, sender: ServerId) -> None:
        """As the leader: count a member that has settled all that it must; the view is healed with the last one."""
        site = self._site
        self._healed[sender] = None
        if not site.is_healed and self._healed.keys() >= site.members.keys():
            for server in sorted(site.members):
                site.send(server, AllHealed())

    def look_after(self) -> None:
        """Go on with what this server does by itself. Called within each step, until nothing is left to do."""
        if self._must_resume:
            self._resume()
        begun_again, self._coordinator.own_begun_again = self._coordinator.own_begun_again, []
        for before, now in begun_again:
            self.healing.begun_again(before, now)
        if self.healing.has_new_groups:
            self.healing.try_again()
        ended, self._coordinator.own_ended = self._coordinator.own_ended, []
        for update_id, is_done in ended:
            if update_id == self._suspending:
                self._suspending = None
                if is_done:
                    self._say_settled()
            else:
                self.healing.ended(update_id, is_done=is_done)

    def _resume(self) -> None:
        """After a restart: begin again what is not durable because it can be begun again."""
        self._must_resume = False
        self.agreement.reconsider()
        if self._site.view == FIRST_VIEW or self._site.is_frozen:
            return
        if self._site.is_open:
            self.healing.view_opened()
        elif self._suspending is None:
            self._suspend_all()

    def _smallest_of(self, origin: Origin) -> ServerId:
        """The server that speaks for all of one origin."""
        return min(server for server, other in self._site.members.items() if other == origin)

    def _suspend_all(self) -> None:
        site = self._site
        group = {server for server in site.members if not site.is_apart(server)}
        if min(group) != site.server or not self._entering.keys() >= group:
            return
        arcs = sorted(arc for server in group for arc in self._entering[server])
        if not arcs:
            self._say_settled()
            return
        operations = tuple((1, SuspendArc(*arc)) for arc in arcs)
        plan = Plan(operations, 1, is_own=True)
        self._suspending = self._coordinator.start(plan, request_id=RequestId(""), deadline=None)

    def _say_settled(self) -> None:
        site = self._site
        # Who opens the view first may join an arc anew: it is not to be suspended once more.
        self._entering.clear()
        site.send(site.view.leader, Settled())

    def note_view(self) -> None:
        """Let what is durable of the view be what it is now. Called at the end of each step."""
        site = self._site
        if site.promised == FIRST_VIEW:
            return
        row = _ViewRow(
            site.view,
            tuple(site.members.items()),
            site.promised,
            site.is_open,
            tuple(self._settled),
            tuple(self._due),
            site.origin,
            site.view_begins,
            site.is_healed,
            tuple(self._healed),
        )
        if row != self._view.get(""):
            self._view[""] = row


class _ViewRow(NamedTuple):
    view: ViewId
    members: tuple[tuple[ServerId, Origin], ...]
    promised: ViewId
    is_open: bool
    settled: tuple[ServerId, ...]
    due: tuple[ServerId, ...]
    origin: Origin
    begins: Priority
    is_healed: bool
    healed: tuple[ServerId, ...]
