"""Leaf certificates: the form that certificates of servers and users have.

    server: one URI spiffe://NAME/shadowtree/server, one dNSName shadowtree.S for each subnet S, NAME one of them
    user:   one URI spiffe://DOMAIN/shadowtree/user/LOCAL, which is the principal LOCAL@DOMAIN

Every rule about the form is here, and none about authorities or time. A certificate of any other form is refused as a
whole: no part of it counts.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote, unquote

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_der_public_key
from cryptography.x509.oid import ExtendedKeyUsageOID

from namegraph import InvalidNameError, NodeId, ServerId, Subnet, parse_name, parse_subnet, subnet_of
from nameserver.trust.identities import NotAuthentic, TrustFault

HOST_PREFIX = "shadowtree."
"""Beginning of the dNSName of a subnet. A certificate for the web server of a subnet is none for its name server."""

LEAF_BYTES_LIMIT = 96 * 1024
"""Bytes of a leaf. TLS libraries refuse chains of more than 100 KiB."""

LEAF_NAMES_LIMIT = 1_000
"""Names of a leaf: subnets of one server."""

SIGNING_KEY_OID = x509.ObjectIdentifier("2.25.249611549480231601474848036537970912012")
"""Extension with the public key with which a server signs, as SubjectPublicKeyInfo.

