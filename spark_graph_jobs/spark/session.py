"""The Spark session of an audit: the same settings on a laptop, under `spark-submit` and in tests."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

DRIVER_MEMORY: Final = "4g"
"""Memory of the driver: enough for half a million arcs over five servers, and for ten million that spill to disk."""

ROWS_OF_PARTITION: Final = 400_000
"""Rows of arcs in one partition of a shuffle. A sort of so many rows stays in memory."""

PARTITIONS_LIMIT: Final = 400

SMALL: Final = 200_000
"""Rows of arcs below which Spark's code generation for each query costs more than it saves."""

TINY: Final = 50_000
"""Rows of arcs below which code generation for expressions costs more too, and one thread collects Java's garbage."""

MEDIUM: Final = 5_000_000
"""Rows of arcs below which Java's second compiler costs more than it saves, because each query is new code."""

ROWS_OF_ARROW_BATCH: Final = 20_000
"""Rows sent to Python at once. A row may contain an ancestor set of some kilobytes."""

NO_LIMIT: Final = 2**31 - 1
"""Bytes sent at once. With any other limit Spark counts the bytes anew for each row.

For a list column this count includes all rows before, which took longer than all other work.
"""

_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""Variable that `spark-submit` sets. `spark-submit` then also knows the master and has started the driver's Java."""

LOGGING: Final = Path(__file__).with_name("log4j2.properties")


def start(
    *, master: str | None, memory: str = DRIVER_MEMORY, arcs: int = 0, more: Mapping[str, str] | None = None
) -> SparkSession:
    """Start Spark, or take the session that `spark-submit` has started.

    `arcs`: approximate number of rows of arcs, which decides the number of partitions. `master` None: the master of
    Spark's configuration, or all cores of this machine. `more`: further settings, such as the jar of an engine.
    """
    # PySpark warns about newer versions of pandas on every start; this program does not use pandas.
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("shadowtree audit")
    if master is not None:
        builder = builder.master(master)
    is_submitted = _SUBMITTED in os.environ
    if master.startswith("local") if master is not None else not is_submitted:
        # One machine needs no host name that other machines can resolve.
        builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    settings = {
        "spark.driver.memory": memory,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(partitions_for(arcs)),
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(ROWS_OF_ARROW_BATCH),
        "spark.sql.execution.arrow.maxBytesPerBatch": str(NO_LIMIT),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.inMemoryColumnarStorage.batchSize": "5000",
    }
    java = [f"-Dlog4j2.configurationFile={LOGGING.as_uri()}"]
    if arcs < MEDIUM:
        java.append("-XX:TieredStopAtLevel=1")
    if arcs < SMALL:
        settings["spark.sql.codegen.wholeStage"] = "false"
    if arcs < TINY:
        settings["spark.sql.codegen.factoryMode"] = "NO_CODEGEN"
        java.append("-XX:+UseSerialGC")
    settings["spark.driver.extraJavaOptions"] = " ".join(java)
    for name, value in {**settings, **(more or {})}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def partitions_for(arcs: int) -> int:
    """Return the number of partitions for a shuffle of so many rows of arcs."""
    cores = os.cpu_count() or 1
    return min(PARTITIONS_LIMIT, max(cores, arcs // ROWS_OF_PARTITION))
