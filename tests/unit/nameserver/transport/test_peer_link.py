"""The state of an address, and its report."""

import asyncio

import grpc
import pytest

from nameserver.session.frames import GoodbyeReason
from nameserver.session.session import Ending
from nameserver.transport.peer_link import COMING_BACK_SECONDS, OLD_CALLS_SECONDS, Link
from nameserver.transport.peer_report import Complaints, FaultCounts

LOSS = Ending(None, "Connection refused")
REFUSAL = Ending(GoodbyeReason.NOT_A_PEER, "who are you?")
FAREWELL = Ending(GoodbyeReason.LEAVING, "shutting down", is_by_peer=True)
SILENT = "silent since 1970-01-01T00:00:50Z: "
STOPPED = "stopped since 1970-01-01T00:00:50Z: "


@pytest.fixture
async def link():
    link = Link("127.0.0.1:1", ("b.x",), chance=lambda: 0.0, clock=lambda: 50.0, wall_clock=lambda: 50.0)
    yield link
    await link.channel.close(None)


CONNECTED = "connected"


def tell(link, what):
    if what == CONNECTED:
        link.connected("b.x", ["b.x"])
    else:
        link.disconnected(what)


@pytest.mark.parametrize(
    ("told", "state"),
    [
        ((), "connecting"),
        ((CONNECTED,), "connected"),
        ((LOSS,), SILENT + "Connection refused"),
        ((REFUSAL,), "refused: who are you?"),
        ((FAREWELL,), STOPPED + "shutting down"),
        ((FAREWELL, CONNECTED, LOSS), SILENT + "Connection refused"),
        ((Ending(GoodbyeReason.LEAVING, "shutting down"),), SILENT + "shutting down"),
        ((CONNECTED, LOSS), SILENT + "Connection refused"),
        ((CONNECTED, REFUSAL), "refused: who are you?"),
        ((LOSS, CONNECTED), "connected"),
        ((REFUSAL, CONNECTED), "connected"),
        ((LOSS, REFUSAL), "refused: who are you?"),
        ((REFUSAL, LOSS), SILENT + "Connection refused"),
        ((FAREWELL, LOSS), STOPPED + "shutting down"),
        ((FAREWELL, REFUSAL), "refused: who are you?"),
    ],
)
async def test_the_state_of_an_address(link, told, state):
    for what in told:
        tell(link, what)
    assert link.state == state


class Tunnel:
    """A tunnel without a socket. `ended`: the graces of its ends."""

    def __init__(self, via):
        self.via, self.channel, self.ended = via, object(), []

    async def close(self, grace_seconds):
        self.ended.append(grace_seconds)


@pytest.mark.parametrize(
    ("tunnel", "what_follows"),
    [(Tunnel("c.x"), "calls go through c.x"), (None, "no other server passes calls on to it")],
)
async def test_the_state_of_an_address_that_cannot_be_dialled(link, tunnel, what_follows):
    link.connected("b.x", ["b.x"])
    link.take_tunnel(tunnel)
    link.take_undialled()
    assert link.state == f"connected, but cannot be dialled at 127.0.0.1:1; {what_follows}"
    link.can_be_dialled()
    assert link.state == "connected"
    link.take_undialled()
    link.disconnected(LOSS)
    link.connected("b.x", ["b.x"])
    assert link.state == "connected"


async def test_a_session_through_a_tunnel_of_the_other_server_is_not_said_to_carry_calls(link):
    link.connected("b.x", ["b.x"], via="c.x")
    link.take_undialled()
    assert link.state == "connected, but cannot be dialled at 127.0.0.1:1; no other server passes calls on to it"
    link.take_tunnel(Tunnel("c.x"))
    assert link.state == "connected"


async def test_a_tunnel_that_is_not_used_any_more_ends_when_its_calls_are_over(link):
    first, second = Tunnel("c.x"), Tunnel("d.x")
    for tunnel in (first, first, second, None):
        link.take_tunnel(tunnel)
    await asyncio.sleep(0)
    assert first.ended == second.ended == [OLD_CALLS_SECONDS]
    link.take_tunnel(last := Tunnel("c.x"))
    await link.close()
    assert last.ended == [None]


async def test_calls_go_through_the_tunnel_while_the_session_does_though_the_channel_looks_connected(link):
    await link.channel.close(None)
    link.channel = ChannelThatConnects()
    link.connected("b.x", ["b.x"], via="c.x")
    link.take_tunnel(Tunnel("c.x"))
    async with asyncio.timeout(10):
        for _ in range(3):
            assert await link.channel_for_calls() is link.tunnel.channel
        link.connected("b.x", ["b.x"])
        assert await link.channel_for_calls() is link.channel


@pytest.mark.parametrize("jump", [-7200, 7200])
async def test_a_jump_of_the_clock_makes_nobody_come_sooner_or_later(link, jump):
    now, wall = [50.0], [50.0]
    link._clock, link._wall_clock = lambda: now[0], lambda: wall[0]
    link.disconnected(LOSS)
    wall[0] += jump
    assert link.may_come_soon
    now[0] += COMING_BACK_SECONDS
    assert not link.may_come_soon


async def test_a_server_may_come_soon_unless_it_is_there_refused_or_silent_for_long(link):
    now = [50.0]
    link._clock = lambda: now[0]
    assert link.may_come_soon
    link.disconnected(LOSS)
    assert link.may_come_soon
    now[0] += COMING_BACK_SECONDS
    assert not link.may_come_soon
    link.connected("b.x", ["b.x"])
    assert not link.may_come_soon
    link.disconnected(LOSS)
    assert link.may_come_soon
    link.disconnected(REFUSAL)
    assert not link.may_come_soon


async def test_silence_is_counted_from_its_beginning(link):
    now = [50.0]
    link._wall_clock = lambda: now[0]
    link.disconnected(LOSS)
    now[0] = 1000.0
    link.disconnected(LOSS)
    assert link.state.startswith(SILENT)


def test_each_complaint_is_said_once_while_it_lasts():
    said = []
    complaints = Complaints(said.append)
    for reason in (GoodbyeReason.NOT_A_PEER, GoodbyeReason.ITSELF, GoodbyeReason.NOT_A_PEER):
        complaints.say_once("here", reason, reason.name)
    assert said == ["NOT_A_PEER", "ITSELF"]
    complaints.settle("here")
    complaints.say_once("here", GoodbyeReason.ITSELF, "again")
    assert said[2:] == ["again"]


def test_faults_are_counted_by_server():
    faults = FaultCounts()
    for server in ("b.x", "b.x", "c.x"):
        faults.count(server, "garbage")
    assert faults.of("b.x") == {"garbage": 2}
    assert faults.of("d.x") == {}


class ChannelThatConnects:
    """Its state is another one each time that it is read, until it is ready."""

    def __init__(self):
        self._states = [grpc.ChannelConnectivity.IDLE, grpc.ChannelConnectivity.CONNECTING]

    def get_state(self, try_to_connect=False):
        del try_to_connect
        return self._states.pop(0) if self._states else grpc.ChannelConnectivity.READY

    async def wait_for_state_change(self, last_observed):
        while self.get_state() is last_observed:
            await asyncio.Event().wait()

    async def close(self, grace):
        del grace


async def test_a_channel_that_connects_while_it_is_looked_at_is_not_waited_for(link):
    await link.channel.close(None)
    link.channel = ChannelThatConnects()
    link.connected("b.x", ["b.x"])
    async with asyncio.timeout(10):
        assert await link.channel_for_calls() is link.channel
