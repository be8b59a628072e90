"""Handshake with an address, to see which certificate the server there shows.

gRPC for Python checks the certificate of a server, but shows it to nobody. A handshake besides shows it: the names in
it, and the reason if gRPC refuses it. The handshake proves that the server has the key.

    connect --refused, timeout--> unreachable
       |
       +--> TLS handshake with the pinned authorities --> leaf
                     |
                     +--refused--> handshake without a check: the leaf, and the reason for people
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from dataclasses import dataclass

from cryptography import x509

from nameserver.config.socket_paths import UNIX_PREFIX
from nameserver.trust.bundles import Bundle
from nameserver.trust.identities import NotAuthentic
from nameserver.trust.leaves import Leaf, fingerprint_of, read_leaf

_PLAIN_TEXT = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")
"""Reasons of OpenSSL for an answer in plain text."""

HANDSHAKE_SECONDS = 3.0
"""Timeout of a connection and its handshake."""


@dataclass(frozen=True, slots=True)
class SeenLeaf:
    """Certificate that the server at an address has shown and proven."""

    leaf: Leaf


@dataclass(frozen=True, slots=True)
class Unbelieved:
    """Server at an address that has not proven what was demanded."""

    why: str
    """One line for operators: the certificate, its issuer, and what was expected."""


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """Address at which nobody answers."""

    why: str


async def leaf_at(address: str, host: str, bundle: Bundle) -> SeenLeaf | Unbelieved | NoAnswer:
    """Return the leaf of the server at an address, called under a host name, if the bundle vouches for it."""
    context = ssl.create_default_context(cadata=bundle.pem.decode("ascii"))
    try:
        certificate = await _handshake(address, host, context)
    except ssl.SSLCertVerificationError as error:
        return Unbelieved(await _refused(address, host, error.verify_message, bundle))
    except ssl.SSLError as error:
        return Unbelieved(_no_tls(address, error))
    except (OSError, TimeoutError, UnicodeError, asyncio.IncompleteReadError) as error:
        return NoAnswer(str(error) or "no answer in time")
    leaf = read_leaf(certificate)
    return Unbelieved(leaf.why) if isinstance(leaf, NotAuthentic) else SeenLeaf(leaf)


async def speaks_tls(address: str) -> bool:
    """Return True if the server at an address answers a handshake of TLS."""
    try:
        await _handshake(address, "", _believing())
    except ssl.SSLError as error:
        return error.reason not in _PLAIN_TEXT
    except (OSError, TimeoutError, UnicodeError, asyncio.IncompleteReadError):
        return False
    return True


def _believing() -> ssl.SSLContext:
    """Return a context that believes every certificate, to look at it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def _handshake(address: str, host: str, context: ssl.SSLContext) -> x509.Certificate:
    # gRPC closes connections that do not ask for HTTP/2.
    context.set_alpn_protocols(["h2"])
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    async with asyncio.timeout(HANDSHAKE_SECONDS):
        if address.startswith(UNIX_PREFIX):
            path = address.removeprefix(UNIX_PREFIX)
            _, writer = await asyncio.open_unix_connection(path, ssl=context, server_hostname=host)
        else:
            name, _, port = address.rpartition(":")
            name = name.removeprefix("[").removesuffix("]")
            _, writer = await asyncio.open_connection(name, int(port), ssl=context, server_hostname=host)
    try:
        encoded = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return x509.load_der_x509_certificate(encoded)
    except (ValueError, TypeError):
        raise ssl.SSLError("it shows no certificate that can be read") from None
    finally:
        writer.close()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                await writer.wait_closed()


async def _refused(address: str, host: str, why: str, bundle: Bundle) -> str:
    """Return the line about a certificate that was refused."""
    try:
        certificate = await _handshake(address, host, _believing())
    except (OSError, TimeoutError):
        return f"the certificate of the server at {address} is refused: {why}"
    expected = ", ".join(each[:23] for each in bundle.fingerprints)
    leaf = read_leaf(certificate)
    shown = f"of {leaf.owner}" if not isinstance(leaf, NotAuthentic) else "of another form"
    return (
        f"the server at {address} shows the certificate {fingerprint_of(certificate)[:23]}... {shown}, of the issuer "
        f"{certificate.issuer.rfc4514_string()[:100]!r}; expected is {host}, of the authority {expected}: {why}"
    )


def _no_tls(address: str, error: ssl.SSLError) -> str:
    if error.reason in _PLAIN_TEXT:
        return f"the server at {address} speaks plain text, not TLS: give the address of its `listen_mutual`"
    return f"the handshake with the server at {address} failed: {(error.reason or str(error))[:100]}"
