"""The channel of a call to another server, while that server comes and goes."""

import asyncio

import grpc
import pytest

from namegraph.model.refusals import Reason, RefusedError
from nameserver.transport.peer_directory import PeerDirectory
from nameserver.transport.peer_link import Link


class KnowsOne:
    """A transport that knows one other server."""

    def __init__(self, link):
        self._link = link

    def link_of(self, server):
        return self._link if server == self._link.server else None

    def is_restarting(self, server):
        return False


class TunnelOf:
    """A tunnel that leads nowhere."""

    def __init__(self, via):
        self.via, self.channel = via, object()

    async def close(self, grace_seconds):
        del grace_seconds


@pytest.fixture
async def other():
    """The port of a server that does not serve yet."""
    server = grpc.aio.server()
    server.port = server.add_insecure_port("127.0.0.1:0")
    yield server
    await server.stop(None)


@pytest.fixture
async def link(other):
    """The way to the server, which has dialled us."""
    link = Link(f"127.0.0.1:{other.port}", ("b.x",), chance=lambda: 0.0, clock=lambda: 0.0, wall_clock=lambda: 0.0)
    link.connected("b.x", ["b.x"])
    yield link
    await link.close()


@pytest.fixture
async def asking(link):
    """A call that waits for the channel."""
    directory = PeerDirectory(core=None, transport=KnowsOne(link))
    task = asyncio.ensure_future(directory.channel_to("b.x"))
    await asyncio.sleep(0)
    assert not task.done()
    return task


async def test_a_call_gets_the_channel_when_it_can_be_used(link, other, asking):
    await other.start()
    assert await asking is link.channel
    assert link.channel.get_state() is grpc.ChannelConnectivity.READY


async def test_a_call_that_waits_for_a_channel_gets_the_new_one_where_the_link_takes_another(link, other, asking):
    first = link.channel
    link.renew()
    await other.start()
    assert await asking is link.channel
    assert link.channel is not first


async def test_a_call_that_waits_for_a_channel_is_refused_where_the_server_itself_ends(link, asking):
    await link.close()
    with pytest.raises(RefusedError) as caught:
        await asking
    assert caught.value.refusal.reason is Reason.UNAVAILABLE


async def test_a_call_that_waits_for_a_channel_takes_the_tunnel_that_is_found(link, asking):
    link.take_tunnel(TunnelOf("c.x"))
    assert await asking is link.tunnel.channel


async def test_a_call_that_waits_for_a_channel_is_refused_where_no_way_is_found(link, asking):
    link.take_undialled()
    with pytest.raises(RefusedError, match="cannot be dialled at"):
        await asking
