"""I5, ancestry: what each server knows of the ancestors of what it owns is complete, true, and no more than that.

Why local implies global: on a graph without cycles (see `levels`) the equations A*(n) = {n} and all A*(parents), one a
node, have exactly one solution, so sets that satisfy each of them over a server's own records are the true ones of
those records; and the records are the true ones where every parent that a record names has a record too, and every
copy of a record equals the others, that of its home among them. None is superfluous where below each that is not owned
there is another one: going down must end, and can end only at an owned node.

Source: protocol.md section 3.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyroaring import BitMap
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from spark_graph_jobs.grouped import Row
from spark_graph_jobs.said import differ_in, have_it, who_says
from spark_graph_jobs.sinks import Sink
from spark_graph_jobs.tables import Tables
from spark_graph_jobs.trouble import (
    TROUBLE,
    about_arc,
    about_node,
    arcs_in_trouble,
    nodes_in_trouble,
    on_server_of,
)

AUDIT: Final = "ancestry"

FIX: Final = "shadowtree describe '{node}'"
"""Shows the arcs around a node; joining one of those that enter it again computes its ancestry anew."""


def audit(tables: Tables, judged: DataFrame, nodes: DataFrame, arcs: DataFrame) -> DataFrame:
    """Troubles: ancestor sets and ancestry records.

    `judged`: of `sink_pass.judge`; `nodes` and `arcs`: of `said.of_nodes` and `said.of_arcs`.
    """
    return (
        judged.filter(sql.col("audit") == AUDIT)
        .select(*TROUBLE.names)
        .unionByName(_unknown_parents(tables))
        .unionByName(_superfluous(tables))
        .unionByName(_unlike_copies(tables, arcs))
        .unionByName(_unlike_versions(tables, nodes))
    )


def judge_set(sink: Sink) -> Iterator[Row]:
    """Whether the ancestor set of one derived node follows from those of its parents."""
    if sink.components is None:
        if sink.sets:
            yield about_node(sink.derived, "{at} keeps an ancestor set of it, and does not hold its ancestry record")
        return
    if len(sink.sets) != 1:
        yield about_node(sink.derived, f"{{at}} has {len(sink.sets)} ancestor sets of it, not one")
        return
    found = sink.sets[0]
    if sink.lowest != len(found) or sink.highest != len(found):
        levels = sorted({str(sink.lowest), str(sink.highest)})
        yield about_node(
            sink.derived, f"at {{at}}, its level is {' and '.join(levels)}, and its ancestor set has {len(found)}"
        )
    tails = []
    for arc in sink.arcs:
        if arc.above is None:
            yield about_arc(arc.parent, arc.child, "{at} has no ancestor set of the parent")
            return
        tails.append(arc.above)
    expected = BitMap.union(sink.components, *tails)
    if found != expected:
        yield from _difference(sink, found, expected)


def _difference(sink: Sink, found: BitMap, expected: BitMap) -> Iterator[Row]:
    missing, surplus = expected - found, found - expected
    if missing:
        message = f"at {{at}}, its ancestor set lacks {len(missing)} nodes that are in those of its parents"
        yield about_node(sink.derived, message, on_server_of(sink.derived, missing))
    if surplus:
        message = f"at {{at}}, its ancestor set has {len(surplus)} nodes that are in none of its parents'"
        yield about_node(sink.derived, message, on_server_of(sink.derived, surplus))


def _unknown_parents(tables: Tables) -> DataFrame:
    """Records that name a parent of which no record is held."""
    arcs = tables.arcs.filter("is_record and present and child_held and not parent_held")
    return arcs_in_trouble(arcs, "{at} holds the child's ancestry record, and not the parent's")


def _superfluous(tables: Tables) -> DataFrame:
    """Records of derived nodes that are above nothing of which a record is held."""
    needed = (
        tables.arcs.filter("is_record and present and child_held")
        .filter("suspended or parent_derived != child_derived")
        .select(sql.col("parent_derived").alias("derived"))
    )
    owned = tables.nodes.filter("owned").select("derived")
    superfluous = tables.nodes.filter("held and not owned").join(needed.unionByName(owned), "derived", "left_anti")
    return nodes_in_trouble(superfluous, "{at} holds its ancestry record, and it is above no node that is owned there")


def _unlike_copies(tables: Tables, arcs: DataFrame) -> DataFrame:
    """Arcs that some records of a node have and others have not."""
    lacking = arcs_in_trouble(
        arcs.filter("at_child > 0 and records < child_holders"),
        sql.format_string(
            "%d of %d servers that hold the child's ancestry record lack the arc in it",
            sql.col("child_holders") - sql.col("records"),
            sql.col("child_holders"),
        ),
        texts=have_it(tables),
    )
    unfounded = arcs_in_trouble(
        arcs.filter("at_child = 0 and at_parent = 0 and records > 0"),
        "an ancestry record has this arc, and neither home knows it",
        texts=have_it(tables),
    )
    return lacking.unionByName(unfounded)


def _unlike_versions(tables: Tables, nodes: DataFrame) -> DataFrame:
    """Records that servers hold in different versions."""
    message = "servers hold its ancestry record in different versions"
    return nodes_in_trouble(nodes.filter(differ_in("version")), message, texts=who_says("version", tables))
