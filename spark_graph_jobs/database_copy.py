"""`python -m spark_graph_jobs.database_copy`: tables of PostgreSQL databases as Parquet, by Spark's JDBC source.

    one session exports what it sees -> the transaction of each task begins with just that, and reads a range of a table

So all ranges of all tables are of one instant, although each is read over a connection of its own; the databases go on
meanwhile. What the tables mean is not known here: they are copied as they are.

Standard input has a `CopyRequest` of each database, as a JSON list: they hold passwords, which arguments would show. A
line of JSON for each is printed in the end: `{"folder", "failure"}`, where `failure` is one line, or null.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_graph_jobs.results import Verdict
from spark_graph_jobs.spark.jars import Jars, NoJar, Package, jar_settings, look_for
from spark_graph_jobs.spark.session import start

DRIVER: Final = "org.postgresql.Driver"

PACKAGE: Final = Package("org.postgresql:postgresql:42.7.7")

ROWS_OF_RANGE: Final = 100_000
"""Numbers of a range's column that one task reads."""

RANGES_LIMIT: Final = 16
"""Connections that one table may take at once, which PostgreSQL has about a hundred of."""

FETCHED_ROWS: Final = 20_000
"""Rows that come over a connection at once. Spark reads within a transaction where this is set, else it does not."""


@dataclass(frozen=True, slots=True)
class CopyRequest:
    """One database, and where its tables go: into a folder of Parquet files each."""

    url: str
    """`jdbc:postgresql://...`"""
    properties: Mapping[str, str]
    """User, password and what else a connection takes."""
    tables: Mapping[str, str | None]
    """Of each table the column of whole numbers by which it is cut into ranges; None: it is read as one."""
    folder: str


def find_driver() -> Jars | NoJar:
    """The jar of PostgreSQL's JDBC driver."""
    return look_for(PACKAGE) or NoJar(
        f"no JDBC driver of PostgreSQL: {PACKAGE.coordinates} is neither in a local Maven repository nor in Maven"
        " Central; put its jar among those of Spark, or read without --jdbc"
    )


def copy_database(spark: SparkSession, request: CopyRequest, *, at_instant: Callable[[], None] = lambda: None) -> None:
    """Copy all tables as of one instant; `at_instant` is called when that is chosen and nothing is read yet."""
    with _exported_instant(spark, request) as (instant, ranges):
        at_instant()
        options = {
            **request.properties,
            "url": request.url,
            "driver": DRIVER,
            "fetchsize": str(FETCHED_ROWS),
            "sessionInitStatement": _begin_at(instant),
        }
        for table, column in request.tables.items():
            reader = spark.read.format("jdbc").options(**options).option("dbtable", table)
            bounds = ranges.get(table)
            if column is not None and bounds is not None:
                least, greatest = bounds
                count = min(RANGES_LIMIT, 1 + (greatest - least) // ROWS_OF_RANGE)
                reader = reader.option("partitionColumn", column).option("numPartitions", str(count))
                reader = reader.option("lowerBound", str(least)).option("upperBound", str(greatest + 1))
            reader.load().write.mode("overwrite").parquet(str(Path(request.folder, table)))


def _begin_at(instant: str) -> str:
    """What a transaction says first; outside of a transaction PostgreSQL refuses it."""
    return f"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY; SET TRANSACTION SNAPSHOT '{instant}'"


@contextmanager
def _exported_instant(
    spark: SparkSession, request: CopyRequest
) -> Iterator[tuple[str, dict[str, tuple[int, int] | None]]]:
    """The name of an instant, there as long as this lasts; and the least and greatest number of each ranged column."""
    connection = _connect(spark, request)
    try:
        connection.setAutoCommit(False)
        statement = connection.createStatement()
        statement.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        found = statement.executeQuery("SELECT pg_export_snapshot()")
        found.next()
        instant = found.getString(1)
        ranges = {}
        for table, column in request.tables.items():
            if column is not None:
                found = statement.executeQuery(f"SELECT min({column}), max({column}) FROM {table}")  # noqa: S608  (our own names)
                found.next()
                least = found.getObject(1)
                ranges[table] = None if least is None else (int(least), int(found.getObject(2)))
        yield instant, ranges
    finally:
        connection.close()


def _connect(spark: SparkSession, request: CopyRequest) -> Any:
    """A connection of the driver's own. Java's `DriverManager` would not see a driver that Spark has loaded."""
    java = spark.sparkContext._jvm
    assert java is not None
    properties = java.java.util.Properties()
    for name, value in request.properties.items():
        properties.setProperty(name, value)
    loader = java.Thread.currentThread().getContextClassLoader()
    driver = loader.loadClass(DRIVER).newInstance()
    return driver.connect(request.url, properties)


def main() -> int:
    """Copy what standard input asks for; status 4 where nothing could be tried, with one line that says why."""
    requests = [CopyRequest(**one) for one in json.load(sys.stdin)]
    jar = find_driver()
    if isinstance(jar, NoJar):
        print(jar.reason, file=sys.stderr)  # noqa: T201
        return Verdict.FAILED
    # A few tasks that wait for databases: it need not be tuned for the size of graphs.
    spark = start(master="local[*]", more=jar_settings(jar))
    try:
        for request in requests:
            print(json.dumps({"folder": request.folder, "failure": _failure_of(spark, request)}))  # noqa: T201
    finally:
        spark.stop()
    return 0


def _failure_of(spark: SparkSession, request: CopyRequest) -> str | None:
    try:
        copy_database(spark, request)
    except (Py4JError, PySparkException) as error:
        return _reason(error)
    return None


def _reason(error: Exception) -> str:
    """What PostgreSQL or its driver says, without the names of Java's classes around it."""
    lines = str(error).splitlines() or [type(error).__name__]
    said = next((line for line in lines if "PSQLException:" in line), lines[0])
    return said.rpartition("PSQLException:")[2].strip()


if __name__ == "__main__":
    sys.exit(main())
