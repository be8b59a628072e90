"""Failure detection: transports over real gRPC, through proxies that drop, stall and cut."""

import asyncio
import time

import pytest
import pytest_asyncio

from nameserver.detector import liveness as watch_module
from nameserver.detector.liveness import Life
from nameserver.detector.phi import DetectorLimits
from nameserver.detector.write_health import STEADY_SECONDS
from nameserver.session.heartbeats import LONGEST_INTERVALS
from nameserver.transport import session_runner as conversation_module
from shadowtree.cli.support.free_ports import unused_ports
from tests.fakes.peer_cluster import PeerCluster, lost
from tests.fakes.peer_core import FakeDisk, FakePeerCore
from tests.fakes.peer_server import FakeServer, until
from tests.fakes.tcp_proxy import Passage

pytestmark = pytest.mark.asyncio(loop_scope="module")

LIMITS = DetectorLimits(heartbeat_seconds=0.05, acceptable_pause_seconds=0.5)
SOON_SECONDS = 5
"""Far longer than a silence may last with these limits, far shorter than what HTTP/2 would take to find out."""


@pytest_asyncio.fixture(loop_scope="module")
async def cluster():
    cluster = PeerCluster(LIMITS)
    yield cluster
    await cluster.close()


async def watched(seconds):
    """Let time pass. The test looks afterwards for events that must not have happened."""
    await asyncio.sleep(seconds)


async def test_servers_with_nothing_to_say_stay_up_and_measure_the_way(cluster):
    a, b = await cluster.start("a.x", "b.x")
    await until(lambda: all(each.report(other).round_trip_seconds for each, other in ((a, "b.x"), (b, "a.x"))))
    await watched(1.5)
    assert a.core.lost == b.core.lost == []
    report = a.report("b.x")
    assert report.life is Life.UP
    assert report.why == ""
    assert report.phi < LIMITS.threshold
    assert report.last_heard_seconds < 1
    assert report.round_trip_seconds < 1
    assert a.faults() == b.faults() == {}


async def test_few_heartbeats_are_sent_where_letters_are(cluster):
    a, b = await cluster.start("a.x", "b.x", limits=DetectorLimits(0.5, 4))
    conversation = a.transport._open["b.x"]
    began = time.monotonic()
    until_time = began + 1.5
    while time.monotonic() < until_time:
        a.send("b.x", b"news")
        await asyncio.sleep(0.05)
    assert conversation.pulse._number <= 1 + (time.monotonic() - began) / (LONGEST_INTERVALS * 0.5)
    assert b.report("a.x").life is Life.UP


@pytest.mark.parametrize("passage", [Passage.DROP, Passage.STALL])
async def test_a_silent_server_is_lost_though_its_connection_stays_and_found_again(cluster, passage):
    a, b = await cluster.start("a.x", "b.x")
    cluster.network.part("a.x", "b.x", passage)
    started = time.monotonic()
    await until(lambda: lost(a) == ["b.x"] and lost(b) == ["a.x"])
    assert time.monotonic() - started < SOON_SECONDS
    report = a.report("b.x")
    assert report.life is Life.LOST
    assert report.why.startswith("no heartbeat for")
    assert report.state.startswith("silent since")
    a.send("b.x", b"while apart")
    cluster.network.heal()
    await until(lambda: b.letters("a.x") == [b"while apart"])
    await until(lambda: a.report("b.x").life is b.report("a.x").life is Life.UP)
    # A dial that was stalled may get through with the one that follows it: then they meet once more.
    assert len(a.core.met) >= 2
    assert set(a.core.met) == {"b.x"}
    assert lost(a) == ["b.x"]
    assert a.faults() == b.faults() == {}


@pytest.mark.parametrize(("deaf", "mute"), [("a.x", "b.x"), ("b.x", "a.x")])
async def test_a_link_that_carries_one_way_is_broken_for_both_ends(cluster, deaf, mute):
    await cluster.start("a.x", "b.x")
    servers = cluster.servers
    cluster.network.set(mute, deaf, Passage.DROP)
    started = time.monotonic()
    await until(lambda: lost(servers[deaf]) == [mute] and lost(servers[mute]) == [deaf])
    assert time.monotonic() - started < SOON_SECONDS
    assert servers[deaf].report(mute).why.startswith("no heartbeat for")
    assert servers[mute].report(deaf).why.startswith("it does not hear this server: no heartbeat for")
    await watched(1.0)
    assert servers[mute].report(deaf).life is servers[deaf].report(mute).life is Life.LOST
    assert not servers[mute].transport._open
    assert not servers[deaf].transport._open
    cluster.network.heal()
    await until(lambda: servers[mute].report(deaf).life is servers[deaf].report(mute).life is Life.UP)


async def test_a_pause_of_the_network_that_is_accepted_loses_nobody(cluster):
    a, b = await cluster.start("a.x", "b.x", limits=DetectorLimits(0.05, 3.0))
    times_met = len(a.core.met)  # Of the sessions that both dialled one was chosen.
    cluster.network.part("a.x", "b.x", Passage.STALL)
    await until(lambda: a.report("b.x").life is b.report("a.x").life is Life.SUSPECTED)
    assert a.report("b.x").why.startswith("no heartbeat for")
    await watched(0.5)
    cluster.network.heal()
    await until(lambda: a.report("b.x").life is b.report("a.x").life is Life.UP)
    assert a.core.lost == b.core.lost == []
    assert len(a.core.met) == times_met


