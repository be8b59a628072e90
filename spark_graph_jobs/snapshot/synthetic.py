"""Correct snapshots of any graph, made without a name service, to test and measure audits.

    graph, who owns which subnet  ->  for each server its manifest and tables, as docs/snapshots.md has them

The module states the contents of name servers a second time, in the plainest way, and shares only the schema with the
audits.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import rustworkx
from pyroaring import BitMap

from spark_graph_jobs.snapshot.schema import MANIFEST, MESSAGE_TABLES, SCHEMA_VERSION, TABLES


class SyntheticArc(NamedTuple):
    """One arc. Its child is a group or a process."""

    parent: str
    child: str
    is_group: bool = True
    cost: int = 1
    version: int = 1
    """Version of the arc. An even version is a tombstone: the arc was left."""


@dataclass(slots=True)
class WrittenSnapshot:
    """The snapshot of one server: rows of its tables by name, and its manifest."""

    manifest: dict[str, Any]
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {table: [] for table in TABLES})

    def tables(self) -> dict[str, pa.Table]:
        """Return the rows as Arrow tables, including tables of messages if there are any."""
        schemas = (TABLES | MESSAGE_TABLES).items()
        return {name: pa.Table.from_pylist(self.rows[name], schema) for name, schema in schemas if name in self.rows}


NUMBERS_APART: Final = 7
"""Offset between the node numbers of two servers. A number used at the wrong server then names a wrong node."""


def snapshots_of(
    arcs: Iterable[SyntheticArc],
    owners: Mapping[str, str],
    *,
    groups: Iterable[str] = (),
    cut: str | None = "1@cut",
    order: Mapping[str, int] | None = None,
) -> dict[str, WrittenSnapshot]:
    """Return the snapshots of all servers in `owners` (by subnet), at rest.

    Arcs have distinct ends. `groups` exist in addition to the groups that arcs name. Nodes are numbered from the roots
    down. `order` takes precedence, and must not put a node before a node above it.
    """
    whole = _Whole(list(arcs), owners, groups, order or {})
    return {server: _Server(whole, at, server, cut).written for at, server in enumerate(whole.servers)}


def write(snapshots: Mapping[str, WrittenSnapshot], folder: Path) -> None:
    """Write snapshots as a server does: the manifest last."""
    for server, snapshot in snapshots.items():
        write_tables(folder / server, snapshot.manifest, snapshot.tables())


def write_tables(folder: Path, manifest: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> None:
    """Write one snapshot, with the numbers of rows added to the manifest."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        pq.write_table(table, folder / f"{name}.parquet", compression="zstd")
    rows = {name: table.num_rows for name, table in tables.items()}
    (folder / MANIFEST).write_text(json.dumps({**manifest, "rows": rows}, indent=1), encoding="utf-8")


def subnet_of(name: str) -> str:
    """Return the domain of a name."""
    return name.rpartition("@")[2]


class _Whole:
    """The whole graph, which no single server holds: all nodes, and the ancestors of each."""

    def __init__(
        self, arcs: Sequence[SyntheticArc], owners: Mapping[str, str], groups: Iterable[str], order: Mapping[str, int]
    ) -> None:
        self.owners = owners
        self.servers = sorted(set(owners.values()))
        self.arcs = arcs
        self.is_group: dict[str, bool] = dict.fromkeys(groups, True)
        for arc in arcs:
            self.is_group[arc.parent] = True
            self.is_group.setdefault(arc.child, arc.is_group)
        self.names = sorted(self.is_group)
        self.parents: dict[str, list[SyntheticArc]] = {name: [] for name in self.names}
        self.children: dict[str, list[SyntheticArc]] = {name: [] for name in self.names}
        for arc in arcs:
            if arc.version % 2:
                self.parents[arc.child].append(arc)
                self.children[arc.parent].append(arc)
        self._contract()
        self._number(order)
        self._fill()

    def home(self, name: str) -> str | None:
        """Return the server that owns a node; None if the node is foreign."""
        return self.owners.get(subnet_of(name))

    def _contract(self) -> None:
        graph: rustworkx.PyDiGraph[str, None] = rustworkx.PyDiGraph()
        place = {name: graph.add_node(name) for name in self.names}
        graph.add_edges_from_no_data(
            [(place[arc.parent], place[arc.child]) for arcs in self.children.values() for arc in arcs]
        )
        self.components: dict[str, tuple[str, ...]] = {}
        """All components of a derived node, sorted, by each of its nodes."""
        # The algorithm yields a component after every component that it leads to.
        self.from_the_roots = []
        for found in reversed(rustworkx.strongly_connected_components(graph)):
            names = tuple(sorted(graph[node] for node in found))
            self.components.update(dict.fromkeys(names, names))
            self.from_the_roots.append(names)

    def _number(self, order: Mapping[str, int]) -> None:
        ranked = sorted(self.from_the_roots, key=lambda names: max(order.get(name, 0) for name in names))
        self.number = {name: number for number, name in enumerate(name for names in ranked for name in names)}
        self.name_of = {number: name for name, number in self.number.items()}

    def _fill(self) -> None:
        self.above: dict[str, BitMap] = {}
        self.trees: dict[tuple[str, ...], set[tuple[str, str]]] = {}
        for names in self.from_the_roots:
            found = BitMap(self.number[name] for name in names)
            for name in names:
                for arc in self.parents[name]:
                    if self.components[arc.parent] != names:
                        found |= self.above[arc.parent]
            found.run_optimize()
            self.above.update(dict.fromkeys(names, found))
            if len(names) > 1:
                self.trees[names] = self._tree(names)

    def _tree(self, names: tuple[str, ...]) -> set[tuple[str, str]]:
        inside = sorted(
            (arc for name in names for arc in self.children[name] if self.components[arc.child] == names),
            key=lambda arc: (arc.cost, arc.parent, arc.child),
        )
        joined, tree = {names[0]}, set()
        while len(joined) < len(names):
            # Quadratic, but worded like the rule: take the first arc with exactly one end in the tree.
            arc = next(arc for arc in inside if (arc.parent in joined) != (arc.child in joined))
            tree.add((arc.parent, arc.child))
            joined |= {arc.parent, arc.child}
        return tree