The arc 2.25 needs no registration: the number is a UUID.
"""

_SERVER_PATH = "/shadowtree/server"
_USER_PATH = "/shadowtree/user/"
_SCHEME = "spiffe://"

_UNREADABLE = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)
"""Errors of the library, which parses extensions late, for bytes that are not what they should be."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """Leaf of the right form. No authority has vouched for it yet."""

    certificate: x509.Certificate
    owner: ServerId | NodeId
    """Name of the server, or principal of the user."""
    is_server: bool
    subnets: tuple[Subnet, ...]
    """Subnets of the server, sorted. Empty for a user."""
    fingerprint: str
    key_pin: str
    signing_key: bytes | None

    @property
    def domain(self) -> Subnet:
        """Subnet that the authority must be trusted for."""
        return Subnet(self.owner) if self.is_server else subnet_of(NodeId(self.owner))

    @property
    def begins(self) -> datetime:
        """First moment of validity."""
        return self.certificate.not_valid_before_utc

    @property
    def expires(self) -> datetime:
        """Last moment of validity."""
        return self.certificate.not_valid_after_utc


def host_of(subnet: Subnet) -> str:
    """Return the dNSName of a subnet, under which its server is called."""
    return HOST_PREFIX + subnet


def uri_of_server(name: ServerId) -> str:
    """Return the URI of a server."""
    return f"{_SCHEME}{name}{_SERVER_PATH}"


def uri_of_user(principal: NodeId) -> str:
    """Return the URI of a user."""
    local, _, domain = principal.rpartition("@")
    return f"{_SCHEME}{domain}{_USER_PATH}{quote(local, safe='')}"


def fingerprint_of(certificate: x509.Certificate) -> str:
    """Return the fingerprint of a certificate."""
    return _digest(certificate.public_bytes(Encoding.DER))


def key_pin_of(certificate: x509.Certificate) -> str:
    """Return the fingerprint of the public key of a certificate. It outlives a renewal that keeps the key."""
    info = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return _digest(info)


def _digest(encoded: bytes) -> str:
    return f"sha256:{hashlib.sha256(encoded).hexdigest()}"


def read_leaf(certificate: x509.Certificate) -> Leaf | NotAuthentic:
    """Return the leaf of a certificate."""
    try:
        return _read(certificate)
    except _BadFormError as error:
        return NotAuthentic(error.kind, f"the certificate {_shown(certificate)} is refused: {error}")
    except _UNREADABLE as error:
        return NotAuthentic(TrustFault.MALFORMED, f"a certificate is refused: it cannot be read ({error})")


class _BadFormError(Exception):
    """Certificate of another form than `Leaf`."""

    def __init__(self, why: str, kind: TrustFault = TrustFault.MALFORMED) -> None:
        super().__init__(why)
        self.kind = kind


def _read(certificate: x509.Certificate) -> Leaf:
    if len(certificate.public_bytes(Encoding.DER)) > LEAF_BYTES_LIMIT:
        raise _BadFormError(f"it has more than {LEAF_BYTES_LIMIT:,} bytes")
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        raise _BadFormError("it has no subject alternative names") from None
    uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    if len(uris) != 1:
        raise _BadFormError(f"it has {len(uris)} URIs, and must have one")
    hosts = names.get_values_for_type(x509.DNSName)
    if len(names) != 1 + len(hosts):
        raise _BadFormError("it has names besides its URI and its dNSNames")
    _require_no_authority(certificate)
    is_server, owner = _owner(uris[0])
    if is_server:
        _require_server_use(certificate)
    return Leaf(
        certificate,
        owner,
        is_server,
        _subnets(ServerId(owner), hosts) if is_server else _no_hosts(hosts),
        fingerprint_of(certificate),
        key_pin_of(certificate),
        _signing_key(certificate),
    )


def _require_no_authority(certificate: x509.Certificate) -> None:
    extensions = certificate.extensions
    try:
        if extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
            raise _BadFormError("it is the certificate of an authority", TrustFault.WRONG_USE)
    except x509.ExtensionNotFound:
        pass
    try:
        usage = extensions.get_extension_for_class(x509.KeyUsage).value
        uses = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        raise _BadFormError("it does not say for what its key may be used", TrustFault.WRONG_USE) from None
    if not usage.digital_signature:
        raise _BadFormError("its key may not be used for digital signatures", TrustFault.WRONG_USE)
    if ExtendedKeyUsageOID.CLIENT_AUTH not in uses:
        raise _BadFormError("its key may not be used by clients (clientAuth)", TrustFault.WRONG_USE)


def _require_server_use(certificate: x509.Certificate) -> None:
    uses = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    if ExtendedKeyUsageOID.SERVER_AUTH not in uses:
        raise _BadFormError("it is of a server, and its key may not be used by servers", TrustFault.WRONG_USE)


def _owner(uri: str) -> tuple[bool, ServerId | NodeId]:
    """Return True and the name of a server, or False and the principal of a user."""
    domain, slash, rest = uri.removeprefix(_SCHEME).partition("/")
    path = slash + rest
    try:
        if uri.startswith(_SCHEME) and path == _SERVER_PATH and parse_subnet(domain) == domain:
            return True, ServerId(domain)
        if uri.startswith(_SCHEME) and path.startswith(_USER_PATH):
            principal = parse_name(f"{unquote(path.removeprefix(_USER_PATH), errors='strict')}@{domain}")
            if uri_of_user(principal) == uri:
                return False, principal
    except (InvalidNameError, UnicodeDecodeError):
        pass
    raise _BadFormError(
        f"its URI {uri[:300]!r} is neither {_SCHEME}NAME{_SERVER_PATH} nor {_SCHEME}DOMAIN{_USER_PATH}LOCAL",
        TrustFault.WRONG_NAME,
    )


def _subnets(name: ServerId, hosts: list[str]) -> tuple[Subnet, ...]:
    if len(hosts) > LEAF_NAMES_LIMIT:
        raise _BadFormError(f"it names {len(hosts):,} subnets, and may name {LEAF_NAMES_LIMIT:,}")
    found = []
    for host in hosts:
        text = host.removeprefix(HOST_PREFIX)
        if "*" in host:
            raise _BadFormError(f"its dNSName {host[:300]!r} is a wildcard", TrustFault.WRONG_NAME)
        try:
            if text == host or parse_subnet(text) != text:
                raise _BadFormError(f"its dNSName {host[:300]!r} is not {HOST_PREFIX}SUBNET", TrustFault.WRONG_NAME)
        except InvalidNameError as error:
            raise _BadFormError(f"its dNSName {host[:300]!r} holds an {error}", TrustFault.WRONG_NAME) from None
        found.append(Subnet(text))
    if Subnet(name) not in found:
        raise _BadFormError(f"its dNSNames do not include {host_of(Subnet(name))}", TrustFault.WRONG_NAME)
    return tuple(sorted(frozenset(found)))


def _no_hosts(hosts: list[str]) -> tuple[Subnet, ...]:
    if hosts:
        raise _BadFormError("it is of a user, and has dNSNames", TrustFault.WRONG_NAME)
    return ()


def _signing_key(certificate: x509.Certificate) -> bytes | None:
    try:
        extension = certificate.extensions.get_extension_for_oid(SIGNING_KEY_OID).value
    except x509.ExtensionNotFound:
        return None
    assert isinstance(extension, x509.UnrecognizedExtension)
    try:
        key = load_der_public_key(extension.value)
    except (ValueError, UnsupportedAlgorithm):
        raise _BadFormError("the signing key that it names cannot be read") from None
    if not isinstance(key, Ed25519PublicKey):
        raise _BadFormError("the signing key that it names is no Ed25519 key")
    return key.public_bytes_raw()


def _shown(certificate: x509.Certificate) -> str:
    return f"{fingerprint_of(certificate)[:23]}..."
