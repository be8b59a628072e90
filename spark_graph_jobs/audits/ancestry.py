"""I5, ancestry: each server knows exactly the ancestors of the nodes that it owns.

Why local implies global: take the equations A*(n) = {n} and all A*(parents), one for each node. On a graph without
cycles (see `levels`) they have exactly one solution. Sets that satisfy all equations over a server's own records are
therefore the true sets of those records. The records are true if every parent that a record names has a record too, and
every copy of a record equals all others. The copy of the home is among them. No record is superfluous if below each
node that is not owned another node has a record: a path downwards must end, and can end only at an owned node.

Source: docs/protocol-updates.md, "What a node knows of its ancestors" and "Ancestry records".
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
    """Return the command that shows the arcs around a node.

    Joining an arc into the node again computes the node's ancestry anew.
    """
    return shell_line("describe", names=(node,))


def of_arcs() -> list[Condition]:
    """Return the conditions that no arc may meet at one server: a record names a parent whose record is not held."""
    held = sql.col("is_record") & sql.col("present") & ~sql.col("suspended") & sql.col("child_held")
    return [
        Condition(AUDIT, held & ~sql.col("parent_held"), "{at} holds the child's ancestry record, and not the parent's")
    ]


def of_said_arcs(tables: Tables) -> list[Condition]:
    """Return the conditions that no arc may meet: it is in some records of the child only, or at no home."""
    at_parent, at_child, records = sql.col("at_parent"), sql.col("at_child"), sql.col("records")
    lacking = sql.format_string(
        "%d of %d servers that hold the child's ancestry record lack the arc in it",
        sql.col("child_holders") - records,
        sql.col("child_holders"),
    )
    unfounded = sql.when(
        both_homes_are_here(), sql.lit("an ancestry record has this arc, and neither home knows it")
    ).otherwise("an ancestry record has this arc, and of its homes the one that was read does not know it")
    # If neither home was read, the record cannot be checked.
    is_judged = a_home_is_here()
    return [
        Condition(AUDIT, (at_child > 0) & (records < sql.col("child_holders")), lacking, have_it(tables)),
        Condition(AUDIT, is_judged & (at_child == 0) & (at_parent == 0) & (records > 0), unfounded, have_it(tables)),
    ]


def audit(tables: Tables) -> DataFrame:
    """Return the superfluous records: those of derived nodes that are above no node with a record."""
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
    """Check that the ancestor set of one derived node follows from the sets of its parents."""
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
