"""I1, I2, I7, virtual nodes: each is a loop, its shadow arcs are the one right tree, and all homes agree on it.

Why local implies global: a virtual node is small. Reading all of it shows that every component reaches every other, and
what its shadow tree must be. The audit `levels` shows that no loop is larger than recorded. It follows that x reaches y
in the internal view exactly if x reaches y in the external view (C1, C2). Every arc between derived nodes is `normal`
and is walked. Inside a virtual node all components reach all in both views: over arcs in the external view, and over
the tree, both ways, in the internal view. All homes hold the same arcs of a virtual node (compared here by digest), so
that all derive the same tree.

Source: NG 3.2.1, 4.6.2, figure 4.5; docs/protocol.md, "The invariants"; docs/protocol-updates.md, "Two views of one
graph".
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, types
from pyspark.sql import functions as sql

from spark_graph_jobs.compare.side_by_side import Unlike
from spark_graph_jobs.compare.violations import (
    NODES_SHOWN_LIMIT,
    TROUBLE,
    Condition,
    about_arc,
    about_node,
    nodes_in_trouble,
)
from spark_graph_jobs.snapshot.tables import Tables, place_of
from spark_graph_jobs.spark.grouped import Row, by_group, check_groups

AUDIT: Final = "virtual nodes"
CHECKS: Final = "Each recorded loop is one, its spanning tree is the right one, and all its servers have it alike."

COMPONENT: Final = 0
DECLARED: Final = 1
INNER_ARC: Final = 2

_COLUMNS: Final[dict[str, types.DataType]] = {
    "virtual_node": types.StringType(),
    "row": types.IntegerType(),
    "cost": types.LongType(),
    "parent_rank": types.IntegerType(),
    "child_rank": types.IntegerType(),
    "parent": types.LongType(),
    "child": types.LongType(),
    "local": types.LongType(),
    "key": types.LongType(),
    "name": types.StringType(),
    "state": types.StringType(),
    "vnid": types.StringType(),
}

DIGESTED: Final = types.StructType(
    [*TROUBLE.fields, types.StructField("vnid", types.StringType()), types.StructField("digest", types.StringType())]
)
"""Columns of a trouble, and columns for the digest of a virtual node at a server.

