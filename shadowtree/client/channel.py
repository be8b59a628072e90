"""Where a client connects to and with which options."""

from __future__ import annotations

from typing import Any, Final

from shadowtree.errors import InvalidRequest
from shadowtree.vocabulary import Address

DEFAULT_ADDRESS: Final = "127.0.0.1:7400"

MESSAGE_LIMIT_BYTES: Final = 64 * 1024 * 1024
"""A server splits what it sends into chunks of a few megabytes; this is room to spare, not a way of working."""

OPTIONS: Final[tuple[tuple[str, Any], ...]] = (
    ("grpc.max_receive_message_length", MESSAGE_LIMIT_BYTES),
    ("grpc.max_send_message_length", MESSAGE_LIMIT_BYTES),
    # A server that comes back is found within a fraction of a second.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 2000),
    # Name servers are addressed directly; a web proxy of the environment cannot serve them.
    ("grpc.enable_http_proxy", 0),
)


def checked_address(address: Address) -> Address:
    """Return the address if it is ``HOST:PORT`` (``[v6]:PORT``), else raise `InvalidRequest`."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or "/" in address or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise InvalidRequest(f"the address of a server is HOST:PORT, not {address!r}", {"address": address})
    return address
