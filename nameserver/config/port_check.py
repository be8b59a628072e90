"""Takes the port, or refuses with one clear line where another process has it."""

from __future__ import annotations

import socket
from ipaddress import ip_address


class ListenError(Exception):
    """The address cannot be listened on; the message is one line."""


def check_address(listen: str) -> bool:
    """Raise `ListenError` where ``HOST:PORT`` cannot be bound; return whether other machines may reach it.

    gRPC would say that it failed, not why, and log several lines.
    """
    host, _, port = listen.rpartition(":")
    try:
        found = socket.getaddrinfo(
            host.removeprefix("[").removesuffix("]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not a host name"
        raise ListenError(f"cannot listen on {listen}: {why}") from None
    for family, kind, protocol, _, address in found:
        with socket.socket(family, kind, protocol) as attempt:
            # As gRPC does; otherwise connections that lately ended would keep the port.
            attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                attempt.bind(address)
                attempt.listen(1)
            except OSError as error:
                raise ListenError(f"cannot listen on {listen}: {error.strerror}") from None
    return not all(ip_address(str(address[0]).partition("%")[0]).is_loopback for *_, address in found)
