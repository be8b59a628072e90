"""What a node knows of its ancestors: sets for fast questions; `pathnames` has what people read.

`A*(n)`, here the *ancestor set* of n, is every group from which n is reachable, and n itself; the components of one
virtual node share one. The sets are kept as compressed bitmaps over node numbers and filled from the roots down, each
from the sets of its parents, so that filling all of them costs one union an arc. They are a cache: what an update
affects is forgotten (`forget`) and computed again on the next question.

Of a change above very many nodes only where it was is noted: a set that has one of these nodes is *in question* until
somebody looks at it, and is forgotten then.

    change above few nodes     their sets are forgotten
    change above very many     `_changed`: the nodes just below it; who asks for a set with one of them computes it anew
    all have been looked at    `_changed` is forgotten

Source: NG 4.4.2; protocol.md sections 3.2 and 4; invariant I5.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Generator, Iterable, Iterator, Sequence

from pyroaring import BitMap

from namegraph.graph.name_graph import NameGraph
from namegraph.model.rows import ArcKey, NodeIndex
from namegraph.model.slices import Slices, in_slices

CACHE_LIMIT_BYTES = 256 * 1024 * 1024
"""Memory for ancestor sets, as estimated. Beyond it they are computed one at a time, by a walk up."""

ARCS_FOLLOWED_LIMIT = 1_000
"""An update of more arcs forgets ancestor sets: filling them again costs less than following each."""

NODES_FOLLOWED_LIMIT = 1_000
"""Nodes that may gain or lose ancestors by one update, in some 10 ms. Beyond, what is below its arcs is forgotten, and
computed again when it is asked for, in slices."""

ARCS_LOOKED_AT_LIMIT = 20_000
"""Arcs into these nodes that are looked at for what they still bring, in some milliseconds; beyond, likewise."""

FORGOTTEN_AT_ONCE = 2_000
"""Nodes below one update whose sets are forgotten at once, in some 2 ms; of more it is noted what changed."""

FILLED_AT_ONCE = 300
"""Sets that are computed before others get their turn: some 2 ms."""

UNITED_AT_ONCE = 500
"""Sets that are united before others get their turn. One node may have tens of thousands of parents."""

ARCS_OF_A_SET = 4
"""So many arcs into a node count as another set that is computed."""

UNITED_IN_TURN = 24
"""Sets that are united in turn, in place. More are united in groups: each union in turn costs as much as its result is
large. The library's union of many sets is faster, and leaves a hole of 8 kB in memory for each container."""

_SMALL_SET = 4096
"""Numbers of a set whose containers are all arrays of two bytes a number; larger sets are compressed."""

_SET_OVERHEAD_BYTES = 150
"""Memory of a set without containers, its entry in the table of sets included."""

_CONTAINER_OVERHEAD_BYTES = 64
"""Memory of a container without its numbers: a group of 65,536 node numbers of which one or more are in the set."""

_STORED_OVERHEAD_BYTES = 8
_STORED_CONTAINER_BYTES = 8
"""Bytes of a set, and of each container, without the numbers, in the stored format."""


