"""Of each node below a set of targets: which of the targets reach it, and which except it.

    masks of a node      bit i of `reached`      the i-th target reaches it
                         bit i of `excepted`     an exception of the i-th target reaches it

It belongs to the set where some bit is in the first mask and not in the second. A group reaches itself only on a loop.

One pass over the derived nodes, from the top down, brings to each the names above it. So a set costs as much as the
arcs below it, however many of its groups lead there. It is made in slices: what it reads must not change meanwhile.

Source: mail.md section 3; protocol.md section 8.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple

from namegraph import NameGraph, NodeId, NodeIndex, NodeKind, Slices, TargetSet, exceptions_in, in_slices

ARCS_OF_A_SLICE = 2_048
"""Each takes half a microsecond."""


class Masks(NamedTuple):
    """Which targets of a set reach a node, and which except it: bit i is the i-th target."""

    reached: int
    excepted: int

    @property
    def first(self) -> int | None:
        """The place of the first target that reaches it and does not except it; None where there is none."""
        left = self.reached & ~self.excepted
        return (left & -left).bit_length() - 1 if left else None

    def united(self, other: Masks) -> Masks:
        """What two servers know of a node, together."""
        return Masks(self.reached | other.reached, self.excepted | other.excepted)


def masks_below(
    graph: NameGraph,
    targets: TargetSet,
    known: Mapping[NodeId, NodeIndex],
    suspended: Mapping[NodeIndex, Iterable[NodeIndex]],
) -> Slices[dict[NodeIndex, Masks]]:
    """The masks of all nodes that some target or exception reaches.

    `known`: those of them that this graph has. `suspended`: processes that suspended arcs lead to, by group: that they
    are in it is sure.
    """
    exceptions = exceptions_in(targets)
    # What reaches a node is kept as one number: a bit for each target, and above them one for each exception.
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
    """What a number of targets and exceptions stands for: one object for each, as many nodes have the same."""

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
    """Of each node below the names: which of them reach it, as their bits in `own` united."""
    above: dict[NodeIndex, int] = {}
    kinds, children, owner = graph.kinds, graph.children, graph.virtual_node_of
    room = ARCS_OF_A_SLICE
    from_the_top = yield from _from_the_top(graph, own)
    for node in from_the_top:
        components = graph.components(node)
        names = own_names = 0
        for component in components:
            names |= above.get(component, 0)
            own_names |= own.get(component, 0)
        names |= own_names
        if node in owner:
            above.update(dict.fromkeys(components, names))
        for component in components:
            for some in in_slices(children[component], ARCS_OF_A_SLICE):
                room -= len(some)
                if room < 0:
                    yield ARCS_OF_A_SLICE
                    room = ARCS_OF_A_SLICE
                for child in some:
                    # Those on the same loop have it already.
                    if kinds[child] != NodeKind.GROUP or graph.representative(child) != node:
                        known = above.get(child)
                        above[child] = names if known is None else known | names
            for child in suspended.get(component, ()):
                above[child] = above.get(child, 0) | names
    return above


def _from_the_top(graph: NameGraph, starts: Iterable[NodeIndex]) -> Slices[list[NodeIndex]]:
    """The derived nodes of all groups below the starts, by representative: each after all that lead to it."""
    finished: list[NodeIndex] = []
    begun: set[NodeIndex] = set()
    kinds, representative = graph.kinds, graph.representative
    room = ARCS_OF_A_SLICE

    def groups_below(node: NodeIndex) -> Iterator[NodeIndex | None]:
        """The derived nodes immediately below; None where others may go first."""
        nonlocal room
        for component in graph.components(node):
            for some in in_slices(graph.children[component], ARCS_OF_A_SLICE):
                room -= len(some)
                if room < 0:
                    yield None
                    room = ARCS_OF_A_SLICE
                for child in some:
                    if kinds[child] == NodeKind.GROUP:
                        yield representative(child)

    for start in {representative(start): None for start in starts}:
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
