"""Connections on which requests come one after another, and are answered in their order.

Requests with a known answer are answered at once. Other requests need a question to a server, and several such
questions run at a time. A connection that sends an invalid or incomplete request is closed. A connection that does not
read its answers is read no further.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar, cast

from mailing.rules.framing import FrameReader, FramingError
from mailing.shell.log import Repeated

CONNECTIONS_LIMIT = 2_000
"""Most connections.

Postfix has one for each of its processes, some hundred. A further connection ends the longest idle.
"""
AT_ONCE_LIMIT = 100
"""Most requests of one connection that are being answered. Requests beyond it wait, and no more bytes are read."""
HALF_REQUEST_SECONDS = 10.0
IDLE_SECONDS = 400.0
"""Time until an idle connection ends. Postfix gives up an idle connection to a policy server after 300 seconds."""

Request = TypeVar("Request")


def why_not_listening(error: OSError) -> str:
    """Return the system's text of an error, without the words that the event loop adds."""
    number = error.errno or 0
    return os.strerror(number) if number > 0 else str(error.strerror or error)


class PortListener(Generic[Request]):
    """All connections of one port."""

    def __init__(
        self,
        name: str,
        make_reader: Callable[[], FrameReader[Request]],
        answer: Callable[[Request], bytes | Awaitable[bytes]],
        repeated: Repeated,
    ) -> None:
        """`answer`: returns the response to a request, or an awaitable of it, and never raises."""
        self.name = name
        self.make_reader = make_reader
        self.answer = answer
        self._repeated = repeated
        self._open: dict[Conversation[Request], None] = {}
        self._server: asyncio.Server | None = None

    async def listen(self, host: str, port: int) -> int:
        """Take connections, and return the port. Raises `OSError`."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Conversation(self), host, port, backlog=1_000)
        return int(self._server.sockets[0].getsockname()[1])

    def opened(self, conversation: Conversation[Request]) -> None:
        """Register a connection, and make room for it."""
        if len(self._open) >= CONNECTIONS_LIMIT:
            self._repeated.tell(
                "connection_closed",
                f"{self.name}: more than {CONNECTIONS_LIMIT} connections: the one idle longest ends",
            )
            min(self._open, key=lambda each: (each.is_busy, each.heard_at)).hang_up()
        self._open[conversation] = None

    def closed(self, conversation: Conversation[Request]) -> None:
        """Forget a connection."""
        self._open.pop(conversation, None)

    def hang_up_on(self, conversation: Conversation[Request], why: str) -> None:
        """End a connection that cannot be understood."""
        self._repeated.tell("connection_closed", f"{self.name}: connection closed: {why}")
        conversation.hang_up()

    def sweep(self) -> None:
        """End the connections that are silent for too long."""
        now = time.monotonic()
        for conversation in tuple(self._open):
            if conversation.is_busy:
                continue
            if conversation.begun_at is not None and now > conversation.begun_at + HALF_REQUEST_SECONDS:
                self.hang_up_on(conversation, "half a request")
            elif now > conversation.heard_at + IDLE_SECONDS:
                conversation.hang_up()

    async def end(self, seconds: float) -> None:
        """Take no more connections, and wait `seconds` for the answers under way."""
        if self._server is None:
            return
        self._server.close()
        until = time.monotonic() + seconds
        while any(each.is_busy for each in self._open) and time.monotonic() < until:
            await asyncio.sleep(0.02)
        for conversation in tuple(self._open):
            conversation.hang_up()


class Conversation(asyncio.Protocol, Generic[Request]):
    """One connection."""

    def __init__(self, listener: PortListener[Request]) -> None:
        self._listener = listener
        self._reader = listener.make_reader()
        self._unread: deque[Request] = deque()
        self._answers: deque[asyncio.Future[bytes] | bytes] = deque()
        self.heard_at = time.monotonic()
        self.begun_at: float | None = None
        """Time since which a request is incomplete. None if no request is."""

    @property
    def is_busy(self) -> bool:
        """True if an answer is under way."""
        return bool(self._answers or self._unread)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection."""
        self._transport = cast(asyncio.Transport, transport)
        self._listener.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection, and cancel its questions."""
        del exc
        self._listener.closed(self)
        self._unread.clear()
        for answer in self._answers:
            if not isinstance(answer, bytes):
                answer.cancel()
        self._answers.clear()

    def data_received(self, data: bytes) -> None:
        """Answer the complete requests."""
        self.heard_at = time.monotonic()
        try:
            self._unread.extend(self._reader.feed(data))
        except FramingError as error:
            self._listener.hang_up_on(self, str(error))
            return
        if not self._reader.is_within:
            self.begun_at = None
        elif self.begun_at is None:
            self.begun_at = self.heard_at
        self._begin_more()

    def pause_writing(self) -> None:
        """Stop reading, because the other end reads too slowly."""
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Read on, because the other end has caught up."""
        self._read_on()

    def hang_up(self) -> None:
        """End the connection now. Unsent bytes are lost."""
        self._transport.abort()

    def _begin_more(self) -> None:
        while self._unread and len(self._answers) < AT_ONCE_LIMIT:
            answer = self._listener.answer(self._unread.popleft())
            if isinstance(answer, bytes):
                if self._answers:
                    self._answers.append(answer)
                else:
                    self._transport.write(answer)
                continue
            future = asyncio.ensure_future(answer)
            future.add_done_callback(self._send_what_is_done)
            self._answers.append(future)
        if self._unread:
            self._transport.pause_reading()

    def _send_what_is_done(self, _: object) -> None:
        while self._answers:
            answer = self._answers[0]
            if not isinstance(answer, bytes):
                if not answer.done() or answer.cancelled():
                    break
                answer = answer.result()
            self._transport.write(answer)
            self._answers.popleft()
        self._begin_more()
        if not self._unread:
            self._read_on()

    def _read_on(self) -> None:
        if not self._transport.is_closing() and not self._transport.is_reading():
            self._transport.resume_reading()
