"""Ends of tunnels without gRPC: a stream of pieces that a test feeds and reads, and a connection to play with."""

from __future__ import annotations

import asyncio
import socket

from nameserver.transport.peer_streams import StreamBrokenError
from shadowtree.v1.peer_pb2 import TunnelPiece


class PieceStream:
    """A stream of a tunnel. It takes `room` pieces that the test has not read."""

    def __init__(self, room=1_000):
        self._came = asyncio.Queue()
        self._written = asyncio.Queue(room)
        self._broken = asyncio.Event()

    async def read(self):
        reading = asyncio.ensure_future(self._came.get())
        breaking = asyncio.ensure_future(self._broken.wait())
        try:
            await asyncio.wait((reading, breaking), return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                return reading.result()
        finally:
            reading.cancel()
            breaking.cancel()
        raise StreamBrokenError("the call was ended")

    async def write(self, data):
        await self._written.put(data)

    async def finish(self):
        """Do nothing: the stream ends with its call."""

    # -- for tests

    def give(self, data):
        """Let bytes come, as one piece."""
        self._came.put_nowait(TunnelPiece(data=data).SerializeToString())

    def give_encoded(self, encoded):
        """Let a message come that may be no piece. None for the end of the stream."""
        self._came.put_nowait(encoded)

    async def taken(self):
        """Return the bytes of the next piece that was written."""
        return TunnelPiece.FromString(await self._written.get()).data

    @property
    def untaken(self):
        """Number of pieces that were written and not read by the test."""
        return self._written.qsize()

    def break_off(self):
        """End the call."""
        self._broken.set()


async def connection(limit=2**16):
    """Return the two ends of a connection, each as a reader and a writer."""
    one, other = socket.socketpair()
    for end in (one, other):
        # Small buffers of the kernel, so that an end that reads nothing is noticed soon.
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**16)
    return await asyncio.open_connection(sock=one, limit=limit), await asyncio.open_connection(sock=other, limit=limit)
