"""A delivery log, where there is one: each message comes to each member once, to nobody else, and in the promised order.

Why local implies global: who should get a message is a question to each member's own ancestor set, whether the group it
was sent to is in it; and an order is kept everywhere where it is kept between each two neighbours at each receiver.

Source: NG 6.6; protocol.md sections 2 and 8.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyroaring import BitMap
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from spark_graph_jobs.finding import FINDING, Severity
from spark_graph_jobs.tables import NUMBERS_OF_SERVER, Tables
from spark_graph_jobs.trouble import FINDINGS_LIMIT

AUDIT: Final = "deliveries"

_MEMBERS: Final = T.StructType(
    [T.StructField("originator_local", T.LongType()), T.StructField("member_derived", T.LongType())]
)


def audit(tables: Tables) -> DataFrame:
    """Findings about what was delivered twice, not, to others, or out of order; none where there is no log."""
    log = tables.deliveries
    if log is None:
        return tables.nodes.sparkSession.createDataFrame([], FINDING)
    given = log.filter("received_as is not null")
    duplicates = given.groupBy("message", "receiver").agg(F.count("*").alias("times")).filter("times > 1")
    times = F.format_string("was delivered %d times to one receiver", "times")
    expected = _expected(tables, log)
    lost = expected.join(given, ["message", "receiver"], "left_anti")
    strangers = given.join(expected.select("message", "receiver"), ["message", "receiver"], "left_anti")
    findings = [
        _findings(duplicates, times),
        _findings(lost, F.lit("was not delivered to a member")),
        _findings(strangers, F.lit("was delivered to one who is no member")),
        _findings(_out_of_order(given, "place", []), F.lit("came out of the one order of all messages")),
        _findings(_out_of_order(given, "sent_as", ["sender"]), F.lit("came out of its sender's order")),
    ]
    union = findings[0]
    for frame in findings[1:]:
        union = union.unionByName(frame)
    return union


def _out_of_order(given: DataFrame, order: str, also_by: list[str]) -> DataFrame:
    """What came to a receiver after something that belongs behind it."""
    received = Window.partitionBy("receiver", *also_by).orderBy("received_as")
    behind = given.filter(F.col(order).isNotNull()).withColumn("before", F.lag(order).over(received))
    return behind.filter(F.col("before") > F.col(order))


def _findings(frame: DataFrame, message: Column) -> DataFrame:
    return frame.limit(FINDINGS_LIMIT).select(
        F.lit(AUDIT).alias("audit"),
        F.lit(Severity.ERROR.value).alias("severity"),
        F.col("message").alias("subject"),
        message.alias("message"),
        F.array(F.concat(F.lit("receiver: "), "receiver")).alias("evidence"),
        F.lit("").alias("fix"),
    ).select(*FINDING.names)


def _expected(tables: Tables, log: DataFrame) -> DataFrame:
    """message, originator, receiver: who should get each message, by the ancestor sets of processes."""
    messages = log.select("message", "originator").distinct()
    sent_to = messages.select(F.xxhash64("originator").alias("key")).distinct()
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

    processes = tables.nodes.filter("owned and kind = 'process'").select("derived", F.col("id").alias("receiver"))
    sets = tables.ancestors.join(processes.select("derived"), "derived", "left_semi").select("derived", "ancestors")
    members = sets.mapInArrow(of_partition, _MEMBERS).join(
        processes.withColumnRenamed("derived", "member_derived"), "member_derived"
    )
    named = tables.nodes.select(F.col("local").alias("originator_local"), F.col("id").alias("originator"))
    # A foreign process is known to several servers, and may be told of by each.
    pairs = members.join(named, "originator_local").select("originator", "receiver").distinct()
    return messages.join(pairs, "originator")
