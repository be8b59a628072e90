"""The name graph as one server knows it: the external group view, and which virtual nodes its loops became.

Every node has a dense number; that of a name that is forgotten is given to another one later. The arcs of a node are
two dictionaries, by child and by parent, that share one immutable `ArcRecord` an arc. A *derived node* is a virtual
node or a group or process that is in none; its `representative` (the component of the smallest number) stands for it
wherever a number is needed. Reading is free to everybody; only `namegraph.graph.apply_delta` changes a graph.

    external group view                  derived graph

    a -> b -> c -> a                     [a b c] -> d
              c -> d

Source: NG 3.2.1, 4.4.1; protocol.md sections 1 and 3.
"""

from __future__ import annotations

from array import array
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Set
from copy import copy
from dataclasses import dataclass
from enum import IntEnum
from heapq import heappop, heappush
from itertools import islice
from typing import Any, NamedTuple

from namegraph.graph.spanning_tree import spanning_tree
from namegraph.graph.spelling_index import SpellingIndex
from namegraph.model.names import NodeId, ServerId
from namegraph.model.priorities import Priority
from namegraph.model.rows import ArcKey, ArcRecord, NodeIndex, NodeKind
from namegraph.model.slices import Slices


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
    """Sorted by number."""

    @property
    def representative(self) -> NodeIndex:
        """The component that stands for the whole."""
        return self.components[0]

    @property
    def vnid(self) -> str:
        """The id as text; never a legal name, so it cannot be taken for a group."""
        return f"{self.smallest}#{self.made_at.counter}.{self.made_at.server}"


CHANGE_LOG_LIMIT = 20_000
"""Updates whose changed tails are remembered, so that readers can tell whether what they keep still holds."""

CHANGED_TAILS_LIMIT = 100_000
"""Changed tails that are remembered, of all these updates together."""

CHANGED_TAILS_LISTED_LIMIT = 10_000
"""Changed tails of one update; of one with more, readers keep nothing."""

EndsByNode = dict[NodeIndex, dict[NodeIndex, None]]
"""The other ends of some arcs of each node that has any."""

MANY_ARCS = 1_000
"""So many arcs of one node are freed one by one, and not with their table: that may take 20 ms."""

NOBODY = NodeId("@")
"""The id of a number that is free: never a legal name, and of no subnet that anybody owns."""


class Mark(NamedTuple):
    """A point in the interning of ids, within one step."""

    length: int
    taken: int


_KINDS = (NodeKind.ABSENT, NodeKind.GROUP, NodeKind.PROCESS)


class LeftBehind(NamedTuple):
    """What nobody needs any more once a graph that was held is let go, to be freed bit by bit."""

    large: list[Any]
    """Each takes a millisecond or two."""
    small: list[Any]
    """Thousands take a millisecond, and there may be hundreds of thousands; to be freed from the end."""


@dataclass(frozen=True, slots=True)
class _Shared:
    """Which arcs a graph no longer shares with the one that is held: those of copied nodes, and of new ones."""

    length: int
    copied_out: set[NodeIndex]
    copied_in: set[NodeIndex]
    copied_ends: defaultdict[int, set[NodeIndex]]
    """By the `id` of a map: the nodes whose ends in it are not shared."""
    replaced: list[Any]
    """The arcs of copied nodes as they were, to be freed from the end when nobody holds them any more."""

    def copy(self, arcs: dict[NodeIndex, ArcRecord]) -> dict[NodeIndex, ArcRecord]:
        """The arcs of a node, to be changed; those that the held graph has are noted."""
        if len(arcs) > MANY_ARCS:
            self.replaced.extend(arcs.values())
        self.replaced.append(arcs)
        return arcs.copy()


_COPIED = (
    "ids",
    "kinds",
    "versions",
    "children",
    "parents",
    "suspended",
    "suspended_from",
    "suspended_into",
    "divergent_children",
    "virtual_nodes",
    "virtual_node_of",
    "changed_tails",
    "renamed",
)
"""What a graph that is held has of its own."""


