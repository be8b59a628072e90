"""Healing: compare the changes that both ends of an arc made while apart, and settle them by ordinary updates.

    parents' home -- ArcDigest --> children's home      the arcs between us that are suspended here
                  <-- DigestReply --                       arcs newer here, or suspended here and not named
    parents' home: ReconcileArc for each arc at its newest state, in batches

A coordinator that decided an update and could not tell a server offers the outcome (`HintedOutcome`) once both are
in one view.

An arc stays suspended and is *rejected* if its child is missing, or is of another kind; its maker sees the reason.
An arc that was joined at its child's home (`ServerContext.unconfirmed`) is rejected if the group above it is
missing. Exception: a server that went back to an older copy of its database may have lost a group without a trace.
It creates the group anew if another server holds arcs with it.

Source: docs/protocol-partitions.md, "Healing" and "Older copies".
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

from msgspec import structs

from namegraph.model.names import NodeId, ServerId
from namegraph.model.operations import CreateGroup, DeleteGroup
from namegraph.model.priorities import Priority
from namegraph.model.protocol_versions import OFFERED_ENTERING_VERSION
from namegraph.model.rows import NodeKind, RequestId
from namegraph.reconcile.pair_phase import PairPhase, PairState
from namegraph.reconcile.suspended_arcs import left_with, suspended_with
from namegraph.state.context import NEVER, ServerContext
from namegraph.state.durable_maps import NUMBERS_OF_SERVERS, SERVERS, DurableMap, packed
from namegraph.state.known_arcs import can_be_child, gone_with_group, is_newer, known_arc
from namegraph.update.coordinator import Coordinator
from namegraph.update.participant import Participant
from namegraph.update.transaction import Plan, Transaction
from namegraph.wire.arc_sets import each_arc
from namegraph.wire.codec import decode_outcome
from namegraph.wire.message_parts import ArcId, GroupChange, KnownArc, ReconcileArc, Step, UpdateId
from namegraph.wire.update_messages import UpdateOutcome
from namegraph.wire.view_messages import ArcDigest, DigestReply, HintedOutcome, MemberReconciled

UNDELIVERED = "undelivered"
"""Rows: decided outcomes that could not be told, by server and a number."""
OFFERED = "offered"
"""Rows: outcomes for nodes of this server that their coordinators could not tell in time, by sender and a number."""
HELD = "held"
"""Rows: digests of other servers that are not answered yet, by sender."""


class _SettleArcs(NamedTuple):
    """Purpose of an update: settle arcs to a children's home, as given."""

    server: ServerId
    arcs: list[ReconcileArc]


class _TakeOffer(NamedTuple):
    """Purpose of an update: carry out a part of an offer."""

    key: tuple[ServerId, int]


class _Recreate(NamedTuple):
    """Purpose of an update: recreate lost groups that a digest or a reply names."""

    server: ServerId
    held: ArcDigest | DigestReply


