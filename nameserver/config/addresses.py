"""``HOST:PORT``, as the configuration and operators write it."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address
from urllib.parse import unquote

WILDCARDS = ("0.0.0.0", "[::]")  # noqa: S104
"""Hosts that stand for all addresses of a machine."""


class InvalidAddressError(ValueError):
    """A text that is no address; the message is one line."""


def parse_address(text: str, *, lowest_port: int) -> str:
    """Return the text if it is ``HOST:PORT`` (``[v6]:PORT``), or raise `InvalidAddressError`."""
    host, _, port = text.rpartition(":")
    if host in ("", "*") and ":" in text and not any(character.isspace() for character in text):
        everywhere = f"; for all addresses of this machine, write {WILDCARDS[0]}:{port}" if lowest_port == 0 else ""
        raise InvalidAddressError(f"{_shown(text)} is not HOST:PORT: it names no host{everywhere}")
    bracketed = host.startswith("[") and host.endswith("]")
    if not host or any(character.isspace() for character in text) or ("/" in host) or (":" in host and not bracketed):
        raise InvalidAddressError(f"{_shown(text)} is not HOST:PORT")
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and lowest_port <= int(port) <= 65535):
        raise InvalidAddressError(f"{_shown(text)} does not end in a port from {lowest_port} to 65535")
    return text


def announced(listen: str) -> str:
    """Return what other servers are told of an address that is listened on: without its host if that is a wildcard."""
    host, _, port = listen.rpartition(":")
    return f":{port}" if host in WILDCARDS else listen


def host_of(peer: str) -> str:
    """Return the host of a caller that gRPC names ``ipv4:HOST:PORT``, or the whole text if it has no port."""
    _, _, address = unquote(peer).partition(":")
    return address.rpartition(":")[0].removeprefix("[").removesuffix("]") or peer


def is_loopback(peer: str) -> bool:
    """Return True if a caller, as gRPC names it (``ipv4:HOST:PORT``), is on this machine."""
    try:
        host = ip_address(host_of(peer))
    except ValueError:
        return False
    if isinstance(host, IPv6Address) and host.ipv4_mapped is not None:
        return host.ipv4_mapped.is_loopback
    return host.is_loopback


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")
