"""Identify the program at an address without a gRPC server: none yet, or a server of another kind.

connect --refused, timeout--> nothing
   |
   +--> the opening of HTTP/2 is sent --its answer---> nothing yet: a name server that starts, or is behind a proxy
                                      --silence------> nothing yet: a server that hangs
                                      --other bytes--> another kind of server: HTTP/1, TLS, SSH, mail
                                      --end----------> the same
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""The first bytes of an HTTP/2 client, with an empty SETTINGS frame (RFC 9113, section 3.4)."""

FRAME_HEADER_BYTES = 9

SETTINGS_TYPE = 4

CONNECT_SECONDS = 2.0

ANSWER_SECONDS = 1.0


async def is_another_kind_of_server(address: str) -> bool:
    """Return True if a server answers at ``HOST:PORT`` that does not speak HTTP/2, as gRPC does."""
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(host.removeprefix("[").removesuffix("]"), int(port))
    except (OSError, UnicodeError):
        return False
    try:
        return await _answers_otherwise(reader, writer)
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def _answers_otherwise(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            writer.write(PREFACE)
            header = await reader.readexactly(FRAME_HEADER_BYTES)
    except TimeoutError:
        return False
    except (asyncio.IncompleteReadError, ConnectionError):
        return True
    return header[3] != SETTINGS_TYPE or any(header[5:])
