"""Snapshots for measurements of the audit: the example graph dealt over five servers, and synthetic graphs of
any size.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap

from benchmarks.servers import EXAMPLE
from shadowtree.cli.demo.servers import deal
from spark_graph_jobs.snapshot.schema import MANIFEST, TABLES
from spark_graph_jobs.snapshot.synthetic import (
    NUMBERS_APART,
    SyntheticArc,
    WrittenSnapshot,
    snapshots_of,
    subnet_of,
    write,
)

SERVERS = [f"server-{number}" for number in range(5)]

ARCS_OF_ORGANISATION = 10_000
GROUPS = 1_200
MEMBERS = 900
WORLD = 200
"""Number of groups above all organisations."""
TEMPLATES = 10
"""Number of different organisations. A larger graph repeats them under other names."""


def example(folder: Path) -> None:
    """Write snapshots of the example graph, with its subnets dealt over five servers by their numbers of arcs."""
    with gzip.open(EXAMPLE, "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    arcs = [SyntheticArc(parent, child, kind == "group") for parent, child, kind in rows if child]
    groups = {arc.parent for arc in arcs} | {arc.child for arc in arcs if arc.is_group}
    weights = Counter({subnet_of(group): 0 for group in groups})
    weights.update(subnet_of(arc.parent) for arc in arcs)
    shares = deal(weights, len(SERVERS))
    owners = {subnet: server for server, share in zip(SERVERS, shares, strict=True) for subnet in share}
    write(snapshots_of(arcs, owners), folder)


def synthetic(folder: Path, arcs: int) -> None:
    """Write snapshots of a synthetic graph with about `arcs` arcs.

    Each organisation has ten thousand arcs, with loops and deep nesting, below one common layer of groups. An
    organisation lives on one server, and a tenth of it on the next server. Both servers hold the ancestry above it.
    """
    templates = [_template(number) for number in range(min(TEMPLATES, max(1, arcs // ARCS_OF_ORGANISATION)))]
    copies = max(1, arcs // ARCS_OF_ORGANISATION)
    for at, server in enumerate(SERVERS):
        manifest = dict(templates[0][server].manifest)
        manifest["subnets"] = [subnet for copy in range(copies) for subnet in _subnets(templates, copy, server)]
        manifest["peers"] = [{"server": other, "subnets": []} for other in SERVERS if other != server]
        parts = [template[server].tables() for template in templates]
        _write_copies(folder / server, manifest, parts, copies, at * NUMBERS_APART)


def _template(number: int) -> Mapping[str, WrittenSnapshot]:
    random = Random(number)
    here, near = SERVERS[number % len(SERVERS)], SERVERS[(number + 1) % len(SERVERS)]
    owners = {"world.x": SERVERS[0], "o00000.x": here, "near.o00000.x": near}
    # Servers that own no node of this organisation have their snapshot too.
    owners |= {f"nothing.{server}.x": server for server in SERVERS}
    world = [f"w{place}@world.x" for place in range(WORLD)]
    groups = [f"g{place}@{'near.' if place % 10 == 3 else ''}o00000.x" for place in range(GROUPS)]
    members = [f"m{place}@o00000.x" for place in range(MEMBERS)]
    arcs = {arc[:2]: arc for arc in _arcs(random, world, groups, members)}
    order = {name: place for place, name in enumerate(world)} | dict.fromkeys(groups + members, WORLD)
    return snapshots_of(arcs.values(), owners, groups=world, order=order)


def _arcs(random: Random, world: list[str], groups: list[str], members: list[str]) -> Iterator[SyntheticArc]:
    layer = Random(0)  # the layer is the same above every organisation
    for place in range(1, WORLD):
        yield SyntheticArc(world[layer.randrange(place)], world[place])
    for _ in range(60):
        yield SyntheticArc(random.choice(world), random.choice(groups))
    for _ in range(ARCS_OF_ORGANISATION * 3 // 4):
        place = random.randrange(GROUPS - 1)
        yield SyntheticArc(groups[place], groups[min(GROUPS - 1, place + random.randint(1, 30))])
    for _ in range(10):
        place = random.randrange(10, GROUPS)
        yield SyntheticArc(groups[place], groups[place - random.randint(1, 5)])
    for _ in range(ARCS_OF_ORGANISATION // 4):
        yield SyntheticArc(random.choice(groups), random.choice(members), is_group=False)


def _subnets(templates: list[Mapping[str, WrittenSnapshot]], copy: int, server: str) -> list[str]:
    owned = templates[copy % len(templates)][server].manifest["subnets"]
    renamed = [subnet.replace("o00000", f"o{copy:05}") for subnet in owned]
    return renamed if copy == 0 else [subnet for subnet in renamed if f"o{copy:05}" in subnet]


def _write_copies(
    folder: Path, manifest: dict[str, Any], parts: list[dict[str, pa.Table]], copies: int, shift: int
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rows = {}
    for name, schema in TABLES.items():
        seen: set[tuple[Any, ...]] = set()
        rows[name] = 0
        with pq.ParquetWriter(folder / f"{name}.parquet", schema, compression="zstd") as writer:
            batch: list[pa.Table] = []
            for copy in range(copies):
                table = _copy(parts[copy % len(parts)][name], name, copy, shift, seen)
                rows[name] += table.num_rows
                batch.append(table)
                if sum(part.num_rows for part in batch) > 300_000 or copy == copies - 1:
                    writer.write_table(pa.concat_tables(batch))
                    batch = []
    (folder / MANIFEST).write_text(json.dumps({**manifest, "rows": rows}), encoding="utf-8")


_NUMBERS = {"nodes": ("node",), "arcs": ("parent", "child"), "ancestors": ("node",)}


def _copy(table: pa.Table, name: str, copy: int, shift: int, seen: set[tuple[Any, ...]]) -> pa.Table:
    """Return the table of one organisation under another name. Rows of the common layer appear once."""
    numbers = _NUMBERS.get(name, ())
    if numbers and table.num_rows:
        below = pc.greater_equal(table[numbers[-1]], WORLD + shift)
        above = table.filter(pc.invert(below))
        keys = list(zip(*(above[column].to_pylist() for column in numbers), strict=True))
        fresh = [key not in seen for key in keys]
        seen.update(keys)
        table = pa.concat_tables([table.filter(below), above.filter(pa.array(fresh, pa.bool_()))])
    offset = copy * (GROUPS + MEMBERS)
    columns = [_renamed(table[field.name], field, copy, offset, shift) for field in table.schema]
    return pa.table(columns, schema=table.schema)


def _renamed(column: pa.ChunkedArray, field: pa.Field, copy: int, offset: int, shift: int) -> pa.ChunkedArray:
    if copy == 0:
        return column
    if field.name in ("node", "parent", "child"):
        moved = pc.add(column, pa.scalar(offset, pa.int32()))
        return pc.if_else(pc.greater_equal(column, WORLD + shift), moved, column)
    if field.name == "ancestors":
        return pa.chunked_array([pa.array((_moved(value, offset, shift) for value in column.to_pylist()), pa.binary())])
    if field.name == "components":
        return pa.chunked_array([pa.array([[n + offset for n in row] for row in column.to_pylist()], field.type)])
    if pa.types.is_string(field.type):
        return pc.replace_substring(column, "o00000", f"o{copy:05}")
    return column


def _moved(value: bytes, offset: int, shift: int) -> bytes:
    found = BitMap.deserialize(value)
    edge = WORLD + shift
    moved = found.copy()
    moved.remove_range(0, edge)
    found.remove_range(edge, 1 << 31)
    moved = moved.shift(offset) | found
    moved.run_optimize()
    return bytes(moved.serialize())
