"""TLS of the two ends of a tunnel: the server between sees no name that they say, and cannot stand in for either."""

import grpc
import pytest
import trustme

from nameserver.transport.peer_link import Link
from nameserver.transport.peer_streams import AcceptedStream
from nameserver.transport.tunnel_gate import TunnelGate
from nameserver.transport.tunnel_socket import TunnelSockets
from tests.fakes.byte_recorder import ByteRecorder
from tests.fakes.peer_server import until

SECRET = "somebody-with-a-name@b.x"
ASK = "/test.Names/Ask"


class LinkWithTls(Link):
    """A link whose channels verify the name of the server at their end, at whatever address."""

    authority = None

    def open_channel(self, address):
        if self.authority is None:
            return super().open_channel(address)
        roots = grpc.ssl_channel_credentials(self.authority.cert_pem.bytes())
        # The name that is verified is that of the destination, also over the socket of a tunnel.
        options = [("grpc.ssl_target_name_override", f"shadowtree.{self.subnets[0]}")]
        return grpc.aio.secure_channel(address, roots, options=options)


def link_to(server, address, authority=None):
    kind = type("LinkOfTest", (LinkWithTls,), {"authority": authority})
    link = kind(address, (server,), chance=lambda: 0.0, clock=lambda: 0.0, wall_clock=lambda: 0.0)
    link.connected(server, [server])
    return link


async def served(service, method, handler, certificate=None):
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
    if certificate is None:
        port = server.add_insecure_port("127.0.0.1:0")
    else:
        chain = b"".join(part.bytes() for part in certificate.cert_chain_pems)
        credentials = grpc.ssl_server_credentials([(certificate.private_key_pem.bytes(), chain)])
        port = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    return server, f"127.0.0.1:{port}"


class Scene:
    """Asker a.x and server b.x, both with TLS, and c.x between them, which records all bytes."""

    async def start(self, authority, certificate):
        async def answer(request, context):
            del context
            return request + b" is a member"

        async def tunnel(pieces, context):
            del pieces
            stream = AcceptedStream(context)
            await self.gate.carry(stream, asker="a.x", destination="b.x", is_of_this_machine=True)

        unary = grpc.unary_unary_rpc_method_handler(answer)
        self._far, address = await served("test.Names", "Ask", unary, certificate)
        self._of_between = {"b.x": link_to("b.x", address)}
        self.gate = TunnelGate(here="c.x", link_of=self._of_between.get, reaches=lambda server: True, clock=lambda: 0.0)
        between = grpc.stream_stream_rpc_method_handler(tunnel)
        self._between, address = await served("shadowtree.v1.PeerService", "Tunnel", between)
        self._links = {"b.x": link_to("b.x", "192.0.2.1:1", authority), "c.x": link_to("c.x", address)}
        await until(self._links["c.x"].is_ready)
        self._sockets = TunnelSockets(here="a.x", link_of=self._links.get, say=print)
        self.tunnel = await self._sockets.open("b.x", via="c.x", link=self._links["b.x"])
        return self

    async def ask(self):
        call = self.tunnel.channel.unary_unary(ASK)
        return await call(SECRET.encode(), metadata=(("shadowtree-principal", SECRET),), timeout=20)

    async def close(self):
        await self.tunnel.close(None)
        self._sockets.close()
        self.gate.close()
        for link in (*self._links.values(), *self._of_between.values()):
            await link.close()
        for server in (self._between, self._far):
            await server.stop(None)


@pytest.fixture
def authority():
    return trustme.CA()


@pytest.fixture
async def begin():
    started = []

    async def start(authority, certificate):
        started.append(await Scene().start(authority, certificate))
        return started[-1]

    yield start
    for scene in started:
        await scene.close()


async def test_a_server_between_that_records_everything_sees_no_name(begin, authority, monkeypatch):
    recorder = ByteRecorder(monkeypatch)
    scene = await begin(authority, authority.issue_cert("shadowtree.b.x"))
    assert await scene.ask() == SECRET.encode() + b" is a member"
    assert len(recorder.seen) > 1_000
    for name in (SECRET.encode(), b"somebody-with-a-name", b"shadowtree-principal", b"is a member", ASK.encode()):
        assert name not in recorder.seen


@pytest.mark.parametrize("whose", ["another name", "another authority"])
async def test_a_server_between_cannot_stand_in_for_the_one_at_the_other_end(begin, authority, monkeypatch, whose):
    recorder = ByteRecorder(monkeypatch)
    certificate = (
        authority.issue_cert("shadowtree.c.x") if whose == "another name" else trustme.CA().issue_cert("shadowtree.b.x")
    )
    scene = await begin(authority, certificate)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await scene.ask()
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    assert SECRET.encode() not in recorder.seen