class _Server:
    """The part of the graph that one server holds."""

    def __init__(self, whole: _Whole, at: int, server: str, cut: str | None) -> None:
        self.whole, self.server = whole, server
        self.shift = at * NUMBERS_APART
        subnets = sorted(subnet for subnet, owner in whole.owners.items() if owner == server)
        peers = [
            {"server": other, "subnets": sorted(s for s, owner in whole.owners.items() if owner == other)}
            for other in whole.servers
            if other != server
        ]
        self.written = WrittenSnapshot(
            {
                "schema_version": SCHEMA_VERSION,
                "server": server,
                "subnets": subnets,
                "revision": f"1@{server}",
                "counter": 1,
                "consistency": "server" if cut is None else "cut",
                "cut": cut,
                "peers": peers,
                "database_failure": None,
            }
        )
        self._hold()
        self._write_nodes()
        self._write_arcs()
        self._write_virtual_nodes()

    def _lives_here(self, name: str) -> bool:
        home = self.whole.home(name)
        return home == self.server or (home is None and bool(self._parents(name)))

    def _parents(self, name: str) -> list[SyntheticArc]:
        """Return the arcs into a node that this server may know.

        For a foreign process these are only the arcs from the server's own groups.
        """
        whole = self.whole
        if whole.home(name) is None:
            return [arc for arc in whole.parents[name] if whole.home(arc.parent) == self.server]
        return whole.parents[name]

    def _hold(self) -> None:
        whole = self.whole
        self.owned = {name for name in whole.names if self._lives_here(name)}
        self.held: set[str] = set()
        pending = sorted(self.owned)
        while pending:
            name = pending.pop()
            if name not in self.held:
                self.held.add(name)
                pending += [arc.parent for arc in self._parents(name)]
        self.tombstones = [
            arc
            for arc in whole.arcs
            if arc.version % 2 == 0 and self.server in (whole.home(arc.parent), whole.home(arc.child))
        ]
        self.known = self.held | {arc.child for name in self.owned for arc in whole.children[name]}

    def _above(self, name: str) -> BitMap:
        whole = self.whole
        if whole.home(name) is not None:
            return whole.above[name]
        found = BitMap([whole.number[name]])
        for arc in self._parents(name):
            found |= whole.above[arc.parent]
        return found

    def _number(self, name: str) -> int:
        return self.whole.number[name] + self.shift

    def _numbers(self, found: BitMap) -> bytes:
        shifted = found.shift(self.shift)
        shifted.run_optimize()
        return bytes(shifted.serialize())

    def _vnid(self, name: str) -> str | None:
        components = self.whole.components[name]
        return f"{components[0]}#1.{self.whole.servers[0]}" if len(components) > 1 else None

    def _write_nodes(self) -> None:
        whole = self.whole
        mentioned = {end for arc in self.tombstones for end in arc[:2]} - self.known
        for name in sorted(self.known | mentioned):
            is_held = name in self.held
            kind = "group" if whole.is_group[name] else "process"
            self.written.rows["nodes"].append(
                {
                    "node": self._number(name),
                    "id": name,
                    "kind": "absent" if name in mentioned else kind,
                    "home": whole.home(name),
                    "owned": name in self.owned,
                    "held": is_held,
                    "vnid": self._vnid(name) if is_held else None,
                    "version_counter": 1 if is_held else None,
                    "version_server": whole.servers[0] if is_held else None,
                    "level": len(self._above(name)) if is_held else None,
                }
            )

    def _write_arcs(self) -> None:
        whole = self.whole
        for name in sorted(self.known):
            for arc in self._parents(name):
                is_truth = arc.parent in self.owned
                if name in self.held or is_truth:
                    self._write_arc(arc, is_truth=is_truth, is_record=name in self.held)
        for arc in self.tombstones:
            self._write_arc(arc, is_truth=arc.parent in self.owned, is_record=whole.home(arc.child) == self.server)

    def _write_arc(self, arc: SyntheticArc, *, is_truth: bool, is_record: bool) -> None:
        self.written.rows["arcs"].append(
            {
                "parent": self._number(arc.parent),
                "child": self._number(arc.child),
                "cost": arc.cost,
                "version": arc.version,
                "writer": 1,
                "present": arc.version % 2 == 1,
                "suspended": False,
                "state": self._state(arc),
                "is_truth": is_truth,
                "is_record": is_record,
            }
        )

    def _state(self, arc: SyntheticArc) -> str | None:
        components = self.whole.components[arc.parent]
        if arc.version % 2 == 0:
            return None
        if components != self.whole.components[arc.child]:
            return "normal"
        return "shadow" if (arc.parent, arc.child) in self.whole.trees[components] else "fade"

    def _write_virtual_nodes(self) -> None:
        for components in sorted({self.whole.components[name] for name in self.held}):
            if len(components) > 1:
                row = {
                    "vnid": self._vnid(components[0]),
                    "smallest": components[0],
                    "components": sorted(map(self._number, components)),
                }
                self.written.rows["virtual_nodes"].append(row)
            above = self._numbers(self._above(components[0]))
            self.written.rows["ancestors"].append({"node": self._number(components[0]), "ancestors": above})
