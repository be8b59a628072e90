"""A server's part in updates: it votes, waits for its turn, gets ready or refuses, and applies the decision.

    Order --> Vote --> Final --> (turn) --> Ready --> Commit --> Done
                 \\                   \\          \\
                  Abort               Refuse      Abort

The last voter knows the final priority without `Final`, and may be ready at once. `Ready` is a yes vote. A
participant that gave it never decides alone. The participant gives `Ready` again when the coordinator asks for more
entry nodes.

Source: NG 6.2, 6.4; docs/protocol-updates.md, "Many servers".
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Set
from dataclasses import replace

from msgspec import structs

from namegraph.events import Cut
from namegraph.graph.controlled_sinks import AFFECTED_COMPARED_LIMIT, Sinks, controlled_among
from namegraph.model.changes import NO_ORIGIN
from namegraph.model.names import NodeId, ServerId
from namegraph.model.operations import CreateGroup, DeleteGroup, JoinArc, LeaveArc, SetPolicy
from namegraph.model.outcomes import Member
from namegraph.model.protocol_versions import LISTS_VERSION, RIGHTS_VERSION
from namegraph.model.refusals import Reason, Refusal
from namegraph.model.rows import NodeIndex, NodeKind
from namegraph.replication.ancestry_store import AncestryStore
from namegraph.rights.callers import CallerFacts
from namegraph.rights.principals import guest_of
from namegraph.state.context import ServerContext
from namegraph.state.known_arcs import active_arc, gone_with_group, known_arc
from namegraph.state.uncertainty import Uncertainty
from namegraph.update.arc_authority import ArcStep, authority, authority_over
from namegraph.update.caller_rights import believed
from namegraph.update.decision_log import DecisionLog
from namegraph.update.import_plan import steps_in
from namegraph.update.operation_rights import facts_of, new_policies, rights_over
from namegraph.update.order_queue import AffectedPart, Entries, Entry
from namegraph.update.prepare import NOTHING, CannotError, Findings, prepare_update
from namegraph.update.recorded_changes import changes_of_known, changes_of_share, keep_policies
from namegraph.wire.arc_sets import children_of, each_arc, joined_parents_of, nodes_of, parents_of, records_of
from namegraph.wire.message_parts import ArcId, CallerWord, Cohort, KnownArc, PendingEntry, Update, UpdateId
from namegraph.wire.older_forms import ready_in_columns
from namegraph.wire.update_messages import (
    GIVEN_UP,
    Abort,
    Commit,
    Done,
    Drop,
    Final,
    Holding,
    Order,
    Ready,
    Refuse,
    TakeCut,
    UpdateOutcome,
    Vote,
)


class Participant:
    """Handles the requests of coordinators to this server."""

    def __init__(self, context: ServerContext, records: AncestryStore, entries: Entries) -> None:
        self.decided = DecisionLog(context.durable)
        self._context = context
        self._graph = context.graph
        self.records = self._records = records
        self._entries = entries
        self.cuts_turned: list[UpdateId] = []
        """Cuts whose turn has come in this step."""

    def order(self, order: Order, word: CallerWord | None = None) -> None:
        """Make an entry, or extend it. Vote if the final priority is not known.

        `word`: the coordinator's word on the caller. None if it says nothing, or said it before.
        """
        context = self._context
        update_id = order.update.update_id
        is_first = update_id not in self._entries.updates
        entry = self._entries.ask(order.update, order.cover, word)
        context.see(order.tentative)
        self.decided.over(update_id.coordinator, order.over_below)
        if order.final is not None:
            context.see(order.final)
            entry.final = order.final
            self._entries.set_above(entry, order.above)
            return
        if order.highest_vote is not None:
            context.see(order.highest_vote)
        vote = context.next_priority()
        if entry.final is None:
            entry.bound = max(entry.bound, vote)
        leads = self._entries.leads_to_tell(entry, with_ready=True)
        above = self._records.above_of(dict.fromkeys(arc.parent for arc in entry.joins)) if is_first else ()
        if order.highest_vote is not None and not leads:
            # This is the last vote, above all others, and no further server has to be asked.
            entry.final = vote
            self._entries.set_above(entry, tuple(dict.fromkeys((*order.above, *above))))
        context.send(update_id.coordinator, Vote(update_id, vote, leads, above, self._entries.cover_entered(entry)))

    def final(self, final: Final) -> None:
        """Record an update's place in the order."""
        self._context.see(final.priority)
        entry = self._entries.find(final.update_id)
        if entry is not None:
            entry.final = final.priority
            self._entries.set_above(entry, final.above)

    def abort(self, abort: Abort) -> None:
        """Forget an update that leaves no trace."""
        self._forget(abort.update_id)

    def drop(self, drop: Drop) -> None:
        """Forget an entry that was handed on here too late to matter."""
        self._forget(drop.update_id)

    def give_up(self, update_id: UpdateId) -> None:
        """Give up an entry whose coordinator says nothing, and tell the coordinator: this server will not be ready."""
        why = f"{self._context.server} heard no more of the update for too long; nothing was done, try again"
        self._context.send(update_id.coordinator, Refuse(update_id, GIVEN_UP, Refusal(Reason.UNAVAILABLE, why)))
        self._forget(update_id)

    def decline(self, update_id: UpdateId, why: str, *, seconds: int) -> None:
        """Refuse to take part in an update of a coordinator that did not decide earlier ones. No entry is made."""
        why = f"{self._context.server} takes part in no update for {seconds} s: {why}; nothing was done"
        self._context.send(update_id.coordinator, Refuse(update_id, 1, Refusal(Reason.UNAVAILABLE, why)))
        self._forget(update_id)

    def forget_refused(self, update_id: UpdateId) -> None:
        """Forget an update that was refused here and whose coordinator does not say so."""
        self._forget(update_id)

    def take_next_turn(self) -> bool:
        """Let the first update whose turn has come check and answer. Return False if there is none."""
        entry = None if self._context.view_change_in_progress else self._entries.next_turn()
        if entry is None:
            return False
        update = self._entries.updates[entry.update_id]
        try:
            rights = rights_over(self._context, self._records, update, self._entries.word_on(update.update_id))
            findings = prepare_update(self._context, self._records, update, rights)
        except CannotError as error:
            self._entries.answer(entry, is_ready=False)
            self._context.send(update.update_id.coordinator, self._as_read(error.refuse))
            return True
        self._entries.answer(entry, is_ready=True)
        if update.cut is not None:
            self.cuts_turned.append(entry.update_id)
            return True
        if update.reports_control:
            nodes = self._owned(self._entries.part(entry).nodes)
            if len(nodes) > AFFECTED_COMPARED_LIMIT:
                steps = [step for _, step in steps_in(update) if isinstance(step, JoinArc | LeaveArc)]
                nodes = self._owned(self._numbers(step.child for step in steps))
            entry.sinks = Sinks(frozenset(nodes), frozenset(self._controlled(nodes)))
        self._say_ready(entry, findings)
        return True

    def _as_read(self, refuse: Refuse) -> Refuse:
        """Return a `Refuse` with a reason that its coordinator knows."""
        coordinator, refusal = refuse.update_id.coordinator, refuse.refusal
        if refusal.reason is not Reason.CONSENT_NEEDED or coordinator == self._context.server:
            return refuse
        if self._context.speaks(coordinator, RIGHTS_VERSION):
            return refuse
        return structs.replace(refuse, refusal=replace(refusal, reason=Reason.PERMISSION_DENIED))

    def restore(self) -> None:
        """Repeat that this server is ready for cuts, because the first `Ready` may have been lost with the crash."""
        for update_id, update in self._entries.updates.items():
            if update.cut is not None and self._entries.by_update[update_id].is_ready:
                self.cuts_turned.append(update_id)

    def ready_for_cut(self, update_id: UpdateId) -> None:
        """Send `Ready` for a cut: all letters that this server sent before its turn were received."""
        entry = self._entries.by_update.get(update_id)
        if entry is not None:
            self._say_ready(entry, NOTHING)

    def take_cut(self, update_id: UpdateId) -> Cut | None:
        """Take a cut now, and tell all other servers before anything else. Return None if it was taken before."""
        update, entry = self._entries.updates.get(update_id), self._entries.by_update.get(update_id)
        if update is None or update.cut is None or entry is None or not entry.is_ready:
            return None
        for server in self._context.table.servers():
            if server != self._context.server:
                self._context.send(server, TakeCut(update_id))
        self._forget(update_id)
        return Cut(update.cut, f"{update_id.number}@{update_id.coordinator}")

    def commit(self, commit: Commit, share: UpdateOutcome) -> None:
        """Apply this server's share of an outcome, in one step, and send `Done`."""
        if commit.is_shared and commit.update_id.coordinator != self._context.server:
            self.decided.keep(commit.update_id, commit.outcome)
        self._context.send(commit.update_id.coordinator, self._commit(share, commit.handed_on))

    def finish(self, outcome: bytes, share: UpdateOutcome) -> None:
        """Apply this server's share of an outcome that another member kept until the view ended."""
        self.decided.keep(share.update_id, outcome)
        self._commit(share)

    def is_ready(self, update_id: UpdateId) -> bool:
        """Return True if this server waits for the outcome of an update."""
        entry = self._entries.by_update.get(update_id)
        return entry is not None and entry.is_ready

    def ready_updates(self) -> tuple[UpdateId, ...]:
        """Return the updates whose outcome this server waits for, sorted."""
        return tuple(sorted(self._entries.ready))

    def remember_doubts(self, members: Mapping[ServerId, Cohort]) -> None:
        """Remember the updates that may be done although this server ends the view without their outcome.

        `members`: the servers of the next view, with the cohort of each. Decisions of a member of this server's
        cohort are known there. A member of another cohort tells its decisions only while they heal.
        """
        here = members[self._context.server]
        for one in self._entries.missed(lambda coordinator: members.get(coordinator) != here):
            self._context.doubts.note(one)

    def end_view(self) -> None:
        """Drop all entries."""
        for update_id in list(self._entries.by_update):
            self._entries.remove(update_id)
        self._prune_and_follow()

    def suspend_leaving(self) -> None:
        """Suspend all arcs from here to servers that were in another view."""
        self._records.suspend_leaving(self._context.has_diverged)
        self._records.settle()
        self._prune_and_follow()

    def take_over(self, known: KnownArc) -> None:
        """Take over a change of an arc with an end here, made while the home of its other end is away."""
        context = self._context
        if context.home_of(known.arc.parent) == context.server:
            changes = changes_of_known(context, known)
            context.change_log.note(context.next_priority(), context.server, NO_ORIGIN, changes)
            context.unconfirmed_below.pop(known.arc, None)
        self._records.take_over(known)
        self._note_left((known,))
        self._prune_and_follow()

    def _commit(self, share: UpdateOutcome, handed_on: Iterable[PendingEntry] = ()) -> Done:
        update, word = self._entries.updates[share.update_id], self._entries.word_on(share.update_id)
        entry = self._entries.remove(share.update_id)
        assert entry is not None
        assert entry.is_ready
        # The order matters in four places. The entry is narrowed first, because entries of other updates are handed on
        # to the entry nodes that were ready, not to later ones. Unconfirmed and left arcs follow from the arcs that are
        # suspended after the outcome. Nothing is pruned while an entry is ready, so this entry is removed before.
        # Controlled nodes follow from the ancestor sets, once these have followed the outcome.
        entry.narrow()
        children = children_of(share.arcs)
        self._apply(share)
        self._set_policies(share, update, word)
        waiting = {change.arc for change in each_arc(share.arcs) if change.is_suspended} if update.operations else ()
        self._follow_unconfirmed(update, children, waiting)
        if self._context.is_parted:
            self._note_left(each_arc(share.arcs))
        self._install_entries(handed_on, entry.entry_nodes)
        self._prune_and_follow()
        self._leave_with_groups(change.group for change in share.groups if not change.is_present)
        if entry.sinks is None:
            return Done(share.update_id)
        before = entry.sinks.controlled
        now = self._controlled(self._owned(entry.sinks.compared | self._numbers(children)))
        return Done(share.update_id, controlled=self._names(now - before), released=self._names(before - now))

    def all_before(self, update_id: UpdateId) -> list[UpdateId]:
        """Return the updates that an update waits for here, transitively and sorted."""
        return self._entries.all_before(update_id)

    def pending_at(self, parents: Iterable[NodeId], *, but: UpdateId) -> tuple[PendingEntry, ...]:
        """Return the entries to hand on to nodes that become reachable from these owned parents."""
        found = {
            pending.update_id: pending for parent in parents for pending in self._entries.following(parent, but=but)
        }
        return tuple(found[update_id] for update_id in sorted(found))

    def _apply(self, share: UpdateOutcome) -> None:
        records = self._records
        changes = changes_of_share(self._context, share)
        self._context.change_log.note(share.final, share.update_id.coordinator, share.origin, changes)
        self._context.note_renames(share.renames)
        relayed = nodes_of(share.relay)
        records.install(share.relay)
        for node, base in share.bases:
            if node not in relayed:
                records.drop_unless_at(node, base, final=share.final)
        for group, is_present in share.groups:
            if self._context.table.home_of(group) == self._context.server:
                records.set_group(group, is_present=is_present, final=share.final)
        records.apply_arcs(share.arcs, final=share.final)
        for node, vnid in share.renamed:
            if node not in relayed:
                records.rename(node, vnid, final=share.final)
        records.settle()
        self._forget_names_in_use()

    def _set_policies(self, share: UpdateOutcome, update: Update, word: CallerWord | None) -> None:
        """Set the policies of groups of this server that an update creates, or names."""
        context = self._context
        made = [change.group for change in share.groups if change.is_present]
        created = [group for group in made if context.home_of(group) == context.server]
        has_policies = any(isinstance(step, SetPolicy) for _, step in update.operations)
        if not has_policies and (context.server_policy is None or not created):
            return
        coordinator = share.update_id.coordinator
        facts = None if word is None else facts_of(word)
        if facts is not None or coordinator != context.server:
            facts = believed(context, facts or CallerFacts(guest_of(coordinator)), speaker=coordinator)
        operations = [step for _, step in update.operations if isinstance(step, CreateGroup | DeleteGroup | SetPolicy)]
        new = new_policies(context, operations, created, maker=facts, renames=share.renames)
        keep_policies(context, new, operations, share.origin)

    def _forget_names_in_use(self) -> None:
        """Forget old names that groups above nodes of this server have again."""
        renames, graph = self._context.renames, self._graph
        if renames:
            known = ((name, graph.index.get(name)) for name in renames.names)
            renames.forget_used([name for name, node in known if node is not None and graph.children[node]])

    def _follow_unconfirmed(self, update: Update, children: list[NodeId], waiting: Container[ArcId]) -> None:
        """Note which arcs to these children are unconfirmed, because the homes of their other ends have not joined
        them.

        `waiting`: arcs that the update suspends, or joins for the time when their other end is back.
        """
        context = self._context
        below = context.unconfirmed_below
        for arc in [arc for arc in below if arc.child in children and not context.is_suspended(*arc)]:
            del below[arc]
        for arc in [arc for arc in context.unconfirmed if arc.child in children]:
            if not context.is_suspended(*arc):
                context.set_unconfirmed(arc, is_so=False)
                if active_arc(context, arc) is None:
                    context.unilateral_leaves[arc] = None
        for _, operation in update.operations:
            if not (isinstance(operation, JoinArc) and operation.offline):
                continue
            arc = ArcId(operation.parent, operation.child)
            if not context.is_suspended(*arc):
                continue
            says = authority_over(context, operation)
            if says.acts_for_parent_home:
                context.set_unconfirmed(arc, is_so=True)
            elif says.rule.waits and arc in waiting:
                below[arc] = None

    def _note_left(self, arcs: Iterable[KnownArc]) -> None:
        """Note the arcs that this server left while the home of their other end was away."""
        context = self._context
        for arc in [change.arc for change in arcs if not change.is_present]:
            if not context.is_suspended(*arc) and authority(context, ArcStep.LEAVE, *arc).is_parted:
                context.unilateral_leaves[arc] = None

    def _leave_with_groups(self, deleted: Iterable[NodeId]) -> None:
        """Leave the arcs of deleted groups that this server took over after it was ready. The outcome does not name
        them."""
        context, graph = self._context, self._graph
        for group in deleted:
            if context.table.home_of(group) != context.server:
                continue
            node = graph.index[group]
            names = [ArcId(group, graph.ids[child]) for child in graph.suspended_from.get(node, ())]
            names += [ArcId(graph.ids[parent], group) for parent in graph.suspended_into.get(node, ())]
            for known in [known_arc(context, name) for name in names]:
                assert known is not None, "it is suspended"
                self.take_over(gone_with_group(known))

    def _install_entries(self, handed_on: Iterable[PendingEntry], entry_nodes: set[NodeId]) -> None:
        if not entry_nodes:
            return
        for pending in handed_on:
            if self._entries.install(pending, sorted(entry_nodes)):
                self._context.send(pending.update_id.coordinator, Holding(pending.update_id))

    def _say_ready(self, entry: Entry, findings: Findings) -> None:
        update = self._entries.updates[entry.update_id]
        assert entry.covered is not None
        # These fields are not compared later: an import has hundreds of thousands of children.
        entry.found = replace(findings, children=(), told=(), unchanged=())
        tails, joined_below = parents_of(findings.arcs), joined_parents_of(findings.arcs)
        ready = Ready(
            update.update_id,
            entry.covered,
            self._entries.leads_to_tell(entry, with_ready=False),
            self._records.held_of(entry.above),
            findings.children,
            findings.groups,
            findings.arcs,
            findings.already_there,
            records_of(self._records.ancestry_of(tails)),
            self.pending_at(joined_below, but=update.update_id),
            self._members(self._entries.part(entry), update.read) if update.read is not None else (),
            findings.declined,
            self._unreachable(self._entries.part(entry), update.read) if update.read is not None else (),
            findings.told,
            findings.unchanged,
        )
        coordinator = update.update_id.coordinator
        if not (coordinator == self._context.server or self._context.speaks(coordinator, LISTS_VERSION)):
            ready = ready_in_columns(ready)
        self._context.send(coordinator, ready)

    def _members(self, part: AffectedPart, group: NodeId) -> tuple[Member, ...]:
        """Return the owned members of the group, and processes of servers that are away."""
        graph = self._graph
        found = [*self._reached(part, group), *(self._apart(part, group, NodeKind.PROCESS))]
        return tuple(sorted({Member(graph.ids[node], graph.kind(node)) for node in found}))

    def _unreachable(self, part: AffectedPart, group: NodeId) -> tuple[NodeId, ...]:
        if Uncertainty(self._context).below(group):
            # Any node may be missing below the group.
            return (group,)
        return tuple(sorted(map(self._context.id_of, self._apart(part, group, NodeKind.GROUP))))

    def _apart(self, part: AffectedPart, group: NodeId, kind: NodeKind) -> list[NodeIndex]:
        """Return the heads, of one kind, of suspended arcs that leave nodes below the group."""
        graph, context = self._graph, self._context
        if not graph.suspended:
            return []
        ends = dict.fromkeys(child for node in self._reached(part, group) for child in context.suspended_children(node))
        return [node for node in ends if graph.kind(node) is kind]

    def _reached(self, part: AffectedPart, group: NodeId) -> list[NodeIndex]:
        """Return the owned nodes that are below the group now. Ways that led here when the read was requested may be
        gone."""
        above = self._graph.index.get(group)
        if above is None:
            return []
        return [node for node in self._owned(part.nodes) if above in self._context.ancestors.of(node)]

    def _forget(self, update_id: UpdateId) -> None:
        self._entries.remove(update_id)
        self._prune_and_follow()

    def _prune_and_follow(self) -> None:
        # A difference under way may need a record that would be pruned.
        if not self._entries.ready:
            self._records.prune()
        self._records.change.follow()

    def _controlled(self, nodes: Iterable[NodeIndex]) -> set[NodeIndex]:
        return controlled_among(self._graph, self._context.ancestors, nodes)

    def _names(self, nodes: Iterable[NodeIndex]) -> tuple[NodeId, ...]:
        return tuple(sorted(map(self._context.id_of, nodes)))

    def _numbers(self, names: Iterable[NodeId]) -> Set[NodeIndex]:
        return {number for name in names if (number := self._graph.index.get(name)) is not None}

    def _owned(self, nodes: Iterable[NodeIndex]) -> list[NodeIndex]:
        return sorted(node for node in nodes if self._context.owns(node))
