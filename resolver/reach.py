"""What the delivery half asks of the graph: who is below a group on this server, and where the ways go on.

A server knows the whole ancestry of what it owns, so the owned nodes below a group are all those that it reaches, by
whatever way (`resolver/plans.py`). Source: delivery.md section 4.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import filterfalse
from typing import NamedTuple

from namegraph import ArcRecord, CoreQueries, NodeId, NodeIndex, NodeKind, ServerId
from resolver.plans import PlanCache

FOUND_LIMIT = 10_000
"""Answers kept."""


class Below(NamedTuple):
    """What a group reaches on this server."""

    number: int
    """The same number, the same answer."""
    processes: tuple[NodeId, ...]
    """Those that live here: sorted, each once."""
    onward: tuple[ServerId, ...]
    """Servers of members that live elsewhere and are immediately below owned groups; also those behind suspended arcs.
    Sorted."""
    apart: tuple[ServerId, ...]
    """Of these, the ones at either end of suspended arcs."""


NOBODY = Below(0, (), (), ())
"""Of what is not known here."""


class GraphReach:
    """The answers of one core, each kept until something below the group changes."""

    def __init__(self, core: CoreQueries) -> None:
        self._core = core
        self._plans = PlanCache(core)
        self._found: dict[int, Below] = {}
        """By the number of the plan."""
        self._numbers: dict[tuple[ServerId, ...], int] = {}
        self._filling: dict[NodeId, Iterator[int]] = {}
        """Plans that are being made, by group."""

    def below(self, group: NodeId) -> Below:
        """Return the nodes here that a group of any server reaches, under its old name too if it was renamed.

        A message to the old name may be on its way.
        """
        graph = self._core.graph
        node = graph.index.get(self._core.renamed_to(group) or group)
        if node is None:
            return NOBODY
        if not self._is_group_here(node):
            # Of another server's group nothing may be known here but suspended arcs.
            away = tuple(sorted(self._homes_of_suspended({node})))
            return Below(self._number_of(away), (), away, away) if away else NOBODY
        plan = self._plans.plan(node)
        found = self._found.get(plan.number)
        if found is None:
            if len(self._found) >= FOUND_LIMIT:
                self._found.clear()
            parents = self._core.graph.suspended_from.keys() & plan.reached
            of_others = self._homes_of_suspended(filterfalse(self._core.owns, parents))
            apart = {each.server for each in plan.apart} | of_others
            onward = sorted({*apart, *(each.server for each in plan.onward)})
            found = self._found[plan.number] = Below(plan.number, plan.processes, tuple(onward), tuple(sorted(apart)))
        return found

    def prepare(self, group: NodeId, room: int) -> int:
        """Find a part of what `below` tells, of so many nodes; returns what room is left: none, where there is more."""
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
        """A number for what is no plan: below those of plans."""
        return self._numbers.setdefault(apart, -1 - len(self._numbers))

    def _homes_of_suspended(self, parents: Iterable[NodeIndex]) -> set[ServerId]:
        """The homes of both ends of the suspended arcs that leave some nodes, but for this server."""
        core, homes = self._core, set[ServerId]()
        for parent in parents:
            children = core.suspended_children(parent)
            if children:
                homes.update(core.homes_of([parent, *children]))
        return homes - {core.server}

    def onward_over_removed(self, arcs: Iterable[ArcRecord]) -> Collection[ServerId]:
        """The servers to which ways led on from here over those of some arcs that are gone, in the order of the arcs.

        Below a group they may have led anywhere: to find where takes as long as what is below it.
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
        """All other servers that introduced themselves here."""
        return self._core.servers_met

    def is_settled_with(self, server: ServerId) -> bool:
        """Whether this server and another one know the same of every arc between them, and of all others in reach."""
        return self._core.is_steady and self._core.is_in_view(server)

    def is_steady(self) -> bool:
        """Whether servers neither agree on a view nor settle what was done while they were apart."""
        return self._core.is_steady

    def view(self) -> str:
        """Names the view that this server is in."""
        return self._core.view

    def view_number(self) -> int:
        """The number of that view: later ones have higher numbers."""
        return self._core.view_number

    def is_parted(self) -> bool:
        """Whether some server that was met is out of the view: members may be behind suspended arcs."""
        return self._core.is_parted

    def is_known(self, server: ServerId) -> bool:
        """Whether a server introduced itself here."""
        return self._core.has_met(server)

    def home_of(self, name: NodeId) -> ServerId | None:
        """The server that owns a name; None where nobody does, as far as is known here."""
        return self._core.owner_of_name(name)

    def homes_of(self, names: Sequence[NodeId]) -> Sequence[ServerId | None]:
        """As `home_of`, for many names, in their order."""
        return self._core.owners_of_names(names)

    def is_group(self, name: NodeId) -> bool:
        """Whether a group of this name exists here."""
        return self._core.graph.group(name) is not None

    def is_process(self, name: NodeId) -> bool:
        """Whether a name is a member of some group here, and no group itself."""
        graph = self._core.graph
        node = graph.index.get(name)
        return node is not None and graph.kind(node) is NodeKind.PROCESS

    def renamed_to(self, name: NodeId) -> NodeId | None:
        """The present name of a group that had this name; None if it is not known, or a group has this name."""
        return self._core.renamed_to(name)

    def lives_here(self, name: NodeId) -> bool:
        """Whether a name is such a process, and no other server's."""
        return self.is_process(name) and self._core.owns(self._core.graph.index[name])
