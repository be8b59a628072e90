"""One pass of Python over a DataFrame, a group of rows at a time, for any number of groups.

Spark's own grouped functions restart for each group, which costs a millisecond. Here a partition is sorted by group and
read in Arrow batches. A group may span two batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, types
from pyspark.sql.pandas.types import to_arrow_schema

Row = tuple[Any, ...]
"""Values of a row, in the order of the requested columns. The first value names the group."""

Check = Callable[[Sequence[Row]], Iterable[Row]]
"""Function from the rows of one group, in their order, to rows of the result."""

ROWS_OF_RESULT_BATCH: Final = 5_000


def by_group(frame: DataFrame, columns: Sequence[str], *, ordered_by: int) -> DataFrame:
    """Bring the rows of one group together, sorted by the first `ordered_by` columns.

    The first column names the group.
    """
    return frame.select(*columns).repartition(columns[0]).sortWithinPartitions(*columns[:ordered_by])


def check_groups(grouped: DataFrame, of_task: Callable[[], Check], result: types.StructType) -> DataFrame:
    """Apply a check to each group of a DataFrame that `by_group` made, and collect the results.

    `of_task` makes the check once in each task, so that the check may cache data across groups.
    """
    schema = to_arrow_schema(result)

    def of_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        check = of_task()
        found: list[Row] = []
        for _, rows in groupby(_rows(batches), key=itemgetter(0)):
            found += check(list(rows))
            if len(found) >= ROWS_OF_RESULT_BATCH:
                yield _batch(found, schema)
                found = []
        if found:
            yield _batch(found, schema)

    return grouped.mapInArrow(of_partition, result)


def _rows(batches: Iterator[pa.RecordBatch]) -> Iterator[Row]:
    for batch in batches:
        yield from zip(*(_values(column) for column in batch.columns), strict=True)


def _values(column: pa.Array) -> list[Any]:
    if column.null_count == 0 and (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        values: list[Any] = column.to_numpy(zero_copy_only=False).tolist()  # several times faster
        return values
    if column.null_count == len(column):
        return [None] * len(column)
    return list(column.to_pylist())


def _batch(rows: Sequence[Row], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)], schema=schema
    )
