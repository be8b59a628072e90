"""Ancestor sets: the ancestors of each node as bitmaps, for fast questions. `pathnames` lists ancestry for people.

The *ancestor set* of a node n, `A*(n)`, holds n and every group from which n is reachable. The components of one
virtual node share one set. The sets are compressed bitmaps over node numbers. Sets are filled from the roots down,
each from the sets of its parents. Filling all of them costs one union an arc. The sets are a cache: an update that
affects a set forgets it (`forget`), and the next question computes the set again.

A change above very many nodes is only noted. A set that holds one of the noted nodes is *in question*. The next
look at that set forgets it.

    change above few nodes     their sets are forgotten
    change above very many     `_changed`: the nodes just below it; a look at a set with one of them computes it anew
    all have been looked at    `_changed` is forgotten

Source: NG 4.4.2; docs/protocol-updates.md, "What a node knows of its ancestors"; invariant I5.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any
from weakref import ref

from pyroaring import BitMap

from namegraph.graph.name_graph import NameGraph
from namegraph.model.moments import Noted, Table, followed_by
from namegraph.model.rows import ArcKey, NodeIndex
from namegraph.model.slices import in_slices

CACHE_LIMIT_BYTES = 256 * 1024 * 1024
"""Memory for ancestor sets, as estimated. Beyond this limit, sets are computed one at a time, by a walk up."""

ARCS_FOLLOWED_LIMIT = 1_000
"""Most arcs of an update that ancestor sets follow. An update of more arcs forgets the sets: filling them again costs
less."""

NODES_FOLLOWED_LIMIT = 1_000
"""Nodes that may gain or lose ancestors by one update, in some 10 ms.

Beyond this limit, all sets below the arcs of the update are forgotten. A question computes them again, in slices.
"""

ARCS_LOOKED_AT_LIMIT = 20_000
"""Arcs into these nodes that one update may inspect for what they still bring, in some milliseconds. Beyond it, the
sets are forgotten, as with `NODES_FOLLOWED_LIMIT`."""

FORGOTTEN_AT_ONCE = 2_000
"""Nodes below one update whose sets are forgotten at once, in some 2 ms. A larger change is only noted."""

FILLED_AT_ONCE = 300
"""Sets computed in one slice, some 2 ms."""

LOOKED_AT_ONCE = 2_000
"""Sets looked for in one slice."""

UNITED_AT_ONCE = 500
"""Sets united in one slice. One node may have tens of thousands of parents."""

ARCS_OF_A_SET = 4
"""Number of arcs into a node that cost as much as computing one more set."""

UNITED_IN_TURN = 24
"""Sets that are united one after another, in place. More sets are united in groups.

