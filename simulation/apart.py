"""Which arcs and groups servers knew differently for a while: those that were suspended, or decided out of reach.

Between views there is no one serial order: who is apart from an end of an arc may find it there when the other end has
left it already. So of an update that touches such an arc or group, what its caller was told is believed; and of the arc
itself, both ends must agree in the end, whatever they agree on. All else is compared with the serial run.

Source: protocol.md section 7, *Heal*.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from namegraph.events import CreateGroup, DeleteGroup, Operation
from namegraph.messages import Held, HeldToo, Offer, Order, SettleArc, SuspendArc
from namegraph.names import NodeId
from namegraph.server_core import ServerCore
from simulation.networks import Sent

ArcName = tuple[NodeId, NodeId]


class Apart:
    """What servers of one cluster knew differently."""

    def __init__(self) -> None:
        self.arcs: set[ArcName] = set()
        self.decided_apart: set[ArcName] = set()
        """Of these, arcs that were joined or left by updates of which an end heard only later."""
        self.groups: set[NodeId] = set()
        self._seen = 0

    def watch(self, sent: Sequence[Sent]) -> None:
        """Take notice of what was sent since the last time."""
        for one in sent[self._seen :]:
            match one.message:
                case Held(arcs) | HeldToo(arcs):
                    self.arcs.update((known.arc.parent, known.arc.child) for known in arcs)
                case Offer(_, groups, arcs):
                    self.arcs.update((known.arc.parent, known.arc.child) for known in arcs)
                    self.decided_apart.update((known.arc.parent, known.arc.child) for known in arcs)
                    self.groups.update(change.group for change in groups)
                case Order(update):
                    for _, step in update.operations:
                        if isinstance(step, SuspendArc | SettleArc):
                            self.arcs.add((step.parent, step.child))
        self._seen = len(sent)

    def look(self, cores: Iterable[ServerCore]) -> None:
        """Take notice of what is suspended now: if both ends leave it while they are apart, no message tells of it."""
        for core in cores:
            graph = core.graph
            self.arcs.update((graph.ids[parent], graph.ids[child]) for parent, child in graph.suspended)

    def touches(self, operations: Sequence[Operation]) -> bool:
        """Whether an update rests on what was known differently."""
        ends = {node for arc in self.arcs for node in arc}
        for operation in operations:
            match operation:
                case CreateGroup(group):
                    if group in self.groups or group in ends:
                        return True
                case DeleteGroup(group):
                    if group in self.groups or group in ends:
                        return True
                case _:
                    if (operation.parent, operation.child) in self.arcs or operation.parent in self.groups:
                        return True
        return False
