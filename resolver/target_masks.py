"""Masks of the nodes below a set: the targets that reach each node, and the targets that except it.

    masks of a node      bit i of `reached`      the i-th target reaches it
                         bit i of `excepted`     an exception of the i-th target reaches it

A node belongs to the set if some bit is in the first mask and not in the second. A group reaches itself only on a loop.

One pass over the derived nodes, from the top down, brings to each node the names above it. A set therefore costs as
much as the arcs below it, however many of its groups lead there. The pass runs in slices. The graph must not change
meanwhile.

See docs/protocol-updates.md, "Questions over several servers" (sets of groups).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple

from namegraph import NameGraph, NodeId, NodeIndex, NodeKind, Slices, TargetSet, exceptions_in, in_slices

ARCS_OF_A_SLICE = 2_048
"""Arcs of a slice: each takes half a microsecond."""


class Masks(NamedTuple):
    """Targets of a set that reach a node, and targets that except it. Bit i is the i-th target."""

    reached: int
    excepted: int

    @property
    def first(self) -> int | None:
        """Index of the first target that reaches the node and does not except it. None if there is none."""
        left = self.reached & ~self.excepted
        return (left & -left).bit_length() - 1 if left else None

    def united(self, other: Masks) -> Masks:
        """Return the union of the masks that two servers know of a node."""
        return Masks(self.reached | other.reached, self.excepted | other.excepted)


def masks_below(
    graph: NameGraph,
    targets: TargetSet,
    known: Mapping[NodeId, NodeIndex],
    suspended: Mapping[NodeIndex, Iterable[NodeIndex]],
) -> Slices[dict[NodeIndex, Masks]]:
    """Return the masks of all nodes that some target or exception reaches.

    `known`: targets and exceptions in this graph. `suspended`: processes to which suspended arcs lead, by group; such a
    membership is certain.
    """
    exceptions = exceptions_in(targets)
    # One number tells the names that reach a node: a bit for each target, and above them a bit for each exception.
    own: dict[NodeIndex, int] = {}
    for place, name in enumerate(chain((target.name for target in targets), exceptions)):
        node = known.get(name)
        if node is not None:
            own[node] = own.get(node, 0) | 1 << place
    meaning = _Meaning(targets, exceptions)
    above = yield from _names_above(graph, own, suspended)
    masks: dict[NodeIndex, Masks] = {}
    for some in in_slices(above.items()):
        masks.update((node, meaning.of(names)) for node, names in some)
        yield len(some)
    return masks


class _Meaning:
    """Masks of a number of targets and exceptions, one object for each number: many nodes have the same."""

    def __init__(self, targets: TargetSet, exceptions: Iterable[NodeId]) -> None:
        self._count = len(targets)
        self._all = (1 << len(targets)) - 1
        by_exceptions: dict[tuple[NodeId, ...], int] = {}
        for place, target in enumerate(targets):
            by_exceptions[target.excluding] = by_exceptions.get(target.excluding, 0) | 1 << place
        excepted_from = dict.fromkeys(exceptions, 0)
        for names, places in by_exceptions.items():
            for name in names:
                excepted_from[name] |= places
        self._excepted_from = list(excepted_from.values())
        self._found: dict[int, Masks] = {}

    def of(self, names: int) -> Masks:
        found = self._found.get(names)
        if found is None:
            found = self._found[names] = Masks(names & self._all, self._excepted(names >> self._count))
        return found

    def _excepted(self, exceptions: int) -> int:
        excepted = 0
        while exceptions and excepted != self._all:
            lowest = exceptions & -exceptions
            excepted |= self._excepted_from[lowest.bit_length() - 1]
            exceptions ^= lowest
        return excepted


def _names_above(
    graph: NameGraph, own: Mapping[NodeIndex, int], suspended: Mapping[NodeIndex, Iterable[NodeIndex]]
) -> Slices[dict[NodeIndex, int]]:
    """Return the names that reach each node below them, as the union of their bits in `own`."""
    above: dict[NodeIndex, int] = {}
    children, owner = graph.children, graph.virtual_node_of
    room = ARCS_OF_A_SLICE
    from_the_top = yield from _from_the_top(graph, own)
    for node in from_the_top:
        components = graph.components(node)
        names = own_names = 0
        for component in components:
            names |= above.get(component, 0)
            own_names |= own.get(component, 0)
        names |= own_names
        # Groups on the same loop have the names of all of it. A group on no loop does not reach itself.
        inside = frozenset(components) if node in owner else frozenset()
        above.update(dict.fromkeys(inside, names))
        for component in components:
            for some in in_slices(children[component], ARCS_OF_A_SLICE):
                room -= len(some)
                if room < 0:
                    yield ARCS_OF_A_SLICE
                    room = ARCS_OF_A_SLICE
                for child in some:
                    if child not in inside:
                        known = above.get(child)
                        above[child] = names if known is None else known | names
            for child in suspended.get(component, ()):
                above[child] = above.get(child, 0) | names
    return above


def _from_the_top(graph: NameGraph, starts: Iterable[NodeIndex]) -> Slices[list[NodeIndex]]:
    """Return the derived nodes of all groups below the starts, by representative: each after all nodes that lead to
    it."""
    finished: list[NodeIndex] = []
    begun: set[NodeIndex] = set()
    kinds = graph.kinds
    room = ARCS_OF_A_SLICE

    def groups_below(node: NodeIndex) -> Iterator[NodeIndex | None]:
        """Yield the derived nodes immediately below. None marks a place at which other tasks may run."""
        nonlocal room
        for component in graph.components(node):
            for some in in_slices(graph.children[component], ARCS_OF_A_SLICE):
                room -= len(some)
                if room < 0:
                    yield None
                    room = ARCS_OF_A_SLICE
                kinds_of_some = kinds.of(some)
                groups = [child for child, kind in zip(some, kinds_of_some, strict=True) if kind == _GROUP]
                yield from graph.representatives(groups)

    for start in dict.fromkeys(graph.representatives(list(starts))):
        if start in begun:
            continue
        begun.add(start)
        path = [(start, groups_below(start))]
        while path:
            node, below = path[-1]
            child = next((child for child in below if child not in begun), _NO_MORE)
            if child is None:
                yield ARCS_OF_A_SLICE
            elif child == _NO_MORE:
                finished.append(node)
                path.pop()
            else:
                begun.add(child)
                path.append((child, groups_below(child)))
    finished.reverse()
    return finished


_NO_MORE = NodeIndex(-1)
_GROUP = int(NodeKind.GROUP)
