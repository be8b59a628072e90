"""One Spark session for all tests of the audit: starting one takes ten seconds."""

from dataclasses import dataclass

import pytest

from spark_graph_jobs import __main__ as program
from spark_graph_jobs.database_copy import find_driver
from spark_graph_jobs.engines.graphframes_jar import find_jar
from spark_graph_jobs.spark.jars import Jar, NoJar
from spark_graph_jobs.spark.session import start


@pytest.fixture(scope="session")
def jar():
    """The jar of GraphFrames, or why there is none."""
    return find_jar(None)


@pytest.fixture(scope="session")
def driver_jar():
    """The jar of PostgreSQL's driver, or why there is none."""
    return find_driver()


@pytest.fixture(scope="session")
def spark(jar, driver_jar):
    """A session on two threads, with GraphFrames and PostgreSQL's driver where their jars can be had."""
    jars = [str(one.path) for one in (jar, driver_jar) if isinstance(one, Jar)]
    session = start(master="local[2]", memory="2g", more={"spark.jars": ",".join(jars)})
    yield session
    session.stop()


@pytest.fixture(scope="session")
def needs_graphframes(jar):
    """For what only GraphFrames can do: it is not run, and named at the end, where its jar cannot be had."""
    if isinstance(jar, NoJar):
        pytest.skip(jar.reason)


@pytest.fixture(scope="session")
def needs_driver(driver_jar):
    """The same for what only Spark's JDBC source can do."""
    if isinstance(driver_jar, NoJar):
        pytest.skip(driver_jar.reason)


@dataclass(frozen=True)
class Ended:
    """How a run of the program ended, and what it said."""

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
