"""Copy the bytes of a tunnel between a connection and a stream of calls, both ways, until either end is gone.

    connection --- read ---> a piece --- paced ---> stream
               <--- write --- a piece <-- paced ---

Each direction reads the next piece only once the last one was taken. A slow end therefore slows the other end down, and
a tunnel holds a piece each way besides the buffers of its two connections.

Source: docs/protocol-partitions.md, "Who is there" (two servers that cannot reach each other).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from nameserver.transport.peer_streams import FrameStream, StreamBrokenError
from nameserver.wire.tunnel_pieces import PIECE_BYTES_LIMIT, NoPieceError, decode_piece, encode_piece

IDLE_SECONDS = 30.0
"""Longest time without a byte either way. Connections between servers ping every 10 seconds, also without calls."""

STALLED_SECONDS = 30.0
"""Longest time for which an end may take no piece. A server that lives takes some every 10 seconds at least."""

LOOK_SECONDS = 5.0
"""Time between two looks for idle tunnels and stalled ends. It makes both limits longer by as much, at most."""

Pace = Callable[[int, bool], Awaitable[None]]
"""Wait until some more bytes may pass. True for bytes from the connection to the stream."""


class ByteBudget:
    """Bytes that may pass in a second, with a burst: a token bucket."""

    def __init__(self, *, bytes_per_second: float, burst_bytes: float, clock: Callable[[], float]) -> None:
        """`clock` returns seconds and does not go back."""
        self._bytes_per_second = bytes_per_second
        self._burst_bytes = self._left = burst_bytes
        self._clock = clock
        self._counted_at = clock()

    def spend(self, count: int) -> float:
        """Take `count` bytes from the budget. Return the seconds to wait before the bytes may pass."""
        now = self._clock()
        earned = (now - self._counted_at) * self._bytes_per_second
        self._left = min(self._burst_bytes, self._left + earned) - count
        self._counted_at = now
        return max(0.0, -self._left / self._bytes_per_second)


@dataclass(slots=True)
class _Movement:
    """Times of the bytes of a tunnel, on the clock of the event loop."""

    last: float
    """Time of the last piece that came or was taken, either way."""
    offered: dict[bool, float]
    """Time since which a piece waits to be taken, by direction."""

    def complaint(self, now: float) -> str | None:
        """Return the reason to end the tunnel. None if there is none."""
        if any(now - since >= STALLED_SECONDS for since in self.offered.values()):
            return f"an end has taken nothing for {STALLED_SECONDS:g} seconds"
        if now - self.last >= IDLE_SECONDS:
            return f"nothing has come for {IDLE_SECONDS:g} seconds"
        return None


async def copy_both_ways(
    stream: FrameStream,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    *,
    until: asyncio.Future[str] | None = None,
    pace: Pace | None = None,
) -> str:
    """Copy until an end is gone, is silent or stalls, or `until` is done. Return the reason in one line."""
    loop = asyncio.get_running_loop()
    moved = _Movement(loop.time(), {})
    ways = (
        asyncio.ensure_future(_to_stream(reader, stream, moved, pace)),
        asyncio.ensure_future(_to_connection(stream, writer, moved, pace)),
    )
    ends = ways if until is None else (*ways, until)
    try:
        while True:
            done, _ = await asyncio.wait(ends, timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            why = next(iter(done)).result() if done else moved.complaint(loop.time())
            if why is not None:
                return why
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _to_stream(reader: asyncio.StreamReader, stream: FrameStream, moved: _Movement, pace: Pace | None) -> str:
    time = asyncio.get_running_loop().time
    try:
        while data := await reader.read(PIECE_BYTES_LIMIT):
            if pace is not None:
                await pace(len(data), True)
            moved.last = moved.offered[True] = time()
            await stream.write(encode_piece(data))
            del moved.offered[True]
    except (OSError, StreamBrokenError) as error:
        return str(error)
    return "the connection was closed"


async def _to_connection(stream: FrameStream, writer: asyncio.StreamWriter, moved: _Movement, pace: Pace | None) -> str:
    time = asyncio.get_running_loop().time
    try:
        while (encoded := await stream.read()) is not None:
            data = decode_piece(encoded)
            if pace is not None:
                await pace(len(data), False)
            moved.last = moved.offered[False] = time()
            writer.write(data)
            await writer.drain()
            del moved.offered[False]
    except (OSError, StreamBrokenError, NoPieceError) as error:
        return str(error)
    return "the stream was ended"
