"""Servers meet over mutual TLS: each proves by a certificate of the pinned authority that it owns its subnets."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.certificates import Authority
from tests.federation import Federation
from tests.integration.nameserver.server_process import wait_until


@pytest.fixture
def federation(tmp_path):
    with Federation(tmp_path, "a.example", ("b.example", "b2.example"), "c.example") as found:
        yield found


@pytest.fixture
def two(tmp_path):
    with Federation(tmp_path, "a.example", "b.example") as found:
        yield found


def now():
    return datetime.now(UTC).replace(microsecond=0)


def state_of(federation, name, peer, *, begins="refused"):
    """Return the state of a peer once it begins with a word."""
    wait_until(lambda: federation.states(name)[peer].startswith(begins), f"a peer {begins} by {name}")
    return federation.states(name)[peer]


def test_three_servers_answer_as_one(federation):
    federation.start_all()
    wait_until(federation.are_connected, "sessions over mutual TLS")
    a, b, c = federation.clients.values()
    b.create_group("staff@b2.example")
    a.create_group("all@a.example")
    a.join("all@a.example", "staff@b2.example")
    c.join("staff@b2.example", "cleo@c.example")
    assert c.check("all@a.example", "cleo@c.example")
    assert a.resolve("all@a.example").processes == ("cleo@c.example",)
    assert {peer.protocol_version for peer in a.peers().peers} == {8}


def test_a_server_with_a_certificate_of_an_unknown_authority_is_refused_on_both_ways(two):
    two.start("a.example")
    two.organisations["b.example"].issue(Authority("b.example", at=now()))
    two.start("b.example")
    seen = state_of(two, "a.example", "b.example")
    assert "shows the certificate sha256:" in seen
    assert "of the issuer 'CN=b.example,O=Shadowtree'; expected is shadowtree.b.example, of the authority" in seen
    wait_until(lambda: "may not believe" in two.states("b.example")["a.example"], "the cause")


def test_one_organisation_cannot_vouch_for_a_server_of_another_one(federation):
    federation.start("a.example")
    federation.organisations["b.example"].issue(federation.organisations["c.example"].authority)
    federation.start("b.example")
    # At the port, gRPC takes any authority that is pinned. The hello is refused, before anything is told.
    seen = state_of(federation, "b.example", "a.example")
    assert "no authority pinned for b.example" in seen
    assert "'CN=c.example,O=Shadowtree'" in state_of(federation, "a.example", "b.example")
    refused = {fault.kind: fault.count for fault in federation.clients["a.example"].peers().strangers}
    assert refused["not authentic"] >= 1


def test_plain_text_at_the_address_of_a_pinned_server_is_named(two):
    two.start("a.example")
    two.start("b.example", listen=two.address("b.example"), listen_mutual="127.0.0.1:0")
    assert "speaks plain text, not TLS: give the address of its `listen_mutual`" in state_of(
        two, "a.example", "b.example"
    )


def test_tls_at_the_address_of_a_server_without_a_pin_is_named(two):
    two.start("a.example", peers={"b.example": two.address("b.example")})
    two.start("b.example")
    wait_until(lambda: "speaks TLS, so pin its authority" in two.states("a.example")["b.example"], "the cause")


def test_a_server_that_must_prove_itself_is_not_taken_in_plain_text(two):
    a = two.start("a.example")
    two.start("b.example", peers={"a.example": a.address}, listen_mutual="127.0.0.1:0")
    seen = state_of(two, "b.example", "a.example")
    assert "b.example comes in plain text, and must prove by a certificate that it owns b.example" in seen


def test_a_certificate_that_expires_ends_the_session_and_is_named(two):
    two.start("a.example")
    two.organisations["b.example"].issue(life=timedelta(seconds=4))
    two.start("b.example")
    wait_until(two.are_connected, "a session")
    assert "this server cannot prove itself" in state_of(two, "b.example", "a.example")
    assert "certificate has expired" in state_of(two, "a.example", "b.example")
