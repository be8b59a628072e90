"""An audit of the same snapshots without Spark: one process, rustworkx and Roaring bitmaps, with all data in memory.

The audit of `spark_graph_jobs` is measured against this one. Both judge the same snapshots by the same main invariants.
This audit computes what the other one leaves to local proof: the strongly connected components and all ancestor sets,
from all arcs.

    python -m benchmarks.single_process_audit FOLDER
"""

from __future__ import annotations

import json
import sys
from array import array
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import rustworkx
from pyroaring import BitMap


class Server:
    """The snapshot of one server, as columns."""

    def __init__(self, folder: Path) -> None:
        self.name = json.loads((folder / "manifest.json").read_text())["server"]
        self.nodes = _columns(folder / "nodes.parquet")
        self.arcs = _columns(folder / "arcs.parquet")
        self.virtual_nodes = _columns(folder / "virtual_nodes.parquet")
        self.ancestors = _columns(folder / "ancestors.parquet")
        self.id_of = dict(zip(self.nodes["node"], self.nodes["id"], strict=True))


def _columns(path: Path) -> dict[str, list[Any]]:
    table = pq.read_table(path)
    return {name: table[name].to_pylist() for name in table.column_names}


def audit(folder: Path) -> int:
    """Return the number of findings."""
    servers = [Server(path) for path in sorted(folder.iterdir()) if path.is_dir()]
    return sum(1 for _ in _judge(servers))


def _judge(servers: list[Server]) -> Iterator[str]:
    ends: dict[tuple[str, str], set[tuple[Any, ...]]] = defaultdict(set)
    present: set[tuple[str, str]] = set()
    for server in servers:
        arcs, id_of = server.arcs, server.id_of
        about = zip(arcs["parent"], arcs["child"], arcs["cost"], arcs["version"], arcs["present"], strict=True)
        for parent, child, cost, version, is_present in about:
            name = id_of[parent], id_of[child]
            ends[name].add((cost, version, is_present))
            if is_present:
                present.add(name)
    for name, seen in ends.items():
        if len(seen) > 1:
            yield f"{name}: the ends do not agree"
    names = sorted({end for name in present for end in name} | {name for s in servers for name in s.id_of.values()})
    place = {name: number for number, name in enumerate(names)}
    graph: rustworkx.PyDiGraph[None, None] = rustworkx.PyDiGraph()
    graph.add_nodes_from([None] * len(names))
    graph.add_edges_from_no_data([(place[parent], place[child]) for parent, child in present])
    loops = rustworkx.strongly_connected_components(graph)
    loop_of = {node: number for number, loop in enumerate(loops) for node in loop}
    entering: dict[int, list[str]] = defaultdict(list)
    for parent, child in present:
        if loop_of[place[parent]] != loop_of[place[child]]:
            entering[loop_of[place[child]]].append(parent)
    above: dict[int, BitMap] = {}
    for number in range(len(loops) - 1, -1, -1):
        found = BitMap(loops[number])
        for parent in entering[number]:
            found |= above[loop_of[place[parent]]]
        above[number] = found
    for server in servers:
        yield from _judge_server(server, place, loops, loop_of, above)


def _judge_server(
    server: Server, place: dict[str, int], loops: list[Any], loop_of: dict[int, int], above: dict[int, BitMap]
) -> Iterator[str]:
    number_of = {name: number for number, name in server.id_of.items()}
    for components in server.virtual_nodes["components"]:
        inside = {place[server.id_of[component]] for component in components}
        if inside != set(loops[loop_of[min(inside)]]):
            yield f"{server.name}: {components} is no loop"
    number_at = np.zeros(len(place), np.uint32)
    for name, number in number_of.items():
        number_at[place[name]] = number
    foreign = _above_foreign(server, place, loop_of, above)
    for node, numbers in zip(server.ancestors["node"], server.ancestors["ancestors"], strict=True):
        true = foreign.get(node) or above[loop_of[place[server.id_of[node]]]]
        expected = number_at[np.frombuffer(true.to_array(), np.uint32)]
        if BitMap.deserialize(numbers) != BitMap(array("I", expected.tobytes())):
            yield f"{server.name}: the ancestors of {node} are wrong"


def _above_foreign(
    server: Server, place: dict[str, int], loop_of: dict[int, int], above: dict[int, BitMap]
) -> dict[int, BitMap]:
    """Return the ancestors of each foreign process, by its number. A server knows only those over its own arcs."""
    found = {
        node: BitMap([place[server.id_of[node]]])
        for node, home in zip(server.nodes["node"], server.nodes["home"], strict=True)
        if home is None
    }
    for parent, child, present in zip(server.arcs["parent"], server.arcs["child"], server.arcs["present"], strict=True):
        if present and child in found:
            found[child] |= above[loop_of[place[server.id_of[parent]]]]
    return found


if __name__ == "__main__":
    print(audit(Path(sys.argv[1])), "things are wrong")
