"""Servers that a test starts are gone when it ends."""

import pytest

from tests.integration.nameserver.server_process import ServerProcess


@pytest.fixture
def start(tmp_path):
    """Start servers on a database of this test."""
    started = []

    def start_server(database=tmp_path / "names.db", **settings):
        server = ServerProcess(database, **settings)
        started.append(server)
        return server

    yield start_server
    for server in started:
        server.close()


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory):
    """One server for all tests of a module that only differ in the groups they use."""
    server = ServerProcess(tmp_path_factory.mktemp("shared") / "names.db", peers=["s.t=127.0.0.1:7401"])
    yield server
    server.close()


@pytest.fixture
def names(shared_server):
    return shared_server.names
