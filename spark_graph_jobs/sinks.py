"""Every derived node with what enters it: the rows from which its ancestors and its duplication control are judged.

One shuffle serves two audits (`sink_pass`). For each derived node of each server whose ancestry record is held there:

    SELF    its components, their homes and levels
    SET     that there is an ancestor set of it
    ARC     a normal arc into it, in the order of protocol.md section 4
    RECORD  what blocks such an arc: one minimal node of a stored record, or a computed record. A stored record is
            brought from the home of the arc's parent to that of its child.

Ancestor sets do not travel with the rows: they are found in the files of `set_files`.

Source: protocol.md sections 3.2 and 4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pyroaring import BitMap
from pyspark.sql import Column, DataFrame, types
from pyspark.sql import functions as sql

from spark_graph_jobs.grouped import Row, by_group
from spark_graph_jobs.node_arrays import NUMBERS_OF_SERVER
from spark_graph_jobs.tables import FOREIGN, UNKNOWN, Tables

SELF: Final = 0
SET: Final = 1
ARC: Final = 2
RECORD: Final = 3

NOWHERE: Final = -1
"""The `tail` of a row whose node is not known at the server."""

NO_LEVEL: Final = -1

_COLUMNS: Final[dict[str, tuple[types.DataType, object]]] = {
    "derived": (types.LongType(), 0),
    "row": (types.IntegerType(), 0),
    "cost": (types.LongType(), 0),
    "parent_rank": (types.IntegerType(), 0),
    "child_rank": (types.IntegerType(), 0),
    "parent": (types.LongType(), 0),
    "child": (types.LongType(), 0),
    "home": (types.IntegerType(), 0),
    "owned": (types.IntegerType(), 0),
    "tail": (types.LongType(), NOWHERE),
    "lowest": (types.LongType(), 0),
    "highest": (types.LongType(), 0),
    "blocked": (types.BinaryType(), None),
    "components": (types.ArrayType(types.IntegerType()), None),
    "homes": (types.ArrayType(types.IntegerType()), None),
    "minimal": (types.StringType(), None),
}
"""Types, and what stands where a row has nothing to say: numbers that are never null come to Python much faster."""


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
    sets: int = 0
    """How many there are of it."""
    found: BitMap | None = None
    """Its ancestor set."""
    arcs: list[Entering] = field(default_factory=list)
    """In the order in which they may deliver."""
    records: dict[tuple[int, int], list[Blocked]] = field(default_factory=dict)
    """By parent and child."""

    @property
    def at(self) -> int:
        """The place of its server."""
        return self.derived // NUMBERS_OF_SERVER


def read_sink(rows: Sequence[Row], set_of: Callable[[int], BitMap | None]) -> Sink:
    """Put together what the rows of one derived node say. `set_of`: gives the ancestor set of a derived node."""
    sink = Sink(rows[0][0])
    for _, kind, _, _, _, parent, child, home, owned, tail, low, high, blocked, components, homes, name in rows:
        if kind == ARC:
            sink.arcs.append(Entering(parent, child, home, bool(owned), None if tail == NOWHERE else set_of(tail)))
        elif kind == SET:
            sink.sets += 1
            sink.found = set_of(tail)
        elif kind == SELF:
            sink.components = BitMap([sink.derived % NUMBERS_OF_SERVER] if components is None else components)
            sink.homes = frozenset([home] if homes is None else homes)
            sink.owned, sink.lowest, sink.highest = bool(owned), low, high
        else:
            numbers = set_of(tail) if blocked is None and tail != NOWHERE else _bitmap(blocked)
            sink.records.setdefault((parent, child), []).append(Blocked(name, numbers))
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
    """Rows of one kind."""
    given = {**values, "row": sql.lit(kind)}
    return frame.select(
        *(
            given.get(name, sql.lit(nothing)).cast(data_type).alias(name)
            for name, (data_type, nothing) in _COLUMNS.items()
        )
    )


def _selves(tables: Tables) -> DataFrame:
    held = tables.nodes.filter("held").withColumn(
        # A foreign process lives on each server that has it.
        "home",
        sql.when(sql.col("home_at") == FOREIGN, sql.col("at")).otherwise(sql.col("home_at")),
    )
    level = sql.coalesce("level", sql.lit(NO_LEVEL))
    alone = _row(
        held.filter(sql.col("vnid").isNull()),
        SELF,
        derived=sql.col("derived"),
        home=sql.col("home"),
        owned=sql.col("owned"),
        lowest=level,
        highest=level,
    )
    inside = (
        held.filter(sql.col("vnid").isNotNull())
        .groupBy("derived")
        .agg(
            sql.collect_list("number").alias("components"),
            sql.collect_list("home").alias("homes"),
            sql.max("owned").alias("owned"),
            sql.min(level).alias("lowest"),
            sql.max(level).alias("highest"),
        )
    )
    names = ("derived", "components", "homes", "owned", "lowest", "highest")
    return alone.unionByName(_row(inside, SELF, **{name: sql.col(name) for name in names}))


def _sets(tables: Tables) -> DataFrame:
    known = tables.ancestors.filter(sql.col("derived").isNotNull())
    return _row(known, SET, derived=sql.col("derived"), tail=sql.col("derived"))


def _arcs(tables: Tables) -> DataFrame:
    names = ("cost", "parent_rank", "child_rank", "parent", "child")
    return _row(
        tables.arcs.filter(is_entering()),
        ARC,
        derived=sql.col("child_derived"),
        home=sql.coalesce("parent_home_at", sql.lit(UNKNOWN)),
        owned=sql.coalesce("child_owned", sql.lit(False)),
        tail=sql.coalesce("parent_derived", sql.lit(NOWHERE)),
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
    """Stored records, where the child is homed."""
    stored = tables.rd_records.filter("origin = 'stored' and parent_there is not null and derived_there is not null")
    minimal = sql.explode(sql.arrays_zip("minimal", "minimal_there")).alias("each")
    each = stored.select("parent_there", "child_there", "derived_there", minimal)
    return _row(
        each,
        RECORD,
        derived=sql.col("derived_there"),
        parent=sql.col("parent_there"),
        child=sql.col("child_there"),
        tail=sql.coalesce("each.minimal_there", sql.lit(NOWHERE)),
        minimal=sql.col("each.minimal"),
    )


def _computed(tables: Tables) -> DataFrame:
    computed = tables.rd_records.filter((sql.col("origin") == "computed") & sql.col("child_derived").isNotNull())
    names = ("parent", "child", "blocked")
    return _row(computed, RECORD, derived=sql.col("child_derived"), **{name: sql.col(name) for name in names})
