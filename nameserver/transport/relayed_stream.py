"""The ends of a stream between two servers that leads through a third; used like the ends of a gRPC stream.

The sender is at most WINDOW_LIMIT payloads ahead of the receiver, so that the server between them never holds more.

At each end, a stream belongs to one session with the server between, and ends with it. What that session had not passed
on is lost with it, so what comes over a later one must not go on where a payload is missing.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from namegraph import ServerId
from nameserver.session.frames import Relay
from nameserver.transport.peer_streams import StreamBrokenError

WINDOW_LIMIT = 8
"""Payloads, each at most a frame, that are on their way: enough to keep the server between busy."""

UNREAD_BYTES_LIMIT = 16 * 1024 * 1024
"""What waits to be read of one stream: far more than a window of letters, and than the largest greeting."""

ACCEPTED_LIMIT = 1_000
"""Streams that others dialled and that are not over: more than there are servers."""

FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class StreamKey:
    """What tells the streams of a server apart."""

    other: ServerId
    via: ServerId
    session: int
    """The number of the session with the server between."""
    number: int
    is_dialled_here: bool


class RelayedStream:
    """One end. `send` gives a frame to the server between, and returns whether it could be given."""

    def __init__(self, key: StreamKey, *, here: ServerId, send: Callable[[Relay], bool]) -> None:
        self.key = key
        self._here = here
        self._send = send
        self._came: deque[bytes] = deque()
        self._sent = self._taken_there = self._taken = self._told = 0
        self._end = ""
        """Why nothing more comes or goes."""
        self._changed = asyncio.Event()

    async def read(self) -> bytes | None:
        """As `FrameStream` says."""
        while not self._came:
            if self._end:
                raise StreamBrokenError(self._end)
            await self._until_change()
        data = self._came.popleft()
        self._taken += 1
        if self._taken - self._told >= WINDOW_LIMIT // 2 and not self._end:
            self._give(b"")
        return data

    async def write(self, data: bytes) -> None:
        """As `FrameStream` says."""
        while self._sent - self._taken_there >= WINDOW_LIMIT and not self._end:
            await self._until_change()
        if self._end:
            raise StreamBrokenError(self._end)
        self._sent += 1
        self._give(data)

    async def finish(self) -> None:
        """As `FrameStream` says."""
        self.cancel()

    def cancel(self) -> None:
        """Give the stream up, and say so, unless the other end has."""
        if not self._end:
            self._give(b"", end=FINISHED)
            self.broken(FINISHED)

    def deliver(self, relay: Relay) -> None:
        """What the other end has sent."""
        self._taken_there = min(max(self._taken_there, relay.taken), self._sent)
        if relay.payload:
            self._came.append(relay.payload)
        if len(self._came) > WINDOW_LIMIT or sum(map(len, self._came)) > UNREAD_BYTES_LIMIT:
            self.cancel()
        elif relay.end:
            self.broken(relay.end)
        self._notify()

    def broken(self, why: str) -> None:
        """Nothing more comes or goes."""
        self._end = self._end or why
        self._notify()

    def _give(self, payload: bytes, *, end: str = "") -> None:
        key = self.key
        relay = Relay(
            session=0,
            source=self._here,
            destination=key.other,
            stream=key.number,
            is_by_dialler=key.is_dialled_here,
            is_first=key.is_dialled_here and self._sent == 1 and bool(payload),
            taken=self._taken,
            payload=payload,
            end=end,
        )
        self._told = self._taken
        if not self._send(relay):
            self.broken(f"{key.via} takes no more to pass on")

    async def _until_change(self) -> None:
        await self._changed.wait()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class RelayedStreams:
    """All streams of a server that lead through others."""

    def __init__(self, *, here: ServerId, first_number: int, send: Callable[[StreamKey, Relay], bool]) -> None:
        """`send` gives a frame of a stream to the server that passes it on, over the session that the stream uses."""
        self._here = here
        self._numbers: Iterator[int] = itertools.count(first_number)
        self._send = send
        self._streams: dict[StreamKey, RelayedStream] = {}

    def dial(self, other: ServerId, *, via: ServerId, session: int) -> RelayedStream:
        """A new stream to another server, over a session with the one between."""
        return self._add(StreamKey(other, via, session, next(self._numbers), is_dialled_here=True))

    def take(self, relay: Relay, *, via: ServerId) -> RelayedStream | None:
        """Take a frame that arrived; returns the stream if it is new. Raises `NoSuchStreamError`."""
        key = StreamKey(relay.source, via, relay.session, relay.stream, is_dialled_here=not relay.is_by_dialler)
        stream = self._streams.get(key)
        is_new = stream is None
        if stream is None:
            if relay.end:
                return None
            if not (relay.is_by_dialler and relay.is_first) or len(self._streams) >= ACCEPTED_LIMIT:
                raise NoSuchStreamError
            stream = self._add(key)
        stream.deliver(relay)
        return stream if is_new else None

    def close(self, stream: RelayedStream) -> None:
        """Forget a stream that is no longer used."""
        stream.cancel()
        self._streams.pop(stream.key, None)

    def lose(self, via: ServerId, session: int) -> None:
        """A session with a server that passed frames on is over, and lost is what it had not passed on yet."""
        for stream in [stream for key, stream in self._streams.items() if (key.via, key.session) == (via, session)]:
            stream.broken(f"the connection with {via} was lost")

    def _add(self, key: StreamKey) -> RelayedStream:
        stream = self._streams[key] = RelayedStream(key, here=self._here, send=lambda relay: self._send(key, relay))
        return stream


class NoSuchStreamError(Exception):
    """A frame came of a stream that is over, or one too many was dialled."""
