"""Every derived node with what enters it: the rows from which its ancestors and its duplication control are judged.

One shuffle serves both audits. For each derived node of each server whose ancestry record is held there:

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
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_graph_jobs.grouped import Row, by_group
from spark_graph_jobs.tables import FOREIGN, NUMBERS_OF_SERVER, Tables

SELF: Final = 0
SET: Final = 1
ARC: Final = 2
RECORD: Final = 3

_COLUMNS: Final[dict[str, T.DataType]] = {
    "derived": T.LongType(),
    "row": T.IntegerType(),
    "cost": T.LongType(),
    "parent_rank": T.IntegerType(),
    "child_rank": T.IntegerType(),
    "parent": T.LongType(),
    "child": T.LongType(),
    "parent_at": T.IntegerType(),
    "child_owned": T.BooleanType(),
    "numbers": T.BinaryType(),
    "components": T.ArrayType(T.IntegerType()),
    "homes": T.ArrayType(T.IntegerType()),
    "owned": T.BooleanType(),
    "lowest": T.LongType(),
    "highest": T.LongType(),
    "minimal": T.StringType(),
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
        (_, kind, _, _, _, parent, child, parent_at, child_owned, numbers, components, homes, owned, low, high, name) = row
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
    """The rows of all derived nodes, brought together; keep the result, because two audits read it."""
    parts = [_selves(tables), _sets(tables), _arcs(tables), _stored(tables), _computed(tables)]
    rows = parts[0]
    for part in parts[1:]:
        rows = rows.unionByName(part)
    return by_group(rows, list(_COLUMNS), ordered_by=5)


def _row(frame: DataFrame, kind: int, **values: Column) -> DataFrame:
    """Rows of one kind; what is not given is null."""
    given = {**values, "row": F.lit(kind)}
    return frame.select(
        *(given.get(name, F.lit(None)).cast(data_type).alias(name) for name, data_type in _COLUMNS.items())
    )


def _selves(tables: Tables) -> DataFrame:
    held = tables.nodes.filter("held").withColumn(
        # A foreign process lives on each server that has it.
        "lives_at",
        F.when(F.col("home_at") == FOREIGN, F.col("at")).otherwise(F.col("home_at")),
    )
    alone = held.filter(F.col("vnid").isNull()).select(
        "derived",
        F.array("number").alias("components"),
        F.array("lives_at").alias("homes"),
        "owned",
        F.col("level").alias("lowest"),
        F.col("level").alias("highest"),
    )
    inside = (
        held.filter(F.col("vnid").isNotNull())
        .groupBy("derived")
        .agg(
            F.collect_list("number").alias("components"),
            F.collect_list("lives_at").alias("homes"),
            F.max("owned").alias("owned"),
            F.min("level").alias("lowest"),
            F.max("level").alias("highest"),
        )
    )
    names = ("derived", "components", "homes", "owned", "lowest", "highest")
    return _row(alone.unionByName(inside), SELF, **{name: F.col(name) for name in names})


def _sets(tables: Tables) -> DataFrame:
    known = tables.ancestors.filter(F.col("derived").isNotNull())
    return _row(known, SET, derived=F.col("derived"), numbers=F.col("ancestors"))


def _arcs(tables: Tables) -> DataFrame:
    entering = tables.arcs.filter(is_entering())
    tails = tables.ancestors.select(F.col("derived").alias("parent_derived"), F.col("ancestors").alias("numbers"))
    names = ("cost", "parent_rank", "child_rank", "parent", "child", "child_owned", "numbers")
    return _row(
        entering.join(tails, "parent_derived", "left"),
        ARC,
        derived=F.col("child_derived"),
        parent_at=F.col("parent_home_at"),
        **{name: F.col(name) for name in names},
    )


def is_entering() -> Column:
    """Whether a row of arcs is a normal arc of the ancestry that its server holds."""
    return (
        F.col("is_record")
        & F.col("present")
        & ~F.col("suspended")
        & F.col("child_held")
        & (F.col("parent_derived") != F.col("child_derived"))
    )


def _stored(tables: Tables) -> DataFrame:
    """Stored records, where the child is homed: nodes are found again there by their keys."""
    nodes = tables.nodes.select("at", "key", "local", "derived", "home_at")
    home_of_child = nodes.select(F.col("local").alias("child"), F.col("home_at").alias("to"))
    stored = (
        tables.rd_records.filter(F.col("origin") == "stored")
        .select("parent_key", "child_key", "child", F.explode("minimal").alias("minimal"))
        .join(home_of_child, "child")
        .filter(F.col("to") >= 0)
        .drop("child")
        .withColumn("minimal_key", F.xxhash64("minimal"))
    )
    for end, how in (("parent", "inner"), ("child", "inner"), ("minimal", "left")):
        there = nodes.select(
            F.col("at").alias("to"),
            F.col("key").alias(f"{end}_key"),
            F.col("local").alias(end if end != "minimal" else "minimal_local"),
            F.col("derived").alias(f"{end}_derived"),
        )
        stored = stored.join(there, ["to", f"{end}_key"], how)
    sets = tables.ancestors.select(F.col("derived").alias("minimal_derived"), F.col("ancestors").alias("numbers"))
    return _row(
        stored.join(sets, "minimal_derived", "left"),
        RECORD,
        derived=F.col("child_derived"),
        parent=F.col("parent"),
        child=F.col("child"),
        numbers=F.col("numbers"),
        minimal=F.col("minimal"),
    )


def _computed(tables: Tables) -> DataFrame:
    computed = tables.rd_records.filter((F.col("origin") == "computed") & F.col("child_derived").isNotNull())
    return _row(
        computed,
        RECORD,
        derived=F.col("child_derived"),
        parent=F.col("parent"),
        child=F.col("child"),
        numbers=F.col("blocked"),
    )
