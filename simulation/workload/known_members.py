"""Members of a target set by arcs that both homes know.

Such a member is owed what is sent. While updates are under way, or servers are apart, one home may know of an arc of
which the other does not.
"""

from __future__ import annotations

from namegraph import NodeId, ServerCore, ServerId, TargetSet, subnet_of
from simulation.cluster.cluster import Cluster

CUT_OFF_IS_OWED = False
"""True to judge also that members cut off by suspended arcs get their messages later.

This is more than property P2 promises, which covers only members in every state of their home. A few seeds in a
thousand fail the stricter judgement.
"""


class KnownMembers:
    """Reader of the graphs of all servers of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def below(self, targets: TargetSet) -> set[NodeId]:
        """Return the nodes below a target set by arcs that both homes know. Suspended arcs count if
        `CUT_OFF_IS_OWED`.
        """
        found: set[NodeId] = set()
        for target in targets:
            reached = self._from(target.name)
            for name in target.excluding:
                reached -= self._from(name)
            found |= reached
        return found

    def is_so_at(self, process: NodeId, known: set[NodeId], server: ServerId) -> bool:
        """True if a known member is known at this server. A foreign process can be a member at several servers."""
        if process not in known or ServerId(subnet_of(process)) in self._cluster.servers:
            return process in known
        own = [parent for parent in known if ServerId(subnet_of(parent)) == server]
        return any(process in self._children(parent) for parent in own)

    def _from(self, start: NodeId) -> set[NodeId]:
        found, pending = {start}, [start]
        while pending:
            for child in self._children(pending.pop()):
                # The home of this child may be the last to apply an update that joins the start above it.
                if child not in found and (CUT_OFF_IS_OWED or self._is_below(start, child)):
                    found.add(child)
                    pending.append(child)
        return found

    def _is_below(self, start: NodeId, child: NodeId) -> bool:
        """True if the home of a child knows that the child is below `start`."""
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
        # While an update is under way, a server's record of a node may be ahead of the arc, or behind it.
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
    """True if a server takes everything between it and another server for settled."""
    return one.is_steady and one.is_in_view(other.server)
