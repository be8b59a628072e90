"""Tunnels that a server carries for others: for whom, to whom, how many, how fast, and until when."""

import asyncio
import socket

import pytest

from namegraph import Reason, RefusedError
from nameserver.transport import tunnel_gate
from nameserver.transport.peer_link import Link
from nameserver.transport.tunnel_gate import TUNNELS_OF_PEER_LIMIT, TunnelGate
from nameserver.wire.tunnel_pieces import PIECE_BYTES_LIMIT
from tests.fakes.peer_server import until
from tests.fakes.tunnel_streams import PieceStream

HERE, ASKER, FAR = "c.x", "a.x", "b.x"


class Scene:
    """A gate between one asker and one server that echoes. `reached`: servers with direct sessions."""

    def __init__(self):
        self.reached = {ASKER, FAR}
        self.dialled, self.now = [], 0.0
        self.links = {}
        self.gate = TunnelGate(
            here=HERE,
            link_of=self.links.get,
            reaches=lambda server: server in self.reached,
            clock=lambda: self.now,
        )
        self.tasks = []

    async def start(self):
        self._echo = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.add_link(FAR, f"127.0.0.1:{self._echo.sockets[0].getsockname()[1]}")
        return self

    def add_link(self, server, address):
        link = Link(address, (server,), chance=lambda: 0.0, clock=lambda: 0.0, wall_clock=lambda: 0.0)
        link.connected(server, [server])
        self.links[server] = link

    async def _accept(self, reader, writer):
        self.dialled.append(writer)
        while data := await reader.read(PIECE_BYTES_LIMIT):
            writer.write(data)
            await writer.drain()
        writer.close()

    def begin(self, *, asker=ASKER, destination=FAR, is_of_this_machine=True):
        """Begin a tunnel, and return its stream and its task."""
        stream = PieceStream()
        carrying = self.gate.carry(stream, asker=asker, destination=destination, is_of_this_machine=is_of_this_machine)
        task = asyncio.ensure_future(carrying)
        self.tasks.append(task)
        return stream, task

    async def opened(self, **tunnel):
        stream, task = self.begin(**tunnel)
        async with asyncio.timeout(20):
            assert await stream.taken() == b""
        return stream, task

    async def refusal(self, **tunnel):
        _, task = self.begin(**tunnel)
        with pytest.raises(RefusedError) as refused:
            async with asyncio.timeout(20):
                await task
        return refused.value.refusal

    async def close(self):
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for link in self.links.values():
            await link.close()
        for writer in self.dialled:
            writer.transport.abort()
        self._echo.close()


@pytest.fixture
async def scene():
    scene = await Scene().start()
    yield scene
    await scene.close()


async def test_bytes_go_to_the_address_of_the_own_table_and_back(scene):
    stream, task = await scene.opened()
    stream.give(b"hello")
    assert await stream.taken() == b"hello"
    assert len(scene.dialled) == 1
    assert scene.gate.count == 1
    assert scene.gate.passed_on == {ASKER: 1, FAR: 1}
    stream.give_encoded(None)
    await task
    assert scene.gate.count == 0


async def test_an_announced_address_counts_once_its_server_has_answered_there(scene):
    link = scene.links[FAR]
    link.called_at = "192.0.2.1:22"
    assert not link.is_proven
    await scene.opened()
    link.address, link.called_at = "192.0.2.1:22", link.address
    link.prove()
    await scene.opened()
    assert len(scene.dialled) == 2


async def test_a_tunnel_leads_to_no_server_without_a_direct_session(scene):
    for destination in ("unknown.x", "d.x"):
        scene.add_link("d.x", scene.links[FAR].address)
        refusal = await scene.refusal(destination=destination)
        assert (refusal.reason, refusal.facts["unreachable"]) == (Reason.UNAVAILABLE, destination)
        assert refusal.message.startswith(f"c.x does not reach {destination} either: ")
    assert scene.dialled == []


@pytest.mark.parametrize("destination", [HERE, ASKER])
async def test_a_tunnel_leads_neither_here_nor_back(scene, destination):
    scene.add_link(ASKER, scene.links[FAR].address)
    refusal = await scene.refusal(destination=destination)
    assert (refusal.reason, refusal.facts) == (Reason.INVALID_REQUEST, {"field": "shadowtree-to"})
    assert scene.dialled == []


@pytest.mark.parametrize("how", ["cannot be dialled", "leads astray"])
async def test_a_tunnel_leads_nowhere_where_this_server_cannot_call_itself(scene, how):
    setattr(scene.links[FAR], how.replace(" ", "_"), True)
    assert (await scene.refusal()).reason is Reason.UNAVAILABLE
    assert scene.dialled == []


