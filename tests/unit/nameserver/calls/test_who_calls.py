"""Addresses of this machine, and the calls of other servers that are passed on."""

from dataclasses import dataclass, field

import pytest

from namegraph import Reason, RefusedError
from nameserver.calls.places import Places
from nameserver.calls.relayed_calls import RelayedCalls
from nameserver.config.addresses import is_loopback
from nameserver.transport.relayed_channel import RELAY_KEY
from nameserver.wire.metadata import FORWARDED_KEY

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


@dataclass
class Call:
    """The context of a call, or what is known of one before it is taken."""

    address: str = ""
    method: str = ""
    invocation_metadata: tuple[tuple[str, str], ...] = ()
    answered: list[bytes] = field(default_factory=list)

    def peer(self):
        return self.address


@pytest.mark.parametrize(("addresses", "expected"), [(HERE, True), (ELSEWHERE, False)])
def test_callers_of_this_machine_are_told_from_others(addresses, expected):
    assert [is_loopback(address) for address in addresses] == [expected] * len(addresses)


class Directory:
    """Knows one connected server, and one that is not connected now."""

    def is_connected(self, server):
        return server == "b.x"

    def others(self):
        return ["b.x", "d.x"]

    async def direct_channel_to(self, server):
        raise AssertionError("the call was passed on")


METHOD = "/shadowtree.v1.NameService/Check"


def relays():
    return RelayedCalls(Directory(), methods=[METHOD], places=Places(1))


@pytest.mark.parametrize(
    "method", ["/shadowtree.v1.AdminService/AddPeer", "/shadowtree.v1.PeerService/Converse", "/x/y"]
)
def test_only_calls_that_servers_ask_of_one_another_are_passed_on(method):
    metadata = ((RELAY_KEY, "c.x"), (FORWARDED_KEY, "b.x"))
    assert relays().service(Call(method=method, invocation_metadata=metadata)) is None
    assert relays().service(Call(method=METHOD, invocation_metadata=metadata)) is not None


@pytest.mark.parametrize(
    ("mark", "reason", "facts"),
    [
        (None, Reason.INVALID_REQUEST, {"field": RELAY_KEY}),
        ("mallory.x", Reason.PERMISSION_DENIED, {}),
        ("d.x", Reason.UNAVAILABLE, {"unreachable": "c.x", "server": "c.x"}),
    ],
)
async def test_a_call_is_passed_on_for_a_connected_server_alone(mark, reason, facts):
    calls = relays()
    metadata = None if mark is None else ((FORWARDED_KEY, mark),)
    with pytest.raises(RefusedError) as refused:
        await calls._call(METHOD, "c.x", metadata, None, None)
    refusal = refused.value.refusal
    assert (refusal.reason, refusal.facts) == (reason, facts)
