"""The sockets of tunnels that this server dials: who may open them, what comes of them, and what is left."""

import asyncio
import shutil
import stat
import tempfile

import grpc
import pytest

from nameserver.transport.peer_link import Link
from nameserver.transport.tunnel_socket import CONNECTIONS_LIMIT, TunnelSockets, is_opened
from tests.fakes.peer_server import until
from tests.fakes.tunnel_streams import PieceStream

METHOD = "/shadowtree.v1.PeerService/Tunnel"


@pytest.fixture
async def between():
    """A server between that echoes what comes through its tunnels. `metadata`: what it was asked with."""
    server = grpc.aio.server()
    server.metadata, server.opens = [], True

    async def tunnel(pieces, context):
        del pieces
        server.metadata.append(dict(context.invocation_metadata()))
        if not server.opens:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "c.x does not reach b.x either")
        await context.write(b"")
        while (piece := await context.read()) is not grpc.aio.EOF:
            await context.write(piece)

    handler = grpc.stream_stream_rpc_method_handler(tunnel)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("shadowtree.v1.PeerService", {"Tunnel": handler}),)
    )
    server.port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield server
    await server.stop(None)


def link_to(server, address):
    link = Link(address, (server,), chance=lambda: 0.0, clock=lambda: 0.0, wall_clock=lambda: 0.0)
    link.connected(server, [server])
    return link


@pytest.fixture
async def links(between):
    links = {"b.x": link_to("b.x", "127.0.0.1:1"), "c.x": link_to("c.x", f"127.0.0.1:{between.port}")}
    await until(links["c.x"].is_ready)
    yield links
    for link in links.values():
        await link.close()


@pytest.fixture
async def sockets(links, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    said = []
    sockets = TunnelSockets(here="a.x", link_of=links.get, say=said.append)
    sockets.said = said
    yield sockets
    sockets.close()


@pytest.fixture
async def tunnel(sockets, links):
    tunnel = await sockets.open("b.x", via="c.x", link=links["b.x"])
    yield tunnel
    await tunnel.close(None)


async def dial(tmp_path):
    (folder,) = tmp_path.iterdir()
    (path,) = folder.iterdir()
    return await asyncio.open_unix_connection(path)


async def test_a_connection_to_the_socket_is_a_tunnel_asked_for_by_names(tunnel, between, tmp_path):
    reader, writer = await dial(tmp_path)
    writer.write(b"hello")
    async with asyncio.timeout(20):
        assert await reader.readexactly(5) == b"hello"
    (metadata,) = between.metadata
    assert (metadata["shadowtree-to"], metadata["shadowtree-principal"]) == ("b.x", "server=a.x")
    writer.close()


async def test_nobody_else_may_open_the_socket_and_its_name_tells_nothing(tunnel, tmp_path):
    (folder,) = tmp_path.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [path.name for path in folder.iterdir()] == ["1"]


async def test_nothing_is_left_when_all_is_closed(sockets, tunnel, tmp_path):
    await tunnel.close(None)
    assert [list(folder.iterdir()) for folder in tmp_path.iterdir()] == [[]]
    sockets.close()
    assert list(tmp_path.iterdir()) == []


async def test_a_connection_ends_where_the_server_between_refuses(tunnel, between, tmp_path):
    between.opens = False
    reader, writer = await dial(tmp_path)
    async with asyncio.timeout(20):
        assert await reader.read() == b""
    writer.close()


async def test_a_connection_ends_where_the_server_between_is_out_of_reach(tunnel, links, between, tmp_path):
    links["c.x"].connected("c.x", ["c.x"], via="d.x")
    reader, writer = await dial(tmp_path)
    async with asyncio.timeout(20):
        assert await reader.read() == b""
    # No tunnel leads through a tunnel: nobody was asked.
    assert between.metadata == []
    writer.close()


async def test_a_socket_takes_few_connections(tunnel, tmp_path, between):
    open_ones = [await dial(tmp_path) for _ in range(CONNECTIONS_LIMIT)]
    await until(lambda: len(between.metadata) == CONNECTIONS_LIMIT)
    reader, writer = await dial(tmp_path)
    async with asyncio.timeout(20):
        assert await reader.read() == b""
    assert len(between.metadata) == CONNECTIONS_LIMIT
    for _, each in [*open_ones, (reader, writer)]:
        each.close()


async def test_the_server_between_is_asked_before_there_is_a_socket(sockets, between, tmp_path):
    assert await sockets.is_carried("b.x", via="c.x")
    between.opens = False
    assert not await sockets.is_carried("b.x", via="c.x")
    assert not await sockets.is_carried("b.x", via="unknown.x")
    assert list(tmp_path.iterdir()) == []


async def test_a_server_between_that_says_nothing_opens_no_tunnel(monkeypatch):
    monkeypatch.setattr("nameserver.transport.tunnel_socket.OPENED_SECONDS", 0.05)
    assert not await is_opened(PieceStream())


async def test_a_folder_that_was_cleaned_away_is_made_again(sockets, tunnel, links, tmp_path):
    (folder,) = tmp_path.iterdir()
    shutil.rmtree(folder)
    again = await sockets.open("b.x", via="c.x", link=links["b.x"])
    reader, writer = await dial(tmp_path)
    writer.write(b"hello")
    async with asyncio.timeout(20):
        assert await reader.readexactly(5) == b"hello"
    writer.close()
    await again.close(None)


async def test_where_no_socket_can_be_made_operators_are_told_once(sockets, links, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    for _ in range(2):
        assert await sockets.open("b.x", via="c.x", link=links["b.x"]) is None
    long_name = tmp_path / ("x" * 100)
    long_name.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long_name))
    assert await sockets.open("b.x", via="c.x", link=links["b.x"]) is None
    (line,) = sockets.said
    assert line.startswith("no tunnel can be opened: ")
    assert "set TMPDIR" in line
