"""A mail server that takes every message at once and counts it: `python -m benchmarks.mail_sink` prints its address.

It speaks the part of SMTP that a gateway uses, and offers XVERP. It answers XCOUNT with the counts since XRESET.
"""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass, field
from typing import cast


@dataclass
class Counts:
    """Counts since the last reset."""

    people: set[bytes] = field(default_factory=set)
    copies: int = 0
    """Recipients of all transactions."""
    transactions: int = 0
    bytes: int = 0
    """Bytes that gateways sent, including commands."""


class Sink:
    """The counts that all connections share."""

    def __init__(self) -> None:
        self.counts = Counts()


class Session(asyncio.Protocol):
    """One connection."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._held = b""
        self._is_data = False
        self._people: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(b"220 sink\r\n")

    def data_received(self, data: bytes) -> None:
        self._held += data
        while True:
            end = b"\r\n.\r\n" if self._is_data else b"\r\n"
            line, found, rest = self._held.partition(end)
            if not found:
                return
            self._held = rest
            if self._is_data or not line.startswith(b"X"):
                self._sink.counts.bytes += len(line) + len(end)
            self._transport.write(self._end_of_message() if self._is_data else self._answer(line))

    def _end_of_message(self) -> bytes:
        self._is_data = False
        counts = self._sink.counts
        counts.transactions += 1
        counts.copies += len(self._people)
        counts.people.update(self._people)
        return b"250 ok\r\n"

    def _answer(self, line: bytes) -> bytes:
        match line[:4].upper():
            case b"EHLO":
                return b"250-sink\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n250 XVERP\r\n"
            case b"MAIL":
                self._people = []
            case b"RCPT":
                self._people.append(line.partition(b"<")[2].rpartition(b">")[0])
            case b"DATA":
                self._is_data = True
                return b"354 go on\r\n"
            case b"XCOU":
                counts = self._sink.counts
                found = (len(counts.people), counts.copies, counts.transactions, counts.bytes)
                return b"250 %d %d %d %d\r\n" % found
            case b"XRES":
                self._sink.counts = Counts()
            case b"QUIT":
                self._transport.close()
                return b"221 bye\r\n"
        return b"250 ok\r\n"


def counted(port: int) -> tuple[int, int, int, int]:
    """Return people, copies, transactions and bytes since the last reset, at the sink of a port."""
    people, copies, transactions, size = map(int, _ask(port, b"XCOUNT").split()[1:])
    return people, copies, transactions, size


def reset(port: int) -> None:
    """Reset the counts to zero."""
    _ask(port, b"XRESET")


def _ask(port: int, command: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        replies = connection.makefile("rb")
        replies.readline()
        connection.sendall(command + b"\r\n")
        return replies.readline()


async def _serve() -> None:
    sink = Sink()
    server = await asyncio.get_running_loop().create_server(lambda: Session(sink), "127.0.0.1", 0)
    print(f"sink on 127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve())
