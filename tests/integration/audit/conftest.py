"""One Spark session for all tests of the audit: starting one takes ten seconds."""

from dataclasses import dataclass

import pytest

from spark_graph_jobs import __main__ as program
from spark_graph_jobs.database_copy import find_driver
from spark_graph_jobs.engines.graphframes_jar import find_jars
from spark_graph_jobs.spark.jars import NoJar, jar_settings
from spark_graph_jobs.spark.session import start


@pytest.fixture(scope="session")
def jars():
    """The jars of GraphFrames, or the reason why there are none."""
    return find_jars([])


@pytest.fixture(scope="session")
def driver_jar():
    """The jar of PostgreSQL's driver, or the reason why there is none."""
    return find_driver()


@pytest.fixture(scope="session")
def spark(jars, driver_jar):
    """A session on two threads, with GraphFrames and PostgreSQL's driver if their jars are available."""
    session = start(master="local[2]", memory="2g", more=jar_settings(jars, driver_jar))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def needs_graphframes(jars):
    """Skip tests of GraphFrames without its jars. They are named at the end."""
    if isinstance(jars, NoJar):
        pytest.skip(jars.reason)


@pytest.fixture(scope="session")
def needs_driver(driver_jar):
    """Skip tests of Spark's JDBC source without the driver. They are named at the end."""
    if isinstance(driver_jar, NoJar):
        pytest.skip(driver_jar.reason)


@dataclass(frozen=True)
class Ended:
    """Exit status and output of a run of the program."""

    status: int
    stdout: str
    stderr: str


@pytest.fixture
def audit_here(spark, monkeypatch, capsys):
    """`python -m spark_graph_jobs` in this process, and in the session of all tests."""
    monkeypatch.setattr(program, "start", lambda **_: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)

    def audit(*arguments):
        status = program.main([str(argument) for argument in arguments])
        return Ended(status, *capsys.readouterr())

    return audit
