"""Turns of the entries of one server, kept in the order in which they wait for one another.

    an entry changes, or the graph beneath it --> put: in line at each node that it affects
    a question                                --> the front of the lines that it concerns; nothing else is looked at

An entry is in its turn if no entry is before it in any of its lines. Any other entry waits at a single node, for a
single entry that is before it there, its *guard*. When the guard is over, changes its place, or affects other
nodes, the first entry that waits at that node is looked at again. That entry becomes the guard of the others,
because it affects the node as well and is before them. Each change therefore costs a look at few entries, however
many wait.

An entry that affects very many nodes, a *wide* one, is not put in line node by node. All wide entries that begin at
the same nodes share one set, and sets are compared.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator, Set
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush

from namegraph.graph.name_graph import NameGraph
from namegraph.model.names import NodeId
from namegraph.model.priorities import Priority
from namegraph.model.rows import NodeIndex
from namegraph.wire.message_parts import UpdateId

WIDE_FROM_NODES = 1_000
"""Affected nodes from which an entry is compared as a whole. Putting it in line at so many nodes takes a
millisecond."""

Place = tuple[Priority, UpdateId]
"""Place of an entry in the order. No two are at the same place."""

Node = NodeIndex | NodeId
"""A node by its number, or by its name if it had no number at the last look."""

_EVERYTHING = NodeId("")
"""Node at which a cut, or an entry after a cut, waits. No node has this name."""


@dataclass(slots=True)
class _Wide:
    """Very many nodes, and the entries that affect all of them."""

    key: frozenset[NodeId] | UpdateId
    nodes: Set[NodeIndex]
    names: Set[NodeId]
    line: list[Place] = field(default_factory=list)


@dataclass(slots=True)
class TurnPlace:
    """Affected nodes of an entry, and its place."""

    place: Place
    nodes: Set[NodeIndex]
    """Affected nodes that have a number."""
    names: Set[NodeId]
    """Names of affected nodes that have no number."""
    followed: Set[NodeIndex]
    """Nodes of `nodes` that are affected because arcs lead to them."""
    begins_at: Set[NodeId]
    """Nodes from which arcs are followed."""
    is_cut: bool
    is_due: bool
    waits_at: Node | None = None
    guards: dict[Node, None] = field(default_factory=dict)
    """Nodes at which the first waiting entry is looked at again when this entry is over."""
    wide: _Wide | None = None
    in_line_at: Collection[NodeIndex] = ()
    in_line_by_name: Collection[NodeId] = ()


class Turns:
    """The lines of one server."""

    def __init__(self, graph: NameGraph) -> None:
        self._graph = graph
        self._standings: dict[UpdateId, TurnPlace] = {}
        self._line: list[Place] = []
        """All entries, in order."""
        self._cuts: list[Place] = []
        self._at_number: dict[NodeIndex, list[Place]] = {}
        self._at_name: dict[NodeId, list[Place]] = {}
        self._wide: dict[frozenset[NodeId] | UpdateId, _Wide] = {}
        self._to_look_at: list[Place] = []
        """Entries that may be in their turn, as a heap."""
        self._waiting: dict[Node, list[Place]] = {}
        """Entries that wait at a node, as heaps."""
        self.looks = 0
        """Number of entries that were looked at."""

    @property
    def lowest(self) -> Priority | None:
        """Place of the first of all entries. None if there is none."""
        return self._line[0][0] if self._line else None

    def put(self, new: TurnPlace) -> None:
        """Put an entry in its lines, in place of its former state."""
        update_id = new.place[1]
        old = self._standings.get(update_id)
        if old is not None:
            if old.place == new.place and old.is_cut == new.is_cut and _affect_the_same(old, new):
                was_due, old.is_due = old.is_due, new.is_due
                if new.is_due and not was_due:
                    self._look_at(old)
                return
            self.remove(update_id)
        self._standings[update_id] = new
        insort(self._line, new.place)
        if new.is_cut:
            insort(self._cuts, new.place)
        self._find_lines(new)
        for number in new.in_line_at:
            insort(self._at_number.setdefault(number, []), new.place)
        for name in new.in_line_by_name:
            insort(self._at_name.setdefault(name, []), new.place)
        if new.is_due:
            self._look_at(new)

    def remove(self, update_id: UpdateId) -> None:
        """Take an entry out of its lines."""
        old = self._standings.pop(update_id, None)
        if old is None:
            return
        place = old.place
        _take_out(self._line, place)
        if old.is_cut:
            _take_out(self._cuts, place)
        for number in old.in_line_at:
            if _take_out(self._at_number[number], place):
                del self._at_number[number]
        for name in old.in_line_by_name:
            if _take_out(self._at_name[name], place):
                del self._at_name[name]
        if old.wide is not None and _take_out(old.wide.line, place):
            del self._wide[old.wide.key]
        for node in old.guards:
            self._wake(node)

    def first(self) -> UpdateId | None:
        """Return the first entry that is due and in its turn. None if there is none."""
        while self._to_look_at:
            place = self._to_look_at[0]
            standing = self._standings.get(place[1])
            if standing is not None and standing.is_due and standing.place == place and standing.waits_at is None:
                self.looks += 1
                found = self._before(standing)
                if found is None:
                    return place[1]
                node, guard = found
                standing.waits_at = node
                heappush(self._waiting.setdefault(node, []), place)
                self._standings[guard[1]].guards[node] = None
            heappop(self._to_look_at)
        return None

    def affect(self, nodes: Set[NodeIndex], names: Iterable[NodeId]) -> bool:
        """Return True if an entry affects one of these nodes."""
        at_number, at_name, index, names = self._at_number, self._at_name, self._graph.index, list(names)
        if self._cuts or not at_number.keys().isdisjoint(nodes):
            return True
        for name in names:
            if name in at_name or index.get(name) in at_number:
                return True
        if at_name and any(True for _ in self._named(at_name.keys(), nodes)):
            return True
        if not self._wide:
            return False
        numbers = {*nodes, *(index[name] for name in names if name in index)}
        return any(self._is_met(wide, numbers) or not wide.names.isdisjoint(names) for wide in self._wide.values())

    def at(self, numbers: Collection[NodeIndex]) -> set[UpdateId]:
        """Return the entries that affect one of some nodes. Cuts are left out."""
        at_number, at_name, ids, found = self._at_number, self._at_name, self._graph.ids, set[UpdateId]()
        for number in numbers:
            for _, update_id in at_number.get(number, ()):
                found.add(update_id)
            if at_name and number < len(ids):
                for _, update_id in at_name.get(ids[number], ()):
                    found.add(update_id)
        if self._wide:
            numbers = set(numbers)
            for wide in self._wide.values():
                if self._is_met(wide, numbers):
                    found.update(update_id for _, update_id in wide.line)
        return found

    def at_name(self, name: NodeId) -> set[UpdateId]:
        """Return the entries that affect a node. Cuts are left out."""
        number = self._graph.index.get(name)
        if number is not None:
            return self.at((number,))
        wide = [wide.line for wide in self._wide.values() if name in wide.names]
        return {update_id for line in (self._at_name.get(name, ()), *wide) for _, update_id in line}

    def all_before(self, update_id: UpdateId) -> list[UpdateId]:
        """Return the entries that must be over before the turn of `update_id`, transitively.

        The last of them is looked at first, so a line that was gone through once has nothing more to tell.
        """
        first = self._standings.get(update_id)
        if first is None:
            return []
        found, unseen = {update_id}, [first.place]
        numbers, names, wide_ones = set[NodeIndex](), set[NodeId](), set[int]()
        while unseen:
            standing = self._standings[unseen.pop()[1]]
            rest = replace(standing, nodes=standing.nodes - numbers, names=standing.names - names)
            numbers |= rest.nodes
            names |= rest.names
            lines = [self._line if standing.is_cut else self._cuts, *(line for _, line in self._lines_at(rest))]
            for wide in self._wide.values():
                is_new = id(wide) not in wide_ones and wide.line[0] < standing.place
                if is_new and self._common(standing, wide) is not None:
                    wide_ones.add(id(wide))
                    lines.append(wide.line)
            for line in lines:
                for place in line[: bisect_left(line, standing.place)]:
                    if place[1] not in found:
                        found.add(place[1])
                        insort(unseen, place)
        return sorted(found - {update_id})

    def _look_at(self, standing: TurnPlace) -> None:
        if standing.waits_at is None:
            heappush(self._to_look_at, standing.place)

    def _wake(self, node: Node) -> None:
        """Let the first entry that waits at a node be looked at, and make it the guard of the others."""
        waiting = self._waiting.get(node, [])
        while waiting:
            place = heappop(waiting)
            standing = self._standings.get(place[1])
            if standing is None or standing.place != place or standing.waits_at != node:
                continue
            standing.waits_at = None
            if standing.is_due:
                heappush(self._to_look_at, place)
            if node != _EVERYTHING:
                standing.guards[node] = None
                break
        if not waiting:
            self._waiting.pop(node, None)

    def _before(self, standing: TurnPlace) -> tuple[Node, Place] | None:
        """Return a node that an entry shares with an earlier entry, and that entry's place. None if no entry is
        earlier."""
        place = standing.place
        line = self._line if standing.is_cut else self._cuts
        if line and line[0] < place:
            return _EVERYTHING, line[0]
        for node, line in self._lines_at(standing):
            if line[0] < place:
                return node, line[0]
        for wide in self._wide.values():
            common = self._common(standing, wide) if wide.line[0] < place else None
            if common is not None:
                return common, wide.line[0]
        return None

    def _lines_at(self, standing: TurnPlace) -> Iterator[tuple[Node, list[Place]]]:
        """Yield the lines of the nodes of an entry, except those of wide entries."""
        at_number, at_name, index, ids = self._at_number, self._at_name, self._graph.index, self._graph.ids
        for number in standing.nodes & at_number.keys():
            yield number, at_number[number]
        for name in sorted(standing.names & at_name.keys()):
            yield name, at_name[name]
        # Some names may have got a number since the entry was put in line.
        for name in standing.names:
            known = index.get(name)
            if known is not None and known in at_number:
                yield name, at_number[known]
        for number in self._named(at_name.keys(), standing.nodes):
            yield number, at_name[ids[number]]

    def _common(self, standing: TurnPlace, wide: _Wide) -> Node | None:
        """Return a node that an entry and a wide set share, in the entry's form. None if there is none."""
        if not standing.nodes.isdisjoint(wide.nodes):
            return min(standing.nodes & wide.nodes)
        if not standing.names.isdisjoint(wide.names):
            return min(standing.names & wide.names)
        index = self._graph.index
        for name in standing.names:
            if index.get(name) in wide.nodes:
                return name
        return next(self._named(wide.names, standing.nodes), None) if wide.names else None

    def _is_met(self, wide: _Wide, nodes: Collection[NodeIndex]) -> bool:
        """Return True if one of some nodes is in a wide set."""
        if not wide.nodes.isdisjoint(nodes):
            return True
        return bool(wide.names) and any(True for _ in self._named(wide.names, nodes))

    def _named(self, names: Set[NodeId], nodes: Collection[NodeIndex]) -> Iterator[NodeIndex]:
        """Return the nodes whose names are in `names`. The cost follows the smaller of the two sets."""
        index, ids = self._graph.index, self._graph.ids
        if len(names) < len(nodes):
            return (index[name] for name in names if index.get(name) in nodes)
        return (node for node in nodes if node < len(ids) and ids[node] in names)

    def _find_lines(self, new: TurnPlace) -> None:
        """Set the lines of an entry: node by node, or with a wide set."""
        few = WIDE_FROM_NODES
        if len(new.nodes) + len(new.names) <= few:
            new.in_line_at, new.in_line_by_name = new.nodes, new.names
            return
        rest = len(new.nodes) - len(new.followed) + len(new.names)
        if rest > few:
            wide = _Wide(new.place[1], new.nodes, new.names)
        else:
            wide = _Wide(frozenset(new.begins_at), new.followed, frozenset())
            new.in_line_at, new.in_line_by_name = new.nodes - new.followed, new.names
        new.wide = self._wide.setdefault(wide.key, wide)
        # Entries that begin at the same nodes follow the same nodes, so the newest set replaces the older one.
        new.wide.nodes = wide.nodes
        insort(new.wide.line, new.place)


def _affect_the_same(one: TurnPlace, other: TurnPlace) -> bool:
    if one.nodes is other.nodes and one.names is other.names:
        return True
    return one.nodes == other.nodes and one.names == other.names and one.followed == other.followed


def _take_out(line: list[Place], place: Place) -> bool:
    """Take an entry out of a line. Return True if none is left."""
    del line[bisect_left(line, place)]
    return not line
