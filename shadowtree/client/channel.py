"""Addresses and channel options of a client, which uses one of several servers until that cannot be reached."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import grpc.experimental

from shadowtree.errors import InvalidRequest
from shadowtree.vocabulary import Address

DEFAULT_ADDRESS: Final = "127.0.0.1:7400"

MESSAGE_LIMIT_BYTES: Final = 64 * 1024 * 1024
"""Maximum message size. Servers split data into chunks of a few megabytes, so this leaves ample room."""

UNIX_PREFIX: Final = "unix:"
"""Beginning of the address of a server's local socket. Its path follows."""

SOCKET_PATH_LIMIT: Final = 107
"""Bytes of the path of a Unix socket."""

CONNECT_TIMEOUT_S: Final = 4.0
"""Time limit in seconds of one attempt to connect. gRPC's 20 seconds exceed the patience of the command line."""

OPTIONS: Final[tuple[tuple[str, Any], ...]] = (
    ("grpc.max_receive_message_length", MESSAGE_LIMIT_BYTES),
    ("grpc.max_send_message_length", MESSAGE_LIMIT_BYTES),
    # A server that comes back is found within a fraction of a second.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 2000),
    # Despite its name: the time limit of an attempt to connect.
    ("grpc.min_reconnect_backoff_ms", int(CONNECT_TIMEOUT_S * 1000)),
    # Name servers are addressed directly; a web proxy of the environment cannot serve them.
    ("grpc.enable_http_proxy", 0),
)

STREAMS_WITHOUT_THREADS: Final[tuple[tuple[str, Any], ...]] = (
    (grpc.experimental.ChannelOptions.SingleThreadedUnaryStream, 1),
)
"""Options of the synchronous client: a stream of answers costs no thread of its own."""


class Addresses:
    """The servers that a client may ask. The client stays with one until it cannot be reached, then uses the next."""

    def __init__(self, addresses: Address | Iterable[Address]) -> None:
        """Accept one address, several with commas between them, or a list; raise `InvalidRequest` for anything else."""
        if not isinstance(addresses, Iterable):
            raise _no_address(addresses)
        listed = addresses.split(",") if isinstance(addresses, str) else addresses
        self.all: tuple[Address, ...] = tuple(dict.fromkeys(map(checked_address, listed)))
        if not self.all:
            raise _no_address(addresses)
        self._position = 0

    @property
    def current(self) -> Address:
        """Address of the server to ask."""
        return self.all[self._position]

    def leave(self, address: Address) -> None:
        """Continue with the next address, unless another call did already."""
        if address == self.current:
            self._position = (self._position + 1) % len(self.all)


def checked_address(address: Address) -> Address:
    """Return the address if it can be called, else raise `InvalidRequest`.

    It is ``HOST:PORT`` (``[v6]:PORT``), or ``unix:PATH`` of a socket on this machine.
    """
    if not isinstance(address, str):
        raise _no_address(address)
    address = address.strip()
    if address.startswith(UNIX_PREFIX):
        return _checked_socket(address)
    host, colon, port = address.rpartition(":")
    if not colon or not host or "/" in address or not _is_port(port):
        raise _no_address(address)
    return address


def _checked_socket(address: Address) -> Address:
    path = address.removeprefix(UNIX_PREFIX)
    if not path or "\0" in path:
        raise _no_address(address)
    if len(path.encode(errors="surrogateescape")) > SOCKET_PATH_LIMIT:
        raise InvalidRequest(
            f"the path of a socket has at most {SOCKET_PATH_LIMIT} bytes, and {path[:40]!r}... has more; change into "
            "its folder and give the rest, such as unix:NAME.sock",
            {"address": address},
        )
    return address


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) <= 65535


def _no_address(given: object) -> InvalidRequest:
    return InvalidRequest(f"the address of a server is HOST:PORT or unix:PATH, not {given!r}", {"address": str(given)})