class _IndexBefore(Mapping[NodeId, NodeIndex]):
    """The numbers of ids below a limit. The ids themselves stay where they are: there may be millions."""

    def __init__(self, index: Mapping[NodeId, NodeIndex], limit: int, taken: Set[NodeIndex]) -> None:
        """`taken`: free numbers that were given to ids since."""
        self._index = index
        self._limit = limit
        self._taken = taken
        self._length = len(index)

    def __getitem__(self, name: NodeId) -> NodeIndex:
        found = self._index[name]
        if found >= self._limit or found in self._taken:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[NodeId]:
        return (name for name, node in self._index.items() if node < self._limit and node not in self._taken)

    def __len__(self) -> int:
        return self._length


class NameGraph:
    """Nodes, present arcs, tombstones and virtual nodes."""

    def __init__(self) -> None:
        self.ids: list[NodeId] = []
        self._numbers: dict[NodeId, NodeIndex] = {}
        self.index: Mapping[NodeId, NodeIndex] = self._numbers
        """Numbers by id."""
        self._spellings = SpellingIndex()
        self.kinds = bytearray()
        self.versions = array("Q")
        self.version_servers: dict[NodeIndex, ServerId] = {}
        """The server of a version's priority, where it may be another one than this."""
        self.children: list[dict[NodeIndex, ArcRecord]] = []
        self.parents: list[dict[NodeIndex, ArcRecord]] = []
        self.tombstones: dict[ArcKey, ArcRecord] = {}
        self.buried: dict[ArcKey, None] = {}
        """Tombstones of which it was not decided yet whether they can be forgotten, the oldest first."""
        self._tombstones_at: dict[NodeIndex, int] = {}
        """How many tombstones a node is an end of."""
        self.idle: dict[NodeIndex, None] = {}
        """Nodes that may stand for nothing any more, so that their names can be forgotten."""
        self._free: list[NodeIndex] = []
        """Numbers without a name, as a heap: the smallest is taken first."""
        self._taken: list[NodeIndex] = []
        """Those that were taken in this step."""
        self._hidden: list[set[NodeIndex]] = []
        """The same since the graph was held, for each holder."""
        self.renamed: deque[NodeIndex] = deque(maxlen=CHANGE_LOG_LIMIT)
        """Numbers that were given to another name than before, the oldest first."""
        self.renamed_count = 0
        """How many ever were."""
        self.suspended: dict[ArcKey, ArcRecord] = {}
        """Suspended arcs: their ends are apart. They are kept for users, and left out of resolution."""
        self.suspended_from: EndsByNode = {}
        """Children of suspended arcs, by parent."""
        self.suspended_into: EndsByNode = {}
        """Parents of suspended arcs, by child."""
        self.divergent_children: EndsByNode = {}
        """Children by parent, where `children` and `parents` differ about an arc: while updates over several servers
        are under way, the ancestry record of the child can be ahead of what is true at the parent, or behind it."""
        self.virtual_nodes: dict[int, VirtualNode] = {}
        self.virtual_node_of: dict[NodeIndex, VirtualNode] = {}
        self.next_virtual_node = 0
        self.update_count = 0
        """How many updates were committed since start; with `changed_tails`, tells readers what is stale."""
        self.group_changes = 0
        """How many updates created or deleted groups."""
        self.changed_tails: deque[tuple[int, array[int] | None]] = deque(maxlen=CHANGE_LOG_LIMIT)
        """(update count, tails of changed arcs; None: too many to list) of recent updates, oldest first."""
        self._changed_tails_size = 0
        self._shadow_trees: dict[int, frozenset[ArcKey]] = {}
        self._holders = 0
        self._shared: _Shared | None = None
        """While somebody reads the graph as it was: what no longer belongs to both."""

    def hold(self) -> Slices[NameGraph]:
        """The graph as it is now, for readers: it stays so while this one changes, until `let_go`.

        Arcs are shared node by node until they change (`arcs_out`, `arcs_in`, `_ends_at`), so holding costs a pointer
        for each node. Tombstones are no reader's concern: they are shared. Nothing may change between the slices.
        """
        held = NameGraph()
        copied: dict[str, Any] = {}
        for name in _COPIED:
            column = getattr(self, name)
            copied[name] = copy(column)
            yield len(column)
        taken: set[NodeIndex] = set()
        index = _IndexBefore(self.index, len(self.ids), taken)
        held.__dict__.update(self.__dict__, **copied, index=index, _shadow_trees={})
        self._holders += 1
        self._hidden.append(taken)
        replaced = [] if self._shared is None else self._shared.replaced
        self._shared = _Shared(len(self.ids), set(), set(), defaultdict(set), replaced)
        return held

    def let_go(self) -> LeftBehind:
        """Whoever held the graph reads it no more."""
        self._holders -= 1
        if self._holders or self._shared is None:
            return LeftBehind([], [])
        shared, self._shared = self._shared, None
        hidden, self._hidden = self._hidden, []
        return LeftBehind([shared.copied_out, shared.copied_in, *shared.copied_ends.values(), *hidden], shared.replaced)

    @property
    def is_held(self) -> bool:
        """Whether somebody reads the graph as it was."""
        return self._shared is not None

    def arcs_out(self, node: NodeIndex) -> dict[NodeIndex, ArcRecord]:
        """The arcs that leave a node, by child, to be changed."""
        shared = self._shared
        if shared is not None and node < shared.length and node not in shared.copied_out:
            shared.copied_out.add(node)
            self.children[node] = shared.copy(self.children[node])
        return self.children[node]

    def arcs_in(self, node: NodeIndex) -> dict[NodeIndex, ArcRecord]:
        """The arcs in the ancestry record of a node, by parent, to be changed."""
        shared = self._shared
        if shared is not None and node < shared.length and node not in shared.copied_in:
            shared.copied_in.add(node)
            self.parents[node] = shared.copy(self.parents[node])
        return self.parents[node]

    @property
    def virtual_node_count(self) -> int:
        """How many virtual nodes there are."""
        return len(self.virtual_nodes)

    def kind(self, node: NodeIndex) -> NodeKind:
        """What the node stands for at present."""
        return _KINDS[self.kinds[node]]

    def group(self, name: NodeId) -> NodeIndex | None:
        """The number of a group that exists."""
        node = self.index.get(name)
        return node if node is not None and self.kinds[node] == NodeKind.GROUP else None

    def spellings(self, name: NodeId) -> list[NodeIndex]:
        """Return the numbers of all ids that differ from a canonical name in letter case alone, itself included."""
        return [node for node in map(self.index.get, self._spellings.candidates(name)) if node is not None]

    def representative(self, node: NodeIndex) -> NodeIndex:
        """The number that stands for the derived node of `node`."""
        virtual_node = self.virtual_node_of.get(node)
        return node if virtual_node is None else virtual_node.components[0]

    def components(self, node: NodeIndex) -> tuple[NodeIndex, ...]:
        """All nodes of the derived node of `node`."""
        virtual_node = self.virtual_node_of.get(node)
        return (node,) if virtual_node is None else virtual_node.components

    def label(self, node: NodeIndex) -> str:
        """The id of the derived node of `node`: a vnid, or the node's own id."""
        virtual_node = self.virtual_node_of.get(node)
        return self.ids[node] if virtual_node is None else virtual_node.vnid

    def parent_representatives(self, node: NodeIndex) -> set[NodeIndex]:
        """The derived nodes immediately above the derived node of `node`."""
        owner = self.virtual_node_of
        virtual_node = owner.get(node)
        if virtual_node is None:
            above: Iterable[NodeIndex] = self.parents[node]
        else:
            above = set().union(*(self.parents[component] for component in virtual_node.components))
            above.difference_update(virtual_node.components)
        found = set()
        for parent in above:
            inside = owner.get(parent)
            found.add(parent if inside is None else inside.components[0])
        return found

    def entering_arcs(self, node: NodeIndex) -> list[ArcRecord]:
        """The normal arcs into the derived node of `node`, parallel ones included, in no order."""
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
        """The tails of the normal arcs into the derived node of `node`; one comes again for each parallel arc."""
        virtual_node = self.virtual_node_of.get(node)
        if virtual_node is None:
            yield from self.parents[node]
            return
        for component in virtual_node.components:
            for parent in self.parents[component]:
                if self.virtual_node_of.get(parent) is not virtual_node:
                    yield parent

    def arc_state(self, arc: ArcRecord) -> ArcState:
        """The state of a present arc."""
        if arc.suspended:
            return ArcState.SUSPENDED
        virtual_node = self.virtual_node_of.get(arc.parent)
        if virtual_node is None or self.virtual_node_of.get(arc.child) is not virtual_node:
            return ArcState.NORMAL
        return ArcState.SHADOW if (arc.parent, arc.child) in self.shadow_tree(virtual_node) else ArcState.FADE

    def shadow_tree(self, virtual_node: VirtualNode) -> frozenset[ArcKey]:
        """The arcs (parent, child) of the spanning shadow tree; computed when first asked for."""
        tree = self._shadow_trees.get(virtual_node.number)
        if tree is None:
            tree = spanning_tree(
                sorted(virtual_node.components, key=self.ids.__getitem__), self._inner_arcs(virtual_node)
            )
            self._shadow_trees[virtual_node.number] = tree
        return tree

    def forget_shadow_tree(self, virtual_node: VirtualNode) -> None:
        """Say that arcs inside a virtual node changed, or that it is gone."""
        self._shadow_trees.pop(virtual_node.number, None)

    def descendants(self, starts: Iterable[NodeIndex], *, limit: int | None = None) -> set[NodeIndex] | None:
        """The starts and all nodes reachable from them; None where they are more than `limit`."""
        return _closure(self.children, starts, limit)

    def ancestors(self, starts: Iterable[NodeIndex]) -> set[NodeIndex]:
        """The starts and all nodes from which they are reachable."""
        found = _closure(self.parents, starts, None)
        assert found is not None
        return found

    def note_changed(self, tails: Iterable[NodeIndex]) -> None:
        """An update more has changed arcs that leave these nodes."""
        listed = array("I", set(tails))
        recent = self.changed_tails
        self.update_count += 1
        if len(recent) == recent.maxlen:
            self._changed_tails_size -= len(recent.popleft()[1] or ())
        recent.append((self.update_count, listed if len(listed) <= CHANGED_TAILS_LISTED_LIMIT else None))
        self._changed_tails_size += len(recent[-1][1] or ())
        while self._changed_tails_size > CHANGED_TAILS_LIMIT:
            self._changed_tails_size -= len(recent.popleft()[1] or ())

    def changed_since(self, since: int) -> list[NodeIndex] | None:
        """The nodes at which updates after the count `since` changed arcs that leave them; None: not remembered."""
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
        """Whether no update after the count `since` changed arcs that leave these nodes, as far as is remembered."""
        expected = self.update_count
        for update_count, tails in reversed(self.changed_tails):
            if update_count <= since:
                return True
            if update_count != expected or tails is None or not nodes.isdisjoint(tails):
                return False
            expected -= 1
        return expected == since

    def present_arcs(self) -> Iterator[ArcRecord]:
        """All present arcs, in no order that means anything."""
        for arcs in self.children:
            yield from arcs.values()

    def arc(self, parent: NodeIndex, child: NodeIndex) -> ArcRecord | None:
        """The arc, where it is present."""
        return self.children[parent].get(child)

    def suspend(self, arc: ArcRecord) -> None:
        """Remember an arc that is suspended."""
        self.suspended[arc.parent, arc.child] = arc
        self._ends_at(self.suspended_from, arc.parent)[arc.child] = None
        self._ends_at(self.suspended_into, arc.child)[arc.parent] = None

    def unsuspend(self, parent: NodeIndex, child: NodeIndex) -> ArcRecord | None:
        """Forget a suspended arc, and return it; None where it was not suspended."""
        arc = self.suspended.pop((parent, child), None)
        if arc is not None:
            self._remove_end(self.suspended_from, parent, child)
            self._remove_end(self.suspended_into, child, parent)
        return arc

    def _ends_at(self, ends: EndsByNode, node: NodeIndex) -> dict[NodeIndex, None]:
        """The other ends of some arcs of a node, to be changed."""
        shared, found = self._shared, ends.get(node)
        if found is None:
            found = ends[node] = {}
        elif shared is not None and node not in shared.copied_ends[id(ends)]:
            shared.replaced.append(found)
            found = ends[node] = found.copy()
        if shared is not None:
            shared.copied_ends[id(ends)].add(node)
        return found

    def _remove_end(self, ends: EndsByNode, node: NodeIndex, other: NodeIndex) -> None:
        left = self._ends_at(ends, node)
        left.pop(other, None)
        if not left:
            del ends[node]

    def arcs_from(self, node: NodeIndex) -> list[tuple[NodeIndex, ArcRecord]]:
        """All children of a node with their arcs, suspended ones too."""
        apart = self.suspended_from.get(node, ())
        return [*self.children[node].items(), *((child, self.suspended[node, child]) for child in apart)]

    def arcs_into(self, node: NodeIndex) -> list[tuple[NodeIndex, ArcRecord]]:
        """All parents of a node with their arcs, suspended ones too."""
        apart = self.suspended_into.get(node, ())
        return [*self.parents[node].items(), *((parent, self.suspended[parent, node]) for parent in apart)]

    def recorded_children(self, node: NodeIndex) -> Iterable[NodeIndex]:
        """Those in whose ancestry record there is an arc from the node."""
        divergent_children = self.divergent_children.get(node) if self.divergent_children else None
        if divergent_children is None:
            return self.children[node]
        agreed = [child for child in self.children[node] if child not in divergent_children]
        return agreed + [child for child in divergent_children if node in self.parents[child]]

    def compare(self, parent: NodeIndex, child: NodeIndex) -> None:
        """Note whether the two sides of an arc that may have changed agree that it is there."""
        if (child in self.children[parent]) != (parent in self.parents[child]):
            self._ends_at(self.divergent_children, parent)[child] = None
        elif parent in self.divergent_children:
            self._remove_end(self.divergent_children, parent, child)

    def bury(self, tombstone: ArcRecord) -> None:
        """Keep what is known of an arc that was left."""
        ends = tombstone.parent, tombstone.child
        if ends not in self.tombstones:
            for end in ends:
                self._tombstones_at[end] = self._tombstones_at.get(end, 0) + 1
        self.tombstones[ends] = tombstone
        self.buried.pop(ends, None)
        self.buried[ends] = None

    def unbury(self, ends: ArcKey) -> ArcRecord | None:
        """Drop the tombstone of an arc, and return it; None where there is none."""
        tombstone = self.tombstones.pop(ends, None)
        if tombstone is not None:
            self.buried.pop(ends, None)
            for end in ends:
                self._tombstones_at[end] -= 1
                if not self._tombstones_at[end]:
                    del self._tombstones_at[end]
        return tombstone

    def has_tombstone(self, node: NodeIndex) -> bool:
        """Whether a node is an end of an arc that was left and is remembered."""
        return node in self._tombstones_at

    def set_kind(self, node: NodeIndex, kind: NodeKind) -> None:
        """Say what a node stands for from now on."""
        self.kinds[node] = kind
        if kind is NodeKind.ABSENT:
            self.idle[node] = None

    def is_blank(self, node: NodeIndex) -> bool:
        """Whether a node stands for nothing, and no arc that is known leads to it or from it, left ones included."""
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
        """Forget the names of blank nodes: their numbers are free. Not while the graph is held."""
        assert not self.is_held
        forgotten = list(nodes)
        for node in forgotten:
            self._drop_number(self.ids[node])
            self._set_free(node)
        if forgotten:
            # Nothing that readers keep under these numbers holds any more.
            self.note_changed(forgotten)

    def _set_free(self, node: NodeIndex) -> None:
        self.ids[node] = NOBODY
        self.versions[node] = 0
        self.version_servers.pop(node, None)
        heappush(self._free, node)

    @property
    def free_count(self) -> int:
        """How many numbers are free."""
        return len(self._free)

    def is_free(self, node: NodeIndex) -> bool:
        """Whether a number has no name."""
        return self.ids[node] == NOBODY

    def restore(self, name: NodeId, kind: NodeKind) -> None:
        """Take up the next number as it was stored, with its name or without."""
        node = self._append(name)
        if name == NOBODY:
            heappush(self._free, node)
        else:
            self._number(name, node)
            self.set_kind(node, kind)

    def intern(self, name: NodeId) -> NodeIndex:
        """The number of an id; a new one stands for nothing yet."""
        node = self.index.get(name)
        if node is None:
            node = self._take_free(name) if self._free else self._append(name)
            self._number(name, node)
        return node

    def _number(self, name: NodeId, node: NodeIndex) -> None:
        self._numbers[name] = node
        self._spellings.add(name)

    def _drop_number(self, name: NodeId) -> None:
        del self._numbers[name]
        self._spellings.drop(name)

    def _take_free(self, name: NodeId) -> NodeIndex:
        node = heappop(self._free)
        self.ids[node] = name
        self._taken.append(node)
        for taken in self._hidden:
            taken.add(node)
        self.renamed.append(node)
        self.renamed_count += 1
        return node

    def renamed_since(self, count: int) -> list[NodeIndex] | None:
        """The numbers that got another name since so many had; None where they are too many to be remembered."""
        new = self.renamed_count - count
        return None if new > len(self.renamed) else list(islice(reversed(self.renamed), new))

    def _append(self, name: NodeId) -> NodeIndex:
        self.ids.append(name)
        self.kinds.append(NodeKind.ABSENT)
        self.versions.append(0)
        self.children.append({})
        self.parents.append({})
        return NodeIndex(len(self.ids) - 1)

    def mark(self) -> Mark:
        """Where the interning of ids is, for `interned_since` and `forget_interned`."""
        return Mark(len(self.ids), len(self._taken))

    def interned_since(self, mark: Mark) -> list[NodeIndex]:
        """The numbers that ids got in this step since a mark."""
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
        """The numbers that got a name in this step, which ends: nodes below `recorded` were known before."""
        found = self.interned_since(Mark(recorded, 0))
        self._taken.clear()
        return found

    def _inner_arcs(
        self, virtual_node: VirtualNode
    ) -> Iterator[tuple[tuple[int, NodeId, NodeId], NodeIndex, NodeIndex]]:
        # By ancestry records: that an arc leads nowhere any more may be known here before all is known of the loop.
        for component in virtual_node.components:
            for arc in self.parents[component].values():
                if self.virtual_node_of.get(arc.parent) is virtual_node:
                    yield (arc.cost, self.ids[arc.parent], self.ids[arc.child]), arc.parent, arc.child


def _closure(
    neighbours: list[dict[NodeIndex, ArcRecord]], starts: Iterable[NodeIndex], limit: int | None
) -> set[NodeIndex] | None:
    # Whole levels at once: the union runs in C, which is several times faster than visiting arc by arc.
    reached = set(starts)
    frontier = reached
    while frontier:
        if limit is not None and any(len(neighbours[node]) > limit for node in frontier):
            return None
        frontier = set().union(*[neighbours[node] for node in frontier]) - reached
        reached |= frontier
        if limit is not None and len(reached) > limit:
            return None
    return reached
