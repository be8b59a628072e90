"""The rows about each derived node and the arcs into it, from which its ancestors are checked.

For each derived node whose ancestry record a server holds:

    SELF    its components and their levels
    SET     that there is an ancestor set of it
    ARC     a normal arc into it

Ancestor sets do not travel with the rows. They are read from the files of `set_files`.

Source: docs/protocol-updates.md, "What a node knows of its ancestors" and "Ancestry records".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pyroaring import BitMap
from pyspark.sql import Column, DataFrame, types
from pyspark.sql import functions as sql

from spark_graph_jobs.snapshot.node_arrays import NUMBERS_OF_SERVER
from spark_graph_jobs.snapshot.tables import Tables
from spark_graph_jobs.spark.grouped import Row, by_group

SELF: Final = 0
SET: Final = 1
ARC: Final = 2

NOWHERE: Final = -1
"""Value of `tail` in a row whose parent is not known at the server."""

NO_LEVEL: Final = -1

_COLUMNS: Final[dict[str, tuple[types.DataType, object]]] = {
    "derived": (types.LongType(), 0),
    "row": (types.IntegerType(), 0),
    "parent": (types.LongType(), 0),
    "child": (types.LongType(), 0),
    "tail": (types.LongType(), NOWHERE),
    "lowest": (types.LongType(), 0),
    "highest": (types.LongType(), 0),
    "components": (types.ArrayType(types.IntegerType()), None),
}
"""Types, and the value of a column that a row does not use. Numbers that are never null reach Python much faster."""


class Entering(NamedTuple):
    """A normal arc into a sink. Its ends are `local` numbers."""

    parent: int
    child: int
    above: BitMap | None
    """Ancestor set of the tail. None if there is none."""


@dataclass(slots=True)
class Sink:
    """A derived node of one server, with the arcs into it."""

    derived: int
    """`local` number of one of its components."""
    components: BitMap | None = None
    """Numbers of the components. None if the server holds a set of the node but no record."""
    lowest: int | None = None
    highest: int | None = None
    sets: int = 0
    """Number of ancestor sets of the node."""
    found: BitMap | None = None
    """Ancestor set of the node."""
    arcs: list[Entering] = field(default_factory=list)


def read_sink(rows: Sequence[Row], set_of: Callable[[int], BitMap | None]) -> Sink:
    """Build a sink from the rows of one derived node. `set_of`: returns the ancestor set of a derived node."""
    sink = Sink(rows[0][0])
    for _, kind, parent, child, tail, low, high, components in rows:
        if kind == ARC:
            sink.arcs.append(Entering(parent, child, None if tail == NOWHERE else set_of(tail)))
        elif kind == SET:
            sink.sets += 1
            sink.found = set_of(tail)
        else:
            sink.components = BitMap([sink.derived % NUMBERS_OF_SERVER] if components is None else components)
            sink.lowest, sink.highest = low, high
    return sink


def gather(tables: Tables) -> DataFrame:
    """Return the rows of all derived nodes, grouped by node."""
    rows = _selves(tables).unionByName(_sets(tables)).unionByName(_arcs(tables))
    return by_group(rows, list(_COLUMNS), ordered_by=4)


def _row(frame: DataFrame, kind: int, **values: Column) -> DataFrame:
    """Return rows of one kind."""
    given = {**values, "row": sql.lit(kind)}
    return frame.select(
        *(
            given.get(name, sql.lit(nothing)).cast(data_type).alias(name)
            for name, (data_type, nothing) in _COLUMNS.items()
        )
    )


def _selves(tables: Tables) -> DataFrame:
    held = tables.nodes.filter("held")
    level = sql.coalesce("level", sql.lit(NO_LEVEL))
    alone = _row(
        held.filter(sql.col("vnid").isNull()),
        SELF,
        derived=sql.col("derived"),
        lowest=level,
        highest=level,
    )
    inside = (
        held.filter(sql.col("vnid").isNotNull())
        .groupBy("derived")
        .agg(
            sql.collect_list("number").alias("components"),
            sql.min(level).alias("lowest"),
            sql.max(level).alias("highest"),
        )
    )
    names = ("derived", "components", "lowest", "highest")
    return alone.unionByName(_row(inside, SELF, **{name: sql.col(name) for name in names}))


def _sets(tables: Tables) -> DataFrame:
    known = tables.ancestors.filter(sql.col("derived").isNotNull())
    return _row(known, SET, derived=sql.col("derived"), tail=sql.col("derived"))


def _arcs(tables: Tables) -> DataFrame:
    return _row(
        tables.arcs.filter(is_entering()),
        ARC,
        derived=sql.col("child_derived"),
        parent=sql.col("parent"),
        child=sql.col("child"),
        tail=sql.coalesce("parent_derived", sql.lit(NOWHERE)),
    )


def is_entering() -> Column:
    """Return a condition: a row of arcs is a normal arc of the ancestry that its server holds."""
    return (
        sql.col("is_record")
        & sql.col("present")
        & ~sql.col("suspended")
        & sql.col("child_held")
        & (sql.col("parent_derived") != sql.col("child_derived"))
    )
