"""Every derived node with what enters it: the rows from which its ancestors are judged.

For each derived node of each server whose ancestry record is held there:

    SELF    its components and their levels
    SET     that there is an ancestor set of it
    ARC     a normal arc into it

Ancestor sets do not travel with the rows: they are found in the files of `set_files`.

Source: protocol.md section 3.2.
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
"""The `tail` of a row whose node is not known at the server."""

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
"""Types, and what stands where a row has nothing to say: numbers that are never null come to Python much faster."""


class Entering(NamedTuple):
    """A normal arc into a sink; its ends are `local` numbers."""

    parent: int
    child: int
    above: BitMap | None
    """The ancestor set of its tail; None where there is none."""


@dataclass(slots=True)
class Sink:
    """A derived node of one server, and what enters it."""

    derived: int
    """The `local` of one of its components."""
    components: BitMap | None = None
    """None: the server holds no record of it, but a set."""
    lowest: int | None = None
    highest: int | None = None
    sets: int = 0
    """How many there are of it."""
    found: BitMap | None = None
    """Its ancestor set."""
    arcs: list[Entering] = field(default_factory=list)


def read_sink(rows: Sequence[Row], set_of: Callable[[int], BitMap | None]) -> Sink:
    """Put together what the rows of one derived node say. `set_of`: gives the ancestor set of a derived node."""
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
    """The rows of all derived nodes, brought together."""
    rows = _selves(tables).unionByName(_sets(tables)).unionByName(_arcs(tables))
    return by_group(rows, list(_COLUMNS), ordered_by=4)


def _row(frame: DataFrame, kind: int, **values: Column) -> DataFrame:
    """Rows of one kind."""
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
    """Whether a row of arcs is a normal arc of the ancestry that its server holds."""
    return (
        sql.col("is_record")
        & sql.col("present")
        & ~sql.col("suspended")
        & sql.col("child_held")
        & (sql.col("parent_derived") != sql.col("child_derived"))
    )
