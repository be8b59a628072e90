"""Uncertainty: state that other servers may know better than this one. Every read and every refusal asks here.

    kind                               who may know better              above    below    exists    arcs    groups
    the view is being agreed on        all others                       all      -        -         all     -
    the view is not healed             all others                       all      all      -         all     -
    an older copy was gone back to     who was not healed with since    all      all      all       all     all
    an update without known outcome    its coordinator                  cover    cover    created   all     all
    a server may have lost this one    that server                      all      -        -         all     -
    an arc is suspended                the home of its other end        cover    -        -         away    -

`cover`: the nodes that the update was to change, or the nodes above the arc. `away`: only if that home is in
another view. The plan of a walk tells which groups below a suspended arc the walk cannot enter.

An update without known outcome is one that this server is ready for. While the view holds, its outcome is on its
way and its client was not answered, so nothing is uncertain. The uncertainty begins when the coordinator may have
gone on alone: while a new view is being agreed on, or while the coordinator is not heard. The uncertainty lasts
through later views, until the two have healed (`doubts`).

Source: docs/protocol-partitions.md, "Answers while servers are apart". While faults last, no wrong answer is given
without
saying that it is incomplete, and no answer has a silent gap.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from pyroaring import BitMap

from namegraph.model.names import NodeId, ServerId
from namegraph.model.priorities import Revision
from namegraph.model.refusals import Reason, RefusedError, refuse
from namegraph.model.rows import NodeIndex
from namegraph.state.context import ServerContext
from namegraph.state.in_doubt import Missed


def is_certain(context: ServerContext) -> bool:
    """Return True if no server may know better, except for servers that are not heard.

    The result may be False although this server has long caught up.
    """
    is_whole = context.is_healed and not (context.has_gone_back or context.doubts.are_any or context.graph.suspended)
    return is_whole and not context.view_change_in_progress


class Uncertainty:
    """Servers that may know better, by question; most often none. Valid for the present graph. All answers are
    sorted."""

    def __init__(
        self, context: ServerContext, orphaned: Sequence[Missed] = (), unheard: Collection[ServerId] = ()
    ) -> None:
        """`orphaned`: updates under way that other servers may have finished. `unheard`: servers that may have lost
        this one."""
        self.context = context
        self._graph = context.graph
        self.unheard = frozenset(unheard)
        """Servers that may have changed their arcs without this one. A "yes" must not rest on their groups."""
        self.missed = (*context.doubts.missed, *orphaned)
        self._missed_by_any = (*self.missed, *context.doubts.missed_by_members)
        self.behind = context.unreconciled_servers()
        """Servers that may know state that this one lost, and subnets of servers that were not met."""
        self._is_any = bool(
            self.unheard
            or self._missed_by_any
            or self.behind
            or context.graph.suspended
            or context.view_change_in_progress
            or not context.is_healed
        )

    def __bool__(self) -> bool:
        return self._is_any

    @property
    def is_graph_all(self) -> bool:
        """True if the graph alone decides what an update finds here."""
        return not (self._graph.suspended or self.missed or self.behind)

    def above(self, name: NodeId) -> list[str]:
        """Return the servers that may know of other groups above a node. For a suspended arc from here: the home of its
        child."""
        context, graph = self.context, self._graph
        if context.view_change_in_progress or not context.is_healed:
            # Servers outside the view count too: arcs that enter from them may not be suspended yet.
            return self._everybody()
        found = {*self.unheard, *self.behind, *self._changing_above(name)}
        node = graph.index.get(name)
        if node is not None and graph.suspended_into:
            above = context.ancestors.of(node)
            for head in [head for head in graph.suspended_into if head in above]:
                for tail in context.suspended_parents(head):
                    found.add(context.home_of(graph.ids[head if context.owns(tail) else tail]))
                    found.update(self._changing_above(graph.ids[tail]))
        return sorted(found)

    def into(self, name: NodeId, *, of_own_groups: bool = False) -> list[str]:
        """Return the servers that may know of other groups with a node as a direct member.

        `of_own_groups`: True to ask only for groups of this server. Their arcs are known here while the node's home
        is away.
        """
        context, graph = self.context, self._graph
        if context.view_change_in_progress or not context.is_healed:
            return self._everybody()
        changing = {one.coordinator for one in self._missed_by_any if one.holds(name)}
        found = {*self.unheard, *self.behind, *changing}
        node = None if of_own_groups else graph.index.get(name)
        for tail in () if node is None else context.suspended_parents(node):
            found.add(context.home_of(name if context.owns(tail) else graph.ids[tail]))
        return sorted(found - {context.server})

    def out_of(self, group: NodeId) -> list[str]:
        """Return the servers that may know of other direct members of a group of this server, or may have deleted the
        group."""
        if not self.context.is_healed:
            return self._everybody()
        return sorted({*self.behind, *(one.coordinator for one in self.missed if one.holds(group))})

    def is_changed_above(self, name: NodeId) -> bool:
        """Return True if another server may have removed a node, or anything known to be above it."""
        return any(True for _ in self._changing_above(name))

    def below(self, group: NodeId, reached: Collection[NodeIndex] | None = None) -> list[str]:
        """Return the servers that may know of other nodes below a group, or may have deleted the group.

        `reached`: the group and all nodes known to be below it. None: computed here if needed.
        """
        if not self.context.is_healed:
            return self._everybody()
        found = set[str](self.behind)
        if self.missed:
            node = self._graph.index.get(group)
            reached = reached or self._graph.descendants(() if node is None else (node,)) or ()
            found.update(one.coordinator for one in self.missed if self._touches(one, reached))
        return sorted(found)

    def exists(self, group: NodeId) -> list[str]:
        """Return the servers that may know a group of this server that is unknown here. Empty for a group of another
        server, whose home answers."""
        if not (self.missed or self.behind) or self.context.table.home_of(group) != self.context.server:
            return []
        return sorted({*self.behind, *(one.coordinator for one in self.missed if one.creates(group))})

    def of_own_arcs(self) -> list[str]:
        """Return the servers that may know of other arcs that leave groups of this server, or may have deleted ends of
        such arcs."""
        context, graph = self.context, self._graph
        if context.view_change_in_progress or not context.is_healed:
            return self._everybody()
        homes = {context.home_of(graph.ids[child]) for parent, child in graph.suspended if context.owns(parent)}
        away = (home for home in homes if not context.is_in_view(home))
        return sorted({*self.unheard, *self.of_own_groups(), *away})

    def of_own_groups(self) -> list[str]:
        """Return the servers that may know that this server has more groups than are known here, or fewer."""
        return sorted({*self.behind, *(one.coordinator for one in self.missed)})

    def may_lack(self, revision: Revision) -> bool:
        """Return True if an update in which this server took part may be missing here, until the two servers have
        healed."""
        return revision.server in self.behind or any(
            # An update gets its number before the votes, and its final priority is the highest vote.
            one.coordinator == revision.server and one.update_id.number < revision.counter
            for one in self.missed
        )

    def refusal_of_group(self, name: NodeId) -> RefusedError | None:
        """Return the refusal for an unknown name that another server may know as a group of this server. None if there
        is none."""
        away, server = self.exists(name), self.context.server
        if not away:
            return None
        if self.behind:
            return refuse(
                Reason.UNAVAILABLE,
                f"there is no group {name}, but the server {server} went back to an older copy of its database, and "
                "has not taken in yet what all others know",
                unreachable=name,
                group=name,
                server=server,
            )
        return refuse(
            Reason.UNAVAILABLE,
            f"there is no group {name}, but the server {away[0]}, which was cut off, may have created it",
            unreachable=away[0],
            group=name,
            server=server,
        )

    def refusal_of_arc(self, parent: NodeId, child: NodeId, *, is_missing: bool) -> RefusedError | None:
        """Return the refusal to say that nothing is to be done for an arc, if the opposite may have been done. Else
        None.

        `is_missing`: True if the arc to leave is not there.
        """
        context = self.context
        if is_missing and context.home_below(parent=parent, child=child) in self.behind:
            return refuse(
                Reason.UNAVAILABLE,
                f"the server {context.server} went back to an older copy of its database, and may have forgotten that "
                f"{child} is in {parent}; nothing was done",
                group=parent,
                member=child,
                server=context.server,
            )
        away = [one.coordinator for node in (parent, child) for one in self.missed if one.holds(node)]
        if not away:
            return None
        return refuse(
            Reason.UNAVAILABLE,
            f"the server {away[0]}, which was cut off, may have joined {child} to {parent} or left it; "
            "nothing was done",
            unreachable=away[0],
            group=parent,
            member=child,
        )

    def _everybody(self) -> list[str]:
        table = self.context.table
        return sorted({*table.servers(), *table.expected()} - {self.context.server})

    def _changing_above(self, name: NodeId) -> Iterator[ServerId]:
        if not self._missed_by_any:
            return
        node = self._graph.index.get(name)
        for one in self._missed_by_any:
            if one.holds(name) or (node is not None and self._touches(one, self.context.ancestors.of(node))):
                yield one.coordinator

    def _touches(self, missed: Missed, nodes: BitMap | Collection[int]) -> bool:
        """Return True if an update was to change one of some nodes. Both may be many: an import has half a million."""
        ids, index = self._graph.ids, self._graph.index
        if missed.is_of_any:
            return bool(nodes)
        if missed.size > len(nodes):
            return any(missed.holds(ids[node]) for node in nodes)
        return any(name in index and index[name] in nodes for name in missed.nodes)
