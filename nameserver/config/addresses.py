"""Addresses ``HOST:PORT``, as the configuration and operators write them."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import unquote

IPV4_NETWORK_BITS = 24
IPV6_NETWORK_BITS = 64
"""Leading bits of an address that name its network. One customer of a provider has at least so many addresses."""

THIS_MACHINE = "this machine"
"""Network of all callers that come over loopback or a Unix socket."""

WILDCARDS = ("0.0.0.0", "[::]")  # noqa: S104
"""Hosts that stand for all addresses of a machine."""


class InvalidAddressError(ValueError):
    """The text is no address. The message is one line."""


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
    """Return the announced form of an address that is listened on: without its host if that is a wildcard."""
    host, _, port = listen.rpartition(":")
    return f":{port}" if host in WILDCARDS else listen


def is_on_this_machine(address: str) -> bool:
    """Return True if no other machine reaches ``HOST:PORT``. Names other than `localhost` count as other machines."""
    host = address.rpartition(":")[0].removeprefix("[").removesuffix("]")
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def host_of(peer: str) -> str:
    """Return the host of a caller that gRPC names ``ipv4:HOST:PORT``, or the whole text if it has no port."""
    _, _, address = unquote(peer).partition(":")
    return address.rpartition(":")[0].removeprefix("[").removesuffix("]") or peer


def host_and_port_of(peer: str) -> str:
    """Return the address of a caller, as gRPC names it, without its family."""
    return unquote(peer).partition(":")[2] or peer


def is_loopback(peer: str) -> bool:
    """Return True if a caller, as gRPC names it (``ipv4:HOST:PORT``), is on this machine."""
    return is_loopback_host(host_of(peer))


def is_loopback_host(host: str) -> bool:
    """Return True if an IP address is reached from this machine alone. False if the text is no IP address."""
    found = _ip(host)
    return found is not None and found.is_loopback


def network_of(peer: str) -> str:
    """Return the network of a caller, as gRPC names it: a /24 of IPv4, a /64 of IPv6, or `THIS_MACHINE`."""
    host = ip_of(peer)
    if host is None:
        return THIS_MACHINE if peer.startswith("unix:") else host_of(peer)
    if host.is_loopback:
        return THIS_MACHINE
    bits = IPV4_NETWORK_BITS if isinstance(host, IPv4Address) else IPV6_NETWORK_BITS
    return str(ip_network((host, bits), strict=False))


def counted_as(peer: str) -> str:
    """Return the caller whose calls count together: a network, or one connection of this machine."""
    return host_and_port_of(peer) if (network := network_of(peer)) == THIS_MACHINE else network


def ip_of(peer: str) -> IPv4Address | IPv6Address | None:
    """Return the address of a caller. None if it has none."""
    return _ip(host_of(peer))


def _ip(text: str) -> IPv4Address | IPv6Address | None:
    """Return an address. An IPv4 address that is written as one of IPv6 counts as IPv4."""
    try:
        host = ip_address(text)
    except ValueError:
        return None
    return host.ipv4_mapped or host if isinstance(host, IPv6Address) else host


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")