Each union in place costs as much as its result is large. The library's union of many sets leaves a hole of 8 kB in
memory for each container.
"""

_SMALL_SET = 4096
"""Largest size of a set whose containers are all arrays of two bytes a number. Larger sets are compressed."""

_SET_OVERHEAD_BYTES = 150
"""Memory of a set without containers, in bytes, its entry in the table of sets included."""

_CONTAINER_OVERHEAD_BYTES = 64
"""Memory of a container without its numbers, in bytes. A container covers 65,536 node numbers, of which at least one is
in the set."""

_STORED_OVERHEAD_BYTES = 8
_STORED_CONTAINER_BYTES = 8
"""Bytes of a set, and of each container, without the numbers, in the stored format."""


class AncestorSets:
    """The ancestor set of every derived node, computed on the first question."""

    def __init__(self, graph: NameGraph, *, cache_limit_bytes: int = CACHE_LIMIT_BYTES) -> None:
        self._graph = graph
        self._sets: Table[NodeIndex, BitMap] = Table()
        self._controlled: Table[NodeIndex, bool] = Table()
        """Cached answers of `is_controlled`, for nodes that have a set."""
        self._bytes = 0
        self._limit_bytes = cache_limit_bytes
        self._fills_from_the_roots = True
        self._changed = BitMap()
        """Nodes that got other ancestors, as very many nodes below them did. A set that holds one of these nodes is in
        question."""
        self._renewed = BitMap()
        """Representatives whose set was computed after `_changed` was noted, and is not in question."""
        self.large_changes = 0
        """Number of changes that put sets in question."""
        self.drops = 0
        """Number of times that all sets were dropped, or very many were put in question."""
        self._moments: Sequence[_Since] = ()
        """Moments that somebody holds, the newest last."""

    @property
    def kept_bytes(self) -> int:
        """Memory of the kept sets, in bytes."""
        return self._bytes

    def hold(self, graph: NameGraph) -> HeldAncestorSets:
        """Return the present sets, for readers of a held graph. Sets that these readers compute stay theirs."""
        since = _Since()
        self._moments = followed_by(self._moments, since)
        return HeldAncestorSets(self, graph, since)

    def keep_readers_apart(self) -> None:
        """Let readers of earlier moments use no set that is computed from now on, until the next moment begins.

        Another thread is about to change the graph. It may compute a set before it notes what has changed.
        """
        if self._moments:
            self._moments[-1].is_all = True

    def end_holds(self) -> None:
        """Note that nobody reads held sets any more."""
        self._sets.end_moments()
        self._controlled.end_moments()
        self._moments = ()

    @property
    def replaced(self) -> list[Any]:
        """Sets that were dropped or replaced since they were held. Present sets have none."""
        return []

    def of(self, node: NodeIndex) -> BitMap:
        """Return the ancestor set of a node, its own derived node included. The caller must not change it."""
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
        """Return the set of a derived node, or None if it is not kept. A set in question is forgotten."""
        found = self._sets.get(representative)
        if found is not None and self._changed and self._is_in_question(representative, found):
            self._drop((representative,))
            return None
        return found

    @property
    def _look_up(self) -> Callable[[NodeIndex], BitMap | None]:
        """Return the fastest form of `_kept`, to be used until the next update."""
        return self._kept if self._changed else self._sets.get

    def _is_in_question(self, representative: NodeIndex, found: BitMap) -> bool:
        return representative not in self._renewed and not found.isdisjoint(self._changed)

    def looked_at_all(self, large_changes: int) -> None:
        """Note that every node was looked at (`is_known`) since the number of large changes was `large_changes`."""
        if large_changes == self.large_changes:
            self._changed, self._renewed = BitMap(), BitMap()

    @property
    def are_all_kept(self) -> bool:
        """True if computed sets are kept. False once a set did not fit into the memory limit."""
        return self._fills_from_the_roots

    def is_ancestor(self, *, ancestor: NodeIndex, node: NodeIndex) -> bool:
        """Return True if one or more arcs lead from `ancestor` to `node`. A node on a loop is its own ancestor."""
        if ancestor == node:
            return node in self._graph.virtual_node_of
        return ancestor in self.of(node)

    def are_ancestors(self, pairs: Iterable[tuple[NodeIndex, NodeIndex]]) -> list[bool]:
        """Return `is_ancestor` of very many (ancestor, node) pairs, in their order."""
        of, on_loop = self.of, self._graph.virtual_node_of
        sets = of if self._changed else self._sets.get
        return [
            ancestor in (sets(node) or of(node)) if ancestor != node else node in on_loop for ancestor, node in pairs
        ]

    def is_controlled(self, node: NodeIndex) -> bool:
        """Return True if the derived node of `node` is the sink of a duplication loop: some arc into it is
        controlled."""
        representative = self._graph.representative(node)
        kept = self._kept(representative)
        known = None if kept is None else self._controlled.get(representative)
        if known is None:
            known = self._tails_overlap(representative)
            if self._kept(representative) is not None:
                self._controlled[representative] = known
        return known

    def _tails_overlap(self, node: NodeIndex) -> bool:
        # Sets are disjoint exactly if their sizes add up to the size of their union. The union is the node's own set.
        room = len(self.of(node)) - len(self._graph.components(node))
        for parent in self._graph.entering_tails(node):
            room -= len(self.of(parent))
            if room < 0:
                return True
        return False

    def forget(self, nodes: Iterable[NodeIndex]) -> None:
        """Drop the sets of these nodes. Call before their virtual nodes change."""
        self._note_changed(nodes := list(nodes))
        self._drop({self._graph.representative(node) for node in nodes})

    def _note_changed(self, nodes: Iterable[NodeIndex]) -> None:
        """Tell readers of earlier moments that other arcs lead to these nodes now, or that their virtual node
        changed."""
        if self._moments:
            self._moments[-1].changed.update(nodes)

    def forget_all(self) -> None:
        """Drop all sets and cached answers."""
        self.drops += 1
        self.keep_readers_apart()
        self._sets.clear()
        self._controlled.clear()
        self._bytes = 0
        self._changed, self._renewed = BitMap(), BitMap()

    def holds_any(self, nodes: Iterable[NodeIndex]) -> bool:
        """Return True if the set of at least one of these nodes is kept."""
        return any(node in self._sets for node in nodes)

    def follow(
        self,
        *,
        added: Sequence[ArcKey],
        removed: Sequence[ArcKey],
        regrouped: Iterable[NodeIndex],
    ) -> None:
        """Follow a commit of any kind, after it was made.

        `added` and `removed`: arcs as (parent, child). `regrouped`: nodes whose virtual node changed. Sets below
        regrouped nodes are forgotten. Other changes are passed down only as far as a node gains or loses an
        ancestor.
        """
        if not self._fills_from_the_roots or len(added) + len(removed) > ARCS_FOLLOWED_LIMIT:
            self.forget_all()
            return
        graph, kept = self._graph, self._kept
        self._note_changed(child for _, child in (*added, *removed))
        self._note_changed(regrouped := list(regrouped))
        self._drop(regrouped)
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
        pending = _PendingNodes(self._sets)
        for parent, child in added:
            below = graph.representative(child)
            if kept(below) is not None and below != graph.representative(parent):
                pending.add(below, self.of(parent))
        if not self._pass_down(pending):
            seen |= self._forget_below({child for _, child in added})
        self._look_again_at(seen | pending.seen, keeps=None if added and removed else bool(added))

    def _forget_below(self, roots: set[NodeIndex]) -> set[NodeIndex]:
        """Forget the sets of the roots and of all nodes below. Return the representatives that were looked at."""
        graph = self._graph
        below = graph.descendants(roots, limit=FORGOTTEN_AT_ONCE)
        if below is None:
            self._changed.update(roots)
            self._renewed = BitMap()
            self.large_changes += 1
            self.drops += 1
            return set()
        # Add the nodes below by records that are ahead of the truth at the parent.
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
        """Take from nodes the ancestors that a removed arc brought and no other arc brings. Pass the loss on to nodes
        below.

        Return the nodes that lose an ancestor. None in three cases: too many nodes lose one, the set of a tail is
        not kept, or the graph has a loop that is no virtual node (yet). The caller then forgets the sets below.
        """
        graph, kept, owner = self._graph, self._kept, self._graph.virtual_node_of
        losing: set[NodeIndex] = set()
        pending = _PendingNodes(self._sets)
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

    def _pass_down(self, pending: _PendingNodes) -> bool:
        """Add the offered ancestors to nodes, and pass gains on to nodes below. Return False if the nodes are too
        many."""
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
            if representative in self._sets:
                self._bytes -= self._size(self._sets.pop(representative))
                if representative in self._controlled:
                    del self._controlled[representative]

    def _look_again_at(self, nodes: set[NodeIndex], *, keeps: bool | None) -> set[NodeIndex] | None:
        """Forget the answers of `is_controlled` for these nodes, except answers equal to `keeps`.

        `keeps`: the answer that stays. True if arcs were only added, False if arcs were only removed, None if both
        happened.
        """
        if not self._fills_from_the_roots:
            self.forget_all()
            return None
        for node in nodes:
            if node in self._controlled and (keeps is None or self._controlled[node] is not keeps):
                del self._controlled[node]
        return nodes

    def _replace(self, node: NodeIndex, found: BitMap) -> bool:
        self._bytes -= self._size(self._sets.pop(node))
        return self._keep(node, found)

    def derived_children(self, node: NodeIndex) -> set[NodeIndex]:
        """Return the representatives immediately below a derived node."""
        graph, owner = self._graph, self._graph.virtual_node_of
        below = set()
        for component in graph.components(node):
            for child in graph.recorded_children(component):
                inside = owner.get(child)
                below.add(child if inside is None else inside.components[0])
        below.discard(node)
        return below

    def is_known(self, node: NodeIndex) -> bool:
        """Return True if `of` can answer without computing the sets of other nodes first."""
        if node in self._sets and not self._changed:
            return True
        return not self._fills_from_the_roots or self._kept(self._graph.representative(node)) is not None

    def fill(self, node: NodeIndex) -> Iterator[None]:
        """Compute the set of a node, after those of its ancestors. Yield between slices, when updates may come."""
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
        graph, kept = self._graph, self._look_up
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
            above = list(graph.parent_representatives(node))
            room -= 1 + len(above) // ARCS_OF_A_SET
            sets = list(map(kept, above[:LOOKED_AT_ONCE]))
            while len(sets) < len(above):
                yield
                sets += map(kept, above[len(sets) : len(sets) + LOOKED_AT_ONCE])
            # No set is empty.
            missing = [] if all(sets) else [parent for parent, found in zip(above, sets, strict=True) if found is None]
            if missing and node not in opened:
                opened.add(node)
                stack += missing
                continue
            stack.pop()
            if missing:
                # While an update arrives from other servers, a loop may exist that is no virtual node yet.
                found = BitMap(graph.ancestors(graph.components(node)))
            else:
                found = BitMap(graph.components(node))
                if len(above) <= UNITED_IN_TURN:
                    _add_above(found, above, sets)
                else:
                    found = yield from _union(found, above, sets)
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


class _Since(Noted):
    """Changes since a moment that somebody holds, until the next such moment begins."""

    __slots__ = ("changed", "is_all")

    def __init__(self) -> None:
        self.later = None
        self.changed = BitMap()
        """Nodes into which other arcs lead than at the moment, or whose virtual node changed."""
        self.is_all = False
        """True if the nodes were too many to be noted."""

    def take_over(self, later: _Since) -> None:
        """Add the changes since the next moment, which nobody reads any more."""
        self.changed |= later.changed
        self.is_all |= later.is_all
        super().take_over(later)

    def leaves(self, found: BitMap) -> bool:
        """Return True if a set of the present was the same at the moment: nothing changed at any of its nodes."""
        since: _Since | None = self
        while since is not None:
            if since.is_all or not found.isdisjoint(since.changed):
                return False
            since = since.later
        return True


class HeldAncestorSets(AncestorSets):
    """Ancestor sets as they were at a moment.

    A set that was computed since, for the present graph, serves here too if nothing changed at any of its nodes.
    """

    def __init__(self, present: AncestorSets, graph: NameGraph, since: _Since) -> None:
        self.__dict__.update(vars(present))
        self._present, self._since = present, since
        self._graph, self._moments = graph, ()
        since.reader = ref(self)
        self._sets, self._controlled = present._sets.branch(), present._controlled.branch()
        self._renewed, self._changed = present._renewed.copy(), present._changed.copy()

    @property
    def replaced(self) -> list[Any]:
        """Sets that were dropped or replaced since the moment."""
        return self._sets.replaced  # type: ignore[attr-defined, no-any-return]

    def of(self, node: NodeIndex) -> BitMap:
        """Return the ancestor set of a node at the moment, its own derived node included. The caller must not change
        it."""
        found = None if self._changed else self._sets.get(node)
        if found is None:
            found = self._kept(self._graph.representative(node))
        return super().of(node) if found is None else found

    def is_known(self, node: NodeIndex) -> bool:
        """Return True if `of` can answer without computing the sets of other nodes first."""
        return super().is_known(node) or self._kept(self._graph.representative(node)) is not None

    def _kept(self, representative: NodeIndex) -> BitMap | None:
        found = super()._kept(representative)
        return self._computed_since(representative) if found is None else found

    @property
    def _look_up(self) -> Callable[[NodeIndex], BitMap | None]:
        return self._kept

    def _computed_since(self, representative: NodeIndex) -> BitMap | None:
        """Return the set of the present, if it was the same at the moment. None otherwise, or if there is none."""
        present = self._present
        found = present._sets.get(representative)
        if found is None or not self._since.leaves(found):
            return None
        return None if present._changed and present._is_in_question(representative, found) else found


def _add_above(found: BitMap, above: Sequence[NodeIndex], sets: Sequence[BitMap | None]) -> None:
    """Add the sets of the nodes above a node. The set of an ancestor is part of the set of each node below it."""
    for parent, each in zip(above, sets, strict=True):
        if each is not None and parent not in found:
            found |= each


def _union(found: BitMap, above: Sequence[NodeIndex], sets: Sequence[BitMap | None]) -> Generator[None, None, BitMap]:
    """Return a set together with the sets of the nodes above. Yield between slices, when other work may run."""
    parts = [found]
    room = UNITED_AT_ONCE
    for first in range(0, len(above), UNITED_IN_TURN):
        in_turn = slice(first, first + UNITED_IN_TURN)
        _add_above(part := BitMap(), above[in_turn], sets[in_turn])
        parts.append(part)
        room -= UNITED_IN_TURN
        if room <= 0:
            yield
            room = UNITED_AT_ONCE
    while len(parts) > 1:
        united = []
        for some in in_slices(parts, UNITED_IN_TURN):
            whole = some[0]
            for part in some[1:]:
                whole |= part
            united.append(whole)
            room -= UNITED_IN_TURN
            if room <= 0:
                yield
                room = UNITED_AT_ONCE
        parts = united
    return parts[0]


class _PendingNodes:
    """Ancestors offered to nodes and not handled yet. The node with the smallest set comes first."""

    def __init__(self, sets: Mapping[NodeIndex, BitMap]) -> None:
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
    """Return every group that has `node` as a direct or indirect member. The caller may change the set."""
    found = ancestors.of(node).copy()
    if node not in graph.virtual_node_of:
        found.discard(node)
    return found
