"""Audit of a delivery log, if there is one: each message reaches each member once, no other process, and in order.

Why local implies global: each member's own ancestor set tells whether the member should get a message: it contains the
group that the message was sent to. An order holds everywhere if it holds between each two neighbours at each receiver.

Source: NG 6.6; docs/protocol.md, "The invariants"; docs/protocol-updates.md, "Every duplicate is blocked in advance".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyroaring import BitMap
from pyspark.sql import Column, DataFrame, Window, types
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import to_arrow_schema

from spark_graph_jobs.compare.violations import texts_in_trouble
from spark_graph_jobs.snapshot.node_arrays import NUMBERS_OF_SERVER
from spark_graph_jobs.snapshot.tables import Tables

AUDIT: Final = "deliveries"
CHECKS: Final = "Each message of the delivery log came once to each member, to nobody else, and in order."

_MEMBERS: Final = types.StructType(
    [types.StructField("originator_local", types.LongType()), types.StructField("member_derived", types.LongType())]
)


def audit(tables: Tables, log: DataFrame) -> DataFrame:
    """Return messages that were delivered twice, not delivered, delivered to other processes, or out of order."""
    given = log.filter("received_as is not null")
    duplicates = given.groupBy("message", "receiver").agg(sql.count("*").alias("times")).filter("times > 1")
    times = sql.format_string("was delivered %d times to one receiver", "times")
    expected = _expected(tables, log)
    lost = expected.join(given, ["message", "receiver"], "left_anti")
    strangers = given.join(expected.select("message", "receiver"), ["message", "receiver"], "left_anti")
    if not tables.is_whole:
        strangers = strangers.filter(_is_homed_here(tables))
    troubles = [
        _troubles(duplicates, times),
        _troubles(lost, sql.lit("was not delivered to a member")),
        _troubles(strangers, sql.lit("was delivered to one who is no member")),
        _troubles(_out_of_order(given, "place", []), sql.lit("came out of the one order of all messages")),
        _troubles(_out_of_order(given, "sent_as", ["sender"]), sql.lit("came out of its sender's order")),
    ]
    union = troubles[0]
    for frame in troubles[1:]:
        union = union.unionByName(frame)
    return union


def _is_homed_here(tables: Tables) -> Column:
    """Return a condition: the home of the receiver was read. A foreign process may be a member at any server."""
    subnets = [subnet for snapshot in tables.servers for subnet in snapshot.subnets]
    return sql.substring_index("receiver", "@", -1).isin(subnets)


def _out_of_order(given: DataFrame, order: str, also_by: list[str]) -> DataFrame:
    """Return the messages that a receiver got after a message that should follow them."""
    received = Window.partitionBy("receiver", *also_by).orderBy("received_as")
    behind = given.filter(sql.col(order).isNotNull()).withColumn("before", sql.lag(order).over(received))
    return behind.filter(sql.col("before") > sql.col(order))


def _troubles(frame: DataFrame, message: Column) -> DataFrame:
    """Convert each row of `frame` to a trouble of one message at one receiver."""
    texts = sql.array("message", sql.concat(sql.lit("receiver: "), sql.col("receiver")))
    return texts_in_trouble(frame, message, texts)


def _expected(tables: Tables, log: DataFrame) -> DataFrame:
    """Return rows message, originator, receiver: the required deliveries by the ancestor sets of processes."""
    messages = log.select("message", "originator").distinct()
    sent_to = messages.select(sql.xxhash64("originator").alias("key")).distinct()
    groups = tables.nodes.select("key", "local", "at").join(sent_to, "key")
    wanted = {row["local"] for row in groups.select("local").collect()}
    by_server: dict[int, BitMap] = {}
    for local in wanted:
        by_server.setdefault(local // NUMBERS_OF_SERVER, BitMap()).add(local % NUMBERS_OF_SERVER)
    schema = to_arrow_schema(_MEMBERS)

    def of_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found: list[tuple[int, int]] = []
            for derived, numbers in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
                place = derived // NUMBERS_OF_SERVER
                if place in by_server:
                    above = BitMap.deserialize(numbers) & by_server[place]
                    found += [(place * NUMBERS_OF_SERVER + number, derived) for number in above]
            columns = zip(*found, strict=True) if found else ((), ())
            yield pa.RecordBatch.from_arrays([pa.array(column, pa.int64()) for column in columns], schema=schema)

    processes = tables.nodes.filter("owned and kind = 'process'").select("derived", sql.col("id").alias("receiver"))
    sets = tables.ancestors.join(processes.select("derived"), "derived", "left_semi").select("derived", "ancestors")
    members = sets.mapInArrow(of_partition, _MEMBERS).join(
        processes.withColumnRenamed("derived", "member_derived"), "member_derived"
    )
    named = tables.nodes.select(sql.col("local").alias("originator_local"), sql.col("id").alias("originator"))
    # Several servers know a foreign process, and each of them may report a pair.
    pairs = members.join(named, "originator_local").select("originator", "receiver").distinct()
    return messages.join(pairs, "originator")
