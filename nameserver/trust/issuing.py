"""Making of authorities and leaves.

All keys of certificates are ECDSA P-256: TLS libraries of all kinds take them. Signing keys of servers are Ed25519.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from namegraph import NodeId, ServerId, Subnet
from nameserver.trust.leaves import SIGNING_KEY_OID, host_of, uri_of_server, uri_of_user

AUTHORITY_LIFE = timedelta(days=730)
SERVER_LIFE = timedelta(days=30)
USER_LIFE = timedelta(hours=24)

BACK_DATED = timedelta(hours=1)
"""Time by which the clock of a peer may be behind that of the authority."""

_COMMON_NAME_LIMIT = 64
"""Characters of a common name (RFC 5280, appendix A.1, ub-common-name)."""


def new_key() -> ec.EllipticCurvePrivateKey:
    """Return a new key of a certificate."""
    return ec.generate_private_key(ec.SECP256R1())


def make_authority(name: Subnet, key: ec.EllipticCurvePrivateKey, *, at: datetime) -> x509.Certificate:
    """Return the certificate of an authority that signs itself and vouches for leaves alone."""
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Shadowtree"),
            x509.NameAttribute(NameOID.COMMON_NAME, name[:_COMMON_NAME_LIMIT]),
        ]
    )
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(at - BACK_DATED)
        .not_valid_after(at + AUTHORITY_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def make_server_leaf(
    name: ServerId,
    subnets: Sequence[Subnet],
    key: ec.EllipticCurvePublicKey,
    signing_key: ed25519.Ed25519PublicKey,
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    *,
    at: datetime,
    life: timedelta = SERVER_LIFE,
) -> x509.Certificate:
    """Return the leaf of a server."""
    names = [
        x509.UniformResourceIdentifier(uri_of_server(name)),
        *(x509.DNSName(host_of(subnet)) for subnet in subnets),
    ]
    uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    info = signing_key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    builder = _leaf(names, uses, key, authority, at=at, life=life).add_extension(
        x509.UnrecognizedExtension(SIGNING_KEY_OID, info), critical=False
    )
    return builder.sign(authority_key, hashes.SHA256())


def make_user_leaf(
    principal: NodeId,
    key: ec.EllipticCurvePublicKey,
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    *,
    at: datetime,
    life: timedelta = USER_LIFE,
) -> x509.Certificate:
    """Return the leaf of a user."""
    names = [x509.UniformResourceIdentifier(uri_of_user(principal))]
    builder = _leaf(names, [ExtendedKeyUsageOID.CLIENT_AUTH], key, authority, at=at, life=life)
    return builder.sign(authority_key, hashes.SHA256())


def _leaf(
    names: Sequence[x509.GeneralName],
    uses: Sequence[x509.ObjectIdentifier],
    key: ec.EllipticCurvePublicKey,
    authority: x509.Certificate,
    *,
    at: datetime,
    life: timedelta,
) -> x509.CertificateBuilder:
    of_authority = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return (
        x509.CertificateBuilder()
        # All that counts is in the alternative names, which are critical for that reason (RFC 5280, 4.2.1.6).
        .subject_name(x509.Name([]))
        .issuer_name(authority.subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(at - BACK_DATED)
        .not_valid_after(min(at + life, authority.not_valid_after_utc))
        .add_extension(x509.SubjectAlternativeName(names), critical=True)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(of_authority), critical=False)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(_usage(signs_certificates=False), critical=True)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
