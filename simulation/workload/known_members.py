"""Who is below a target set as far as all homes agree: those of an arc know it alike.

Such a one is owed what is sent. While updates are under way, or servers are apart, one home may know of an arc and the
other one not.
"""

from __future__ import annotations

from namegraph import NodeId, ServerCore, ServerId, TargetSet, subnet_of
from simulation.cluster.cluster import Cluster

CUT_OFF_IS_OWED = False
"""Whether it is judged, too, that who is below by arcs that are suspended while servers are apart gets a message later.

More is owed to nobody than P2 says: who is below in every state of its home. A few seeds in a thousand fail the
stricter judgement.
"""


class KnownMembers:
    """Looks into the servers of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def below(self, targets: TargetSet) -> set[NodeId]:
        """Who is below a target set by arcs that both their homes know; suspended ones count where more is owed."""
        found: set[NodeId] = set()
        for target in targets:
            reached = self._from(target.name)
            for name in target.excluding:
                reached -= self._from(name)
            found |= reached
        return found

    def is_so_at(self, process: NodeId, known: set[NodeId], server: ServerId) -> bool:
        """Whether who is below by arcs that both their homes know is so at this server: a foreign one is at several."""
        if process not in known or ServerId(subnet_of(process)) in self._cluster.servers:
            return process in known
        own = [parent for parent in known if ServerId(subnet_of(parent)) == server]
        return any(process in self._children(parent) for parent in own)

    def _from(self, start: NodeId) -> set[NodeId]:
        found, pending = {start}, [start]
        while pending:
            for child in self._children(pending.pop()):
                # An update that joins the start above this child may be applied at its home last of all.
                if child not in found and (CUT_OFF_IS_OWED or self._is_below(start, child)):
                    found.add(child)
                    pending.append(child)
        return found

    def _is_below(self, start: NodeId, child: NodeId) -> bool:
        """Whether the home of a child knows that it is below a node."""
        home = self._cluster.servers.get(ServerId(subnet_of(child)))
        if home is None:
            return True
        index = home.graph.index
        return start in index and child in index and index[start] in home.graph.ancestors([index[child]])

    def _children(self, parent: NodeId) -> list[NodeId]:
        home = self._cluster.servers.get(ServerId(subnet_of(parent)))
        node = None if home is None else home.graph.index.get(parent)
        if home is None or node is None:
            return []
        children = [home.graph.ids[child] for child in (*home.graph.children[node], *home.suspended_children(node))]
        return [child for child in children if self._is_known_child(child, parent, home)]

    def _is_known_child(self, child: NodeId, parent: NodeId, home: ServerCore) -> bool:
        below = self._cluster.servers.get(ServerId(subnet_of(child)), home)
        node, above = below.graph.index.get(child), below.graph.index.get(parent)
        if node is None or above is None:
            return False
        # While an update is under way, a server may have the record of a node that is ahead of the arc, or behind it.
        if above in below.graph.parents[node] and all(_has_child(end, parent, child) for end in (home, below)):
            return True
        are_apart = not (_is_settled(home, below) and _is_settled(below, home))
        return (
            CUT_OFF_IS_OWED
            and are_apart
            and (above in below.graph.parents[node] or above in below.suspended_parents(node))
        )


def _has_child(home: ServerCore, parent: NodeId, child: NodeId) -> bool:
    index = home.graph.index
    return parent in index and child in index and index[child] in home.graph.children[index[parent]]


def _is_settled(one: ServerCore, other: ServerCore) -> bool:
    """Whether a server takes all between it and another one for settled."""
    return one.is_steady and one.is_in_view(other.server)