A row with a digest has no message.
"""


class InnerArc(NamedTuple):
    """An arc between two components. The order of its fields is the order in which the tree prefers arcs."""

    cost: int
    parent_rank: int
    child_rank: int
    parent: int
    child: int
    state: str


@dataclass(slots=True)
class Loop:
    """The data of one server about one virtual node."""

    vnid: str
    names: dict[int, str] = field(default_factory=dict)
    """Names of the components by `local` number, from the table of nodes."""
    keys: dict[int, int] = field(default_factory=dict)
    declared: dict[int, None] = field(default_factory=dict)
    """Components by `local` number, from the table of virtual nodes."""
    smallest: str | None = None
    arcs: list[InnerArc] = field(default_factory=list)


UNLIKE: Final = Unlike(AUDIT, "vnid", "servers see it in different virtual nodes")


def audit(tables: Tables) -> DataFrame:
    """Return the troubles of virtual nodes."""
    judged = tables.store.keep("judged loops", check_groups(_rows(tables), lambda: judge_loop, DIGESTED))
    wrong = judged.filter(sql.col("message").isNotNull()).select(*TROUBLE.names)
    return wrong.unionByName(_unlike_at_servers(tables, judged.filter(sql.col("digest").isNotNull())))


def judge_loop(rows: Sequence[Row]) -> Iterator[Row]:
    """Yield the troubles of one virtual node at one server, and its digest."""
    loop = _read(rows)
    about = min(loop.names, default=None) if loop.names else min(loop.declared, default=None)
    if about is None:
        return
    for trouble in _judge(loop, about):
        yield (*trouble, None, None)
    yield (about, None, None, None, None, None, None, loop.vnid, _digest(loop))


def _read(rows: Sequence[Row]) -> Loop:
    loop = Loop(rows[0][-1])
    for _, kind, cost, parent_rank, child_rank, parent, child, local, key, name, state, _vnid in rows:
        if kind == COMPONENT:
            loop.names[local], loop.keys[local] = name, key
        elif kind == DECLARED:
            loop.declared[local] = None
            loop.smallest = name
        else:
            loop.arcs.append(InnerArc(cost, parent_rank, child_rank, parent, child, state))
    return loop


def _judge(loop: Loop, about: int) -> Iterator[Row]:
    vnid, components = loop.vnid, sorted(loop.names)
    if set(loop.names) != set(loop.declared):
        one_sided = sorted(set(loop.names) ^ set(loop.declared))
        yield about_node(about, f"{{at}} does not say alike which groups are in {vnid}", one_sided[:NODES_SHOWN_LIMIT])
        return
    if len(components) < 2:
        yield about_node(about, f"at {{at}}, {vnid} has one component only")
        return
    smallest = min(loop.names.values())
    if loop.smallest != smallest or not vnid.startswith(f"{smallest}#"):
        yield about_node(about, f"at {{at}}, {vnid} is not named after its smallest component", texts=[smallest])
    below: dict[int, list[int]] = {node: [] for node in components}
    above: dict[int, list[int]] = {node: [] for node in components}
    for arc in loop.arcs:
        below[arc.parent].append(arc.child)
        above[arc.child].append(arc.parent)
    apart = [node for node in components if node not in _reached(below, about) or node not in _reached(above, about)]
    if apart:
        yield about_node(about, f"at {{at}}, {vnid} is no loop: these are not on one", apart[:NODES_SHOWN_LIMIT])
        return
    tree = spanning_tree(min(loop.names, key=loop.names.__getitem__), loop.arcs)
    for arc in loop.arcs:
        expected = "shadow" if (arc.parent, arc.child) in tree else "fade"
        if arc.state != expected:
            yield about_arc(arc.parent, arc.child, f"at {{at}}, its state is {arc.state}, and should be {expected}")


def spanning_tree(first: int, arcs: Iterable[InnerArc]) -> set[tuple[int, int]]:
    """Return the shadow tree.

    It grows from `first`, always by the first arc, in their order, that reaches a new node.
    """
    touching: dict[int, list[InnerArc]] = {}
    for arc in arcs:
        touching.setdefault(arc.parent, []).append(arc)
        touching.setdefault(arc.child, []).append(arc)
    tree = set()
    joined = {first}
    candidates = list(touching.get(first, ()))
    heapq.heapify(candidates)
    while candidates:
        arc = heapq.heappop(candidates)
        if arc.parent in joined and arc.child in joined:
            continue
        tree.add((arc.parent, arc.child))
        added = arc.child if arc.parent in joined else arc.parent
        joined.add(added)
        for other in touching[added]:
            heapq.heappush(candidates, other)
    return tree


def _reached(below: Mapping[int, Sequence[int]], start: int) -> set[int]:
    reached = {start}
    pending = [start]
    while pending:
        for node in below[pending.pop()]:
            if node not in reached:
                reached.add(node)
                pending.append(node)
    return reached


def _digest(loop: Loop) -> str:
    """Return a text that is equal at two servers exactly if components, arcs, costs and states are equal."""
    keys = loop.keys
    arcs = sorted((keys.get(arc.parent, 0), keys.get(arc.child, 0), arc.cost, arc.state) for arc in loop.arcs)
    return blake2b(repr((sorted(keys.values()), arcs)).encode(), digest_size=16).hexdigest()


def _rows(tables: Tables) -> DataFrame:
    nodes = tables.nodes.filter("vnid is not null").withColumn("virtual_node", _of_server("vnid"))
    declared = (
        tables.virtual_nodes.withColumn("virtual_node", _of_server("vnid"))
        .withColumn("local", sql.explode("components"))
        .withColumn("name", sql.col("smallest"))
    )
    loops = nodes.select(sql.col("derived").alias("parent_derived"), "virtual_node", "vnid").distinct()
    inner = tables.arcs.filter(_is_inner()).join(loops, "parent_derived")
    parts = [
        _row(nodes, COMPONENT, ["virtual_node", "vnid", "local", "key"], name=sql.col("id")),
        _row(declared, DECLARED, ["virtual_node", "vnid", "local", "name"]),
        _row(
            inner,
            INNER_ARC,
            ["virtual_node", "vnid", "cost", "parent_rank", "child_rank", "parent", "child", "state"],
        ),
    ]
    return by_group(parts[0].unionByName(parts[1]).unionByName(parts[2]), list(_COLUMNS), ordered_by=5)


def _of_server(vnid: str) -> Column:
    return sql.concat_ws(" ", sql.col("at").cast("string"), sql.col(vnid))


def _row(frame: DataFrame, kind: int, names: Sequence[str], **values: Column) -> DataFrame:
    given = {**{name: sql.col(name) for name in names}, **values, "row": sql.lit(kind)}
    return frame.select(
        *(given.get(name, sql.lit(None)).cast(data_type).alias(name) for name, data_type in _COLUMNS.items())
    )


def _is_inner() -> Column:
    """Return a condition: a row is an arc between components of one virtual node, by the data of its server."""
    return (
        sql.col("is_record")
        & sql.col("present")
        & ~sql.col("suspended")
        & (sql.col("parent_derived") == sql.col("child_derived"))
    )


def _unlike_at_servers(tables: Tables, digests: DataFrame) -> DataFrame:
    """Return virtual nodes whose components, arcs or states differ between servers."""
    unlike = (
        digests.select("node", "vnid", "digest", place_of(sql.col("node")).alias("at"))
        .groupBy("vnid")
        .agg(
            sql.min("node").alias("local"),
            sql.count_distinct("digest").alias("views"),
            sql.sort_array(
                sql.collect_set(sql.concat(tables.name_of(sql.col("at")), sql.lit(" sees "), "digest"))
            ).alias("seen"),
        )
        .filter("views > 1")
    )
    message = sql.concat(sql.lit("servers do not see the same topology of "), "vnid")
    return nodes_in_trouble(unlike, message, texts=sql.slice("seen", 1, NODES_SHOWN_LIMIT))


def of_arcs() -> list[Condition]:
    """Return the condition that no arc may meet: a state that does not match the ends of the arc.

    The tree inside a loop is checked with the loop, unless no record of the child is held.
    """
    are_known = sql.col("parent_key").isNotNull() & sql.col("child_key").isNotNull()
    is_inside = sql.col("parent_derived") == sql.col("child_derived")
    expected = (
        sql.when(~sql.col("present"), sql.lit("none"))
        .when(sql.col("suspended"), sql.lit("suspended"))
        .when(sql.col("parent") == sql.col("child"), sql.lit("no arc"))
        .when(is_inside & sql.col("state").isin("shadow", "fade"), sql.col("state"))
        .when(is_inside, sql.lit("shadow or fade"))
        .otherwise(sql.lit("normal"))
    )
    state = sql.coalesce("state", sql.lit("none"))
    is_judged = is_inside & sql.col("is_record") & sql.col("present") & ~sql.col("suspended")
    message = sql.format_string("at {at}, its state is %s, and should be %s", state, expected)
    return [Condition(AUDIT, are_known & (state != expected) & ~is_judged, message)]
