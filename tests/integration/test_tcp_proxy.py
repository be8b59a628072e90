"""The proxy that other tests break: the fate of bytes in each direction."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from tests.fakes.tcp_proxy import Network, NetworkInThread, Passage, TcpProxy

SOON_SECONDS = 10
A_WHILE_SECONDS = 0.1
"""Long enough for what must not come to come, were it on its way."""


class Upper:
    """A target that answers each line in capitals."""

    async def __aenter__(self):
        self.heard = []
        self._writers = []
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_):
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()

    async def _answer(self, reader, writer):
        self._writers.append(writer)
        while line := await reader.readline():
            self.heard.append(line)
            writer.write(line.upper())


@asynccontextmanager
async def talk(address):
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def answer(reader):
    """Return the next line. Empty at the end of the connection."""
    try:
        async with asyncio.timeout(SOON_SECONDS):
            return await reader.readline()
    except ConnectionResetError:
        return b""


async def is_silent(reader):
    try:
        async with asyncio.timeout(A_WHILE_SECONDS):
            await reader.readline()
    except TimeoutError:
        return True
    return False


@pytest.fixture
async def target():
    async with Upper() as target:
        yield target


@pytest.fixture
async def proxy(target):
    proxy = await TcpProxy(target.address).start()
    yield proxy
    await proxy.close()


async def until_heard(target, lines):
    async with asyncio.timeout(SOON_SECONDS):
        while target.heard != lines:
            await asyncio.sleep(0.01)


async def test_bytes_pass_both_ways(proxy):
    async with talk(proxy.address) as (reader, writer):
        writer.write(b"hello\n")
        assert await answer(reader) == b"HELLO\n"


async def test_what_is_dropped_homeward_was_heard_and_is_gone(proxy, target):
    async with talk(proxy.address) as (reader, writer):
        proxy.set(homeward=Passage.DROP)
        writer.write(b"hello\n")
        await until_heard(target, [b"hello\n"])
        assert await is_silent(reader)
        proxy.set(homeward=Passage.PASS)
        assert await answer(reader) == b""


async def test_what_is_dropped_outward_is_never_heard(proxy, target):
    async with talk(proxy.address) as (reader, writer):
        proxy.set(outward=Passage.DROP)
        writer.write(b"hello\n")
        assert await is_silent(reader)
        assert target.heard == []


async def test_a_connection_that_lost_nothing_goes_on_after_a_drop(proxy):
    async with talk(proxy.address) as (reader, writer):
        writer.write(b"before\n")
        assert await answer(reader) == b"BEFORE\n"
        proxy.set(outward=Passage.DROP)
        proxy.set(outward=Passage.PASS)
        writer.write(b"after\n")
        assert await answer(reader) == b"AFTER\n"


@pytest.mark.parametrize("direction", ["outward", "homeward"])
async def test_what_stalls_comes_later(proxy, direction):
    async with talk(proxy.address) as (reader, writer):
        writer.write(b"before\n")
        assert await answer(reader) == b"BEFORE\n"
        proxy.set(**{direction: Passage.STALL})
        writer.write(b"hello\n")
        assert await is_silent(reader)
        proxy.set(**{direction: Passage.PASS})
        assert await answer(reader) == b"HELLO\n"


async def test_a_cut_closes_what_is_there_and_what_comes(proxy):
    async with talk(proxy.address) as (reader, writer):
        writer.write(b"hello\n")
        assert await answer(reader) == b"HELLO\n"
        proxy.set(outward=Passage.CUT)
        assert await answer(reader) == b""
    async with talk(proxy.address) as (reader, _):
        assert await answer(reader) == b""
    proxy.set(outward=Passage.PASS)
    async with talk(proxy.address) as (reader, writer):
        writer.write(b"again\n")
        assert await answer(reader) == b"AGAIN\n"


async def test_a_target_that_is_not_there_closes_the_connection(target):
    proxy = await TcpProxy("127.0.0.1:9").start()
    async with talk(proxy.address) as (reader, _):
        assert await answer(reader) == b""
    await proxy.close()


async def test_a_network_breaks_one_direction_for_whoever_dialled(target):
    network = Network()
    there = await network.way("a", "b", target.address)
    back = await network.way("b", "a", target.address)
    network.set("a", "b", Passage.STALL)
    async with talk(there) as (reader, writer), talk(back) as (back_reader, back_writer):
        writer.write(b"by a\n")
        back_writer.write(b"by b\n")
        assert await is_silent(reader)
        assert await is_silent(back_reader)
        # What b sends arrives, what a answers to it does not.
        assert target.heard == [b"by b\n"]
        network.heal()
        assert await answer(reader) == b"BY A\n"
        assert await answer(back_reader) == b"BY B\n"
    await network.close()


async def test_a_network_in_a_thread_serves_tests_without_a_loop(target):
    with NetworkInThread() as network:
        way = await asyncio.to_thread(network.way, "a", "b", target.address)
        async with talk(way) as (reader, writer):
            writer.write(b"hello\n")
            assert await answer(reader) == b"HELLO\n"
            network.part("a", "b", Passage.CUT)
            assert await answer(reader) == b""
            network.heal()
