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
"""Enough for half a million arcs over five servers, and for ten million that spill to disk."""

ROWS_OF_PARTITION: Final = 400_000
"""Rows of arcs in one partition of a shuffle: a sort of so many stays in memory."""

PARTITIONS_LIMIT: Final = 400

SMALL: Final = 200_000
"""Rows of arcs below which it costs more than it saves to have Spark write code for each query."""

TINY: Final = 50_000
"""Rows of arcs below which that holds for the code of each expression too, and one thread clears Java's memory."""

MEDIUM: Final = 5_000_000
"""Rows of arcs below which Java's second compiler takes longer than what it makes faster: each query is new code."""

ROWS_OF_ARROW_BATCH: Final = 20_000
"""Rows that cross to Python at once; a row may bring an ancestor set of some kilobytes."""

NO_LIMIT: Final = 2**31 - 1
"""Bytes that cross at once. With any other limit Spark counts them anew for each row, all rows before it included where
a column is a list: that took longer than all else."""

_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""Set by `spark-submit`, which then also knows the master and has started the driver's Java."""

LOGGING: Final = Path(__file__).with_name("log4j2.properties")


def start(
    *, master: str | None, memory: str = DRIVER_MEMORY, arcs: int = 0, more: Mapping[str, str] | None = None
) -> SparkSession:
    """Start Spark, or take the session that `spark-submit` has started.

    `arcs`: about how many rows of arcs there are, which decides how finely work is cut. `master` None: as Spark was
    told, or all cores of this machine. `more`: settings beside those of here, such as the jar of an engine.
    """
    # Where pandas is newer than it knows, PySpark says so on every start; nothing here uses pandas.
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("shadowtree audit")
    if master is not None:
        builder = builder.master(master)
    is_submitted = _SUBMITTED in os.environ
    if master.startswith("local") if master is not None else not is_submitted:
        # One machine needs no name that others can resolve.
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
    """Into how many parts a shuffle of so many rows is cut."""
    cores = os.cpu_count() or 1
    return min(PARTITIONS_LIMIT, max(cores, arcs // ROWS_OF_PARTITION))
