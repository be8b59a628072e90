"""A hello is believed if the proof of its connection covers all that it claims."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from namegraph import MUTUAL_TLS_VERSION, PLAIN_TEXT_VERSION
from nameserver.config.trust_settings import ConfiguredPeer, TlsSettings
from nameserver.session.frames import GoodbyeReason, Hello
from nameserver.transport.session_proof import AcceptedProof, PlainProof, judge_proof
from nameserver.trust.peer_trust import PeerTrust
from tests.certificates import NOW, Authority

A, B, C = Authority("a.example"), Authority("b.example"), Authority("c.example")


@dataclass
class Settings:
    """Settings of the server a.example, whose peers are b.example with b2.example, and c.example."""

    folder: Path
    peers: dict = field(default_factory=dict)
    subnets: tuple = ("a.example",)
    revoked: frozenset = frozenset()
    insecure_listen_on_a_public_address: bool = False
    listen_mutual: str = "127.0.0.1:7401"
    refuses_unknown: bool = False

    def __post_init__(self):
        files = A.server("a.example").write(self.folder, "a")
        users = self.folder / "users.pem"
        users.write_bytes(A.pem)
        self.tls = TlsSettings(*files, users)
        for subnet, authority in (("b.example", B), ("b2.example", B), ("c.example", C)):
            file = self.folder / f"{subnet}-ca.pem"
            file.write_bytes(authority.pem)
            self.peers[subnet] = ConfiguredPeer(f"{subnet}:7401", file)


@pytest.fixture
def settings(tmp_path):
    return Settings(tmp_path)


def trust_of(settings):
    return PeerTrust(settings, clock=lambda: 0.0, wall_clock=NOW.timestamp)


@pytest.fixture
def trust(settings):
    return trust_of(settings)


def hello(server, *subnets, version=MUTUAL_TLS_VERSION):
    return Hello(version, server, subnets or (server,), 1, 1, ())


def accepted(trust, issued):
    return AcceptedProof(trust, {"x509_pem_cert": [issued.pem]})


def test_a_server_is_believed_about_what_its_certificate_names(trust):
    proof = accepted(trust, B.server("b.example", "b2.example"))
    assert judge_proof(proof, hello("b.example", "b.example", "b2.example")) is None
    assert judge_proof(proof, hello("b.example")) is None


@pytest.mark.parametrize(
    ("issued", "claim", "why"),
    [
        (B.server("b.example"), ("c.example",), "is that of the server b.example, not that of c.example"),
        (B.server("b.example"), ("b.example", "b.example", "b2.example"), "does not name b2.example"),
        (B.server("b.example", "c.example"), ("b.example", "c.example"), "another authority is pinned for c.example"),
        (C.server("b.example"), ("b.example",), "no authority pinned for b.example"),
        (B.server("z.example"), ("z.example",), "no authority is pinned for z.example"),
        (A.server("a.example"), ("a.example",), "no authority is pinned for a.example"),
        (B.user("ann@b.example"), ("b.example",), "is that of the user ann@b.example"),
        (A.user("ann@a.example"), ("b.example",), "is that of the user ann@a.example"),
    ],
)
def test_nobody_is_believed_about_more(trust, issued, claim, why):
    goodbye = judge_proof(accepted(trust, issued), hello(*claim))
    assert (goodbye.reason, why in goodbye.message) == (GoodbyeReason.NOT_AUTHENTIC, True), goodbye


def test_a_subnet_that_no_peer_here_has_may_be_claimed_by_who_proves_it(trust):
    assert judge_proof(accepted(trust, B.server("b.example", "new.example")), hello("b.example", "new.example")) is None


@pytest.mark.parametrize("is_dialled_here", [True, False])
def test_who_is_pinned_is_not_taken_in_plain_text(settings, is_dialled_here):
    settings.insecure_listen_on_a_public_address = True
    proof = PlainProof(trust_of(settings), is_dialled_here=is_dialled_here)
    for claim in (("b.example",), ("z.example", "z.example", "b2.example")):
        goodbye = judge_proof(proof, hello(*claim, version=PLAIN_TEXT_VERSION))
        assert (goodbye.reason, "must prove by a certificate" in goodbye.message) == (GoodbyeReason.NOT_AUTHENTIC, True)
    assert judge_proof(proof, hello("z.example", version=PLAIN_TEXT_VERSION)) is None


def test_a_protected_server_is_not_called_in_plain_text_unless_its_settings_say_so(trust):
    goodbye = judge_proof(PlainProof(trust, is_dialled_here=False), hello("z.example", version=PLAIN_TEXT_VERSION))
    assert goodbye.reason is GoodbyeReason.NOT_AUTHENTIC
    assert "shows no certificate" in goodbye.message
    assert judge_proof(PlainProof(trust, is_dialled_here=True), hello("z.example", version=PLAIN_TEXT_VERSION)) is None


def test_each_kind_of_connection_has_its_versions(settings):
    settings.insecure_listen_on_a_public_address = True
    trust = trust_of(settings)
    mutual, plain = accepted(trust, B.server("b.example")), PlainProof(trust, is_dialled_here=True)
    old = judge_proof(mutual, hello("b.example", version=PLAIN_TEXT_VERSION))
    assert (old.reason, old.message) == (
        GoodbyeReason.OTHER_VERSION,
        "version 7 of the protocol is not spoken in mutual TLS",
    )
    new = judge_proof(plain, hello("z.example"))
    assert (new.reason, new.message) == (
        GoodbyeReason.OTHER_VERSION,
        "version 8 of the protocol is not spoken in plain text",
    )


def test_a_revoked_certificate_is_not_believed_after_the_settings_were_read_again(settings):
    trust, issued = trust_of(settings), B.server("b.example")
    proof = accepted(trust, issued)
    assert judge_proof(proof, hello("b.example")) is None
    settings.revoked = frozenset((proof.identity.fingerprint,))
    trust.follow(settings)
    assert "the settings call it revoked" in judge_proof(proof, hello("b.example")).message
