"""Servers that a test starts are gone when it ends."""

from contextlib import ExitStack, contextmanager

import pytest

from shadowtree.cli.support.free_ports import unused_ports
from tests.integration.nameserver.server_process import ServerProcess
from tests.integration.nameserver.several_servers import SeveralServers


@contextmanager
def started_servers():
    """A function that starts servers, all of which are ended afterwards."""
    started = []

    def start_server(database, **settings):
        server = ServerProcess(database, **settings)
        started.append(server)
        return server

    try:
        yield start_server
    finally:
        for server in started:
            server.close()


@pytest.fixture
def start(tmp_path):
    """Start servers, on a database of this test if nothing else is said."""
    with started_servers() as start_server:
        yield lambda database=tmp_path / "names.db", **settings: start_server(database, **settings)


@pytest.fixture
def cluster(start, tmp_path):
    """Start name servers that know one another's addresses."""

    def start_cluster(*subnets):
        ports = dict(zip(subnets, unused_ports(len(subnets)), strict=True))

        def start_one(subnet, peers=subnets, **settings):
            return start(
                tmp_path / f"{subnet}.db",
                subnets=[subnet],
                listen=f"127.0.0.1:{ports[subnet]}",
                peers=[f"{other}=127.0.0.1:{ports[other]}" for other in peers if other != subnet],
                **settings,
            )

        return start_one

    return start_cluster


@pytest.fixture
def start_several(start, tmp_path):
    """Start one name server for each share of subnets, all of which know one another."""
    started = []

    def start_all(shares, **settings):
        servers = SeveralServers(start, tmp_path, unused_ports(len(shares)), shares, **settings)
        started.append(servers)
        return servers

    yield start_all
    for servers in started:
        servers.close()


@pytest.fixture(scope="module")
def start_shared(tmp_path_factory):
    """A function that starts servers for all tests of a module that break none of them."""
    with started_servers() as start_server, ExitStack() as closing:

        def start_all(shares):
            folder = tmp_path_factory.mktemp("several")
            servers = SeveralServers(start_server, folder, unused_ports(len(shares)), shares)
            closing.callback(servers.close)
            return servers

        yield start_all


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory):
    """One server for all tests of a module that only differ in the groups they use."""
    server = ServerProcess(tmp_path_factory.mktemp("shared") / "names.db", peers=["s.t=127.0.0.1:7401"])
    yield server
    server.close()


@pytest.fixture
def names(shared_server):
    return shared_server.names
