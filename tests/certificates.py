"""Authorities and leaves for tests: right ones, and ones that are wrong in one respect."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from nameserver.trust.bundles import Bundle
from nameserver.trust.issuing import make_authority, make_server_leaf, make_user_leaf
from nameserver.trust.key_files import pem_of_key

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
SIGNING_KEY = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(32))
BOTH = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)


def pem(*certificates):
    return b"".join(each.public_bytes(Encoding.PEM) for each in certificates)


@dataclass(frozen=True)
class Issued:
    """Certificate with its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self):
        return pem(self.certificate)

    @property
    def key_pem(self):
        return pem_of_key(self.key)

    def write(self, folder, name):
        """Write NAME.pem and NAME.key, and return both paths."""
        files = folder / f"{name}.pem", folder / f"{name}.key"
        files[0].write_bytes(self.pem)
        files[1].write_bytes(self.key_pem)
        return files


class Authority:
    """Authority of one organisation in a test."""

    def __init__(self, name, at=NOW):
        self.at = at
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = make_authority(name, self.key, at=at)

    @property
    def bundle(self):
        return Bundle((self.certificate,))

    @property
    def pem(self):
        return pem(self.certificate)

    def server(self, name, *more, at=None, life=timedelta(days=30), key=None):
        """Return the leaf of a server that owns `name` and `more`."""
        key = key or ec.generate_private_key(ec.SECP256R1())
        made = make_server_leaf(
            name,
            (name, *more),
            key.public_key(),
            SIGNING_KEY.public_key(),
            self.certificate,
            self.key,
            at=at or self.at,
            life=life,
        )
        return Issued(made, key)

    def user(self, principal, *, at=None, life=timedelta(hours=24)):
        """Return the leaf of a user."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = make_user_leaf(principal, key.public_key(), self.certificate, self.key, at=at or self.at, life=life)
        return Issued(made, key)

    def leaf(self, names, *, uses=BOTH, signs=True, is_authority=False, extensions=()):
        """Return a leaf of any form. `names`: its alternative names, or None for none."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([]))
            .issuer_name(self.certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self.at - timedelta(hours=1))
            .not_valid_after(self.at + timedelta(days=1))
            .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
            .add_extension(
                x509.KeyUsage(signs, not signs, False, False, False, False, False, False, False), critical=True
            )
        )
        if names is not None:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=True)
        if uses is not None:
            builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        for extension in extensions:
            builder = builder.add_extension(extension, critical=False)
        return Issued(builder.sign(self.key, hashes.SHA256()), key)


def uri(text):
    return x509.UniformResourceIdentifier(text)


def host(text):
    return x509.DNSName(text)
