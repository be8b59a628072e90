"""``HOST:PORT``, as the configuration and operators write it."""

from __future__ import annotations


class InvalidAddressError(ValueError):
    """A text that is no address; the message is one line."""


def parse_address(text: str, *, lowest_port: int) -> str:
    """Return the text if it is ``HOST:PORT`` (``[v6]:PORT``), or raise `InvalidAddressError`."""
    host, _, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not host or any(character.isspace() for character in text) or ("/" in host) or (":" in host and not bracketed):
        raise InvalidAddressError(f"{_shown(text)} is not HOST:PORT")
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and lowest_port <= int(port) <= 65535):
        raise InvalidAddressError(f"{_shown(text)} does not end in a port from {lowest_port} to 65535")
    return text


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")
