"""The name graph as one server knows it: the external group view, and the virtual nodes of its loops.

Every node has a dense number. The number of a forgotten name is later given to another name. The arcs of a node are
two dictionaries, by child and by parent, that share one immutable `ArcRecord` an arc. A *derived node* is a virtual
node, or a group or process outside all virtual nodes. Its `representative`, the component of the smallest number,
stands for it wherever a number is needed. Any module may read a graph; only `namegraph.graph.apply_delta` changes
one.

    external group view                  derived graph

    a -> b -> c -> a                     [a b c] -> d
              c -> d

Source: NG 3.2.1, 4.4.1; docs/protocol-updates.md, "Two views of one graph".
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from enum import IntEnum
from heapq import heappop, heappush
from itertools import islice, repeat
from typing import Any, NamedTuple

from namegraph.graph.spanning_tree import spanning_tree
from namegraph.graph.spelling_index import SpellingIndex
from namegraph.model.moments import ByteColumn, Column, CounterColumn, DictColumn, DictTable, Recent, Table, shallow
from namegraph.model.names import NodeId, ServerId
from namegraph.model.priorities import Priority
from namegraph.model.rows import ArcKey, ArcRecord, NodeIndex, NodeKind


class ArcState(IntEnum):
    """The state of an arc in the internal group view."""

    NORMAL = 1
    SHADOW = 2
    FADE = 3
    SUSPENDED = 4


@dataclass(frozen=True, slots=True, eq=False)
class VirtualNode:
    """A strongly connected component of two or more groups. Its id is (`smallest`, `made_at`)."""

    number: int
    smallest: NodeId
    made_at: Priority
    components: tuple[NodeIndex, ...]
    """Node numbers of the components, sorted."""

    @property
    def representative(self) -> NodeIndex:
        """The component that stands for the virtual node."""
        return self.components[0]

    @property
    def vnid(self) -> str:
        """The id as text. The text is never a legal name, so it cannot be taken for a group."""
        return f"{self.smallest}#{self.made_at.counter}.{self.made_at.server}"


CHANGE_LOG_LIMIT = 20_000
"""Updates whose changed tails are remembered. Readers use them to tell if cached results still hold."""

CHANGED_TAILS_LIMIT = 100_000
"""Changed tails that are remembered, of all these updates together."""

CHANGED_TAILS_LISTED_LIMIT = 10_000
"""Changed tails of one update that are listed. Beyond this limit, readers drop everything cached."""

ArcsByNode = DictColumn[NodeIndex, ArcRecord]
"""The arcs of each node, by their other end."""

EndsByNode = DictTable[NodeIndex, NodeIndex, None]
"""The other ends of some arcs of each node that has any."""

NOBODY = NodeId("@")
"""Id of a free number: never a legal name, and in no owned subnet."""


class Mark(NamedTuple):
    """A point in the interning of ids, within one step."""

    length: int
    taken: int


_KINDS = (NodeKind.ABSENT, NodeKind.GROUP, NodeKind.PROCESS)


_HELD = (
    "ids",
    "index",
    "kinds",
    "versions",
    "version_servers",
    "children",
    "parents",
    "tombstones",
    "suspended",
    "suspended_from",
    "suspended_into",
    "divergent_children",
    "virtual_nodes",
    "virtual_node_of",
)
"""Attributes that a held graph has as they were."""


class NameGraph:
    """Nodes, present arcs, tombstones and virtual nodes."""

    def __init__(self) -> None:
        self.ids: Column[NodeId] = Column()
        self.index: Table[NodeId, NodeIndex] = Table()
        """Numbers by id."""
        self._spellings = SpellingIndex()
        self.kinds = ByteColumn()
        self.versions = CounterColumn("Q")
        self.version_servers: Table[NodeIndex, ServerId] = Table()
        """Server of a version's priority, for nodes where it may differ from this server."""
        self.children: ArcsByNode = DictColumn()
        """Arcs that leave each node, by child."""
        self.parents: ArcsByNode = DictColumn()
        """Arcs in the ancestry record of each node, by parent."""
        self.tombstones: Table[ArcKey, ArcRecord] = Table()
        self.buried: dict[ArcKey, None] = {}
        """Tombstones that were not checked yet for forgetting, the oldest first."""
        self._tombstones_at: dict[NodeIndex, int] = {}
        """Number of tombstones that a node is an end of."""
        self.idle: dict[NodeIndex, None] = {}
        """Nodes that may stand for nothing any more, so that their names can be forgotten."""
        self._free: list[NodeIndex] = []
        """Numbers without a name, as a heap. The smallest is taken first."""
        self._taken: list[NodeIndex] = []
        """Free numbers that were given to names in this step."""
        self.renamed: Recent[NodeIndex] = Recent(CHANGE_LOG_LIMIT)
        """Numbers that were given to a new name, the oldest first."""
        self.renamed_count = 0
        """Number of such reassignments since start."""
        self.suspended: Table[ArcKey, ArcRecord] = Table()
        """Suspended arcs: their ends are apart. They are kept for users, and left out of resolution."""
        self.suspended_from: EndsByNode = DictTable()
        """Children of suspended arcs, by parent."""
        self.suspended_into: EndsByNode = DictTable()
        """Parents of suspended arcs, by child."""
        self.divergent_children: EndsByNode = DictTable()
        """Children by parent, for arcs about which `children` and `parents` differ.

        While updates over several servers are under way, the ancestry record of the child can be ahead of the truth
        at the parent, or behind it.
        """
        self.virtual_nodes: Table[int, VirtualNode] = Table()
        self.virtual_node_of: Table[NodeIndex, VirtualNode] = Table()
        self.next_virtual_node = 0
        self.update_count = 0
        """Number of updates committed since start. Readers use it with `changed_tails` to find stale results."""
        self.group_changes = 0
        """Number of updates that created or deleted groups."""
        self.changed_tails: Recent[tuple[int, array[int] | None]] = Recent(CHANGE_LOG_LIMIT)
        """(update count, tails of changed arcs) of recent updates, the oldest first. Tails are None if too many to
        list."""
        self._changed_tails_size = 0
        self._shadow_trees: Table[int, frozenset[ArcKey]] = Table()

    def hold(self) -> NameGraph:
        """Return the present graph, for readers. The held graph stays unchanged while this graph changes.

        The two share everything that does not change.
        """
        held = shallow(self)
        for name in _HELD:
            setattr(held, name, getattr(self, name).hold())
        held.changed_tails, held.renamed = self.changed_tails.copy(), self.renamed.copy()
        held._shadow_trees = self._shadow_trees.branch()
        return held

    def end_holds(self) -> None:
        """Note that nobody reads held graphs any more."""
        for name in (*_HELD, "_shadow_trees"):
            getattr(self, name).end_moments()

    @property
    def replaced(self) -> list[list[Any]]:
        """Former arcs of nodes, in a held graph."""
        return [self.children.replaced, self.parents.replaced]  # type: ignore[attr-defined]

    @property
    def virtual_node_count(self) -> int:
        """Number of virtual nodes."""
        return len(self.virtual_nodes)

    def kind(self, node: NodeIndex) -> NodeKind:
        """Return the present kind of a node."""
        return _KINDS[self.kinds[node]]

    def group(self, name: NodeId) -> NodeIndex | None:
        """Return the number of a group. None if the group does not exist."""
        node = self.index.get(name)
        return node if node is not None and self.kinds[node] == NodeKind.GROUP else None

    def spellings(self, name: NodeId) -> list[NodeIndex]:
        """Return the numbers of all ids that differ from a canonical name in letter case alone, its own number
        included."""
        return [node for node in map(self.index.get, self._spellings.candidates(name)) if node is not None]

    def representative(self, node: NodeIndex) -> NodeIndex:
        """Return the number that stands for the derived node of `node`."""
        virtual_node = self.virtual_node_of.get(node)
        return node if virtual_node is None else virtual_node.components[0]

    def representatives(self, nodes: Collection[NodeIndex]) -> list[NodeIndex]:
        """Return the numbers that stand for the derived nodes of some nodes, in their order."""
        owner = self.virtual_node_of
        on_loops = owner.among(set(nodes))
        if not on_loops:
            return list(nodes)
        return [owner[node].components[0] if node in on_loops else node for node in nodes]

    def components(self, node: NodeIndex) -> tuple[NodeIndex, ...]:
        """Return all nodes of the derived node of `node`."""
        virtual_node = self.virtual_node_of.get(node)
        return (node,) if virtual_node is None else virtual_node.components

    def label(self, node: NodeIndex) -> str:
        """Return the id of the derived node of `node`: a vnid, or the node's own id."""
        virtual_node = self.virtual_node_of.get(node)
        return self.ids[node] if virtual_node is None else virtual_node.vnid

    def parent_representatives(self, node: NodeIndex) -> set[NodeIndex]:
        """Return the derived nodes immediately above the derived node of `node`."""
        owner = self.virtual_node_of
        virtual_node = owner.get(node)
        if virtual_node is None:
            above = set(self.parents[node])
        else:
            above = set().union(*(self.parents[component] for component in virtual_node.components))
            above.difference_update(virtual_node.components)
        on_loops = owner.among(above)
        if not on_loops:
            return above
        return (above - on_loops) | {owner[parent].components[0] for parent in on_loops}

    def entering_arcs(self, node: NodeIndex) -> list[ArcRecord]:
        """Return the normal arcs into the derived node of `node`, parallel arcs included, in no order."""
        virtual_node = self.virtual_node_of.get(node)
        if virtual_node is None:
            return list(self.parents[node].values())
        return [
            arc
            for component in virtual_node.components
            for arc in self.parents[component].values()
            if self.virtual_node_of.get(arc.parent) is not virtual_node
        ]

    def entering_tails(self, node: NodeIndex) -> Iterator[NodeIndex]:
        """Yield the tails of the normal arcs into the derived node of `node`. A tail is repeated for each parallel
        arc."""
        virtual_node = self.virtual_node_of.get(node)
        if virtual_node is None:
            yield from self.parents[node]
            return
        for component in virtual_node.components:
            for parent in self.parents[component]:
                if self.virtual_node_of.get(parent) is not virtual_node:
                    yield parent

    def arc_state(self, arc: ArcRecord) -> ArcState:
        """Return the state of a present arc."""
        if arc.suspended:
            return ArcState.SUSPENDED
        virtual_node = self.virtual_node_of.get(arc.parent)
        if virtual_node is None or self.virtual_node_of.get(arc.child) is not virtual_node:
            return ArcState.NORMAL
        return ArcState.SHADOW if (arc.parent, arc.child) in self.shadow_tree(virtual_node) else ArcState.FADE

    def shadow_tree(self, virtual_node: VirtualNode) -> frozenset[ArcKey]:
        """Return the arcs (parent, child) of the spanning shadow tree. The first call computes them."""
        tree = self._shadow_trees.get(virtual_node.number)
        if tree is None:
            tree = spanning_tree(
                sorted(virtual_node.components, key=self.ids.__getitem__), self._inner_arcs(virtual_node)
            )
            self._shadow_trees.share(virtual_node.number, tree)
        return tree

    def forget_shadow_tree(self, virtual_node: VirtualNode) -> None:
        """Drop the cached tree of a virtual node that changed inside, or is gone."""
        self._shadow_trees.pop(virtual_node.number, None)

    def descendants(self, starts: Iterable[NodeIndex], *, limit: int | None = None) -> set[NodeIndex] | None:
        """Return the starts and all nodes reachable from them. None if they are more than `limit`."""
        return _closure(self.children, starts, limit)

    def ancestors(self, starts: Iterable[NodeIndex]) -> set[NodeIndex]:
        """Return the starts and all nodes from which they are reachable."""
        found = _closure(self.parents, starts, None)
        assert found is not None
        return found

    def note_changed(self, tails: Iterable[NodeIndex]) -> None:
        """Record one more update, which changed arcs that leave these nodes."""
        listed = array("I", set(tails))
        recent = self.changed_tails
        self.update_count += 1
        tails_to_list = listed if len(listed) <= CHANGED_TAILS_LISTED_LIMIT else None
        self._changed_tails_size += len(tails_to_list or ())
        while recent and (len(recent) == recent.limit or self._changed_tails_size > CHANGED_TAILS_LIMIT):
            self._changed_tails_size -= len(recent.drop_oldest()[1] or ())
        recent.append((self.update_count, tails_to_list))

    def changed_since(self, since: int) -> list[NodeIndex] | None:
        """Return the nodes whose outgoing arcs were changed by updates after the count `since`. None if not
        remembered."""
        expected, found = self.update_count, list[NodeIndex]()
        for update_count, tails in reversed(self.changed_tails):
            if update_count <= since:
                return found
            if update_count != expected or tails is None:
                return None
            found.extend(map(NodeIndex, tails))
            expected -= 1
        return found if expected == since else None

    def is_unchanged_at(self, nodes: Set[NodeIndex], *, since: int) -> bool:
        """Return True if no update after the count `since` changed arcs that leave these nodes. False if not
        remembered."""
        expected = self.update_count
        for update_count, tails in reversed(self.changed_tails):
            if update_count <= since:
                return True
            if update_count != expected or tails is None or not nodes.isdisjoint(tails):
                return False
            expected -= 1
        return expected == since

    def present_arcs(self) -> Iterator[ArcRecord]:
        """Yield all present arcs, in an arbitrary order."""
        for arcs in self.children:
            yield from arcs.values()

    def arc(self, parent: NodeIndex, child: NodeIndex) -> ArcRecord | None:
        """Return the arc. None if it is not present."""
        return self.children[parent].get(child)

    def suspend(self, arc: ArcRecord) -> None:
        """Record a suspended arc."""
        self.suspended[arc.parent, arc.child] = arc
        self.suspended_from.put(arc.parent, arc.child, None)
        self.suspended_into.put(arc.child, arc.parent, None)

    def unsuspend(self, parent: NodeIndex, child: NodeIndex) -> ArcRecord | None:
        """Forget a suspended arc, and return it. None if it was not suspended."""
        arc = self.suspended.get((parent, child))
        if arc is not None:
            del self.suspended[parent, child]
            self.suspended_from.drop(parent, child)
            self.suspended_into.drop(child, parent)
        return arc

    def arcs_from(self, node: NodeIndex) -> list[tuple[NodeIndex, ArcRecord]]:
        """Return all children of a node with their arcs, suspended arcs included."""
        apart = self.suspended_from.get(node, ())
        return [*self.children[node].items(), *((child, self.suspended[node, child]) for child in apart)]

    def arcs_into(self, node: NodeIndex) -> list[tuple[NodeIndex, ArcRecord]]:
        """Return all parents of a node with their arcs, suspended arcs included."""
        apart = self.suspended_into.get(node, ())
        return [*self.parents[node].items(), *((parent, self.suspended[parent, node]) for parent in apart)]

    def recorded_children(self, node: NodeIndex) -> Iterable[NodeIndex]:
        """Return the nodes whose ancestry record has an arc from `node`."""
        divergent_children = self.divergent_children.get(node) if self.divergent_children else None
        if divergent_children is None:
            return self.children[node]
        agreed = [child for child in self.children[node] if child not in divergent_children]
        return agreed + [child for child in divergent_children if node in self.parents[child]]

    def compare(self, parent: NodeIndex, child: NodeIndex) -> None:
        """Note if the two sides of an arc that may have changed agree on its presence."""
        if (child in self.children[parent]) != (parent in self.parents[child]):
            self.divergent_children.put(parent, child, None)
        elif self.divergent_children:
            self.divergent_children.drop(parent, child)

    def bury(self, tombstone: ArcRecord) -> None:
        """Keep the tombstone of an arc that was left."""
        ends = tombstone.parent, tombstone.child
        if ends not in self.tombstones:
            for end in ends:
                self._tombstones_at[end] = self._tombstones_at.get(end, 0) + 1
        self.tombstones[ends] = tombstone
        self.buried.pop(ends, None)
        self.buried[ends] = None

    def unbury(self, ends: ArcKey) -> ArcRecord | None:
        """Drop the tombstone of an arc, and return it. None if there is none."""
        tombstone = self.tombstones.get(ends)
        if tombstone is not None:
            del self.tombstones[ends]
            self.buried.pop(ends, None)
            for end in ends:
                self._tombstones_at[end] -= 1
                if not self._tombstones_at[end]:
                    del self._tombstones_at[end]
        return tombstone

    def has_tombstone(self, node: NodeIndex) -> bool:
        """Return True if a node is an end of a tombstone."""
        return node in self._tombstones_at

    def set_kind(self, node: NodeIndex, kind: NodeKind) -> None:
        """Set the kind of a node."""
        self.kinds[node] = kind
        if kind is NodeKind.ABSENT:
            self.idle[node] = None

    def set_kinds(self, nodes: Collection[NodeIndex], kind: NodeKind) -> None:
        """Set the kind of some nodes."""
        self.kinds.put(nodes, kind)
        if kind is NodeKind.ABSENT:
            self.idle.update(dict.fromkeys(nodes))

    def is_blank(self, node: NodeIndex) -> bool:
        """Return True if a node stands for nothing and is an end of no known arc, tombstones included."""
        return not (
            self.kinds[node] != NodeKind.ABSENT
            or self.children[node]
            or self.parents[node]
            or node in self._tombstones_at
            or node in self.suspended_from
            or node in self.suspended_into
            or node in self.virtual_node_of
            or any(node in children for children in self.divergent_children.values())
        )

    def forget_names(self, nodes: Iterable[NodeIndex]) -> None:
        """Forget the names of blank nodes and free their numbers."""
        forgotten = list(nodes)
        for node in forgotten:
            self._drop_number(self.ids[node])
            self._set_free(node)
        if forgotten:
            # Results that readers cached under these numbers are invalid.
            self.note_changed(forgotten)

    def _set_free(self, node: NodeIndex) -> None:
        self.ids[node] = NOBODY
        self.versions[node] = 0
        self.version_servers.pop(node, None)
        heappush(self._free, node)

    @property
    def free_count(self) -> int:
        """Number of free numbers."""
        return len(self._free)

    def is_free(self, node: NodeIndex) -> bool:
        """Return True if a number has no name."""
        return self.ids[node] == NOBODY

    def restore(self, name: NodeId, kind: NodeKind) -> None:
        """Restore the next stored number, with or without a name."""
        node = self._append(name)
        if name == NOBODY:
            heappush(self._free, node)
        else:
            self._number(name, node)
            self.set_kind(node, kind)

    def intern(self, name: NodeId) -> NodeIndex:
        """Return the number of an id. A new id gets a number that stands for nothing yet."""
        node = self.index.get(name)
        if node is None:
            node = self._take_free(name) if self._free else self._append(name)
            self._number(name, node)
        return node

    def intern_all(self, names: Sequence[NodeId]) -> list[NodeIndex]:
        """Return the numbers of some ids, in their order, as `intern` does."""
        index = self.index
        new = list(dict.fromkeys(name for name in names if name not in index))
        free = min(len(new), len(self._free))
        for name in new[:free]:
            self.intern(name)
        first = len(self.ids)
        self._append_all(new[free:])
        index.put_all({name: NodeIndex(node) for node, name in enumerate(new[free:], first)})
        for name in new[free:]:
            self._spellings.add(name)
        return [index[name] for name in names]

    def _number(self, name: NodeId, node: NodeIndex) -> None:
        self.index[name] = node
        self._spellings.add(name)

    def _drop_number(self, name: NodeId) -> None:
        del self.index[name]
        self._spellings.drop(name)

    def _take_free(self, name: NodeId) -> NodeIndex:
        node = heappop(self._free)
        self.ids[node] = name
        self._taken.append(node)
        self.renamed.append(node)
        self.renamed_count += 1
        return node

    def renamed_since(self, count: int) -> list[NodeIndex] | None:
        """Return the numbers that got a new name since `count` such reassignments. None if they are too many to be
        remembered."""
        new = self.renamed_count - count
        return None if new > len(self.renamed) else list(islice(reversed(self.renamed), new))

    def _append(self, name: NodeId) -> NodeIndex:
        node = NodeIndex(len(self.ids))
        self.ids.append(name)
        self.kinds.append(NodeKind.ABSENT)
        self.versions.append(0)
        self.children.append({})
        self.parents.append({})
        return node

    def _append_all(self, names: Collection[NodeId]) -> None:
        self.ids.extend(names)
        self.kinds.extend(bytes(len(names)))
        self.versions.extend(repeat(0, len(names)))
        self.children.extend({} for _ in names)
        self.parents.extend({} for _ in names)

    def mark(self) -> Mark:
        """Return the present point in the interning of ids, for `interned_since` and `forget_interned`."""
        return Mark(len(self.ids), len(self._taken))

    def interned_since(self, mark: Mark) -> list[NodeIndex]:
        """Return the numbers that ids got in this step since a mark."""
        return [*self._taken[mark.taken :], *map(NodeIndex, range(mark.length, len(self.ids)))]

    def forget_interned(self, mark: Mark) -> None:
        """Forget the numbers given since a mark, of nodes that never stood for anything (a refused update)."""
        for node in self._taken[mark.taken :]:
            self._drop_number(self.ids[node])
            self._set_free(node)
        del self._taken[mark.taken :]
        for name in self.ids[mark.length :]:
            self._drop_number(name)
        for column in (self.ids, self.kinds, self.versions, self.children, self.parents):
            del column[mark.length :]

    def take_interned(self, recorded: int) -> list[NodeIndex]:
        """End the step: return the numbers that got a name in it. Nodes below `recorded` were known before."""
        found = self.interned_since(Mark(recorded, 0))
        self._taken.clear()
        return found

    def _inner_arcs(
        self, virtual_node: VirtualNode
    ) -> Iterator[tuple[tuple[int, NodeId, NodeId], NodeIndex, NodeIndex]]:
        # Ancestry records decide. The parent may report that an arc is gone before the loop is fully known here.
        for component in virtual_node.components:
            for arc in self.parents[component].values():
                if self.virtual_node_of.get(arc.parent) is virtual_node:
                    yield (arc.cost, self.ids[arc.parent], self.ids[arc.child]), arc.parent, arc.child


def _closure(neighbours: ArcsByNode, starts: Iterable[NodeIndex], limit: int | None) -> set[NodeIndex] | None:
    # Whole levels at once: the union runs in C, which is several times faster than visiting arc by arc.
    reached = set(starts)
    frontier = reached
    while frontier:
        arcs = neighbours.of(frontier)
        if limit is not None and any(len(each) > limit for each in arcs):
            return None
        frontier = set().union(*arcs) - reached
        reached |= frontier
        if limit is not None and len(reached) > limit:
            return None
    return reached
