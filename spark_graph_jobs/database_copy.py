"""`python -m spark_graph_jobs.database_copy`: copy tables of PostgreSQL databases to Parquet with Spark's JDBC source.

    one session exports what it sees -> the transaction of each task begins with just that, and reads a range of a table

All ranges of all tables therefore show one instant, although each range is read over its own connection. The databases
stay in use meanwhile. This module does not interpret the tables: it copies them unchanged.

Standard input holds a `CopyRequest` for each database, as a JSON list: requests contain passwords, which arguments
would expose. The program prints one line of JSON for each: `{"folder", "failure"}`, where `failure` is one line, or
null.
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
"""Maximum number of connections for one table. PostgreSQL allows about a hundred in all."""

FETCHED_ROWS: Final = 20_000
"""Number of rows fetched at once over a connection. Spark reads within a transaction only if this is set."""


@dataclass(frozen=True, slots=True)
class CopyRequest:
    """One database, and the folder for its tables: a folder of Parquet files for each table."""

    url: str
    """`jdbc:postgresql://...`"""
    properties: Mapping[str, str]
    """User, password and other connection properties."""
    tables: Mapping[str, str | None]
    """Tables, each with the integer column that cuts it into ranges. None: the table is read as one range."""
    folder: str


def find_driver() -> Jars | NoJar:
    """Return the jar of PostgreSQL's JDBC driver."""
    return look_for(PACKAGE) or NoJar(
        f"no JDBC driver of PostgreSQL: {PACKAGE.coordinates} is neither in a local Maven repository nor in Maven"
        " Central; put its jar among those of Spark, or read without --jdbc"
    )


def copy_database(spark: SparkSession, request: CopyRequest, *, at_instant: Callable[[], None] = lambda: None) -> None:
    """Copy all tables as of one instant; call `at_instant` after the instant is chosen and before the first read."""
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
    """Return the first statement of a transaction. PostgreSQL refuses it outside of a transaction."""
    return f"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY; SET TRANSACTION SNAPSHOT '{instant}'"


@contextmanager
def _exported_instant(
    spark: SparkSession, request: CopyRequest
) -> Iterator[tuple[str, dict[str, tuple[int, int] | None]]]:
    """Yield the name of an exported instant, and the least and greatest number of each ranged column.

    The instant exists as long as this context.
    """
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
    """Open a connection with the driver itself: Java's `DriverManager` cannot see a driver that Spark has loaded."""
    java = spark.sparkContext._jvm
    assert java is not None
    properties = java.java.util.Properties()
    for name, value in request.properties.items():
        properties.setProperty(name, value)
    loader = java.Thread.currentThread().getContextClassLoader()
    driver = loader.loadClass(DRIVER).newInstance()
    return driver.connect(request.url, properties)


def main() -> int:
    """Copy the databases of standard input; return 4, with the reason on one line, if no copy could be tried."""
    requests = [CopyRequest(**one) for one in json.load(sys.stdin)]
    jar = find_driver()
    if isinstance(jar, NoJar):
        print(jar.reason, file=sys.stderr)  # noqa: T201
        return Verdict.FAILED
    # Few tasks run here, and they wait for databases, so the session is not tuned for large graphs.
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
    """Return the message of PostgreSQL or its driver, without the names of Java's classes around it."""
    lines = str(error).splitlines() or [type(error).__name__]
    said = next((line for line in lines if "PSQLException:" in line), lines[0])
    return said.rpartition("PSQLException:")[2].strip()


if __name__ == "__main__":
    sys.exit(main())
