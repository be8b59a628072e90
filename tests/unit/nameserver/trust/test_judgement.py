"""A certificate proves a server or a user if it has the right form and the authority of that domain vouches for it."""

from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from nameserver.trust.bundles import Bundle, BundleError, parse_bundle
from nameserver.trust.identities import NotAuthentic, PeerIdentity, TrustFault, UserIdentity
from nameserver.trust.judgement import duration, judge_leaf
from nameserver.trust.leaves import SIGNING_KEY_OID, read_leaf
from tests.certificates import NOW, SIGNING_KEY, Authority, host, pem, uri

A = Authority("a.example")
B = Authority("b.example")
SERVER = uri("spiffe://a.example/shadowtree/server")
HOST = host("shadowtree.a.example")
LONG = f"{'x' * 50}.{'y' * 60}.example"


def judged(issued, bundle=A.bundle, *, at=NOW, between=(), revoked=()):
    leaf = read_leaf(issued.certificate)
    return leaf if isinstance(leaf, NotAuthentic) else judge_leaf(leaf, between, bundle, at=at, revoked=revoked)


def test_a_leaf_proves_a_server_with_all_of_its_subnets_and_its_signing_key():
    found = judged(A.server("a.example", "z.example", "b.a.example"))
    assert isinstance(found, PeerIdentity)
    assert (found.name, found.subnets) == ("a.example", ("a.example", "b.a.example", "z.example"))
    assert found.signing_key == SIGNING_KEY.public_key().public_bytes_raw()
    assert found.expires == NOW + timedelta(days=30)


@pytest.mark.parametrize("principal", ["ann@a.example", "ann müller@a.example", "a/b%c@a.example", "ü+x@cs.a.example"])
def test_a_leaf_proves_a_user(principal):
    found = judged(A.user(principal))
    assert isinstance(found, UserIdentity)
    assert found.principal == principal


def test_a_leaf_without_a_signing_key_proves_a_server_that_signs_nothing():
    found = judged(A.leaf([SERVER, HOST]))
    assert isinstance(found, PeerIdentity)
    assert found.signing_key is None


def wrong_signing_key(value):
    return x509.UnrecognizedExtension(SIGNING_KEY_OID, value)


@pytest.mark.parametrize(
    ("leaf", "kind", "why"),
    [
        (lambda: A.leaf(None), TrustFault.MALFORMED, "no subject alternative names"),
        (lambda: A.leaf([HOST]), TrustFault.MALFORMED, "0 URIs"),
        (lambda: A.leaf([SERVER, uri("spiffe://b.example/shadowtree/server"), HOST]), TrustFault.MALFORMED, "2 URIs"),
        (lambda: A.leaf([SERVER, SERVER, HOST]), TrustFault.MALFORMED, "2 URIs"),
        (lambda: A.leaf([SERVER, HOST, x509.RFC822Name("ann@a.example")]), TrustFault.MALFORMED, "besides its URI"),
        (lambda: A.leaf([uri("https://a.example/"), HOST]), TrustFault.WRONG_NAME, "https://a.example/"),
        (lambda: A.leaf([uri("spiffe://A.example/shadowtree/server"), HOST]), TrustFault.WRONG_NAME, "neither"),
        (lambda: A.leaf([uri("spiffe://a.example/shadowtree/server/x"), HOST]), TrustFault.WRONG_NAME, "neither"),
        (lambda: A.leaf([uri("spiffe://a.example/shadowtree/user/")]), TrustFault.WRONG_NAME, "neither"),
        (lambda: A.leaf([uri("spiffe://a.example/shadowtree/user/a/b")]), TrustFault.WRONG_NAME, "neither"),
        (lambda: A.leaf([uri("spiffe://a.example/shadowtree/user/%FF")]), TrustFault.WRONG_NAME, "neither"),
        (lambda: A.leaf([uri("spiffe://a.example/shadowtree/user/x%40b")]), TrustFault.WRONG_NAME, "neither"),
        (lambda: A.leaf([uri("spiffe://a.example/shadowtree/user/ann"), HOST]), TrustFault.WRONG_NAME, "dNSNames"),
        (lambda: A.leaf([SERVER]), TrustFault.WRONG_NAME, "do not include shadowtree.a.example"),
        (lambda: A.leaf([SERVER, host("shadowtree.b.example")]), TrustFault.WRONG_NAME, "do not include"),
        (lambda: A.leaf([SERVER, HOST, host("shadowtree.*.example")]), TrustFault.WRONG_NAME, "wildcard"),
        (lambda: A.leaf([SERVER, HOST, host("*")]), TrustFault.WRONG_NAME, "wildcard"),
        (lambda: A.leaf([SERVER, HOST, host("www.a.example")]), TrustFault.WRONG_NAME, "not shadowtree.SUBNET"),
        (lambda: A.leaf([SERVER, HOST, host("shadowtree.B.example")]), TrustFault.WRONG_NAME, "not shadowtree.SUBNET"),
        (lambda: A.leaf([SERVER, HOST, host("shadowtree.b_c")]), TrustFault.WRONG_NAME, "invalid name"),
        (lambda: A.leaf([SERVER, HOST], is_authority=True), TrustFault.WRONG_USE, "of an authority"),
        (lambda: A.leaf([SERVER, HOST], uses=None), TrustFault.WRONG_USE, "for what its key"),
        (lambda: A.leaf([SERVER, HOST], signs=False), TrustFault.WRONG_USE, "digital signatures"),
        (lambda: A.leaf([SERVER, HOST], uses=[ExtendedKeyUsageOID.SERVER_AUTH]), TrustFault.WRONG_USE, "clientAuth"),
        (lambda: A.leaf([SERVER, HOST], uses=[ExtendedKeyUsageOID.CLIENT_AUTH]), TrustFault.WRONG_USE, "by servers"),
        (lambda: A.leaf([SERVER, HOST], extensions=[wrong_signing_key(b"x")]), TrustFault.MALFORMED, "signing key"),
        (lambda: A.server("a.example", *(f"s{n}.example" for n in range(1000))), TrustFault.MALFORMED, "1,000"),
        (lambda: A.server("a.example", *(f"{n:03d}{LONG}" for n in range(999))), TrustFault.MALFORMED, "bytes"),
    ],
)  # fmt: skip
def test_a_leaf_of_another_form_proves_nothing(leaf, kind, why):
    found = judged(leaf())
    assert isinstance(found, NotAuthentic)
    assert found.kind is kind
    assert why in found.why


