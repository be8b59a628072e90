"""Paths from groups to their members, as evidence, in a constant number of passes for paths of any length.

The server that owns a member holds the ancestor sets of all nodes above the member. A node lies between a group and a
member if it is above the member and has the group above it. One look at each of these sets finds all nodes between. The
driver finds the sets in the files of `set_files`. The arcs among these few nodes also come to the driver, which
searches a shortest path.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_graph_jobs.questions.whole import Whole
from spark_graph_jobs.snapshot.node_arrays import NUMBERS_OF_SERVER

PATHS_LIMIT: Final = 200
"""Maximum number of paths of one question. Each path reads the ancestor set of each ancestor of a member."""

Pair = tuple[int, int]
"""Keys of a group and of one of its members."""


def find_paths(whole: Whole, pairs: Iterable[Pair]) -> dict[Pair, tuple[str, ...]]:
    """Return a shortest path for each pair, as names from the group to the member; a pair without a path is left out.

    A group on a loop is a member of itself; its path is the loop.
    """
    wanted = sorted(set(pairs))[:PATHS_LIMIT]
    if not wanted:
        return {}
    places = _places(whole, wanted)
    between = {place: _between(whole, *place) for _, place in places}
    arcs = _arcs(whole, between)
    found: dict[Pair, list[int]] = {}
    for pair, place in places:
        path = _walk(arcs.get(place, {}), *place)
        if path and (pair not in found or len(path) < len(found[pair])):
            found[pair] = path
    names = whole.tables.work.names("local", (node for path in found.values() for node in path))
    return {pair: tuple(names[node] for node in path) for pair, path in found.items()}


def _places(whole: Whole, pairs: Sequence[Pair]) -> list[tuple[Pair, Pair]]:
    """Return the `local` numbers of each pair at a server that owns the member and holds the group.

    Several servers own a foreign process, and not every one of them by way of that group.
    """
    found = []
    members = whole.everywhere([member for _, member in pairs])
    for (at, groups), (_, those) in zip(whole.everywhere([group for group, _ in pairs]), members, strict=True):
        are_here = groups.is_there & those.is_there & groups.nodes["held"] & those.nodes["held"] & those.nodes["owned"]
        for place in np.flatnonzero(are_here).tolist():
            group, member = (int(end.nodes["number"][place]) + at * NUMBERS_OF_SERVER for end in (groups, those))
            found.append((pairs[place], (group, member)))
    return sorted(found)


def _between(whole: Whole, group: int, member: int) -> set[int]:
    """Return all derived nodes that are above the member and have the group above them, both ends included."""
    at, number = divmod(group, NUMBERS_OF_SERVER)
    nodes = whole.nodes_of(at)
    own = nodes.of_numbers(np.array([member % NUMBERS_OF_SERVER])).nodes["derived"]
    above = whole.set_of(int(own[0]))
    if above is None:
        return set()
    found = nodes.of_numbers(np.frombuffer(above.to_array(), np.uint32).astype(np.int64))
    # A process has no bit in the sets above it.
    candidates = np.union1d(found.nodes["derived"][found.is_there], own).tolist()
    sets = ((derived, whole.set_of(derived)) for derived in candidates)
    return {derived for derived, ancestors in sets if ancestors is not None and number in ancestors}


def _arcs(whole: Whole, between: Mapping[Pair, set[int]]) -> Mapping[Pair, Mapping[int, list[int]]]:
    """Return, for each pair, the children of each parent among the nodes between."""
    nodes = pa.array(sorted(set().union(*between.values())), pa.int64())
    held = pc.field("present") & ~pc.field("suspended") & pc.field("is_record") & pc.field("child_held")
    are_between = pc.field("parent_derived").isin(nodes) & pc.field("child_derived").isin(nodes)
    columns = ["parent", "child", "parent_derived", "child_derived"]
    rows = whole.tables.work.rows("arcs").to_table(columns, filter=held & are_between).to_pylist()
    rows.sort(key=lambda row: (row["parent"], row["child"]))
    arcs: dict[Pair, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for pair, among in between.items():
        for row in rows:
            if row["parent_derived"] in among and row["child_derived"] in among:
                arcs[pair][row["parent"]].append(row["child"])
    return arcs


def _walk(children: Mapping[int, list[int]], group: int, member: int) -> list[int]:
    came_from: dict[int, int] = {}
    waiting = deque([group])
    while waiting:
        node = waiting.popleft()
        for child in children.get(node, ()):
            if child in came_from:
                continue
            came_from[child] = node
            if child == member:
                return _back(came_from, group, member)
            waiting.append(child)
    return []


def _back(came_from: Mapping[int, int], group: int, member: int) -> list[int]:
    path = [member, came_from[member]]
    while path[-1] != group:
        path.append(came_from[path[-1]])
    return path[::-1]
