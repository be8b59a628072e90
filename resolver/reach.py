"""Answers of the graph to delivery: the processes below a group on this server, and the onward servers.

A server knows the whole ancestry of the nodes that it owns. The owned nodes below a group are therefore all owned nodes
that the group reaches, by any path (`resolver/plans.py`). See docs/protocol-messages.md, "Who is below".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import filterfalse
from typing import NamedTuple

from namegraph import ArcRecord, CoreQueries, NodeId, NodeIndex, NodeKind, ServerId
from resolver.plans import PlanCache

FOUND_LIMIT = 10_000
"""Most cached answers."""


class GroupReach(NamedTuple):
    """Nodes and servers that this server has below a group."""

    number: int
    """Version of the answer: equal numbers mean equal answers."""
    processes: tuple[NodeId, ...]
    """Processes that this server delivers to, sorted, each once."""
    onward: tuple[ServerId, ...]
    """Homes of members elsewhere that are immediately below owned groups, including those behind suspended arcs.

    Sorted.
    """
    apart: tuple[ServerId, ...]
    """Servers of `onward` that are at either end of suspended arcs."""


NOBODY = GroupReach(0, (), (), ())
"""Answer for a name that this server does not know."""


class GraphReach:
    """Answers of one core, each cached until a node below the group changes."""

    def __init__(self, core: CoreQueries) -> None:
        self._core = core
        self._plans = PlanCache(core)
        self._found: dict[int, GroupReach] = {}
        """Answers by number of the plan."""
        self._numbers: dict[tuple[ServerId, ...], int] = {}
        self._filling: dict[NodeId, Iterator[int]] = {}
        """Plans that are being made, by group."""

    def below(self, group: NodeId) -> GroupReach:
        """Return the nodes and servers that this server has below a group of any server, also under its old name.

        A message to the old name of a renamed group may be under way.
        """
        graph = self._core.graph
        node = graph.index.get(self._core.renamed_to(group) or group)
        if node is None:
            return NOBODY
        if not self._is_group_here(node):
            # Suspended arcs may be all that this server knows of another server's group.
            away = tuple(sorted(self._homes_of_suspended({node})))
            return GroupReach(self._number_of(away), (), away, away) if away else NOBODY
        plan = self._plans.plan(node)
        found = self._found.get(plan.number)
        if found is None:
            if len(self._found) >= FOUND_LIMIT:
                self._found.clear()
            parents = self._core.graph.suspended_from.among(plan.reached)
            of_others = self._homes_of_suspended(filterfalse(self._core.owns, parents))
            apart = {each.server for each in plan.apart} | of_others
            onward = sorted({*apart, *(each.server for each in plan.onward)})
            found = self._found[plan.number] = GroupReach(
                plan.number, plan.processes, tuple(onward), tuple(sorted(apart))
            )
        return found

    def prepare(self, group: NodeId, room: int) -> int:
        """Compute a part of the answer of `below`, for at most `room` nodes.

        Return the unused room: 0 if more is left to do.
        """
        node = self._core.graph.index.get(self._core.renamed_to(group) or group)
        if node is None or not self._is_group_here(node):
            self._filling.pop(group, None)
            return room
        filling = self._filling.pop(group, None) or self._plans.fill(node)
        for looked_at in filling:
            room -= looked_at
            if room <= 0:
                self._filling[group] = filling
                return 0
        return room

    def _is_group_here(self, node: NodeIndex) -> bool:
        graph = self._core.graph
        return graph.kind(node) is NodeKind.GROUP if self._core.owns(node) else bool(graph.children[node])

    def _number_of(self, apart: tuple[ServerId, ...]) -> int:
        """Return a number for an answer without a plan, below the numbers of plans."""
        return self._numbers.setdefault(apart, -1 - len(self._numbers))

    def _homes_of_suspended(self, parents: Iterable[NodeIndex]) -> set[ServerId]:
        """Return the homes of both ends of the suspended arcs that leave some nodes, without this server."""
        core, homes = self._core, set[ServerId]()
        for parent in parents:
            children = core.suspended_children(parent)
            if children:
                homes.update(core.homes_of([parent, *children]))
        return homes - {core.server}

    def onward_over_removed(self, arcs: Iterable[ArcRecord]) -> Collection[ServerId]:
        """Return the servers to which paths led over removed arcs among `arcs`, in the order of the arcs.

        Paths over an arc to a group may have led to any server: finding them would cost as much as resolving the group.
        """
        core, graph = self._core, self._core.graph
        found: dict[ServerId, None] = {}
        for arc in arcs:
            if arc.present and arc.version:
                continue
            child = arc.child
            if graph.kind(child) is NodeKind.GROUP if core.owns(child) else graph.children[child]:
                return core.servers_met
            home = core.owner_of_name(graph.ids[child])
            if home is not None and home != core.server:
                found[home] = None
        return found.keys()

    def servers_met(self) -> Collection[ServerId]:
        """Return all other servers that introduced themselves to this server."""
        return self._core.servers_met

    def is_settled_with(self, server: ServerId) -> bool:
        """True if this server and another server agree on every arc between them, and on all other servers in reach."""
        return self._core.is_steady and self._core.is_in_view(server)

    def is_steady(self) -> bool:
        """True if servers neither agree on a view nor settle changes that were made while they were apart."""
        return self._core.is_steady

    def view(self) -> str:
        """Return the name of the view that this server is in."""
        return self._core.view

    def view_number(self) -> int:
        """Return the number of the current view. Later views have higher numbers."""
        return self._core.view_number

    def is_parted(self) -> bool:
        """True if some server that was met is out of the view: members may be behind suspended arcs."""
        return self._core.is_parted

    def is_known(self, server: ServerId) -> bool:
        """True if a server introduced itself to this server."""
        return self._core.has_met(server)

    def home_of(self, name: NodeId) -> ServerId | None:
        """Return the server that owns a name. None if this server knows no owner."""
        return self._core.owner_of_name(name)

    def homes_of(self, names: Sequence[NodeId]) -> Sequence[ServerId | None]:
        """Return the homes of many names, in their order. See `home_of`."""
        return self._core.owners_of_names(names)

    def is_group(self, name: NodeId) -> bool:
        """True if a group of this name exists at this server."""
        return self._core.graph.group(name) is not None

    def is_process(self, name: NodeId) -> bool:
        """True if a name is a member of some group at this server, and is not a group."""
        graph = self._core.graph
        node = graph.index.get(name)
        return node is not None and graph.kind(node) is NodeKind.PROCESS

    def renamed_to(self, name: NodeId) -> NodeId | None:
        """Return the present name of a group that had this name. None if it is not known, or a group has this name."""
        return self._core.renamed_to(name)

    def lives_here(self, name: NodeId) -> bool:
        """True if a name is such a process, and no other server owns it."""
        return self.is_process(name) and self._core.owns(self._core.graph.index[name])
