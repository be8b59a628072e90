"""Healing: what the two ends of an arc came to while they were apart is compared, and settled by ordinary updates.

    parents' home -- Held ------> children's home      the arcs between us that are suspended here
                  <-- HeldToo --                       what is newer here, or suspended here and was not named
    parents' home: SettleArc for each arc at its newest state, in batches

What a coordinator decided and could not tell, it offers (`Offer`) as soon as it is in a view with whom it concerns. An
arc whose child is not there, or is of another kind, stays suspended and is *rejected*: whoever made it sees why. So is
one that was joined at its child's home (`Site.unconfirmed`) where the group above it is not there.

Source: protocol.md sections 6 and 7, *Heal*.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from namegraph.columns import unpack_arcs
from namegraph.coordinator import Coordinator
from namegraph.events import CreateGroup, DeleteGroup
from namegraph.messages import (
    FIRST_VIEW,
    ArcId,
    Commit,
    Healed,
    Held,
    HeldToo,
    KnownArc,
    Offer,
    SettleArc,
    Step,
    UpdateId,
    decode,
)
from namegraph.names import NodeId, ServerId
from namegraph.participant import Participant
from namegraph.records import NodeKind, ProtocolRow, RequestId
from namegraph.running import Plan, Running
from namegraph.site import UNCONFIRMED, Site
from namegraph.suspension import can_be_child, is_newer, known_arc, suspended_with

UNDELIVERED = "undelivered"
"""Rows: what was decided and could not be told, by server and a number."""
OFFERED = "offered"
"""Rows: what others decided about nodes of this server and could not tell, by sender and a number."""

BATCH = 5_000
"""Arcs that are settled by one update: others wait for it where they touch the same nodes."""


class Healing:
    """What one server does when it meets servers that it was apart from."""

    def __init__(self, site: Site, participant: Participant, coordinator: Coordinator) -> None:
        self._site = site
        self._participant = participant
        self._coordinator = coordinator
        self.rejected: dict[ArcId, str] = {}
        """Suspended arcs that cannot be, and why."""
        self._undelivered: dict[tuple[ServerId, int], Offer] = {}
        self._offered: dict[tuple[ServerId, int], Offer] = {}
        self._changed: dict[tuple[str, ServerId, int], None] = {}
        self._waiting: dict[ServerId, list[SettleArc]] = {}
        """What is still to be settled, by the children's home."""
        self._answers_due: dict[ServerId, None] = {}
        """Servers that have not said yet what they hold."""
        self._under_way: dict[UpdateId, ServerId | tuple[ServerId, int]] = {}
        """What an update settles: the arcs to a children's home, or an offer."""

    def view_ended(self, undone: Sequence[Running]) -> None:
        """Keep what was decided for those who are out of reach now; `undone`: what the view before has decided."""
        site = self._site
        self._waiting, self._under_way, self._answers_due = {}, {}, {}
        for running in undone:
            away = [server for server in sorted(running.not_done) if site.is_apart(server)]
            if not away:
                continue
            commit = decode(running.everything)
            assert isinstance(commit, Commit)
            for server in away:
                offer = _offer_to(server, commit, site)
                if offer.groups or offer.arcs:
                    key = server, running.update_id.number
                    self._undelivered[key] = offer
                    self._changed[UNDELIVERED, *key] = None

    def view_opened(self) -> None:
        """Say to all others what is suspended here, and what they missed."""
        site = self._site
        self._answers_due = dict.fromkeys(server for server in sorted(site.members) if server != site.server)
        for server in self._answers_due:
            for key in [key for key in self._undelivered if key[0] == server]:
                site.post(server, self._undelivered.pop(key))
                self._changed[UNDELIVERED, *key] = None
            site.send(server, Held(tuple(suspended_with(site, server, leaving=True))))
        self._take_offers()
        self._say_if_healed()

    def _say_if_healed(self) -> None:
        site = self._site
        if not (site.is_healed or self._answers_due or self._waiting or self._under_way or self._offered):
            site.send(site.view.leader, Healed())

    def offer(self, sender: ServerId, offer: Offer) -> None:
        """Another server's update was decided and could not be told."""
        key = sender, offer.final.counter
        self._offered[key] = offer
        self._changed[OFFERED, *key] = None
        if self._site.is_open and not self._site.is_frozen:
            self._take_offers()

    def held(self, sender: ServerId, held: Held) -> None:
        """As the children's home: say what is known here that is newer, or was not named."""
        site = self._site
        answer: list[KnownArc] = []
        named = set()
        for theirs in held.arcs:
            named.add(theirs.arc)
            ours = known_arc(site, theirs.arc)
            if ours is not None and is_newer(ours, theirs):
                answer.append(ours)
            elif not can_be_child(site, theirs.arc.child, theirs.kind):
                answer.append(theirs._replace(is_present=False, kind=NodeKind.ABSENT))
        answer += [ours for ours in suspended_with(site, sender, leaving=False) if ours.arc not in named]
        unconfirmed = tuple(arc for arc in site.unconfirmed if site.home_of(arc.parent) == sender)
        site.send(sender, HeldToo(tuple(answer), unconfirmed))

    def held_too(self, sender: ServerId, held: HeldToo) -> None:
        """As the parents' home: settle each arc at its newest state."""
        site = self._site
        newest = {ours.arc: ours for ours in suspended_with(site, sender, leaving=True)}
        for theirs in held.arcs:
            ours = known_arc(site, theirs.arc)
            if theirs.kind is NodeKind.ABSENT and not theirs.is_present and not is_newer(theirs, ours):
                newest.pop(theirs.arc, None)
                self._reject(
                    theirs.arc, f"{theirs.arc.child} is not there, or something else than this arc takes it for"
                )
            elif ours is None:
                newest[theirs.arc] = theirs
            else:
                # Who left an arc may not know any more what its child was.
                kind = theirs.kind if ours.kind is NodeKind.ABSENT else ours.kind
                newest[theirs.arc] = (theirs if is_newer(theirs, ours) else ours)._replace(kind=kind)
        for arc in [arc for arc in newest if site.graph.group(arc.parent) is None and newest[arc].is_present]:
            if arc in held.unconfirmed:
                # It stays visible where it was joined.
                del newest[arc]
            else:
                # The group is gone, and with it all its arcs.
                newest[arc] = newest[arc]._replace(is_present=False, version=newest[arc].version + 1)
        self._waiting[sender] = [_settle(newest[arc]) for arc in sorted(newest)]
        self._settle_next(sender)
        self._answers_due.pop(sender, None)
        self._say_if_healed()

    def ended(self, update_id: UpdateId, *, is_done: bool) -> None:
        """An update that settles something is over."""
        what = self._under_way.pop(update_id, None)
        if what is None or not is_done:
            return
        if isinstance(what, tuple):
            self._offered.pop(what, None)
            self._changed[OFFERED, *what] = None
            self._take_offers()
        else:
            self._settle_next(what)
        self._say_if_healed()

    def _reject(self, arc: ArcId, why: str) -> None:
        self.rejected[arc] = why

    def _settle_next(self, server: ServerId) -> None:
        waiting = self._waiting.pop(server, [])
        if not waiting:
            return
        if len(waiting) > BATCH:
            self._waiting[server] = waiting[BATCH:]
        update_id = self._start(waiting[:BATCH])
        self._under_way[update_id] = server

    def _start(self, steps: Iterable[Step]) -> UpdateId:
        plan = Plan(tuple((1, step) for step in steps), 1, is_own=True)
        return self._coordinator.start(plan, request_id=RequestId(""), deadline=None)

    def _take_offers(self) -> None:
        """Begin with the first offer that says something new."""
        site = self._site
        if any(isinstance(what, tuple) for what in self._under_way.values()):
            return
        for key, offer in sorted(self._offered.items()):
            steps = self._news_of(offer)
            if steps:
                self._under_way[self._start(steps)] = key
                return
            del self._offered[key]
            self._changed[OFFERED, *key] = None
        assert site.view != FIRST_VIEW

    def _news_of(self, offer: Offer) -> list[Step]:
        site, graph = self._site, self._site.graph
        steps: list[Step] = []
        for change in offer.groups:
            node = graph.index.get(change.group)
            if node is not None and self._participant.records.version_of(node) >= offer.final:
                continue
            is_there = graph.group(change.group) is not None
            if change.is_present and not is_there:
                steps.append(CreateGroup(change.group, if_needed=True))
            elif is_there and not change.is_present:
                steps.append(DeleteGroup(change.group))
        for known in offer.arcs:
            if not is_newer(known, known_arc(site, known.arc)):
                continue
            if site.is_in_view(site.home_below(parent=known.arc.parent, child=known.arc.child)):
                steps.append(_settle(known))
            else:
                self._participant.set_leaving(known)
        return steps

    def take_rows(self) -> list[ProtocolRow]:
        """The rows that changed since this was last asked."""
        rows = []
        for part, server, number in self._changed:
            offers = self._undelivered if part == UNDELIVERED else self._offered
            offer = offers.get((server, number))
            rows.append(ProtocolRow(part, f"{number} {server}", None if offer is None else _ENCODER.encode(offer)))
        self._changed = {}
        return rows

    def restore(self, rows: Iterable[ProtocolRow]) -> None:
        """Take up what was kept."""
        for row in rows:
            if row.part in (UNDELIVERED, OFFERED):
                number, _, server = row.key.partition(" ")
                offers = self._undelivered if row.part == UNDELIVERED else self._offered
                offers[ServerId(server), int(number)] = _DECODER.decode(row.value or b"")
            elif row.part == UNCONFIRMED:
                parent, _, child = row.key.partition("\t")
                self._site.unconfirmed[ArcId(NodeId(parent), NodeId(child))] = None


def _settle(known: KnownArc) -> SettleArc:
    return SettleArc(
        known.arc.parent, known.arc.child, known.is_present, known.kind, known.cost, known.version, known.writer
    )


def _offer_to(server: ServerId, commit: Commit, site: Site) -> Offer:
    """What an update makes of the groups of a server and of the arcs that leave them."""
    return Offer(
        commit.final,
        tuple(change for change in commit.groups if site.home_of(change.group) == server),
        tuple(
            KnownArc(change.arc, change.is_present, change.kind, change.cost, change.version, commit.final.counter)
            for change in unpack_arcs(commit.arcs)
            if site.home_of(change.arc.parent) == server and not change.is_suspended
        ),
    )


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Offer)
