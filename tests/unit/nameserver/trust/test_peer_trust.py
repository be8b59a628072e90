"""A server proves itself by files that fit it, takes others while it runs, and warns before its certificate ends."""

import logging
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

import pytest

from nameserver.config.trust_settings import ConfiguredPeer, TlsSettings
from nameserver.trust.key_files import TrustFileError
from nameserver.trust.peer_trust import PeerTrust
from tests.certificates import NOW, Authority

A, B = Authority("a.example"), Authority("b.example")


@dataclass
class Settings:
    tls: TlsSettings | None
    peers: dict = field(default_factory=dict)
    subnets: tuple = ("a.example",)
    revoked: frozenset = frozenset()
    insecure_listen_on_a_public_address: bool = False
    listen_mutual: str | None = None
    refuses_unknown: bool = False


@dataclass
class Scene:
    folder: Path
    now: float = 0.0
    said: list = field(default_factory=list)

    def settings(self, issued=None, **more):
        return Settings(TlsSettings(*(issued or A.server("a.example")).write(self.folder, "a")), **more)

    def trust(self, settings):
        return PeerTrust(
            settings,
            say=lambda level, kind, line: self.said.append((level, kind, line)),
            clock=lambda: self.now,
            wall_clock=lambda: NOW.timestamp() + self.now,
        )

    @property
    def kinds(self):
        return [kind for _, kind, _ in self.said]


@pytest.fixture
def scene(tmp_path):
    return Scene(tmp_path)


@pytest.mark.parametrize(
    ("issued", "subnets", "why"),
    [
        (A.server("a.example"), ("a.example", "a2.example"), "does not name a2.example, which this server owns"),
        (A.user("ann@a.example"), ("a.example",), "is that of the user ann@a.example"),
        (A.server("a.example", at=NOW - timedelta(days=40)), ("a.example",), "certificate expired 10 d ago"),
        (A.server("a.example", at=NOW + timedelta(days=2)), ("a.example",), "valid in 1 d (compare the clocks)"),
        (A.leaf(None), ("a.example",), "no subject alternative names"),
    ],
)
def test_a_certificate_that_no_peer_would_believe_is_refused_at_the_start(scene, issued, subnets, why):
    with pytest.raises(TrustFileError) as caught:
        scene.trust(scene.settings(issued, subnets=subnets))
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_certificate_of_another_server_than_that_of_the_database_is_refused(scene):
    trust = scene.trust(scene.settings())
    trust.require_name("a.example")
    with pytest.raises(TrustFileError, match=r"that of the server a\.example, and this server is named z\.example"):
        trust.require_name("z.example")


def test_the_file_of_a_peer_that_is_no_authority_is_named(scene):
    file, _ = B.server("b.example").write(scene.folder, "b")
    peers = {"b.example": ConfiguredPeer("b.example:7401", file)}
    with pytest.raises(TrustFileError, match=r"the trust of b\.example: .*b\.pem is of no use as the authority"):
        scene.trust(scene.settings(peers=peers))


def test_a_warning_comes_once_a_day_from_the_last_third_of_a_life_on(scene):
    trust = scene.trust(scene.settings())
    for _ in range(3):
        trust.warn_of_expiry()
    assert scene.said == []
    scene.now = timedelta(days=21).total_seconds()
    for _ in range(3):
        trust.warn_of_expiry()
    assert scene.kinds == ["certificate_expires"]
    assert "expires in 9 d: renew it, by `shadowtree certs renew" in scene.said[0][2]
    scene.now = timedelta(days=31).total_seconds()
    trust.warn_of_expiry()
    assert scene.said[1][:2] == (logging.ERROR, "certificate_expired")
    assert "certificate expired 1 d ago" in trust.own_fault()


def test_a_renewed_certificate_is_taken_and_files_of_no_use_are_not(scene):
    settings = scene.settings()
    trust = scene.trust(settings)
    before = trust.own.leaf.fingerprint
    settings.tls.key.write_text("nonsense")
    assert not trust.take_files()
    assert not trust.take_files()
    assert (trust.own.leaf.fingerprint, scene.kinds) == (before, ["trust_files_refused"])
    A.server("a.example").write(scene.folder, "a")
    assert trust.take_files()
    assert trust.own.leaf.fingerprint != before
    assert scene.kinds == ["trust_files_refused", "certificate_taken"]


def test_pins_of_settings_win_over_those_added_and_both_count(scene):
    ca = scene.folder / "b-ca.pem"
    ca.write_bytes(B.pem)
    settings = scene.settings(peers={"b.example": ConfiguredPeer("b.example:7401", ca)})
    trust = scene.trust(settings)
    other = Authority("b.example")
    trust.follow_added(lambda: {"b.example": other.pem.decode(), "c.example": other.pem.decode(), "d.example": "x"})
    assert trust.pin_of("b.example") == B.bundle
    assert trust.pin_of("c.example") == other.bundle
    assert trust.pin_of("d.example") is None
    trust.follow(replace(settings, peers={}))
    assert trust.pin_of("b.example") == other.bundle


def test_a_server_elsewhere_is_not_dialled_without_a_pin(scene):
    trust = scene.trust(scene.settings())
    assert trust.why_not_dialled("127.0.0.1:7401", ["c.example"]) is None
    assert "--trust FILE" in trust.why_not_dialled("c.example:7401", ["c.example"])
    trust.follow_added(lambda: {"c.example": B.pem.decode()})
    assert trust.why_not_dialled("c.example:7401", ["c.example"]) is None
    scene.now = timedelta(days=31).total_seconds()
    assert "this server cannot prove itself" in trust.why_not_dialled("c.example:7401", ["c.example"])
