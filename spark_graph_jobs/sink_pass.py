"""One pass over all sinks, in which each is judged for its ancestors and for what is delivered over which arc.

It is the dearest part of an audit, nearly all of it sorting and reading ancestor sets; so both audits have it in
common.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from pyspark.sql import DataFrame, types

from spark_graph_jobs import ancestry, exactly_once
from spark_graph_jobs.grouped import Row, check_groups
from spark_graph_jobs.sinks import gather, read_sink
from spark_graph_jobs.tables import Tables
from spark_graph_jobs.trouble import TROUBLE

JUDGED: Final = types.StructType([*TROUBLE.fields, types.StructField("audit", types.StringType())])


def judge(tables: Tables) -> DataFrame:
    """Troubles of every derived node at every server, each with the name of the audit that found it."""
    has_computed = tuple(snapshot.has_computed_records for snapshot in tables.servers)
    return check_groups(gather(tables), partial(judge_sink, has_computed=has_computed), JUDGED)


def judge_sink(rows: Sequence[Row], *, has_computed: Sequence[bool]) -> Iterator[Row]:
    """What is wrong with one derived node and what enters it."""
    sink = read_sink(rows)
    for trouble in ancestry.judge_set(sink):
        yield (*trouble, ancestry.AUDIT)
    for trouble in exactly_once.judge_sink(sink, has_computed=has_computed):
        yield (*trouble, exactly_once.AUDIT)