class AncestorSets:
    """The ancestor set of every derived node, computed when asked for."""

    def __init__(self, graph: NameGraph, *, cache_limit_bytes: int = CACHE_LIMIT_BYTES) -> None:
        self._graph = graph
        self._sets: dict[NodeIndex, BitMap] = {}
        self._controlled: dict[NodeIndex, bool] = {}
        """Answers of `is_controlled`, for nodes that have a set."""
        self._bytes = 0
        self._limit_bytes = cache_limit_bytes
        self._fills_from_the_roots = True
        self._changed = BitMap()
        """Nodes that were given other ancestors, and very many below them too: what has one of them is in question."""
        self._renewed: set[NodeIndex] = set()
        """Representatives whose set was computed since, so that it is not in question."""
        self.large_changes = 0
        """How many changes put sets in question."""
        self.followers: list[dict[NodeIndex, None]] = []
        """To each the representatives are added whose set is kept or dropped from now on."""

    @property
    def kept_bytes(self) -> int:
        """The memory of the sets that are kept."""
        return self._bytes

    def hold(self, graph: NameGraph) -> Slices[AncestorSets]:
        """The sets as they are now, for readers of a graph that is held; what they compute more stays theirs.

        Between the slices more may be computed, but nothing forgotten.
        """
        held = AncestorSets(graph, cache_limit_bytes=self._limit_bytes)
        held._controlled = self._controlled.copy()
        yield len(held._controlled)
        held._renewed, held._changed = self._renewed.copy(), self._changed.copy()
        yield len(held._renewed)
        held._sets, held._bytes = self._sets.copy(), self._bytes
        yield len(held._sets)
        held._fills_from_the_roots = self._fills_from_the_roots
        return held

    def kept(self) -> Iterable[BitMap]:
        """The sets that are kept, those in question too."""
        return self._sets.values()

    def of(self, node: NodeIndex) -> BitMap:
        """The ancestor set of a node, its own derived node included. The caller must not change it."""
        found = None if self._changed else self._sets.get(node)
        if found is not None:
            return found
        representative = self._graph.representative(node)
        found = self._kept(representative)
        if found is not None:
            return found
        if self._fills_from_the_roots:
            self._fill(representative)
            found = self._kept(representative)
            if found is not None:
                return found
        found = BitMap(self._graph.ancestors(self._graph.components(representative)))
        self._keep(representative, found)
        return found

    def _kept(self, representative: NodeIndex) -> BitMap | None:
        """The set of a derived node, if it is kept; one in question is forgotten."""
        found = self._sets.get(representative)
        if found is not None and self._changed and self._is_in_question(representative, found):
            self._drop((representative,))
            return None
        return found

    def _is_in_question(self, representative: NodeIndex, found: BitMap) -> bool:
        return representative not in self._renewed and not found.isdisjoint(self._changed)

    def looked_at_all(self, large_changes: int) -> None:
        """Every node was looked at (`is_known`) since there were so many large changes."""
        if large_changes == self.large_changes:
            self._changed, self._renewed = BitMap(), set()

    @property
    def are_all_kept(self) -> bool:
        """Whether what was computed stays: not where there was no room for it."""
        return self._fills_from_the_roots

    def is_ancestor(self, *, ancestor: NodeIndex, node: NodeIndex) -> bool:
        """Whether one or more arcs lead from `ancestor` to `node`: on a loop, a node is its own ancestor."""
        if ancestor == node:
            return node in self._graph.virtual_node_of
        return ancestor in self.of(node)

    def are_ancestors(self, pairs: Iterable[tuple[NodeIndex, NodeIndex]]) -> list[bool]:
        """`is_ancestor` of very many (ancestor, node) pairs at once, in their order."""
        of, on_loop = self.of, self._graph.virtual_node_of
        sets = of if self._changed else self._sets.get
        return [
            ancestor in (sets(node) or of(node)) if ancestor != node else node in on_loop for ancestor, node in pairs
        ]

    def is_controlled(self, node: NodeIndex) -> bool:
        """Whether the derived node of `node` is the sink of a duplication loop: some arc into it is controlled."""
        representative = self._graph.representative(node)
        kept = self._kept(representative)
        known = None if kept is None else self._controlled.get(representative)
        if known is None:
            known = self._tails_overlap(representative)
            if self._kept(representative) is not None:
                self._controlled[representative] = known
        return known

    def _tails_overlap(self, node: NodeIndex) -> bool:
        # Disjoint sets are exactly those whose sizes add up to the size of their union, which is the node's own set.
        room = len(self.of(node)) - len(self._graph.components(node))
        for parent in self._graph.entering_tails(node):
            room -= len(self.of(parent))
            if room < 0:
                return True
        return False

    def forget(self, nodes: Iterable[NodeIndex]) -> None:
        """Drop the sets of these nodes. Call before their virtual nodes change."""
        self._drop({self._graph.representative(node) for node in nodes})

    def forget_all(self) -> None:
        """Drop everything."""
        for changed in self.followers:
            changed.update(dict.fromkeys(self._sets))
        self._sets.clear()
        self._controlled.clear()
        self._bytes = 0
        self._changed, self._renewed = BitMap(), set()

    def holds_any(self, nodes: Iterable[NodeIndex]) -> bool:
        """Whether the set of one of these nodes is kept."""
        return any(node in self._sets for node in nodes)

    def follow(
        self,
        *,
        added: Sequence[ArcKey],
        removed: Sequence[ArcKey],
        regrouped: Iterable[NodeIndex],
    ) -> None:
        """Follow a commit of any kind, after it was made: arcs (parent, child), and nodes whose virtual node changed.

        What is below regrouped nodes is forgotten; the rest is passed down only as far as anything is gained or lost.
        """
        if not self._fills_from_the_roots or len(added) + len(removed) > ARCS_FOLLOWED_LIMIT:
            self.forget_all()
            return
        graph, kept = self._graph, self._kept
        self._drop(regrouped := list(regrouped))
        roots = set(regrouped)
        losses: list[tuple[NodeIndex, BitMap]] = []
        for parent, child in removed:
            below, tail = graph.representative(child), graph.representative(parent)
            if below == tail or kept(below) is None:
                continue
            lost = kept(tail)
            if lost is None:
                roots.add(child)
            else:
                losses.append((below, lost))
        losing = self._pass_losses(losses)
        if losing is None:
            roots.update(below for below, _ in losses)
            losing = set()
        roots.update(child for parent, child in added if not self.is_known(parent))
        seen = self._forget_below(roots) | {graph.representative(child) for _, child in (*added, *removed)}
        for node in losing:
            seen |= self.derived_children(node)
        pending = _Pending(self._sets)
        for parent, child in added:
            below = graph.representative(child)
            if kept(below) is not None and below != graph.representative(parent):
                pending.add(below, self.of(parent))
        if not self._pass_down(pending):
            seen |= self._forget_below({child for _, child in added})
        self._look_again_at(seen | pending.seen, keeps=None if added and removed else bool(added))

    def _forget_below(self, roots: set[NodeIndex]) -> set[NodeIndex]:
        """Forget the sets of the roots and of all below them; returns the representatives that were looked at."""
        graph = self._graph
        below = graph.descendants(roots, limit=None if self.followers else FORGOTTEN_AT_ONCE)
        if below is None:
            self._changed.update(roots)
            self._renewed = set()
            self.large_changes += 1
            return set()
        # What is below by records that are ahead of the truth at the parent.
        while (
            more := {
                child
                for parent in graph.divergent_children
                if parent in below
                for child in graph.divergent_children[parent]
            }
            - below
        ):
            below |= graph.descendants(more) or set()
        forgotten = {graph.representative(node) for node in below}
        self._drop(forgotten)
        return forgotten

    def _pass_losses(self, losses: Iterable[tuple[NodeIndex, BitMap]]) -> set[NodeIndex] | None:
        """Take from nodes what a removed arc brought, as far as no other arc brings it, and from those below them.

        Returns the nodes that lose something. None where they are too many, where the set of a tail is not kept, or
        where there is a loop that is no virtual node (yet): what is below is to be forgotten then.
        """
        graph, kept, owner = self._graph, self._kept, self._graph.virtual_node_of
        losing: set[NodeIndex] = set()
        pending = _Pending(self._sets)
        room = ARCS_LOOKED_AT_LIMIT
        for below, lost in losses:
            pending.add(below, lost)
        # Smaller sets come first; a parent that loses more afterwards brings its children here again.
        while (next_one := pending.pop()) is not None:
            node, lost = next_one
            room -= sum(len(graph.parents[component]) for component in graph.components(node))
            if len(pending.seen) > NODES_FOLLOWED_LIMIT or room < 0:
                return None
            before = kept(node)
            if before is None:
                continue
            lost = (lost & before) - BitMap(graph.components(node))
            looked_for = lost | BitMap([node])
            for component in graph.components(node) if lost else ():
                for parent in graph.parents[component]:
                    inside = owner.get(parent)
                    tail = parent if inside is None else inside.components[0]
                    if tail == node:
                        continue
                    above = kept(tail)
                    if above is None:
                        return None
                    if looked_for.isdisjoint(above):
                        continue
                    if node in above:
                        return None
                    lost = lost - above
                    if not lost:
                        break
                    looked_for = lost | BitMap([node])
                if not lost:
                    break
            if lost:
                losing.add(node)
                if not self._replace(node, before - lost):
                    return losing
                if self._has_many_children(node):
                    return None
                for child in self.derived_children(node):
                    pending.add(child, lost)
        return losing

    def _pass_down(self, pending: _Pending) -> bool:
        """Give nodes what is offered to them, and to those below what they gain; False where they are too many."""
        while (next_one := pending.pop()) is not None:
            node, offered = next_one
            if len(pending.seen) > NODES_FOLLOWED_LIMIT:
                return False
            known = self._kept(node)
            if known is None:
                continue
            gained = offered - known
            if gained and self._replace(node, known | gained):
                if self._has_many_children(node):
                    return False
                for child in self.derived_children(node):
                    pending.add(child, gained)
        return True

    def _has_many_children(self, node: NodeIndex) -> bool:
        graph = self._graph
        return any(len(graph.children[component]) > NODES_FOLLOWED_LIMIT for component in graph.components(node))

    def _drop(self, representatives: Iterable[NodeIndex]) -> None:
        for representative in representatives:
            dropped = self._sets.pop(representative, None)
            if dropped is not None:
                self._bytes -= self._size(dropped)
                self._controlled.pop(representative, None)
                for changed in self.followers:
                    changed[representative] = None

    def _look_again_at(self, nodes: set[NodeIndex], *, keeps: bool | None) -> set[NodeIndex] | None:
        """`keeps`: the answer of `is_controlled` that stays: yes where arcs were only added, no where only removed."""
        if not self._fills_from_the_roots:
            self.forget_all()
            return None
        for node in nodes:
            if keeps is None or self._controlled.get(node) is not keeps:
                self._controlled.pop(node, None)
        return nodes

    def _replace(self, node: NodeIndex, found: BitMap) -> bool:
        self._bytes -= self._size(self._sets.pop(node))
        return self._keep(node, found)

    def derived_children(self, node: NodeIndex) -> set[NodeIndex]:
        """The representatives immediately below a derived node."""
        graph, owner = self._graph, self._graph.virtual_node_of
        below = set()
        for component in graph.components(node):
            for child in graph.recorded_children(component):
                inside = owner.get(child)
                below.add(child if inside is None else inside.components[0])
        below.discard(node)
        return below

    def is_known(self, node: NodeIndex) -> bool:
        """Whether `of` need not compute the sets of other nodes first."""
        if node in self._sets and not self._changed:
            return True
        return not self._fills_from_the_roots or self._kept(self._graph.representative(node)) is not None

    def fill(self, node: NodeIndex) -> Iterator[None]:
        """Compute the set of a node, and those of its ancestors before; yield between slices, when updates may come."""
        graph = self._graph
        while not self.is_known(node):
            update_count = graph.update_count
            for _ in self._filling(graph.representative(node)):
                yield
                if graph.update_count != update_count:
                    break

    def _fill(self, wanted: NodeIndex) -> None:
        for _ in self._filling(wanted):
            pass

    def _filling(self, wanted: NodeIndex) -> Iterator[None]:
        graph, sets, kept = self._graph, self._sets, self._kept
        stack = [wanted]
        opened: set[NodeIndex] = set()
        room = FILLED_AT_ONCE
        while stack:
            node = stack[-1]
            if kept(node) is not None:
                stack.pop()
                continue
            if room <= 0:
                yield
                room = FILLED_AT_ONCE
            above = graph.parent_representatives(node)
            room -= 1 + len(above) // ARCS_OF_A_SET
            missing = [parent for parent in above if kept(parent) is None]
            if missing and node not in opened:
                opened.add(node)
                stack += missing
                continue
            stack.pop()
            if missing:
                # While an update arrives from other servers there may be a loop that is no virtual node yet.
                found = BitMap(graph.ancestors(graph.components(node)))
            else:
                found = yield from _union([BitMap(graph.components(node)), *(sets[parent] for parent in above)])
            if len(found) > _SMALL_SET:
                found.run_optimize()
            if not self._keep(node, found):
                return

    def _keep(self, node: NodeIndex, found: BitMap) -> bool:
        found.shrink_to_fit()
        size = self._size(found)
        if self._bytes + size > self._limit_bytes:
            self.forget_all()
            self._fills_from_the_roots = False
            if size > self._limit_bytes:
                return False
        self._sets[node] = found
        if self._changed:
            self._renewed.add(node)
        self._bytes += size
        for changed in self.followers:
            changed[node] = None
        return self._fills_from_the_roots

    def _size(self, found: BitMap) -> int:
        """Estimate the memory of a set. The size as stored tells the number of containers without a look at each."""
        stored = sys.getsizeof(found)
        if len(found) <= _SMALL_SET:
            containers = max(1, (stored - _STORED_OVERHEAD_BYTES - 2 * len(found)) // _STORED_CONTAINER_BYTES)
        else:
            containers = found.get_statistics()["n_containers"]
        numbers = stored - _STORED_OVERHEAD_BYTES - containers * _STORED_CONTAINER_BYTES
        return _SET_OVERHEAD_BYTES + containers * _CONTAINER_OVERHEAD_BYTES + numbers


def _union(sets: list[BitMap]) -> Generator[None, None, BitMap]:
    """Unite one or more sets into a new one; yield between slices, when others may come."""
    room = UNITED_AT_ONCE
    while True:
        united = []
        for some in in_slices(sets, UNITED_IN_TURN):
            found = BitMap()
            for each in some:
                found |= each
            united.append(found)
            room -= len(some)
            if room <= 0:
                yield
                room = UNITED_AT_ONCE
        if len(united) == 1:
            return united[0]
        sets = united


class _Pending:
    """What is offered to nodes and not looked at yet; the node with the smallest set comes first."""

    def __init__(self, sets: dict[NodeIndex, BitMap]) -> None:
        self._sets = sets
        self._offered: dict[NodeIndex, BitMap] = {}
        self._heap: list[tuple[int, NodeIndex]] = []
        self.seen: set[NodeIndex] = set()

    def add(self, node: NodeIndex, offered: BitMap) -> None:
        waiting = self._offered.get(node)
        if waiting is not None:
            self._offered[node] = waiting | offered
            return
        self.seen.add(node)
        self._offered[node] = offered
        heapq.heappush(self._heap, (len(self._sets.get(node, ())), node))

    def pop(self) -> tuple[NodeIndex, BitMap] | None:
        if not self._heap:
            return None
        _, node = heapq.heappop(self._heap)
        return node, self._offered.pop(node)


def ancestor_groups(graph: NameGraph, ancestors: AncestorSets, node: NodeIndex) -> BitMap:
    """Every group that has `node` as a member, directly or not; the caller may change the set."""
    found = ancestors.of(node).copy()
    if node not in graph.virtual_node_of:
        found.discard(node)
    return found
