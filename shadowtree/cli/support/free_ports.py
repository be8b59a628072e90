"""Unused ports for servers that must know one another's addresses before any of them runs."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Final

LOWEST: Final = 10_000
EPHEMERAL_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
LOWEST_EPHEMERAL: Final = 32_768
"""Default of the lowest ephemeral port, for systems that do not publish it."""

_given: set[int] = set()


def unused_ports(count: int) -> list[int]:
    """Return unused ports of 127.0.0.1.

    The system assigns none of them to a connection, nor to a program that asks for any port. Therefore they are still
    unused when the servers bind them. No two calls in one process return the same port.
    """
    found: list[int] = []
    with ExitStack() as held:
        for port in _candidates():
            if len(found) == count:
                break
            if port not in _given and _binds(held.enter_context(socket.socket()), port):
                _given.add(port)
                found.append(port)
    if len(found) < count:
        raise OSError(f"no {count} ports of 127.0.0.1 from {LOWEST} on are unused")
    return found


def _candidates() -> list[int]:
    """Return the ports in random order, so that programs running at the same time choose different ports."""
    ports = list(range(LOWEST, max(_lowest_ephemeral(), LOWEST + 1_000)))
    random.shuffle(ports)
    return ports


def _lowest_ephemeral() -> int:
    try:
        return int(EPHEMERAL_RANGE.read_text(encoding="ascii").split()[0])
    except FileNotFoundError:
        return LOWEST_EPHEMERAL


def _binds(listener: socket.socket, port: int) -> bool:
    try:
        listener.bind(("127.0.0.1", port))
    except OSError:
        return False
    return True
