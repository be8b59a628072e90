"""Addresses of this machine, and the servers that get tunnels."""

from types import SimpleNamespace

import grpc
import pytest

from namegraph import Reason, RefusedError
from nameserver.calls.peer_service import connected_caller
from nameserver.calls.retired_relays import RELAY_KEY, RetiredRelays
from nameserver.config.addresses import is_loopback
from nameserver.wire.metadata import FORWARDED_KEY
from nameserver.wire.status_mapping import refusal_of
from tests.callers import caller, calling

HERE = ["ipv4:127.0.0.1:50000", "ipv4:127.9.9.9:1", "ipv6:%5B::1%5D:50000", "ipv6:[::ffff:127.0.0.1]:7"]
ELSEWHERE = [
    "ipv4:192.0.2.1:50000",
    "ipv4:10.0.0.1:127",
    "ipv6:%5B2001:db8::1%5D:50000",
    "ipv6:%5Bfe80::1%25eth0%5D:50000",
    "ipv6:[::ffff:192.0.2.1]:7",
    "unknown",
    "",
    "ipv4:127.0.0.1.example.net:80",
]


@pytest.mark.parametrize(("addresses", "expected"), [(HERE, True), (ELSEWHERE, False)])
def test_callers_of_this_machine_are_told_from_others(addresses, expected):
    assert [is_loopback(address) for address in addresses] == [expected] * len(addresses)


class Transport:
    """Knows one connected server, and one that is not connected now."""

    ways = SimpleNamespace(reaches=lambda server: server == "b.x")

    def others(self):
        return ["b.x", "d.x"]


def test_a_tunnel_is_for_the_connected_server_that_calls():
    with calling(caller(via="b.x")):
        assert connected_caller(Transport()) == "b.x"


@pytest.mark.parametrize(
    ("via", "reason"),
    [
        (None, Reason.PERMISSION_DENIED),
        ("mallory.x", Reason.PERMISSION_DENIED),
        ("", Reason.PERMISSION_DENIED),
        ("d.x", Reason.UNAVAILABLE),
    ],
)
def test_a_tunnel_is_for_nobody_else(via, reason):
    with calling(caller(via=via)), pytest.raises(RefusedError) as refused:
        connected_caller(Transport())
    assert refused.value.refusal.reason is reason


METHOD = "/shadowtree.v1.PeerService/TellBasis"


@pytest.fixture
async def answering():
    """A channel to a server that answers one method, unless the call is marked for another server."""

    async def tell(request, context):
        del request, context
        return b"the answer"

    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        (
            RetiredRelays(),
            grpc.method_handlers_generic_handler(
                "shadowtree.v1.PeerService", {"TellBasis": grpc.unary_unary_rpc_method_handler(tell)}
            ),
        )
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield channel
    await server.stop(None)


async def test_a_call_of_an_older_server_for_a_third_one_is_refused_and_not_answered_here(answering):
    ask = answering.unary_unary(METHOD)
    assert await ask(b"", metadata=((FORWARDED_KEY, "b.x"),)) == b"the answer"
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await ask(b"", metadata=((FORWARDED_KEY, "b.x"), (RELAY_KEY, "c.x")))
    refusal = refusal_of(failed.value)
    # An older server takes this for the word of a server that does not reach the other one either.
    assert (refusal.reason, refusal.facts["unreachable"]) == (Reason.UNAVAILABLE, "c.x")
