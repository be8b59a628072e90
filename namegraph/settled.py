"""For which owned nodes the records that were sent are what the graph says, or differ from it in known places only.

Take the arcs into a node in their order. Which of them block o depends on which of their tails o reaches, and on
nothing else. As long as the arcs stay, only those matter who came or went above a tail (`moved`): they can be blocked,
or not be blocked any more, at

    arcs whose tail they came to or went from;
    arcs whose tail they reach before and after, since another arc may deliver for them now.

The second kind can be left out for those who came or went above the node itself: there was an instant when they reached
none of its tails. A record names minimal nodes, and says something else when somebody comes or goes above one of these:
they have moved for the node below then, too.

Source: protocol.md section 4.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from pyroaring import BitMap

from namegraph.ancestry import Shift
from namegraph.names import NodeId
from namegraph.records import NodeIndex
from namegraph.site import Site

ArcKey = tuple[NodeIndex, NodeIndex]
Minimal = tuple[NodeId, ...]


@dataclass(slots=True)
class Touch:
    """What has happened above a derived node since its records were compared with the graph; its arcs are the same."""

    tails: set[NodeIndex] = field(default_factory=set)
    """Representatives of those above whose ancestor set is another one."""
    moved: BitMap = field(default_factory=BitMap)
    """Who came or went above a tail, or above a node that a record names."""
    moved_wholly: BitMap = field(default_factory=BitMap)
    """Who came or went above the derived node itself."""
    replaced: dict[ArcKey, Minimal] = field(default_factory=dict)
    """By arc (parent, child) for which a record was sent without being compared: the one before, which was right."""


Partly = dict[NodeIndex, tuple[Touch, list[NodeIndex]]]
"""By representative: what has happened, and which of its components are asked for."""


class Settled:
    """What is known of the records that were sent of arcs into owned nodes."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._graph = site.graph
        self._nodes: set[NodeIndex] = set()
        """Nodes whose records are what the graph says, but for what `_touches` has."""
        self._entered_from_elsewhere: set[NodeIndex] = set()
        """Those of them into which arcs lead of which there may be records."""
        self._touches: dict[NodeIndex, Touch] = {}
        """By representative."""

    def forget_all(self) -> None:
        """Anything may have happened."""
        self._nodes.clear()
        self._entered_from_elsewhere.clear()
        self._touches.clear()

    def unsettle(self, node: NodeIndex) -> None:
        """The records of all arcs into a derived node are to be compared."""
        for component in self._graph.components(node):
            self._nodes.discard(component)
            self._touches.pop(component, None)

    def replaced(self, arc: ArcKey, before: Minimal) -> None:
        """A record was sent that need not be what the graph says, in place of one that was."""
        if arc[1] not in self._nodes:
            return
        touch = self._touch(self._graph.representative(arc[1]))
        if touch is None:
            self.unsettle(arc[1])
        else:
            touch.replaced.setdefault(arc, before)

    def follow(self, shift: Shift, naming: Mapping[NodeId, Collection[NodeId]]) -> None:
        """Learn what a commit did to ancestor sets. `naming`: children of arcs, by node that a record of them names."""
        graph, ancestors = self._graph, self._site.ancestors
        for node in (*shift.entered, *shift.forgotten):
            self.unsettle(node)
        for node in shift.forgotten:
            for child in self._named_by(node, naming):
                self.unsettle(child)
        touched: dict[NodeIndex, Touch] = {}
        for node, moved in shift.moved.items():
            for sink in ancestors.derived_children(node):
                touch = touched.get(sink) or self._touch(sink)
                if touch is not None:
                    touched[sink] = touch
                    touch.tails.add(node)
                    touch.moved |= moved
            for child in self._named_by(node, naming):
                touch = self._touch(graph.representative(child))
                if touch is not None:
                    touch.moved |= moved
        for sink, touch in touched.items():
            moved_wholly = shift.moved.get(sink)
            if moved_wholly is not None:
                touch.moved_wholly |= moved_wholly

    def is_settled(self, node: NodeIndex) -> bool:
        """Whether all records into a derived node, as far as it is owned here, are what the graph says."""
        return self._graph.representative(node) not in self._touches and all(
            component in self._nodes for component in self._graph.components(node) if self._site.owns(component)
        )

    def take(self, nodes: Iterable[NodeIndex]) -> tuple[list[NodeIndex], Partly]:
        """Of these owned nodes, sorted: those to be compared wholly, and those in part; they count as settled then."""
        representative = self._graph.representative
        wholly: list[NodeIndex] = []
        partly: Partly = {}
        for node in sorted(nodes):
            if node not in self._nodes:
                wholly.append(node)
            elif self._touches and (touch := self._touches.get(representative(node))) is not None:
                partly.setdefault(representative(node), (touch, []))[1].append(node)
        for sink, (_, asked_for) in partly.items():
            # What is known of the others is about to be forgotten.
            others = set(self._graph.components(sink)).difference(asked_for)
            self._nodes -= others
            del self._touches[sink]
        return wholly, partly

    def settle(self, nodes: Iterable[NodeIndex], *, entered_from_elsewhere: Iterable[NodeIndex]) -> None:
        """The records of arcs into these nodes were compared wholly: there are some into the latter alone."""
        nodes = list(nodes)
        self._nodes.update(nodes)
        self._entered_from_elsewhere.difference_update(nodes)
        self._entered_from_elsewhere.update(entered_from_elsewhere)

    def _touch(self, sink: NodeIndex) -> Touch | None:
        """To note what happens above a derived node; None where no record is known to be right, or none is needed."""
        touch = self._touches.get(sink)
        if touch is not None:
            return touch
        components = self._graph.components(sink)
        if not any(node in self._nodes and node in self._entered_from_elsewhere for node in components):
            return None
        touch = self._touches[sink] = Touch()
        return touch

    def _named_by(self, node: NodeIndex, naming: Mapping[NodeId, Collection[NodeId]]) -> list[NodeIndex]:
        ids, index = self._graph.ids, self._graph.index
        names = [name for component in self._graph.components(node) for name in naming.get(ids[component], ())]
        return [index[name] for name in names if name in index]