async def test_where_nothing_answers_the_tunnel_is_refused(scene, monkeypatch):
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        scene.links[FAR].address = f"127.0.0.1:{bound.getsockname()[1]}"
        refusal = await scene.refusal()
    assert refusal.reason is Reason.UNAVAILABLE
    assert "either" in refusal.message and "\n" not in refusal.message

    async def hang(*_, **__):
        await asyncio.Event().wait()

    monkeypatch.setattr(tunnel_gate, "DIAL_SECONDS", 0.05)
    monkeypatch.setattr(asyncio, "open_connection", hang)
    assert "nothing answers within 0.05 s" in (await scene.refusal()).message
    assert scene.gate.count == 0


@pytest.mark.parametrize("host", ["x" * 70, "no such host.example", "[::1"])
async def test_an_address_that_is_none_is_only_unreachable(scene, host):
    scene.links[FAR].address = f"{host}:1"
    assert (await scene.refusal()).reason is Reason.UNAVAILABLE


async def test_a_peer_elsewhere_gets_no_tunnel_to_what_this_machine_alone_can_reach(scene):
    """A server that listens on loopback takes all that comes to it for this machine's own."""
    refusal = await scene.refusal(is_of_this_machine=False)
    assert refusal.reason is Reason.PERMISSION_DENIED
    await until(lambda: scene.dialled and scene.dialled[0].transport.is_closing())
    assert scene.gate.count == 0


async def test_a_peer_gets_so_many_tunnels_and_others_still_get_theirs(scene):
    scene.reached.add("d.x")
    tunnels = [await scene.opened() for _ in range(TUNNELS_OF_PEER_LIMIT)]
    refusal = await scene.refusal()
    assert (refusal.reason, refusal.facts) == (Reason.LIMIT_EXCEEDED, {"limit": str(TUNNELS_OF_PEER_LIMIT)})
    await scene.opened(asker="d.x")
    stream, task = tunnels[0]
    stream.break_off()
    await task
    await scene.opened()


async def test_tunnels_of_all_peers_together_are_limited(scene, monkeypatch):
    monkeypatch.setattr(tunnel_gate, "TUNNELS_LIMIT", 3)
    for number in range(3):
        scene.reached.add(f"s{number}.x")
        await scene.opened(asker=f"s{number}.x")
    refusal = await scene.refusal()
    assert (refusal.reason, refusal.facts) == (Reason.LIMIT_EXCEEDED, {"limit": "3"})


async def test_a_flood_of_tunnels_leaves_nothing_behind(scene):
    for _ in range(20):
        began = [scene.begin() for _ in range(50)]
        for stream, _ in began:
            stream.break_off()
        outcomes = await asyncio.gather(*(task for _, task in began), return_exceptions=True)
        refused = [each for each in outcomes if isinstance(each, RefusedError)]
        assert len(refused) == 50 - TUNNELS_OF_PEER_LIMIT
        assert {each.refusal.reason for each in refused} == {Reason.LIMIT_EXCEEDED}
    assert scene.gate.count == 0


@pytest.mark.parametrize("end", [ASKER, FAR])
async def test_a_tunnel_ends_with_the_session_of_either_end(scene, end):
    _, task = await scene.opened()
    scene.gate.look()
    await asyncio.sleep(0)
    assert not task.done()
    scene.reached.discard(end)
    scene.gate.look()
    await task
    assert scene.gate.count == 0


async def test_all_tunnels_end_with_the_server(scene):
    tasks = [(await scene.opened())[1] for _ in range(3)]
    scene.gate.close()
    await asyncio.gather(*tasks)
    assert scene.gate.count == 0


async def test_all_tunnels_of_a_peer_share_its_bytes_a_second(scene, monkeypatch):
    monkeypatch.setattr(tunnel_gate, "BYTES_PER_SECOND_LIMIT", 1_000_000)
    monkeypatch.setattr(tunnel_gate, "BURST_BYTES", 10_000)
    slept = []

    async def sleep(seconds):
        slept.append(seconds)
        scene.now += seconds

    monkeypatch.setattr(tunnel_gate.asyncio, "sleep", sleep)
    streams = [(await scene.opened())[0] for _ in range(2)]
    for stream in streams:
        for _ in range(10):
            stream.give(bytes(50_000))
    async with asyncio.timeout(20):
        for stream in streams:
            came = 0
            while came < 500_000:
                came += len(await stream.taken())
    # A million bytes there, and as many back.
    assert sum(slept) == pytest.approx(2.0, abs=0.02)
    scene.reached.discard(ASKER)
    scene.gate.look()
    assert not scene.gate._budgets
