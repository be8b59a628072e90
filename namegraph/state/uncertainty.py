"""What others may know better than this server. Every read and every refusal asks here, and so asks for all kinds.

    kind                               who may know better              above    below    exists    arcs    groups
    the view is being agreed on        all others                       all      -        -         all     -
    the view is not healed             all others                       all      all      -         all     -
    an older copy was gone back to     who was not healed with since    all      all      all       all     all
    an update without known outcome    its coordinator                  cover    cover    created   all     all
    a server may have lost this one    that server                      all      -        -         all     -
    an arc is suspended                the home of its other end        cover    -        -         away    -

`cover`: what the update was to change, or what is above the arc. `away`: where that home is in another view. What a
walk cannot enter below a suspended arc, its plan says.

An update without known outcome is one that this server is ready for. While the view holds, its outcome is on its way
and its client was not answered: nothing is uncertain. It counts from when the coordinator may have gone on alone, which
is while a new view is being agreed on, or the coordinator is not heard; and in the views after, until the two have
healed (`doubts`).

Source: protocol.md sections 7 (while faults last, no answer is wrong without saying that it is incomplete) and 8
(never a silent gap).
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
    """Whether nobody may know better but a server that is not heard; false also where this one has long caught up."""
    is_in_doubt = context.doubts.missed or context.doubts.missed_by_members
    is_whole = context.is_healed and not (context.has_gone_back or is_in_doubt or context.graph.suspended)
    return is_whole and not context.view_change_in_progress


class Uncertainty:
    """Who may know better, about what: most often nobody. Holds for the graph as it is; all answers are sorted."""

    def __init__(
        self, context: ServerContext, orphaned: Sequence[Missed] = (), unheard: Collection[ServerId] = ()
    ) -> None:
        """`orphaned` are updates under way that others may have finished; `unheard` may have lost this server."""
        self.context = context
        self._graph = context.graph
        self.unheard = frozenset(unheard)
        """Servers that may have changed their arcs without this one: a "yes" must not rest on their groups."""
        self.missed = (*context.doubts.missed, *orphaned)
        self._missed_by_any = (*self.missed, *context.doubts.missed_by_members)
        self.behind = context.unreconciled_servers()
        """Servers that may know what this one forgot, and subnets of those that were not met."""
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
        """Whether the graph alone decides what an update finds here."""
        return not (self._graph.suspended or self.missed or self.behind)

    def above(self, name: NodeId) -> list[str]:
        """Who may know of other groups that a node is in. Of a suspended arc from here it is the home of its child."""
        context, graph = self.context, self._graph
        if context.view_change_in_progress or not context.is_healed:
            # Also those outside the view: what enters from there may not be suspended yet.
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
        """Servers that may know of other groups that a node is a direct member of.

        `of_own_groups`: of groups of this server alone, whose arcs are known here while the node's home is away.
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
        """Servers that may know of other direct members of a group of this server, or may have deleted the group."""
        if not self.context.is_healed:
            return self._everybody()
        return sorted({*self.behind, *(one.coordinator for one in self.missed if one.holds(group))})

    def is_changed_above(self, name: NodeId) -> bool:
        """Whether somebody may have taken away what is known to be above a node, or the node itself."""
        return any(True for _ in self._changing_above(name))

    def below(self, group: NodeId, reached: Collection[NodeIndex] | None = None) -> list[str]:
        """Who may know of other nodes below a group, or have deleted it; `reached`: it and all that is known below."""
        if not self.context.is_healed:
            return self._everybody()
        found = set[str](self.behind)
        if self.missed:
            node = self._graph.index.get(group)
            reached = reached or self._graph.descendants(() if node is None else (node,)) or ()
            found.update(one.coordinator for one in self.missed if self._touches(one, reached))
        return sorted(found)

    def exists(self, group: NodeId) -> list[str]:
        """Who may know of a group of this server of which nothing is known here. Of another one's, its home tells."""
        if not (self.missed or self.behind) or self.context.table.home_of(group) != self.context.server:
            return []
        return sorted({*self.behind, *(one.coordinator for one in self.missed if one.creates(group))})

    def of_own_arcs(self) -> list[str]:
        """Who may know of other arcs that leave groups of this server, or have deleted the ends of some."""
        context, graph = self.context, self._graph
        if context.view_change_in_progress or not context.is_healed:
            return self._everybody()
        homes = {context.home_of(graph.ids[child]) for parent, child in graph.suspended if context.owns(parent)}
        away = (home for home in homes if not context.is_in_view(home))
        return sorted({*self.unheard, *self.of_own_groups(), *away})

    def of_own_groups(self) -> list[str]:
        """Who may know that this server has more groups than are known here, or fewer."""
        return sorted({*self.behind, *(one.coordinator for one in self.missed)})

    def may_lack(self, revision: Revision) -> bool:
        """Whether an update may be missing here that this server took part in, until the two have healed."""
        return revision.server in self.behind or any(
            # An update is numbered before the votes that its final priority is the highest of.
            one.coordinator == revision.server and one.update_id.number < revision.counter
            for one in self.missed
        )

    def refusal_of_group(self, name: NodeId) -> RefusedError | None:
        """The refusal for a name that is unknown here, where somebody else may know it for a group of this server."""
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
        """The refusal to say that nothing is to be done for an arc, where the opposite may have been done.

        `is_missing`: there is no such arc to leave.
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
        """Whether an update was to change one of some nodes. Either may be many: an import is of half a million."""
        ids, index = self._graph.ids, self._graph.index
        if missed.is_of_any:
            return bool(nodes)
        if missed.size > len(nodes):
            return any(missed.holds(ids[node]) for node in nodes)
        return any(name in index and index[name] in nodes for name in missed.nodes)