class Reconciliation:
    """One server's part in healing with servers from which it was apart."""

    def __init__(self, context: ServerContext, participant: Participant, coordinator: Coordinator) -> None:
        self._context = context
        self._participant = participant
        self._coordinator = coordinator
        self.rejected: dict[ArcId, str] = {}
        """Suspended arcs that could not be joined in this view, with the reason. `ServerContext.is_rejected` says which
        arcs are rejected."""
        self._wanted: dict[NodeId, dict[ServerId, None]] = {}
        """Missing groups of this server, each with the servers that hold rejected arcs with it."""
        self._group_changes = 0
        """`group_changes` of the graph when wanted groups were last looked for."""
        self._undelivered = DurableMap(context.durable, UNDELIVERED, NUMBERS_OF_SERVERS, packed(HintedOutcome))
        self._offered = DurableMap(context.durable, OFFERED, NUMBERS_OF_SERVERS, packed(HintedOutcome))
        self._parts_begun: dict[tuple[ServerId, int], int] = {}
        """Number of parts of each offer that were begun in this view."""
        self._pairs: dict[ServerId, PairState] = {}
        """Progress with each children's home in settling the arcs to it. This server is the parents' home."""
        self._under_way: dict[UpdateId, _SettleArcs | _TakeOffer | _Recreate] = {}
        """Purpose of each update that this server began itself."""
        self._held_by = DurableMap(context.durable, HELD, SERVERS, packed(ArcDigest))
        """Digests that are not answered yet. A digest may name groups that an offer still has to create."""
        self._declined: dict[ReconcileArc, None] = {}
        """Arcs that an end declined once in this view. A second decline rejects the arc."""

    def view_ended(self, undone: Sequence[Transaction]) -> None:
        """Keep the decided outcomes for servers that are now out of reach. `undone`: decided updates of the view that
        ended."""
        context = self._context
        self._pairs, self._under_way, self._parts_begun, self._declined = {}, {}, {}, {}
        self._held_by.clear()
        context.doubts.view_ended()
        context.group_versions.deleted_elsewhere((), NEVER)
        self.rejected, self._wanted = {}, {}
        for running in undone:
            away = [server for server in sorted(running.not_done) if context.has_diverged(server)]
            if not away:
                continue
            outcome = decode_outcome(self._participant.decided.outcome(running.update_id))
            for server in away:
                offer = _offer_to(server, outcome, context)
                if offer.groups or offer.arcs:
                    self.offer_again(server, offer)

    def view_opened(self) -> None:
        """Send every other member the arcs that are suspended here, and the outcomes that it missed."""
        context = self._context
        for server in [server for server in sorted(context.members) if server != context.server]:
            for key in [key for key in self._undelivered if key[0] == server]:
                context.post(server, _as_taken_by(server, self._undelivered.pop(key), context))
            self._compare(server)
        self._take_up()
        self._say_if_healed()

    def go_on(self) -> None:
        """Begin again the interrupted work: every server of the view is back before the view ended."""
        for server in [server for server, pair in self._pairs.items() if pair.phase is PairPhase.INTERRUPTED]:
            self._compare(server)
        self._take_up()

    def _take_up(self) -> None:
        """Begin pending work that is not under way. After a restart, the other servers do not send it again."""
        self._take_offers()
        for server in list(self._held_by):
            self._compare_held(server)

    @property
    def has_new_groups(self) -> bool:
        """True if a group that rejected arcs wait for may have been created."""
        return bool(self._wanted) and self._group_changes != self._context.graph.group_changes

    def try_again(self) -> None:
        """Compare again with each holder of a rejected arc whose group was created since.

        This is a convenience and may be forgotten: a join of the arc tries it too, and so does the next view.
        """
        context = self._context
        if not context.is_healed or context.view_change_in_progress:
            # The arcs are compared soon, or are being compared.
            return
        self._group_changes = context.graph.group_changes
        created = [group for group in self._wanted if context.graph.group(group) is not None]
        holders = [self._wanted.pop(group) for group in created]
        for server in sorted(set().union(*holders)):
            # This server acts as the home of parents, the other one as that of children. A holder without arcs has
            # nothing to settle.
            self._compare(server)
            context.send(server, DigestReply(()))

    def _want(self, group: NodeId, server: ServerId) -> None:
        self._wanted.setdefault(group, {})[server] = None

    def _pair_with(self, server: ServerId) -> PairState:
        return self._pairs.setdefault(server, PairState())

    def _compare(self, server: ServerId) -> None:
        """Send a digest as the parents' home, to ask for newer states."""
        self._pair_with(server).compare()
        context = self._context
        unconfirmed = tuple(
            arc for arc in context.unconfirmed_below if context.home_below(parent=arc.parent, child=arc.child) == server
        )
        in_doubt = context.doubts.shared_with(context.members)
        context.send(server, ArcDigest(tuple(suspended_with(context, server, leaving=True)), unconfirmed, in_doubt))

    def _say_if_healed(self) -> None:
        context = self._context
        are_settled = all(pair.phase is PairPhase.SETTLED for pair in self._pairs.values())
        if are_settled and not (context.is_healed or self._under_way or self._offered):
            context.send(context.view.leader, MemberReconciled())

    def offer_again(self, server: ServerId, offer: HintedOutcome) -> None:
        """Keep an offer until its receiver is met. The offer was not sent yet, or the channel to the receiver began
        again."""
        key = _free_key(self._undelivered, server, offer)
        self._undelivered[key] = offer

    def offer(self, sender: ServerId, offer: HintedOutcome) -> None:
        """Record another server's decided update, of which this server was not told."""
        key = _free_key(self._offered, sender, offer)
        self._offered[key] = offer
        if self._context.view_active and not self._context.view_change_in_progress:
            self._take_offers()

    def held(self, sender: ServerId, held: ArcDigest) -> None:
        """Answer a digest as the children's home: report newer states, and arcs that the digest does not name."""
        self._held_by[sender] = held
        self._context.doubts.note_shared(sender, held.in_doubt)
        self._compare_held(sender)

    def _compare_held(self, sender: ServerId) -> None:
        """Answer the digest of a server, unless the answer has to wait."""
        held = self._held_by.get(sender)
        if (
            held is None
            or _Recreate(sender, held) in self._under_way.values()
            or any(server == sender for server, _ in self._offered)
        ):
            return
        if self._context.doubts.told_by((sender,)):
            for server in list(self._held_by):
                self._compare_held(server)
            return
        if any(map(self._is_awaited, held.arcs)):
            return
        groups = [known for known in held.arcs if known.kind is NodeKind.GROUP]
        children = [(known.arc.child, known.writer) for known in groups if not self._was_left(known, sender, held)]
        if not self._makes_anew(sender, held, children):
            self._answer(sender, held)

    def _is_awaited(self, known: KnownArc) -> bool:
        """Return True if another member has yet to tell if it created a group in place of an arc's process."""
        creators = self._context.doubts.creators_of(known.arc.child)
        return known.kind is NodeKind.PROCESS and any(map(self._context.is_in_view, creators))

    def _answer(self, sender: ServerId, held: ArcDigest) -> None:
        context = self._context
        answer: list[KnownArc] = []
        named = set()
        for theirs in held.arcs:
            named.add(theirs.arc)
            ours = known_arc(context, theirs.arc)
            if ours is not None and is_newer(ours, theirs):
                answer.append(ours)
            elif self._is_gone_here(theirs, sender, held):
                answer.append(gone_with_group(theirs))
            elif not can_be_child(context, theirs.arc.child, theirs.kind):
                answer.append(theirs._replace(is_present=False, kind=NodeKind.ABSENT))
                if theirs.kind is NodeKind.GROUP:
                    self._want(theirs.arc.child, sender)
        for ours in [ours for ours in suspended_with(context, sender, leaving=False) if ours.arc not in named]:
            # The sender kept an arc that it had not heard of when it deleted the group. ABSENT would mean: reject it.
            is_gone = context.group_versions.is_deleted_since(ours.arc.child, ours.writer)
            answer.append(gone_with_group(ours._replace(kind=NodeKind.GROUP)) if is_gone else ours)
        for left in left_with(context, sender, leaving=False):
            if left.arc not in named:
                answer.append(left)
        unconfirmed = tuple(arc for arc in context.unconfirmed if context.home_of(arc.parent) == sender)
        self._held_by.pop(sender, None)
        context.send(sender, DigestReply(tuple(answer), unconfirmed))

    def _is_gone_here(self, theirs: KnownArc, sender: ServerId, held: ArcDigest) -> bool:
        """Return True if an arc that another server holds was left, or deleted with its child, before the sender lost
        sight."""
        is_deleted_since = self._context.group_versions.is_deleted_since
        return self._was_left(theirs, sender, held) or is_deleted_since(theirs.arc.child, theirs.writer)

    def _was_left(self, theirs: KnownArc, sender: ServerId, held: ArcDigest | DigestReply) -> bool:
        """Return True if an arc that is unknown here was left, and the leave forgotten.

        False if the other end joined it alone, or an update in doubt may have joined it.
        """
        context = self._context
        return (
            context.forgotten.was_left(sender, theirs.writer)
            and theirs.arc not in held.unconfirmed
            and known_arc(context, theirs.arc) is None
            and not context.is_in_doubt(theirs.arc, writer=theirs.writer)
        )

    def held_too(self, sender: ServerId, held: DigestReply) -> None:
        """Settle each arc at its newest state, as the parents' home."""
        newest = self._newest(sender, held)
        there = [known for known in newest.values() if known.is_present and known.arc not in held.unconfirmed]
        if not self._makes_anew(sender, held, [(known.arc.parent, known.writer) for known in there]):
            self._take_newest(sender, held, newest)
        self._say_if_healed()

    def _newest(self, sender: ServerId, held: DigestReply) -> dict[ArcId, KnownArc]:
        """Return the newer of both ends' states of each arc to settle. Arcs that the other end rejects are left out."""
        context = self._context
        ours_of_sender = [*suspended_with(context, sender, leaving=True), *left_with(context, sender, leaving=True)]
        newest = {ours.arc: ours for ours in ours_of_sender}
        for theirs in held.arcs:
            ours = known_arc(context, theirs.arc)
            is_there = ours is not None and ours.is_present
            if theirs.kind is NodeKind.ABSENT and not theirs.is_present and is_there and not is_newer(theirs, ours):
                newest.pop(theirs.arc, None)
                self._reject(
                    theirs.arc, f"{theirs.arc.child} is not there, or something else than this arc takes it for"
                )
            elif ours is None:
                was_left = theirs.is_present and self._was_left(theirs, sender, held)
                newest[theirs.arc] = gone_with_group(theirs) if was_left else theirs
            else:
                newer, older = (theirs, ours) if is_newer(theirs, ours) else (ours, theirs)
                # The end that left an arc may no longer know the kind of its child.
                kind = older.kind if newer.kind is NodeKind.ABSENT else newer.kind
                newest[theirs.arc] = newer._replace(kind=kind)
        return newest

    def _take_newest(self, sender: ServerId, held: DigestReply, newest: dict[ArcId, KnownArc]) -> None:
        context = self._context
        for arc, known in [(arc, known) for arc, known in newest.items() if known.is_present]:
            is_there = context.graph.group(arc.parent) is not None
            if not is_there and (arc in held.unconfirmed or context.doubts.creators_of(arc.parent)):
                # The arc stays visible at the end that joined it, or until it is known if the group was created.
                del newest[arc]
                self._want(arc.parent, sender)
            elif not is_there or context.group_versions.is_deleted_since(arc.parent, known.writer):
                newest[arc] = gone_with_group(known)
        self._start_batch(sender, self._pair_with(sender).reply([_settle(newest[arc]) for arc in sorted(newest)]))

    def begun_again(self, before: UpdateId, now: UpdateId) -> None:
        """Record that an update that deletes a group goes on under another id, because arcs have to be left first."""
        task = self._under_way.pop(before, None)
        if task is not None:
            self._under_way[now] = task

    def ended(self, update_id: UpdateId, *, is_done: bool) -> None:
        """Record the end of an update that settles arcs."""
        task = self._under_way.pop(update_id, None)
        is_lost = not is_done and any(map(self._context.is_in_view, self._context.lost))
        match task:
            case None:
                return
            case _TakeOffer(key):
                if is_lost:
                    self._parts_begun.pop(key, None)
                    return
                self._take_offers()
            case _Recreate(sender, ArcDigest() as held):
                if is_lost:
                    return
                self._answer(sender, held)
            case _SettleArcs(sender) | _Recreate(sender) if is_lost:
                # Either a view follows, or all servers are back.
                self._pair_with(sender).interrupt()
                return
            case _Recreate(sender, DigestReply() as held):
                self._take_newest(sender, held, self._newest(sender, held))
            case _SettleArcs(server, arcs):
                if self._is_anything_new(arcs):
                    # An arc or a group changed after the comparison.
                    self._compare(server)
                else:
                    self._start_batch(server, self._pair_with(server).next_batch())
        self._say_if_healed()

    def _is_anything_new(self, settled: Iterable[ReconcileArc]) -> bool:
        """Return True if an end declined an arc for the first time, so that both compare again. A second decline
        rejects it."""
        declined = [settle for settle in settled if not self._is_as_settled(settle)]
        new = [settle for settle in declined if settle not in self._declined]
        self._declined.update(dict.fromkeys(new))
        for settle in declined:
            if settle not in new:
                self._reject(ArcId(settle.parent, settle.child), f"{settle.child} is something else than this arc says")
        return bool(new)

    def _is_as_settled(self, settle: ReconcileArc) -> bool:
        """Return True if an arc that was to be joined is present: neither end declined."""
        context, arc = self._context, ArcId(settle.parent, settle.child)
        if not settle.is_present:
            return True
        return not (is_newer(settle, known_arc(context, arc)) or context.is_suspended(*arc))

    def _makes_anew(
        self, sender: ServerId, held: ArcDigest | DigestReply, groups: Iterable[tuple[NodeId, int]]
    ) -> bool:
        """Begin to create anew the groups that this server lost with its newest state. Return True if there are any.

        `groups`: each group with the counter of the update that made an arc of it.
        """
        context = self._context
        if not context.has_gone_back or sender in context.caught_up_with:
            return False
        lost = sorted({group for group, counter in groups if self._is_lost(group, counter)})
        if lost:
            steps = [CreateGroup(group, if_needed=True) for group in lost]
            self._under_way[self._start(steps)] = _Recreate(sender, held)
        return bool(lost)

    def _is_lost(self, group: NodeId, counter: int) -> bool:
        """Return True if a group is unknown here, or was deleted before an update of this counter."""
        graph = self._context.graph
        node = graph.index.get(group)
        if node is None or not graph.versions[node]:
            return True
        return graph.kind(node) is NodeKind.ABSENT and graph.versions[node] < counter

    def _reject(self, arc: ArcId, why: str) -> None:
        self.rejected[arc] = why

    def _start_batch(self, server: ServerId, arcs: list[ReconcileArc]) -> None:
        if arcs:
            self._under_way[self._start(arcs)] = _SettleArcs(server, arcs)

    def _start(self, steps: Iterable[Step]) -> UpdateId:
        plan = Plan(tuple((1, step) for step in steps), 1, is_own=True)
        return self._coordinator.start(plan, request_id=RequestId(""), deadline=None)

    def _take_offers(self) -> None:
        """Go on with the first offer that has news."""
        if any(isinstance(task, _TakeOffer) for task in self._under_way.values()):
            return
        for key, offer in sorted(self._offered.items()):
            if self._begin_part(key, offer):
                return
            del self._offered[key]
            self._parts_begun.pop(key, None)
            self._compare_held(key[0])

    def _begin_part(self, key: tuple[ServerId, int], offer: HintedOutcome) -> bool:
        """Begin the next part of an offer that has news. Return False if there is none."""
        parts = [self._arcs_left, self._groups_deleted, self._groups_made, self._arcs_joined]
        begun = self._parts_begun.get(key, 0)
        for number, part in enumerate(parts[begun:], start=begun + 1):
            steps = part(offer)
            if steps:
                self._parts_begun[key] = number
                self._under_way[self._start(steps)] = _TakeOffer(key)
                return True
        return False

    def _groups_made(self, offer: HintedOutcome) -> list[Step]:
        made = [change.group for change in self._groups_of(offer) if change.is_present]
        return [CreateGroup(group, if_needed=True) for group in made if self._context.graph.group(group) is None]

    def _groups_deleted(self, offer: HintedOutcome) -> list[Step]:
        """Return the deletions of groups that other servers joined before they heard of the deletion."""
        context = self._context
        deleted = [change.group for change in self._groups_of(offer) if not change.is_present]
        deleted = [group for group in deleted if context.graph.group(group) is not None]
        context.group_versions.deleted_elsewhere(deleted, offer.final)
        return [DeleteGroup(group, force=True) for group in deleted]

    def _groups_of(self, offer: HintedOutcome) -> list[GroupChange]:
        """Return the group changes of an offer for groups that were not created or deleted since."""
        is_news, in_doubt = self._context.group_versions.is_news, self._context.doubts.concern
        return [
            change for change in offer.groups if is_news(change.group, offer.final, is_in_doubt=in_doubt(change.group))
        ]

    def _arcs_left(self, offer: HintedOutcome) -> list[Step]:
        """Return the leaves of an offer.

        They include arcs to processes that the update turned into groups, and to groups that it deleted. The update
        left all of these arcs.
        """
        steps = self._settled([known for known in offer.arcs if not known.is_present])
        for group, is_made in self._groups_of(offer):
            for left in self._entering_before(group, NodeKind.PROCESS if is_made else NodeKind.GROUP, offer.final):
                if self._context.is_suspended(*left.arc):
                    self._participant.take_over(left)
                elif is_made:
                    steps.append(_settle(left))
        return steps

    def _entering_before(self, child: NodeId, kind: NodeKind, final: Priority) -> list[KnownArc]:
        """Return the arcs from other servers to a node of this kind, from before an update, as the update left them."""
        context, graph = self._context, self._context.graph
        node = graph.index.get(child)
        if node is None or graph.kind(node) is not kind:
            return []
        arcs = [(ArcId(graph.ids[arc.parent], child), arc) for _, arc in graph.arcs_into(node)]
        return [
            KnownArc(name, False, kind, arc.cost, arc.version + 1, final.counter)
            for name, arc in arcs
            if arc.writer <= final.counter and not (context.owns(arc.parent) or context.is_unconfirmed(*name))
        ]

    def _arcs_joined(self, offer: HintedOutcome) -> list[Step]:
        return self._settled([known for known in offer.arcs if known.is_present])

    def _settled(self, arcs: Iterable[KnownArc]) -> list[Step]:
        """Return the steps for arcs that are news. Note the arcs that cannot be settled with their children's home."""
        context = self._context
        steps: list[Step] = []
        for known in arcs:
            ours = known_arc(context, known.arc)
            if not is_newer(known, ours):
                continue
            is_as_old = context.forgotten.is_as_old(context.other_home_of(known.arc), known.writer)
            if ours is None and is_as_old and not context.is_in_doubt(known.arc, writer=known.writer):
                # The arc was told before it was forgotten here. The sender has gone back to an older copy.
                continue
            if context.is_in_view(context.other_home_of(known.arc)):
                steps.append(_settle(known, is_offered=True))
                continue
            # The time of the deletion may be forgotten before that home is met, if it stays away too long.
            is_deleted_since = context.group_versions.is_deleted_since
            if known.is_present and any(is_deleted_since(end, known.writer) for end in known.arc):
                self._participant.take_over(gone_with_group(known))
            elif not known.is_present or self._fits_here(known):
                self._participant.take_over(known)
        return steps

    def _fits_here(self, known: KnownArc) -> bool:
        """Return True if an arc with one end here can exist: its parent lives here, or its child can be of its kind."""
        context = self._context
        return context.home_of(known.arc.parent) == context.server or can_be_child(context, known.arc.child, known.kind)