def test_a_leaf_counts_from_its_first_to_its_last_moment():
    leaf = A.server("a.example", life=timedelta(hours=3))
    assert isinstance(judged(leaf, at=NOW - timedelta(hours=1)), PeerIdentity)
    assert isinstance(judged(leaf, at=NOW + timedelta(hours=3)), PeerIdentity)
    early = judged(leaf, at=NOW - timedelta(hours=3))
    assert (early.kind, "valid in 2 h" in early.why) == (TrustFault.NOT_YET_VALID, True)
    late = judged(leaf, at=NOW + timedelta(hours=6))
    assert (late.kind, "expired 3 h ago" in late.why) == (TrustFault.EXPIRED, True)


def test_the_authority_of_another_organisation_vouches_for_nobody_here():
    forged = B.server("a.example")
    found = judged(forged)
    assert found.kind is TrustFault.UNKNOWN_AUTHORITY
    assert "server a.example" in found.why
    assert "CN=b.example" in found.why
    assert isinstance(judged(forged, Bundle((A.certificate, B.certificate))), PeerIdentity)


def test_an_authority_of_the_same_name_with_another_key_vouches_for_nobody_here():
    assert judged(Authority("a.example").server("a.example")).kind is TrustFault.UNKNOWN_AUTHORITY


def test_a_leaf_vouches_for_no_other_leaf():
    server = A.server("a.example")
    usurper = Authority("a.example")
    usurper.certificate, usurper.key = server.certificate, server.key
    forged = usurper.leaf([uri("spiffe://a.example/shadowtree/user/ann")])
    found = judged(forged, between=(server.certificate,))
    assert found.kind is TrustFault.UNKNOWN_AUTHORITY


def test_too_long_a_chain_is_refused():
    found = judged(B.server("a.example"), between=(B.certificate,) * 4)
    assert (found.kind, "4 authorities" in found.why) == (TrustFault.UNKNOWN_AUTHORITY, True)


def test_nobody_is_believed_without_a_pinned_authority():
    found = judged(A.server("a.example"), None)
    assert (found.kind, found.why.endswith("no authority is pinned for a.example")) == (TrustFault.NOT_PINNED, True)


@pytest.mark.parametrize("field", ["fingerprint", "key_pin"])
def test_a_revoked_certificate_or_key_proves_nothing(field):
    leaf = A.server("a.example")
    found = judged(leaf, revoked=(getattr(judged(leaf), field),))
    assert found.kind is TrustFault.REVOKED


def test_an_expired_authority_vouches_for_nobody():
    late = NOW + timedelta(days=731)
    leaf = A.server("a.example", at=late - timedelta(days=3))
    assert leaf.certificate.not_valid_after_utc == A.certificate.not_valid_after_utc
    assert judged(leaf, at=late).kind is TrustFault.EXPIRED
    with pytest.raises(BundleError, match="the authority expired at 2028"):
        parse_bundle(A.pem, at=late)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "no certificate"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "cannot be read"),
        (A.server("a.example").pem, "not that of an authority"),
        (pem(*(Authority("x.example").certificate for _ in range(17))), "may hold 16"),
        (b"x" * 300_000, "bytes"),
    ],
)
def test_a_text_that_is_no_bundle_is_refused(text, why):
    with pytest.raises(BundleError, match=why):
        parse_bundle(text, at=NOW)


def test_a_bundle_may_hold_the_old_and_the_new_authority():
    new = Authority("a.example")
    both = parse_bundle(pem(A.certificate, new.certificate, A.certificate), at=NOW)
    assert len(both.fingerprints) == 2
    assert isinstance(judged(A.server("a.example"), both), PeerIdentity)
    assert isinstance(judged(new.server("a.example"), both), PeerIdentity)


@pytest.mark.parametrize(
    ("seconds", "text"), [(-5, "0 s"), (59, "59 s"), (60, "1 min"), (7_300, "2 h"), (10**6, "11 d")]
)
def test_durations_are_told_in_their_largest_unit(seconds, text):
    assert duration(timedelta(seconds=seconds)) == text