async def test_a_connection_that_is_cut_and_made_again_in_time_loses_nobody(cluster):
    a, b = await cluster.start("a.x", "b.x")
    for _ in range(3):
        cluster.network.part("a.x", "b.x", Passage.CUT)
        await until(lambda: a.report("b.x").life is Life.SUSPECTED)
        cluster.network.heal()
        await until(lambda: a.report("b.x").life is b.report("a.x").life is Life.UP)
    assert a.core.lost == b.core.lost == []


async def test_a_server_for_which_nobody_answers_is_lost_before_its_silence_is_too_long(cluster, monkeypatch):
    monkeypatch.setattr(watch_module, "RESTART_SECONDS", 0.2)
    a, b = await cluster.start("a.x", "b.x", limits=DetectorLimits(0.05, 60))
    cluster.network.part("a.x", "b.x", Passage.CUT)
    await until(lambda: lost(a) == ["b.x"] and lost(b) == ["a.x"])
    assert not a.report("b.x").why.startswith("nothing was heard")
    cluster.network.heal()
    await until(lambda: a.report("b.x").life is b.report("a.x").life is Life.UP)


async def test_a_busy_time_of_this_process_is_not_held_against_others(cluster):
    a, b = await cluster.start("a.x", "b.x")
    for _ in range(3):
        time.sleep(3 * LIMITS.acceptable_pause_seconds)
        await watched(0.2)
    assert a.core.lost == b.core.lost == []
    assert a.report("b.x").life is b.report("a.x").life is Life.UP


async def test_a_server_that_cannot_write_its_database_is_lost_to_others_but_they_are_not_to_it(cluster):
    a, b = await cluster.start("a.x", "b.x")
    met_there = [*b.core.met]
    b.disk.is_full = True
    await until(lambda: b.run_loop.storage_failure)
    a.send("b.x", b"to be taken later")
    await until(lambda: b.transport._open["a.x"].is_handling)
    await until(lambda: lost(a) == ["b.x"])
    report = a.report("b.x")
    assert (report.life, report.state) == (Life.LOST, "connected")
    assert report.why == "it cannot write: database fake: the disk is full; make room"
    assert a.core.lost == [("b.x", report.why)]
    # Whoever heard it may have formed a view without it, of which it cannot know.
    assert b.transport.unheard() == ["a.x"]
    assert not a.transport.is_delivering()
    await watched(4 * LIMITS.acceptable_pause_seconds)
    assert lost(a) == ["b.x"]
    assert b.core.lost == []
    times_met = len(a.core.met)
    b.disk.is_full = False
    await until(lambda: a.report("b.x").life is Life.UP)
    assert len(a.core.met) == times_met + 1
    await until(lambda: b.letters("a.x") == [b"to be taken later"])
    await until(lambda: b.transport.unheard() == [])
    assert b.core.met == met_there
    assert a.faults() == b.faults() == {}


async def test_a_server_that_cannot_write_is_not_met_when_it_connects_again(cluster):
    a, b = await cluster.start("a.x", "b.x")
    b.disk.is_full = True
    await until(lambda: lost(a) == ["b.x"])
    met_before = len(a.core.met)
    cluster.network.part("a.x", "b.x", Passage.CUT)
    await until(lambda: not a.transport._open)
    cluster.network.heal()
    await until(lambda: a.report("b.x").state == "connected")
    await watched(2 * LIMITS.acceptable_pause_seconds)
    report = a.report("b.x")
    assert report.life is Life.LOST
    assert report.why.startswith("it cannot write:")
    assert len(a.core.met) == met_before
    b.disk.is_full = False
    await until(lambda: a.report("b.x").life is b.report("a.x").life is Life.UP)
    assert len(a.core.met) == met_before + 1


async def test_a_server_that_cannot_write_for_a_moment_is_not_lost(cluster):
    a, b = await cluster.start("a.x", "b.x", limits=DetectorLimits(0.05, 20.0))
    for _ in range(2):
        b.disk.is_full = True
        await until(lambda: b.run_loop.storage_failure)
        b.disk.is_full = False
        await until(lambda: b.run_loop.storage_failure is None)
        await watched(STEADY_SECONDS)
    assert a.core.lost == b.core.lost == []


async def test_a_lost_server_is_not_waited_for_by_calls(cluster, monkeypatch):
    a, _ = await cluster.start("a.x", "b.x")
    cluster.network.part("a.x", "b.x")
    await until(lambda: lost(a) == ["b.x"])
    assert not a.transport.link_of("b.x").may_come_soon


async def test_a_server_that_was_never_met_is_shown_as_such(cluster):
    core = FakePeerCore("a.x", ["a.x"], {"b.x": "127.0.0.1:9"})
    a = FakeServer(core, FakeDisk(), LIMITS)
    await a.start(unused_ports(1)[0])
    cluster.servers["a.x"] = a
    await until(lambda: a.transport.reports() and a.report("b.x").state.startswith("silent since"))
    report = a.report("b.x")
    assert (report.life, report.why, report.last_heard_seconds) == (Life.NEVER_MET, "", None)
    assert core.lost == []


async def test_after_an_interruption_servers_meet_again_within_seconds(cluster, monkeypatch):
    monkeypatch.setattr(conversation_module, "GREETING_SECONDS", 0.5)
    a, b = await cluster.start("a.x", "b.x")
    cluster.network.part("a.x", "b.x")
    await until(lambda: lost(a) and lost(b))
    await watched(3.0)
    cluster.network.heal()
    started = time.monotonic()
    await until(lambda: a.report("b.x").life is b.report("a.x").life is Life.UP)
    assert time.monotonic() - started < SOON_SECONDS
