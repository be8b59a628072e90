"""Verdicts on callers' certificates are remembered for a minute, and judged again then."""

from datetime import timedelta

import trustme

from nameserver.trust.identities import NotAuthentic, PeerIdentity, TrustFault
from nameserver.trust.verdicts import VERDICTS_LIMIT, CertificateVerdicts
from tests.certificates import NOW, Authority

A = Authority("a.example")
B = Authority("b.example")


class Scene:
    """CertificateVerdicts whose clocks and pins a test sets."""

    def __init__(self):
        self.now = 0.0
        self.pins = {"a.example": A.bundle, "b.example": B.bundle}
        self.revoked = []
        self.asked = []
        self.verdicts = CertificateVerdicts(
            self.bundle_for,
            revoked=lambda: self.revoked,
            clock=lambda: self.now,
            wall_clock=lambda: NOW.timestamp() + self.now,
        )

    def bundle_for(self, leaf):
        self.asked.append(leaf.domain)
        return self.pins.get(leaf.domain)

    def on(self, issued):
        return self.verdicts.on({"x509_pem_cert": [issued.pem], "x509_pem_cert_chain": [issued.pem]})


def test_no_certificate_is_neither_an_identity_nor_a_refusal():
    assert Scene().verdicts.on({"transport_security_type": [b"ssl"]}) is None


def test_the_authority_of_the_domain_that_the_certificate_names_is_asked():
    scene = Scene()
    assert isinstance(scene.on(A.server("a.example")), PeerIdentity)
    assert scene.on(B.server("a.example")).kind is TrustFault.UNKNOWN_AUTHORITY
    assert scene.on(A.user("ann@b.example")).kind is TrustFault.UNKNOWN_AUTHORITY
    assert scene.on(A.server("c.example")).kind is TrustFault.NOT_PINNED


def test_a_verdict_is_remembered_for_a_minute():
    scene, leaf = Scene(), A.server("a.example")
    first = scene.on(leaf)
    scene.now, scene.revoked = 59.0, [first.fingerprint]
    assert scene.on(leaf) == first
    scene.now = 60.0
    assert scene.on(leaf).kind is TrustFault.REVOKED
    assert len(scene.asked) == 2


def test_a_certificate_that_expires_proves_nothing_a_minute_later():
    scene, leaf = Scene(), A.server("a.example", life=timedelta(seconds=30))
    assert isinstance(scene.on(leaf), PeerIdentity)
    scene.now = 61.0
    assert scene.on(leaf).kind is TrustFault.EXPIRED


def test_changed_pins_count_at_once():
    scene, leaf = Scene(), A.server("a.example")
    scene.on(leaf)
    del scene.pins["a.example"]
    scene.verdicts.forget()
    assert scene.on(leaf).kind is TrustFault.NOT_PINNED


def test_bytes_that_are_no_certificate_are_refused():
    scene = Scene()
    assert scene.verdicts.on_certificates(b"nonsense").kind is TrustFault.MALFORMED
    assert scene.verdicts.on_certificates(A.server("a.example").pem, b"nonsense").kind is TrustFault.MALFORMED


def test_a_certificate_of_a_web_server_proves_nothing():
    web = trustme.CA().issue_cert("a.example").cert_chain_pems[0].bytes()
    found = Scene().verdicts.on_certificates(web)
    assert isinstance(found, NotAuthentic)


def test_the_memory_of_verdicts_has_a_limit(monkeypatch):
    assert VERDICTS_LIMIT == 10_000
    monkeypatch.setattr("nameserver.trust.verdicts.VERDICTS_LIMIT", 2)
    scene = Scene()
    leaves = [A.server("a.example") for _ in range(3)]
    for leaf in (*leaves, leaves[2], leaves[0]):
        scene.on(leaf)
    assert len(scene.asked) == 4
