"""The servers that a server talks to."""

from dataclasses import dataclass, field, replace

import pytest

from namegraph import OLDEST_PROTOCOL_VERSION, PROTOCOL_VERSION
from nameserver.session.frames import GoodbyeReason, Hello, decode, encode
from nameserver.session.handshake_policy import judge, subnets_by_address
from shadowtree.v1 import peer_pb2


@dataclass
class Known:
    server: str = "a.x"
    subnets: tuple = ("a.x", "a2.x")
    peer_addresses: dict = field(
        default_factory=lambda: {"b.x": "h:1", "b2.x": "h:1", "c.x": "h:2"},
    )
    owners: dict = field(default_factory=dict)

    def owner_of(self, subnet):
        return self.owners.get(subnet)


B = Hello(PROTOCOL_VERSION, "b.x", ("b.x", "b2.x"), 1, 1, ("a.x",))


def reason(hello, known=None, **more):
    refusal = judge(hello, known or Known(), **more)
    return None if refusal is None else refusal.reason


def test_the_subnets_of_one_address_belong_together():
    assert subnets_by_address(Known()) == {"h:1": ("b.x", "b2.x"), "h:2": ("c.x",)}


def test_a_server_of_the_table_is_good():
    assert reason(B) is None
    assert reason(B, expected=["b.x", "b2.x"]) is None


def test_a_server_may_own_more_than_what_is_known_of_it():
    assert reason(replace(B, subnets=("b.x", "b2.x", "b3.x"))) is None


NEWEST, OLDEST = PROTOCOL_VERSION, OLDEST_PROTOCOL_VERSION


def speaking(oldest, newest):
    return replace(B, protocol_version=oldest, newest_version=newest)


@pytest.mark.parametrize(
    ("oldest", "newest", "agreed"),
    [
        (OLDEST, 0, OLDEST),
        (OLDEST, NEWEST, NEWEST),
        (OLDEST - 1, OLDEST, OLDEST),
        (NEWEST, 0, NEWEST),
        (NEWEST, NEWEST + 1, NEWEST),
        (0, 2**32 - 1, NEWEST),
    ],
    ids=["of the last release", "this one", "from before", "only the newest", "of the next release", "any"],
)
def test_the_newest_version_that_both_speak_is_spoken(oldest, newest, agreed):
    hello = speaking(oldest, newest)
    assert hello.agreed_version == agreed
    assert judge(hello, Known()) is None


@pytest.mark.parametrize(
    ("oldest", "newest", "there"),
    [
        (OLDEST - 1, 0, f"version {OLDEST - 1} is"),
        (NEWEST + 1, 0, f"version {NEWEST + 1} is"),
        (NEWEST + 1, NEWEST + 2, f"versions {NEWEST + 1} to {NEWEST + 2} are"),
    ],
)
def test_where_there_is_none_both_are_told_in_one_line(oldest, newest, there):
    refusal = judge(speaking(oldest, newest), Known())
    assert refusal.reason is GoodbyeReason.OTHER_VERSION
    assert refusal.message == (
        f"of the protocol, versions {OLDEST} to {NEWEST} are spoken here, {there} spoken there: "
        "upgrade the older server"
    )


def test_a_server_of_the_last_release_which_knows_one_version_finds_it_in_a_hello_of_this_one():
    """It compares the first field, and passes over what it does not know."""
    wire = peer_pb2.PeerFrame.FromString(encode(speaking(OLDEST, NEWEST)))
    assert wire.hello.protocol_version == OLDEST
    assert decode(wire.SerializeToString()).agreed_version == NEWEST


def test_a_server_does_not_talk_to_itself():
    assert reason(replace(B, server="a.x")) is GoodbyeReason.ITSELF


def test_a_server_that_claims_a_subnet_of_this_one_is_refused():
    refusal = judge(replace(B, subnets=("a2.x", "b.x", "b2.x")), Known())
    assert refusal.reason is GoodbyeReason.SUBNET_CLAIMED_TWICE
    assert refusal.message == "b.x claims the subnet a2.x, which a.x owns"


def test_a_server_that_claims_what_was_met_elsewhere_is_refused():
    known = Known(owners={"b.x": "b.x", "c.x": "c.x"})
    assert reason(replace(B, subnets=("b.x", "b2.x", "c.x")), known) is GoodbyeReason.SUBNET_CLAIMED_TWICE


@pytest.mark.parametrize("expected", [(), ("b.x", "b2.x")])
def test_a_server_that_owned_a_subnet_and_does_not_any_more_is_refused(expected):
    known = Known(owners={"b.x": "b.x", "b2.x": "b.x"})
    assert reason(replace(B, subnets=("b.x",)), known, expected=expected) is GoodbyeReason.WRONG_SUBNETS


@pytest.mark.parametrize("expected", [(), ("b.x", "b2.x")])
def test_a_server_for_whose_address_one_subnet_too_many_was_given_is_talked_to(expected):
    assert reason(replace(B, subnets=("b.x",)), expected=expected) is None


def test_another_server_at_the_address_is_refused():
    stranger = Hello(PROTOCOL_VERSION, "c.x", ("c.x",), 1, 1, ())
    assert reason(stranger) is None
    assert reason(stranger, expected=("b.x",)) is GoodbyeReason.WRONG_SUBNETS


def test_a_server_that_looked_for_another_one_here_is_refused():
    assert reason(replace(B, addressed_subnets=("z.x",))) is GoodbyeReason.WRONG_SUBNETS
    assert reason(replace(B, addressed_subnets=("a.x", "z.x"))) is None


def test_a_server_of_which_no_subnet_is_in_the_table_is_refused():
    stranger = Hello(PROTOCOL_VERSION, "z.x", ("y.x", "z.x"), 1, 1, ())
    assert reason(stranger) is GoodbyeReason.NOT_A_PEER
    assert reason(replace(stranger, subnets=("c.x", "z.x"))) is None
