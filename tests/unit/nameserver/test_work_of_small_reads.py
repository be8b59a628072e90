"""The work of one small read, counted in calls of functions of the project, which no load of the machine changes."""

import pytest

from nameserver.calls.arriving import Arriving
from nameserver.calls.home_dispatch import NAME_SERVICE
from nameserver.calls.places import Places, RequestBytes, admitted_shortly, guarded
from nameserver.name_service import CHUNKED_METHODS, name_service_handlers, short_ways
from nameserver.telemetry.calls_under_way import CallsUnderWay
from nameserver.telemetry.metrics import Metrics
from tests.counted_work import calls_by_package
from tests.fakes import name_servers
from tests.fakes.name_servers import NameServers

A = "a.example"
GROUP, ANN, BOB = f"g@{A}", f"ann@{A}", f"bob@{A}"

CLIENT = {"shadowtree"}
SERVER = {"nameserver", "resolver", "namegraph"}

READS = {
    "resolve": lambda client: client.resolve(GROUP),
    "check": lambda client: client.check(GROUP, ANN),
    "memberships": lambda client: client.memberships(ANN),
}
"""Reads of a group with two members, at a server without peers."""

LIMITS = {"resolve": (66, 114), "check": (57, 64), "memberships": (59, 112)}
"""Limits on the calls of the client and of the server: 5 % above what the reads took when this was written.

A resolution that looked up its plan twice, behind guards made of generators, took 104 and 153.
"""

TRIES = 5
"""Number of counted reads. The one with the fewest calls counts: the server may do other work during a read."""


@pytest.fixture
def handlers_of_a_server(monkeypatch):
    """Serve the calls behind the guards and the metrics of a server."""

    def handlers(**built):
        places, request_bytes, calls = Places(10), RequestBytes(), CallsUnderWay()
        calls.followers.append(Metrics().of_method)
        of_short_ways = {name: built[name] for name in ("core", "resolver", "directory")}
        at_once = {
            name: admitted_shortly(way, places=places, request_bytes=request_bytes)
            for name, way in short_ways(**of_short_ways).items()
        }
        found = guarded(
            name_service_handlers(**built), places=places, request_bytes=request_bytes, chunked=CHUNKED_METHODS
        )
        return Arriving().handlers(calls.followed(NAME_SERVICE, found, at_once))

    monkeypatch.setattr(name_servers, "name_service_handlers", handlers)


@pytest.mark.parametrize("name", READS)
async def test_a_small_read_takes_few_calls(handlers_of_a_server, name):
    read, counts = READS[name], []
    async with NameServers(A) as servers:
        server = servers[A]
        await server.client.create_group(GROUP)
        for member in (ANN, BOB):
            await server.client.join(GROUP, member)
        await server.run_loop.until_durable()
        await read(server.client)
        for _ in range(TRIES):
            with calls_by_package() as count:
                await read(server.client)
            counts.append(tuple(sum(count[package] for package in side) for side in (CLIENT, SERVER)))
    by_client, by_server = min(counts, key=sum)
    most_by_client, most_by_server = LIMITS[name]
    assert 0 < by_client <= most_by_client
    assert 0 < by_server <= most_by_server
