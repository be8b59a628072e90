"""Real faults, and the log line and metric that tell an operator of each.

docs/troubleshooting.md lists them all. `test_telemetry.py` has those of a killed server.
"""

import asyncio
import signal
import time

import grpc
import pytest

import shadowtree
from namegraph import PLAIN_TEXT_VERSION
from nameserver.session.frames import Hello, encode
from nameserver.transport.peer_streams import DialledStream
from shadowtree.cli.support.free_ports import unused_ports
from shadowtree.v1.name_service_pb2 import WatchRequest
from shadowtree.v1.name_service_pb2_grpc import NameServiceStub
from tests.integration.nameserver.server_process import wait_until
from tests.integration.nameserver.telling import all_lines_of, lines_of, scraped, value
from tests.integration.nameserver.wall_clock import WallClock

TOP = "top@a.x"
STREAMS = 300


@pytest.fixture
def telling(start_several):
    """Start two servers of which the first tells all; returns them and the address of its metrics."""

    def start_telling(environment=None, **settings):
        (port,) = unused_ports(1)
        address = f"127.0.0.1:{port}"
        servers = start_several(
            [["a.x"], ["b.x"]],
            environments=[{"SHADOWTREE_METRICS_LISTEN": address, **(environment or {})}, {}],
            log_level="info",
            log_format="json",
            **settings,
        )
        return servers, address

    return start_telling


def said(servers):
    """Return the log of the first server, once it is ended."""
    servers.processes[0].process.send_signal(signal.SIGTERM)
    return lines_of(servers.processes[0])


def wait_for_looks(metrics):
    """Wait until the log has looked at what others did: once a second."""
    looks = "shadowtree_event_loop_late_seconds_count"
    before = value(scraped(metrics), looks)
    wait_until(lambda: value(scraped(metrics), looks) > before + 60, "some seconds")


def test_a_peer_that_falls_silent(telling):
    servers, metrics = telling(acceptable_pause_seconds=1)
    with servers.stopped(1):
        wait_until(lambda: value(scraped(metrics), "shadowtree_peer_phi", peer="b.x") > 1, "doubt")
        wait_until(lambda: value(scraped(metrics), "shadowtree_peers", life="lost") == 1, "a loss")
        assert value(scraped(metrics), "shadowtree_view_servers") == 1
    lost = said(servers)["peer_lost"]
    assert lost["peer"] == "b.x"
    assert lost["why"].startswith("no heartbeat for ")


def test_a_full_disk(telling):
    servers, metrics = telling()
    client = servers.clients[0]
    with servers.full_disk(0):
        # The update came first, or the server had noticed before it.
        with pytest.raises((shadowtree.OutcomeUnknown, shadowtree.Unavailable)):
            client.create_group(TOP, request_id="once", timeout=2)
        assert value(scraped(metrics), "shadowtree_database_failing") == 1
    wait_until(lambda: value(scraped(metrics), "shadowtree_database_failing") == 0, "room on the disk")
    assert value(scraped(metrics), "shadowtree_database_troubles_total") >= 1
    lines = said(servers)
    assert lines["database_fails"]["level"] == "error"
    assert lines["update_refused"]["reason"] in ("OUTCOME_UNKNOWN", "UNAVAILABLE")
    assert lines["update_refused"]["request_id"] == "once"
    assert lines["database_writes"]["level"] == "info"


def test_a_database_that_was_moved_away(telling, tmp_path):
    servers, metrics = telling()
    servers.clients[0].create_group(TOP)
    (tmp_path / "0.db").rename(tmp_path / "elsewhere.db")
    wait_until(lambda: value(scraped(metrics), "shadowtree_database_failing") == 1, "the missing file")
    (tmp_path / "elsewhere.db").rename(tmp_path / "0.db")
    wait_until(lambda: value(scraped(metrics), "shadowtree_database_failing") == 0, "the file")
    assert "0.db" in said(servers)["database_fails"]["message"]


def test_a_wrong_clock(telling, tmp_path):
    clock = WallClock(tmp_path / "clock")
    servers, metrics = telling(environment=clock.environment)
    clock.turn(3_600)
    wait_until(lambda: value(scraped(metrics), "shadowtree_clock_jumps_total") == 1, "the jump")
    assert value(scraped(metrics), "shadowtree_time_of_day_seconds") - time.time() == pytest.approx(3_600, abs=30)
    assert said(servers)["clock_jumped"]["seconds"] == pytest.approx(3_600, abs=1)


def test_an_event_loop_that_stood_still(telling):
    servers, metrics = telling()
    late = "shadowtree_event_loop_late_seconds_bucket"
    with servers.stopped(0):
        begun = time.monotonic()
        wait_until(lambda: time.monotonic() - begun > 1.5, "a pause")

    def count_of_long_looks():
        found = scraped(metrics)
        return value(found, late, le="+Inf") - value(found, late, le="1.0")

    wait_until(lambda: count_of_long_looks() == 1, "the look that was late")
    assert said(servers)["loop_stalled"]["seconds"] > 1


def test_a_server_that_is_not_in_the_table_yet(telling, start, tmp_path):
    servers, metrics = telling()
    start(tmp_path / "c.db", subnets=["c.x"], peers=[f"a.x={servers.address(0)}"])
    refused = "shadowtree_strangers_refused_total"
    wait_until(lambda: value(scraped(metrics), refused, kind="not a peer") >= 3, "three attempts")
    wait_for_looks(metrics)
    assert not [name for name, _ in scraped(metrics) if name == "shadowtree_peer_faults_total"]
    servers.processes[0].process.send_signal(signal.SIGTERM)
    lines = all_lines_of(servers.processes[0])
    assert "peer_fault" not in [line["event"] for line in lines]
    (line,) = [line for line in lines if "c.x" in line["message"]]
    assert line["event"] == "stranger_refused"
    assert line["message"] == "refused connection from c.x (127.0.0.1): not in the table of peers"
    assert {key: line[key] for key in ("peer", "address", "kind")} == {
        "peer": "c.x",
        "address": "127.0.0.1",
        "kind": "not a peer",
    }


async def test_a_bad_peer(telling):
    servers, metrics = telling()
    hello = Hello(PLAIN_TEXT_VERSION, "b.x", ("b.x",), 1, 1, ())
    async with grpc.aio.insecure_channel(servers.address(0)) as channel:
        stream = DialledStream(channel)
        await stream.write(encode(hello))
        await stream.read()
        await stream.write(b"\xff")
        while await stream.read() is not None:
            pass
    faults = "shadowtree_peer_faults_total"
    wait_until(lambda: value(scraped(metrics), faults, peer="b.x", kind="garbage") == 1, "the fault")
    wait_for_looks(metrics)
    line = said(servers)["peer_fault"]
    assert (line["peer"], line["kind"]) == ("b.x", "garbage")


async def test_a_flood_of_calls(telling):
    servers, metrics = telling()
    async with grpc.aio.insecure_channel(servers.address(0)) as channel:
        watch = NameServiceStub(channel).Watch
        streams = [watch(WatchRequest()) for _ in range(STREAMS)]
        for stream in streams:
            await stream.read()
        found = await asyncio.to_thread(scraped, metrics)
        assert value(found, "shadowtree_calls_under_way") >= STREAMS
        assert value(found, "grpc_server_started_total", grpc_method="Watch") == STREAMS
        assert found["shadowtree_requests_refused_total", ()] == 0, "a flood of small requests refuses none"
        for stream in streams:
            stream.cancel()
    await asyncio.to_thread(
        wait_until, lambda: value(scraped(metrics), "shadowtree_calls_under_way") < STREAMS, "the end of the flood"
    )
