"""One pass over all sinks, in which each is judged for its ancestors and for what is delivered over which arc.

It is the dearest part of an audit, nearly all of it sorting and reading ancestor sets; so both audits have it in
common.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from pyroaring import BitMap
from pyspark.sql import DataFrame

from spark_graph_jobs import ancestry, exactly_once
from spark_graph_jobs.grouped import Check, Row, check_groups
from spark_graph_jobs.set_files import open_sets
from spark_graph_jobs.sinks import gather, read_sink
from spark_graph_jobs.tables import Tables
from spark_graph_jobs.trouble import JUDGED


def judge(tables: Tables) -> DataFrame:
    """Troubles of every derived node at every server, each with the name of the audit that found it."""
    has_computed = tuple(snapshot.has_computed_records for snapshot in tables.servers)
    folder = tables.work.sets

    def of_task() -> Check:
        return partial(judge_sink, set_of=open_sets(folder), has_computed=has_computed)

    return check_groups(gather(tables), of_task, JUDGED)


def judge_sink(
    rows: Sequence[Row], *, set_of: Callable[[int], BitMap | None], has_computed: Sequence[bool]
) -> Iterator[Row]:
    """What is wrong with one derived node and what enters it."""
    sink = read_sink(rows, set_of)
    for trouble in ancestry.judge_set(sink):
        yield (*trouble, ancestry.AUDIT)
    for trouble in exactly_once.judge_sink(sink, has_computed=has_computed):
        yield (*trouble, exactly_once.AUDIT)
