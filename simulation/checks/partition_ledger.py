"""Arcs and groups that servers knew differently for a while: suspended ones, and those decided out of reach.

Between views there is no one serial order: a server apart from an end of an arc may find the arc there when the other
end has left it already. So the answer to an update of such an arc or group is believed. Both ends of the arc must agree
in the end, whatever they agree on. Everything else is compared with the serial run.

Source: docs/protocol-partitions.md, "Healing".
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from itertools import chain

from namegraph import CreateGroup, DeleteGroup, JoinArc, LeaveArc, NodeId, Operation, ServerCore, SetPolicy
from namegraph.wire.message_parts import ReconcileArc, SuspendArc
from namegraph.wire.update_messages import Order
from namegraph.wire.view_messages import ArcDigest, DigestReply, HintedOutcome, Install
from simulation.cluster.networks import SentMessage
from simulation.oracle.violation import InvariantViolatedError

ArcName = tuple[NodeId, NodeId]


class PartitionLedger:
    """Differences in the knowledge of the servers of one cluster."""

    def __init__(self) -> None:
        self.arcs: set[ArcName] = set()
        self.decided_apart: set[ArcName] = set()
        """Arcs among `arcs` joined and left, or with an end made or deleted, while servers were apart. Their order is
        unknown.
        """
        self.rejected: set[ArcName] = set()
        """Arcs among `arcs` that are rejected at rest: they wait at one end, whatever the other end does."""
        self.rejected_before: set[ArcName] = set()
        """Arcs that were rejected at the rest before."""
        self.groups: set[NodeId] = set()
        """Groups that were made or deleted, of which some servers heard later."""
        self._deleted_unheard: set[NodeId] = set()
        """Groups deleted since the last burst of updates began, of which their homes heard later."""
        self.is_in_burst = False
        """True if servers knew anything differently since the last burst of updates began."""
        self.has_new_view = False
        """True if servers have agreed on a view since then."""
        self._seen = 0

    def burst_begins(self) -> None:
        """Note that a burst of updates begins. Call this at rest."""
        self.is_in_burst = self.has_new_view = False
        self._deleted_unheard.clear()

    def watch(self, sent: Sequence[SentMessage]) -> None:
        """Note the messages sent since the last call."""
        for one in sent[self._seen :]:
            match one.message:
                case Install():
                    self.has_new_view = True
                case ArcDigest(arcs) | DigestReply(arcs):
                    self.is_in_burst = self.is_in_burst or bool(arcs)
                    self.arcs.update((known.arc.parent, known.arc.child) for known in arcs)
                case HintedOutcome(_, groups, arcs):
                    self.is_in_burst = True
                    self.arcs.update((known.arc.parent, known.arc.child) for known in arcs)
                    self.groups.update(change.group for change in groups)
                    self._deleted_unheard.update(change.group for change in groups if not change.is_present)
                case Order(update):
                    for _, step in update.operations:
                        if isinstance(step, SuspendArc | ReconcileArc):
                            self.is_in_burst = True
                            self.arcs.add((step.parent, step.child))
        self._seen = len(sent)

    def look(self, cores: Iterable[ServerCore]) -> None:
        """Note the arcs suspended now. If both ends leave an arc while they are apart, no message tells of it.

        A rejected arc has no part in any answer.
        """
        for core in cores:
            graph = core.graph
            if not graph.suspended:
                continue
            self.is_in_burst = self.is_in_burst or any(map(core.suspended_children, graph.suspended_from))
            self.arcs.update((graph.ids[parent], graph.ids[child]) for parent, child in graph.suspended)

    def come_to_rest(self, cores: Iterable[ServerCore]) -> None:
        """Note the rejected arcs. Call this at rest."""
        self.rejected_before = self.rejected
        self.rejected = {(arc.parent, arc.child) for core in cores for arc, _ in core.suspended_arcs()}

    def note_done(self, done: Iterable[Sequence[Operation]]) -> None:
        """Note the updates committed since the last rest.

        The home of a group may have made or deleted it without having heard of an arc to it, which exists once the home
        hears of it. An arc may have been left at one end that did not know of a new join at the other end. An arc
        joined to a group whose home had not heard of the group's deletion is left when the home hears of it.
        """
        changed, joined, left = set[NodeId](), set[ArcName](), set[ArcName]()
        for operation in chain.from_iterable(done):
            match operation:
                case CreateGroup(group) | DeleteGroup(group):
                    changed.add(group)
                case JoinArc(parent, child):
                    joined.add((parent, child))
                case LeaveArc(parent, child):
                    left.add((parent, child))
        self.arcs.update(arc for arc in joined if not (changed & self._deleted_unheard).isdisjoint(arc))
        self.decided_apart.update(arc for arc in self.arcs if not changed.isdisjoint(arc) or arc in joined & left)

    def check_outcome(self, done: Iterable[Sequence[Operation]], arcs: Container[ArcName]) -> None:
        """Raise if an arc that was only left since the last rest exists, or an arc that was only joined is missing.

        `done`: the updates committed since, in order. The fate of an arc that was both joined and left depends on the
        ends that did so. But an arc whose deletion came after all its joins is gone, unless it waited for that end, or
        was rejected by it. An arc joined to a process is rejected if a group of that name was made meanwhile. A
        rejected arc exists nowhere at rest, whichever end joined or left it.
        """
        joined, left, made, deleted = set[ArcName](), set[ArcName](), set[NodeId](), set[NodeId]()
        joined_since, waiting = set[ArcName](), set(self.rejected_before)
        for operation in chain.from_iterable(done):
            match operation:
                case JoinArc(parent, child):
                    joined.add((parent, child))
                    joined_since.add((parent, child))
                    if operation.offline:
                        waiting.add((parent, child))
                case LeaveArc(parent, child):
                    left.add((parent, child))
                case CreateGroup(group):
                    made.add(group)
                case DeleteGroup(group):
                    deleted.add(group)
                    joined_since = {arc for arc in joined_since if group not in arc}
        for arc in sorted(self.arcs - self.rejected):
            is_gone = not deleted.isdisjoint(arc)
            is_left = arc in left or is_gone
            if ((arc in left and arc not in joined) or (is_gone and arc not in joined_since | waiting)) and arc in arcs:
                raise InvariantViolatedError(f"I9: {arc} was left, and is there")
            if arc in joined and not is_left and arc[1] not in made and arc not in arcs:
                raise InvariantViolatedError(f"I9: {arc} was joined, and is not there")

    def touches(self, operations: Sequence[Operation]) -> bool:
        """True if an update depends on arcs or groups that servers knew differently."""
        ends = {node for arc in self.arcs for node in arc}
        for operation in operations:
            match operation:
                case CreateGroup(group):
                    if group in self.groups or group in ends:
                        return True
                case DeleteGroup(group):
                    if group in self.groups or group in ends:
                        return True
                case SetPolicy(group):
                    if group in self.groups:
                        return True
                case _:
                    arc = operation.parent, operation.child
                    if arc in self.arcs or not self.groups.isdisjoint(arc):
                        return True
        return False
