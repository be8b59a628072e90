"""Ends of a stream between two servers that leads through a third server.

They are used like the ends of a gRPC stream.

The sender is at most WINDOW_LIMIT payloads ahead of the receiver, so the intermediate server never holds more.

At each end, a stream belongs to one session with the intermediate server, and ends with it. Payloads that this session
had not passed on are lost with it. Payloads over a later session must not continue the stream, because one may be
missing.
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
"""Payloads under way, each at most a frame: enough to keep the intermediate server busy."""

UNREAD_BYTES_LIMIT = 16 * 1024 * 1024
"""Bytes of one stream that wait to be read: far more than a window of letters, and than the largest greeting."""

ACCEPTED_LIMIT = 1_000
"""Most streams that other servers dialled and that are not over: more than there are servers."""

FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class StreamKey:
    """Identity of a stream of a server."""

    other: ServerId
    via: ServerId
    session: int
    """Number of the session with the intermediate server."""
    number: int
    is_dialled_here: bool


class RelayedStream:
    """One end of a stream. `send` gives a frame to the intermediate server, and returns False if it could not."""

    def __init__(self, key: StreamKey, *, here: ServerId, send: Callable[[Relay], bool]) -> None:
        self.key = key
        self._here = here
        self._send = send
        self._came: deque[bytes] = deque()
        self._sent = self._taken_there = self._taken = self._told = 0
        self._end = ""
        """Reason why the stream is over. Empty while it is not."""
        self._changed = asyncio.Event()

    async def read(self) -> bytes | None:
        """Read as `FrameStream` defines."""
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
        """Write as `FrameStream` defines."""
        while self._sent - self._taken_there >= WINDOW_LIMIT and not self._end:
            await self._until_change()
        if self._end:
            raise StreamBrokenError(self._end)
        self._sent += 1
        self._give(data)

    async def finish(self) -> None:
        """Finish as `FrameStream` defines."""
        self.cancel()

    def cancel(self) -> None:
        """Give the stream up, and tell the other end, unless it has ended the stream."""
        if not self._end:
            self._give(b"", end=FINISHED)
            self.broken(FINISHED)

    def deliver(self, relay: Relay) -> None:
        """Take a frame of the other end."""
        self._taken_there = min(max(self._taken_there, relay.taken), self._sent)
        if relay.payload:
            self._came.append(relay.payload)
        if len(self._came) > WINDOW_LIMIT or sum(map(len, self._came)) > UNREAD_BYTES_LIMIT:
            self.cancel()
        elif relay.end:
            self.broken(relay.end)
        self._notify()

    def broken(self, why: str) -> None:
        """End the stream: no more frames come or go."""
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
    """All streams of a server that lead through other servers."""

    def __init__(self, *, here: ServerId, first_number: int, send: Callable[[StreamKey, Relay], bool]) -> None:
        """`send` gives a frame of a stream to the server that passes it on, over the session that the stream uses."""
        self._here = here
        self._numbers: Iterator[int] = itertools.count(first_number)
        self._send = send
        self._streams: dict[StreamKey, RelayedStream] = {}

    def dial(self, other: ServerId, *, via: ServerId, session: int) -> RelayedStream:
        """Return a new stream to another server, over a session with the intermediate server."""
        return self._add(StreamKey(other, via, session, next(self._numbers), is_dialled_here=True))

    def take(self, relay: Relay, *, via: ServerId) -> RelayedStream | None:
        """Take a frame that arrived. Return the stream if it is new, else None. Raises `NoSuchStreamError`."""
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
        """End the streams of a session that is over. Payloads that it had not passed on yet are lost."""
        for stream in [stream for key, stream in self._streams.items() if (key.via, key.session) == (via, session)]:
            stream.broken(f"the connection with {via} was lost")

    def _add(self, key: StreamKey) -> RelayedStream:
        stream = self._streams[key] = RelayedStream(key, here=self._here, send=lambda relay: self._send(key, relay))
        return stream


class NoSuchStreamError(Exception):
    """A frame came of a stream that is over, or a stream beyond the limit was dialled."""