def _settle(known: KnownArc, *, is_offered: bool = False) -> ReconcileArc:
    parent, child = known.arc
    return ReconcileArc(
        parent, child, bool(known.is_present), known.kind, known.cost, known.version, known.writer, is_offered
    )


def _offer_to(server: ServerId, outcome: UpdateOutcome, context: ServerContext) -> HintedOutcome:
    """Return the offer for one server: the update's effect on its groups and on the arcs with an end there."""
    return HintedOutcome(
        outcome.final,
        tuple(change for change in outcome.groups if context.home_of(change.group) == server),
        tuple(
            KnownArc(change.arc, change.is_present, change.kind, change.cost, change.version, outcome.final.counter)
            for change in each_arc(outcome.arcs)
            if server in context.homes_of(change.arc) and not change.is_suspended
        ),
    )


def _as_taken_by(server: ServerId, offer: HintedOutcome, context: ServerContext) -> HintedOutcome:
    """Return an offer without the parts that a server does not accept. The receiver's version is known once it is
    met."""
    if context.speaks(server, OFFERED_ENTERING_VERSION):
        return offer
    return structs.replace(
        offer, arcs=tuple(known for known in offer.arcs if context.home_of(known.arc.parent) == server)
    )


def _free_key(offers: Container[tuple[ServerId, int]], server: ServerId, offer: HintedOutcome) -> tuple[ServerId, int]:
    """Return a key for one more offer, in the order of priorities. Several offers may have one counter."""
    number = offer.final.counter
    while (server, number) in offers:
        number += 1
    return server, number
