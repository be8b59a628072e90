"""One Spark session for all tests of the audit: starting one takes ten seconds."""

import pytest

from spark_graph_jobs.engines.choice import jar_settings
from spark_graph_jobs.engines.jar import NoJar, find_jar
from spark_graph_jobs.session import start


@pytest.fixture(scope="session")
def jar():
    """The jar of GraphFrames, or why there is none."""
    return find_jar(None)


@pytest.fixture(scope="session")
def spark(jar):
    """A session on two threads, with GraphFrames where its jar can be had."""
    session = start(master="local[2]", memory="2g", more=jar_settings(jar))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def needs_graphframes(jar):
    """For what only GraphFrames can do: it is not run, and named at the end, where its jar cannot be had."""
    if isinstance(jar, NoJar):
        pytest.skip(jar.reason)
