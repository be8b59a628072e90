"""One Spark session for all tests of the audit: starting one takes ten seconds."""

import os
import sys
import warnings

import pytest
from pyspark.sql import SparkSession

from spark_graph_jobs.engines.choice import jar_settings
from spark_graph_jobs.engines.jar import NoJar, find_jar


@pytest.fixture(scope="session")
def jar():
    """The jar of GraphFrames, or why there is none."""
    return find_jar(None)


@pytest.fixture(scope="session")
def spark(jar):
    """A session on two threads of this process, with GraphFrames where its jar can be had."""
    # Spark's Python processes are to be this one, not whatever is first on the path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").appName("tests of the audit")
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.driver.memory": "2g",
        # For small data: making code fast costs more than it saves.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.sql.codegen.wholeStage": "false",
        **jar_settings(jar),
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # PySpark 4.3 warns of pandas 3
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def needs_graphframes(jar):
    """For tests that only GraphFrames can do: they are not run, and named at the end, where its jar cannot be had."""
    if isinstance(jar, NoJar):
        pytest.skip(jar.reason)
