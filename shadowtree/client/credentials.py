"""Credentials of a client, and the channels that they make.

    ca                  TLS: the server proves itself by the authority of its organisation, a file
    certificate, key    files: the client proves itself by TLS, at `listen_mutual`
    token               an API key or a token, sent with each call over TLS, or on this machine

A certificate of a server names its subnets, not its address. A client expects the subnet that the authority is named
after; `server_name` names another subnet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, TypeAlias

import grpc

from shadowtree.client.channel import UNIX_PREFIX
from shadowtree.errors import InvalidRequest
from shadowtree.vocabulary import Address

HOST_PREFIX: Final = "shadowtree."
"""Beginning of the names in the certificate of a server. The subnet follows."""

FILE_BYTES_LIMIT: Final = 1024 * 1024
"""Bytes of a file of certificates or of a key."""

TOKEN_LIMIT: Final = 8_192
"""Characters of an API key or token, as servers take them."""

Token: TypeAlias = str | Callable[[], str]
"""API key or token, or a function that returns the one to send now: tokens end after an hour."""

FilePath: TypeAlias = str | Path


@dataclass(frozen=True, slots=True)
class Credentials:
    """Checked credentials of one client."""

    ca: bytes | None = None
    certificate: bytes | None = None
    key: bytes | None = None
    token: Token | None = None
    host: str = ""
    """Name that the certificate of the server must have. Empty without `ca`."""

    def require_for(self, address: Address) -> None:
        """Raise `InvalidRequest` if the credentials would not be safe, or of use, at an address."""
        if address.startswith(UNIX_PREFIX):
            if self.token is not None or self.certificate is not None:
                raise InvalidRequest(
                    "the local socket takes no credential: opening it proves an operator", {"address": address}
                )
        elif self.ca is None and self.token is not None and not is_on_this_machine(address):
            raise InvalidRequest(
                f"a credential goes to {address} over TLS alone: give the authority of the server (ca)",
                {"address": address},
            )

    def channel(self, address: Address, options: Any, *, of: Any) -> Any:
        """Return a channel to an address. `of`: the module `grpc` or `grpc.aio`."""
        self.require_for(address)
        if self.ca is None or address.startswith(UNIX_PREFIX):
            return of.insecure_channel(address, options=options)
        credentials = grpc.ssl_channel_credentials(self.ca, self.key, self.certificate)
        return of.secure_channel(address, credentials, options=[*options, ("grpc.ssl_target_name_override", self.host)])

    def metadata(self) -> tuple[tuple[str, str], ...] | None:
        """Return the metadata of a call. None if the client sends no credential."""
        if self.token is None:
            return None
        token = self.token if isinstance(self.token, str) else self.token()
        return (("authorization", f"Bearer {checked_token(token)}"),)


NO_CREDENTIALS: Final = Credentials()


def checked_credentials(
    *,
    ca: FilePath | None = None,
    certificate: FilePath | None = None,
    key: FilePath | None = None,
    token: Token | None = None,
    server_name: str | None = None,
) -> Credentials:
    """Read and check the credentials of a client. Raises `InvalidRequest`."""
    if certificate is None and key is None and ca is None and server_name is None:
        return NO_CREDENTIALS if token is None else Credentials(token=_checked_source(token))
    if (certificate is None) != (key is None):
        raise InvalidRequest("a certificate and its key belong together: give both files, or neither", {})
    if ca is None:
        raise InvalidRequest("a certificate and a server name need the authority of the server, too: give `ca`", {})
    if certificate is not None and token is not None:
        raise InvalidRequest("a server takes one credential: give a certificate or a token, not both", {})
    authority = _content(ca, "ca")
    return Credentials(
        ca=authority,
        certificate=None if certificate is None else _content(certificate, "certificate"),
        key=None if key is None else _content(key, "key"),
        token=None if token is None else _checked_source(token),
        host=HOST_PREFIX + (server_name or _name_of_authority(authority, ca)).lower(),
    )


def checked_token(token: object) -> str:
    """Return an API key or a token if it can be sent, else raise `InvalidRequest`. The error does not show it."""
    if not isinstance(token, str):
        raise InvalidRequest("a token is a text", {})
    text = token.strip()
    if not 0 < len(text) <= TOKEN_LIMIT or not (text.isascii() and text.isprintable()) or " " in text:
        raise InvalidRequest(f"a token has 1 to {TOKEN_LIMIT:,} printable ASCII characters, without spaces", {})
    return text


def _checked_source(token: Token) -> Token:
    return token if callable(token) else checked_token(token)


def is_on_this_machine(address: Address) -> bool:
    """Return True if an address ``HOST:PORT`` is that of this machine alone."""
    host = address.rpartition(":")[0].removeprefix("[").removesuffix("]")
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _content(path: FilePath, what: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            content = file.read(FILE_BYTES_LIMIT + 1)
    except OSError as error:
        raise InvalidRequest(f"{what}: {path} cannot be read: {error.strerror}", {"file": str(path)}) from None
    if b"-----BEGIN " not in content or len(content) > FILE_BYTES_LIMIT:
        raise InvalidRequest(f"{what}: {path} is no PEM file", {"file": str(path)})
    return content


def _name_of_authority(pem: bytes, path: FilePath) -> str:
    """Return the subnet that an authority is named after, which is its common name."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    try:
        subject = x509.load_pem_x509_certificates(pem)[0].subject
        name = str(subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)
    except (ValueError, IndexError):
        raise InvalidRequest(
            f"ca: {path} is no certificate that names its subnet: say which one the server owns (server_name)",
            {"file": str(path)},
        ) from None
    return name
