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

from spark_graph_jobs.audits.sinks import NO_LEVEL, Sink
from spark_graph_jobs.compare.side_by_side import Unlike, a_home_is_here, both_homes_are_here, have_it
from spark_graph_jobs.compare.violations import Condition, about_arc, about_node, nodes_in_trouble, on_server_of
from spark_graph_jobs.finding import shell_line
from spark_graph_jobs.snapshot.tables import Tables
from spark_graph_jobs.spark.grouped import Row

AUDIT: Final = "ancestry"
CHECKS: Final = "Each server knows all groups above each node that it owns, and no others. So memberships are right."

UNLIKE: Final = Unlike(AUDIT, "version", "servers hold its ancestry record in different versions")


def fix(node: str) -> str:
    """Shows the arcs around a node; joining one of those that enter it again computes its ancestry anew."""
    return shell_line("describe", names=(node,))


def of_arcs() -> list[Condition]:
    """What must not be so of any arc at one server: a record that names a parent of which no record is held."""
    held = sql.col("is_record") & sql.col("present") & ~sql.col("suspended") & sql.col("child_held")
    return [
        Condition(AUDIT, held & ~sql.col("parent_held"), "{at} holds the child's ancestry record, and not the parent's")
    ]


def of_said_arcs(tables: Tables) -> list[Condition]:
    """What must not be so of any arc: that some records of the child have it and others have not."""
    at_parent, at_child, records = sql.col("at_parent"), sql.col("at_child"), sql.col("records")
    lacking = sql.format_string(
        "%d of %d servers that hold the child's ancestry record lack the arc in it",
        sql.col("child_holders") - records,
        sql.col("child_holders"),
    )
    unfounded = sql.when(
        both_homes_are_here(), sql.lit("an ancestry record has this arc, and neither home knows it")
    ).otherwise("an ancestry record has this arc, and of its homes the one that was read does not know it")
    # Where neither home was read, nothing shows whether the record is right.
    is_judged = a_home_is_here()
    return [
        Condition(AUDIT, (at_child > 0) & (records < sql.col("child_holders")), lacking, have_it(tables)),
        Condition(AUDIT, is_judged & (at_child == 0) & (at_parent == 0) & (records > 0), unfounded, have_it(tables)),
    ]


def audit(tables: Tables) -> DataFrame:
    """Troubles: records of derived nodes that are above nothing of which a record is held."""
    needed = (
        tables.arcs.filter("is_record and present and child_held")
        .filter("suspended or parent_derived != child_derived")
        .select(sql.col("parent_derived").alias("derived"))
        .distinct()
    )
    owned = tables.nodes.filter("owned").select("derived").distinct()
    superfluous = (
        tables.nodes.filter("held and not owned")
        .join(needed, "derived", "left_anti")
        .join(owned, "derived", "left_anti")
    )
    return nodes_in_trouble(superfluous, "{at} holds its ancestry record, and it is above no node that is owned there")


def judge_set(sink: Sink) -> Iterator[Row]:
    """Whether the ancestor set of one derived node follows from those of its parents."""
    if sink.components is None:
        if sink.sets:
            yield about_node(sink.derived, "{at} keeps an ancestor set of it, and does not hold its ancestry record")
        return
    if sink.sets != 1 or sink.found is None:
        yield about_node(sink.derived, f"{{at}} has {sink.sets} ancestor sets of it, not one")
        return
    found = sink.found
    if sink.lowest != len(found) or sink.highest != len(found):
        levels = sorted({str(level) if level != NO_LEVEL else "none" for level in (sink.lowest, sink.highest)})
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
