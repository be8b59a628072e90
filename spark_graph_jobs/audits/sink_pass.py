"""One pass over all derived nodes that checks the ancestors of each.

This pass is the most expensive part of an audit. Nearly all its time is spent sorting and reading ancestor sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from pyroaring import BitMap
from pyspark.sql import DataFrame

from spark_graph_jobs.audits import ancestry
from spark_graph_jobs.audits.sinks import gather, read_sink
from spark_graph_jobs.compare.violations import TROUBLE
from spark_graph_jobs.snapshot.set_files import open_sets
from spark_graph_jobs.snapshot.tables import Tables
from spark_graph_jobs.spark.grouped import Check, Row, check_groups


def judge(tables: Tables) -> DataFrame:
    """Return the troubles of every derived node at every server."""
    folder = tables.work.sets

    def of_task() -> Check:
        return partial(judge_sink, set_of=open_sets(folder))

    return check_groups(gather(tables), of_task, TROUBLE)


def judge_sink(rows: Sequence[Row], *, set_of: Callable[[int], BitMap | None]) -> Iterator[Row]:
    """Yield the troubles of one derived node and of the arcs into it."""
    return ancestry.judge_set(read_sink(rows, set_of))
