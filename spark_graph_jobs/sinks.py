"""Every derived node with what enters it: the rows from which its ancestors and its duplication control are judged.

One shuffle serves two audits (`sink_pass`). For each derived node of each server whose ancestry record is held there:

    SELF    its components, their homes and levels
    SET     its ancestor set, as the server holds it
    ARC     a normal arc into it, with the ancestor set of its tail, in the order of protocol.md section 4
    RECORD  what blocks such an arc: one minimal node of a stored record, with that node's ancestor set, or a computed
            record. A stored record is brought from the home of the arc's parent to that of its child.

Source: protocol.md sections 3.2 and 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pyroaring import BitMap
from pyspark.sql import Column, DataFrame, types
from pyspark.sql import functions as sql

from spark_graph_jobs.grouped import Row, by_group
from spark_graph_jobs.tables import FOREIGN, NUMBERS_OF_SERVER, Tables

SELF: Final = 0
SET: Final = 1
ARC: Final = 2
RECORD: Final = 3

_COLUMNS: Final[dict[str, types.DataType]] = {
    "derived": types.LongType(),
    "row": types.IntegerType(),
    "cost": types.LongType(),
    "parent_rank": types.IntegerType(),
    "child_rank": types.IntegerType(),
    "parent": types.LongType(),
    "child": types.LongType(),
    "parent_at": types.IntegerType(),
    "child_owned": types.BooleanType(),
    "numbers": types.BinaryType(),
    "components": types.ArrayType(types.IntegerType()),
    "homes": types.ArrayType(types.IntegerType()),
    "owned": types.BooleanType(),
    "lowest": types.LongType(),
    "highest": types.LongType(),
    "minimal": types.StringType(),
}


class Entering(NamedTuple):
    """A normal arc into a sink; its ends are `local` numbers."""

    parent: int
    child: int
    parent_at: int
    child_owned: bool
    above: BitMap | None
    """The ancestor set of its tail; None where there is none."""


class Blocked(NamedTuple):
    """Who must not cross an arc: all above a minimal node (None: that node is not known here), or all at once."""

    minimal: str | None
    """None where the record is a computed one."""
    numbers: BitMap | None


@dataclass(slots=True)
class Sink:
    """A derived node of one server, and what enters it."""

    derived: int
    """The `local` of one of its components."""
    components: BitMap | None = None
    """None: the server holds no record of it, but a set or a record that concerns it."""
    homes: frozenset[int] = frozenset()
    owned: bool = False
    lowest: int | None = None
    highest: int | None = None
    sets: list[BitMap] = field(default_factory=list)
    arcs: list[Entering] = field(default_factory=list)
    """In the order in which they may deliver."""
    records: dict[tuple[int, int], list[Blocked]] = field(default_factory=dict)
    """By parent and child."""

    @property
    def at(self) -> int:
        """The place of its server."""
        return self.derived // NUMBERS_OF_SERVER


def read_sink(rows: Sequence[Row]) -> Sink:
    """Put together what the rows of one derived node say."""
    sink = Sink(rows[0][0])
    for row in rows:
        (
            _,
            kind,
            _,
            _,
            _,
            parent,
            child,
            parent_at,
            child_owned,
            numbers,
            components,
            homes,
            owned,
            low,
            high,
            name,
        ) = row
        if kind == ARC:
            sink.arcs.append(Entering(parent, child, parent_at, child_owned, _bitmap(numbers)))
        elif kind == SET:
            sink.sets.append(BitMap.deserialize(numbers))
        elif kind == SELF:
            sink.components, sink.homes, sink.owned = BitMap(components), frozenset(homes), owned
            sink.lowest, sink.highest = low, high
        else:
            sink.records.setdefault((parent, child), []).append(Blocked(name, _bitmap(numbers)))
    return sink


def _bitmap(numbers: bytes | None) -> BitMap | None:
    return None if numbers is None else BitMap.deserialize(numbers)


def gather(tables: Tables) -> DataFrame:
    """The rows of all derived nodes, brought together."""
    parts = [_selves(tables), _sets(tables), _arcs(tables), _stored(tables), _computed(tables)]
    rows = parts[0]
    for part in parts[1:]:
        rows = rows.unionByName(part)
    return by_group(rows, list(_COLUMNS), ordered_by=5)


def _row(frame: DataFrame, kind: int, **values: Column) -> DataFrame:
    """Rows of one kind; what is not given is null."""
    given = {**values, "row": sql.lit(kind)}
    return frame.select(
        *(given.get(name, sql.lit(None)).cast(data_type).alias(name) for name, data_type in _COLUMNS.items())
    )


def _selves(tables: Tables) -> DataFrame:
    held = tables.nodes.filter("held").withColumn(
        # A foreign process lives on each server that has it.
        "lives_at",
        sql.when(sql.col("home_at") == FOREIGN, sql.col("at")).otherwise(sql.col("home_at")),
    )
    alone = held.filter(sql.col("vnid").isNull()).select(
        "derived",
        sql.array("number").alias("components"),
        sql.array("lives_at").alias("homes"),
        "owned",
        sql.col("level").alias("lowest"),
        sql.col("level").alias("highest"),
    )
    inside = (
        held.filter(sql.col("vnid").isNotNull())
        .groupBy("derived")
        .agg(
            sql.collect_list("number").alias("components"),
            sql.collect_list("lives_at").alias("homes"),
            sql.max("owned").alias("owned"),
            sql.min("level").alias("lowest"),
            sql.max("level").alias("highest"),
        )
    )
    names = ("derived", "components", "homes", "owned", "lowest", "highest")
    return _row(alone.unionByName(inside), SELF, **{name: sql.col(name) for name in names})


def _sets(tables: Tables) -> DataFrame:
    known = tables.ancestors.filter(sql.col("derived").isNotNull())
    return _row(known, SET, derived=sql.col("derived"), numbers=sql.col("ancestors"))


def _arcs(tables: Tables) -> DataFrame:
    entering = tables.arcs.filter(is_entering())
    tails = tables.ancestors.select(sql.col("derived").alias("parent_derived"), sql.col("ancestors").alias("numbers"))
    names = ("cost", "parent_rank", "child_rank", "parent", "child", "child_owned", "numbers")
    return _row(
        entering.join(tails, "parent_derived", "left"),
        ARC,
        derived=sql.col("child_derived"),
        parent_at=sql.col("parent_home_at"),
        **{name: sql.col(name) for name in names},
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


def _stored(tables: Tables) -> DataFrame:
    """Stored records, where the child is homed: nodes are found again there by their keys."""
    nodes = tables.nodes.select("at", "key", "local", "derived", "home_at")
    home_of_child = nodes.select(sql.col("local").alias("child"), sql.col("home_at").alias("to"))
    stored = (
        tables.rd_records.filter(sql.col("origin") == "stored")
        .select("parent_key", "child_key", "child", sql.explode("minimal").alias("minimal"))
        .join(home_of_child, "child")
        .filter(sql.col("to") >= 0)
        .drop("child")
        .withColumn("minimal_key", sql.xxhash64("minimal"))
    )
    for end, how in (("parent", "inner"), ("child", "inner"), ("minimal", "left")):
        there = nodes.select(
            sql.col("at").alias("to"),
            sql.col("key").alias(f"{end}_key"),
            sql.col("local").alias(end if end != "minimal" else "minimal_local"),
            sql.col("derived").alias(f"{end}_derived"),
        )
        stored = stored.join(there, ["to", f"{end}_key"], how)
    sets = tables.ancestors.select(sql.col("derived").alias("minimal_derived"), sql.col("ancestors").alias("numbers"))
    return _row(
        stored.join(sets, "minimal_derived", "left"),
        RECORD,
        derived=sql.col("child_derived"),
        parent=sql.col("parent"),
        child=sql.col("child"),
        numbers=sql.col("numbers"),
        minimal=sql.col("minimal"),
    )


def _computed(tables: Tables) -> DataFrame:
    computed = tables.rd_records.filter((sql.col("origin") == "computed") & sql.col("child_derived").isNotNull())
    return _row(
        computed,
        RECORD,
        derived=sql.col("child_derived"),
        parent=sql.col("parent"),
        child=sql.col("child"),
        numbers=sql.col("blocked"),
    )
