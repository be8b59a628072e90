"""Run one session over one stream: read, write, and wait for frames to send."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from namegraph import Lane, ServerId
from nameserver.session.frames import (
    DATAGRAMS_LIMIT,
    DatagramFrame,
    Frame,
    Goodbye,
    Hello,
    KnownServer,
    ToldCheckpoint,
    decode,
    encode,
)
from nameserver.session.heartbeats import Pulse
from nameserver.session.session import Session, SessionState
from nameserver.session.session_events import LettersCame, ReceiptCame, SessionEvent
from nameserver.transport.peer_streams import FrameStream, StreamBrokenError

GREETING_SECONDS = 5.0
"""Timeout of the connection and the first frames: far longer than a server that answers needs."""

DATAGRAMS_HELD_LIMIT = 1_000
DATAGRAMS_HELD_BYTES_LIMIT = 1024 * 1024
"""Limits of the datagrams that wait until the stream takes them. Later datagrams are dropped."""

DATAGRAMS_FRAME_BYTES_LIMIT = 64 * 1024
"""Bytes of datagrams in one frame, unless there is one datagram.

A vote that is written meanwhile waits for the frame.
"""

PARTING_SECONDS = 1.0
"""Time for a goodbye to arrive before the stream is cut."""


class SessionRunner:
    """A session and its stream."""

    def __init__(
        self,
        session: Session,
        stream: FrameStream,
        handle: Callable[[SessionRunner, SessionEvent], Awaitable[None]],
        *,
        heard: Callable[[SessionRunner], None],
        pulse: Pulse,
        view: Callable[[], str],
        cannot_write: Callable[[], str],
        clock: Callable[[], float],
        address: str = "",
        via: ServerId | None = None,
        greeted: Callable[[Hello], Awaitable[None]] | None = None,
    ) -> None:
        """Create a runner.

        `handle`: takes the events in order. While it waits, no more frames are read. `heard`: called for each frame.
        `view` and `cannot_write`: return values of heartbeats. `address`: address of the other end, for people. `via`:
        server that carries the tunnel through which this server dialled. None if there is none. `greeted`: called with
        a hello before the session judges it. None for nothing.
        """
        self.session = session
        self.address = address
        self.pulse = pulse
        self._via = via
        self.is_handling = False
        """True if the events of a frame are still being handled, so that no more frames are read."""
        self._stream = stream
        self._handle = handle
        self._greeted = greeted
        self._heard = heard
        self._view = view
        self._cannot_write = cannot_write
        self._clock = clock
        self._datagrams: deque[bytes] = deque()
        self._datagrams_bytes = 0
        self._may_send_datagrams = True
        """True if it is the turn of datagrams.

        Two frames of datagrams have a frame of another kind between them, if any waits.
        """
        self._wake = asyncio.Event()

    @property
    def via(self) -> ServerId | None:
        """Server through which the stream leads. None if it is direct, or the other server has not said yet."""
        hello = None if self.session.is_dialled_here else self.session.hello
        return self._via if hello is None else hello.through

    def wake(self) -> None:
        """Look for frames to send."""
        self._wake.set()

    def wake_to_beat(self) -> None:
        """Send a heartbeat if one is due."""
        if self._is_due():
            self.wake()

    def send_datagram(self, encoded: bytes) -> bool:
        """Queue a datagram. Return False if too much waits, or the peer would not take it."""
        size = self._datagrams_bytes + len(encoded)
        is_too_much = len(self._datagrams) >= DATAGRAMS_HELD_LIMIT or size > DATAGRAMS_HELD_BYTES_LIMIT
        if is_too_much or not (self.session.is_open_there and self.session.takes_posts):
            return False
        self._datagrams.append(encoded)
        self._datagrams_bytes = size
        self.wake()
        return True

    def tell_known(self, known: tuple[KnownServer, ...]) -> None:
        """Tell the peer the other servers that were met here."""
        self.session.tell_known(known)
        self.wake()

    def tell_checkpoint(self, checkpoint: ToldCheckpoint) -> None:
        """Tell the peer the newest checkpoint of the audit log here."""
        self.session.tell_checkpoint(checkpoint)
        self.wake()

    def leave(self, grace_ms: int) -> None:
        """Tell the peer of the planned stop, and of the grace for which to wait."""
        self.session.leave(grace_ms)
        self.wake()

    def part(self, goodbye: Goodbye) -> None:
        """End the session with a goodbye."""
        self.session.part(goodbye)
        self.wake()

    async def run(self) -> None:
        """Talk until the session is over."""
        session = self.session
        reader, writer = asyncio.ensure_future(self._read()), asyncio.ensure_future(self._write())
        both = (reader, writer)
        try:
            await asyncio.wait(both, timeout=GREETING_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if session.state in (SessionState.OPEN, SessionState.ENDED):
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                # A goodbye is still to be written, or to arrive.
                await asyncio.wait(both, timeout=PARTING_SECONDS)
            else:
                session.lost(f"no answer within {GREETING_SECONDS:g} seconds")
        finally:
            session.lost("the connection was given up")
            for task in both:
                task.cancel()
            results = await asyncio.gather(*both, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result

    async def _read(self) -> None:
        session = self.session
        try:
            while session.ending is None or not session.ending.is_by_peer:
                data = await self._stream.read()
                if data is None:
                    session.lost("the connection was closed")
                    break
                frame = decode(data)
                if isinstance(frame, Hello) and self._greeted is not None and session.hello is None:
                    await self._greeted(frame)
                events = session.receive(frame)
                self._heard(self)
                self.is_handling = True
                for event in events:
                    await self._handle(self, event)
                self.is_handling = False
                # The effects of letters, and their receipts, wake the session once they are durable.
                if session.state is not SessionState.OPEN or not (events and all(map(_concerns_letters_alone, events))):
                    self.wake()
        except StreamBrokenError as error:
            session.lost(str(error))
        self.wake()

    async def _write(self) -> None:
        session = self.session
        try:
            while True:
                self._wake.clear()
                frame = self._next_frame()
                if frame is not None:
                    await self._stream.write(encode(frame))
                    self.pulse.spoke(self._clock())
                elif session.state is SessionState.ENDED:
                    await self._stream.finish()
                    return
                else:
                    await self._wake.wait()
        except StreamBrokenError as error:
            session.lost(str(error))

    def _next_frame(self) -> Frame | None:
        datagrams, others = self._next_datagrams, self.session.next_frame
        in_turn = (datagrams, others) if self._may_send_datagrams else (others, datagrams)
        for next_of in (*in_turn, self._heartbeat):
            frame = next_of()
            if frame is not None:
                self._may_send_datagrams = not isinstance(frame, DatagramFrame)
                return frame
        return None

    def _next_datagrams(self) -> Frame | None:
        together: list[bytes] = []
        size = 0
        while self._datagrams and self.session.is_open_there and len(together) < DATAGRAMS_LIMIT:
            size += len(self._datagrams[0])
            if together and size > DATAGRAMS_FRAME_BYTES_LIMIT:
                break
            together.append(self._datagrams.popleft())
            self._datagrams_bytes -= len(together[-1])
        return DatagramFrame(self.session.number, tuple(together)) if together else None

    def _heartbeat(self) -> Frame | None:
        if self.session.is_open_there and self._is_due():
            return self.pulse.beat(self.session.number, self._clock(), self._view(), self._cannot_write())
        return None

    def _is_due(self) -> bool:
        return self.pulse.is_due(self._clock(), self._view(), self._cannot_write())


def _concerns_letters_alone(event: SessionEvent) -> bool:
    """Return True if an event lets frames leave only by the step that it causes.

    A receipt of posts lets posts leave itself.
    """
    return isinstance(event, LettersCame) or (isinstance(event, ReceiptCame) and event.lane is Lane.LETTERS)
