"""Listener for LMTP (RFC 2033): one reply for each recipient, and "it is safe" only for durable messages.

    connection --> reads a message --> [place, if it is large] --> whole --> [place] decided --> replies

A slow sender of a small message takes nothing but its connection. Connections and places for large messages are
limited. If all are taken and another sender needs one, the network that has the most gives one up (`giving_way`).
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from mailing.rules.giving_way import Holder, network_of, who_gives_way
from mailing.rules.intake import Recipient, RecipientReply
from mailing.rules.lmtp import EXTENSIONS, LISTS_LIMIT, LmtpCommand, LmtpError, LmtpReader, Path, read_path, reply_line
from mailing.shell.log import Repeated

CONNECTIONS_LIMIT = 200
"""Most open connections. A further connection ends a connection of the network that has the most."""
IDLE_SECONDS = 300.0
MESSAGE_SECONDS = 600.0
"""Time from the reply to DATA to the end of the message."""
SMALL_BYTES = 262_144
"""Most bytes of a message that are read without a place: 50 MiB by all connections."""
LARGE_AT_ONCE = 16
"""Larger messages that are read at once: each may be as long as the longest."""
PATIENCE_SECONDS = 5.0
"""Time for which a large message keeps a place that another message waits for.

A mail server sends a message in less.
"""
DECIDED_AT_ONCE = 16
"""Whole messages that are being decided and written at once."""
BYTES_PER_READ = 65_536
ERRORS_LIMIT = 20
"""Most errors of one connection. A client that makes so many errors is no mail server."""

_OK = reply_line("250 2.0.0", "ok")
_NO_RECIPIENTS = reply_line("503 5.5.1", "RCPT comes before DATA, and one must be taken")


class Intake(Protocol):
    """Decision about recipients and messages."""

    @property
    def bytes_limit(self) -> int:
        """Most bytes of a message that is read."""

    async def recipient(self, sender: str, address: str) -> Recipient | RecipientReply:
        """Return the recipient for an address, or the reply that refuses the address."""

    async def message(self, sender: Path, recipients: Sequence[Recipient], content: bytes) -> Sequence[RecipientReply]:
        """Return a reply to each recipient, once all that was taken for the recipient is durable."""


class _SlowError(Exception):
    """A connection ends because its message takes too long."""


class LmtpListener:
    """All connections of the port."""

    name = "lmtp"

    def __init__(self, intake: Intake, host: str, repeated: Repeated) -> None:
        """`host`: name of the gateway in its greeting."""
        self.intake = intake
        self.host = host
        self.deciding = asyncio.Semaphore(DECIDED_AT_ONCE)
        self.large = _LargePlaces(self)
        self._repeated = repeated
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.Task[None], _Session] = {}

    async def listen(self, host: str, port: int) -> int:
        """Take connections, and return the port. Raises `OSError`."""
        self._server = await asyncio.start_server(self._serve, host, port)
        return int(self._server.sockets[0].getsockname()[1])

    async def end(self, seconds: float) -> None:
        """Take no more connections, and wait `seconds` for the answers under way."""
        if self._server is None:
            return
        self._server.close()
        for task, session in tuple(self._open.items()):
            session.is_ending = True
            if not session.is_busy:
                task.cancel()
        if self._open:
            _, late = await asyncio.wait(tuple(self._open), timeout=seconds)
            for task in late:
                task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if not self._has_room():
            self._repeated.tell("connection_refused", f"{self.name}: more than {CONNECTIONS_LIMIT} connections")
            writer.write(reply_line("421 4.3.2", "too many connections"))
            writer.close()
            return
        session = self._open[task] = _Session(self, reader, writer, task)
        try:
            await session.run()
        except (ConnectionError, asyncio.CancelledError):
            pass
        except TimeoutError:
            self.say_closed(session, f"nothing came for {IDLE_SECONDS:.0f} seconds")
        except _SlowError:
            session.say_end("the message took too long")
            self.say_closed(session, f"a message took more than {MESSAGE_SECONDS:.0f} seconds")
        finally:
            self._open.pop(task, None)
            writer.close()
            with suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    def say_closed(self, session: _Session, why: str) -> None:
        """Tell the operator of a connection that is ended."""
        self._repeated.tell("connection_closed", f"{self.name}: connection from {session.peer} closed: {why}")

    def _has_room(self) -> bool:
        if len(self._open) < CONNECTIONS_LIMIT:
            return True
        holders = [
            Holder(task, session.network, session.since)
            for task, session in self._open.items()
            if not session.is_deciding
        ]
        task = who_gives_way(holders, time.monotonic(), patience_seconds=0)
        if task is None:
            return False
        session = self._open.pop(task)
        self.say_closed(session, f"more than {CONNECTIONS_LIMIT} connections")
        session.give_way()
        return True


class _LargePlaces:
    """Places for messages of more than `SMALL_BYTES`. The next free place is for the network that has the fewest."""

    def __init__(self, listener: LmtpListener) -> None:
        self._listener = listener
        self._held: dict[_Session, float] = {}
        """Times at which sessions got their places."""
        self._waiting: dict[_Session, asyncio.Future[None]] = {}

    async def take(self, session: _Session) -> None:
        """Wait for a place. A message that takes too long loses its place, and its connection, to a waiting session."""
        if session in self._held:
            return
        future = self._waiting[session] = asyncio.get_running_loop().create_future()
        try:
            self._let_in()
            while not future.done():
                await asyncio.wait((future,), timeout=PATIENCE_SECONDS / 5)
                if not future.done():
                    self._make_room()
        finally:
            self._waiting.pop(session, None)

    def leave(self, session: _Session) -> None:
        """Free the place of a session, if it has one."""
        if self._held.pop(session, None) is not None:
            self._let_in()

    def _let_in(self) -> None:
        while self._waiting and len(self._held) < LARGE_AT_ONCE:
            places = Counter(each.network for each in self._held)
            session = min(self._waiting, key=lambda each: places[each.network])
            self._held[session] = time.monotonic()
            self._waiting.pop(session).set_result(None)

    def _make_room(self) -> None:
        holders = [
            Holder(session, session.network, since) for session, since in self._held.items() if not session.is_deciding
        ]
        slow = who_gives_way(holders, time.monotonic(), patience_seconds=PATIENCE_SECONDS)
        if slow is not None:
            why = f"a message took more than {PATIENCE_SECONDS:.0f} seconds while {len(self._waiting)} others waited"
            self._listener.say_closed(slow, why)
            slow.give_way()
            self.leave(slow)


class _Session:
    """One connection."""

    def __init__(
        self,
        listener: LmtpListener,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        task: asyncio.Task[None],
    ) -> None:
        peer = writer.get_extra_info("peername")
        self.peer = str(peer[0]) if peer else "a process here"
        self.network = network_of(peer)
        self.since = time.monotonic()
        """Time of the connection, or of its last whole message."""
        self._task = task
        self._intake = listener.intake
        self._listener = listener
        self._from = reader
        self._to = writer
        self._reader = LmtpReader()
        self._is_greeted = False
        self._sender: Path | None = None
        self._recipients: list[Recipient] = []
        self._errors = 0
        self.is_busy = False
        """True while an answer is under way that must not be broken off."""
        self.is_deciding = False
        """True while a whole message is decided and written."""
        self.is_ending = False

    def give_way(self) -> None:
        """End the connection for the sake of another connection."""
        self.say_end("too many connections, or too slow a message")
        self._task.cancel()

    def say_end(self, why: str) -> None:
        """Send a last reply, unless the other end reads none."""
        if self._to.transport.get_write_buffer_size():
            self._to.transport.abort()
        elif not self._to.transport.is_closing():
            self._to.write(reply_line("421 4.3.2", why))

    async def run(self) -> None:
        """Answer until the other end quits. Raises `ConnectionError`, `TimeoutError`."""
        self._to.write(reply_line("220", f"{self._listener.host} LMTP Shadowtree"))
        while self._errors < ERRORS_LIMIT and not self.is_ending:
            try:
                command = self._reader.command()
            except LmtpError as error:
                self._errors += 1
                self._to.write(reply_line(error.code, str(error)))
                continue
            if command is None:
                await self._to.drain()
                if not await self._read():
                    return
                continue
            if command.verb == "QUIT":
                self._to.write(reply_line("221 2.0.0", "bye"))
                return
            await self._answer(command)
        self._to.write(reply_line("421 4.3.2", "this connection ends"))

    async def _read(self) -> bool:
        async with asyncio.timeout(IDLE_SECONDS):
            data = await self._from.read(BYTES_PER_READ)
        self._reader.feed(data)
        return bool(data)

    async def _answer(self, command: LmtpCommand) -> None:
        try:
            match command.verb:
                case "LHLO":
                    self._greet()
                case "MAIL":
                    self._mail(command.rest)
                case "RCPT":
                    await self._rcpt(command.rest)
                case "DATA":
                    await self._data()
                case "RSET":
                    self._reset()
                    self._to.write(_OK)
                case "NOOP":
                    self._to.write(_OK)
                case "VRFY":
                    self._to.write(reply_line("252 2.5.2", "send to it, and it is said"))
                case _:
                    self._errors += 1
                    self._to.write(reply_line("500 5.5.1", "there is no such command"))
        except LmtpError as error:
            self._errors += 1
            self._to.write(reply_line(error.code, str(error)))

    def _greet(self) -> None:
        self._is_greeted = True
        self._reset()
        lines = (self._listener.host, *EXTENSIONS, f"SIZE {self._intake.bytes_limit}")
        *first, last = lines
        self._to.write("".join([*(f"250-{line}\r\n" for line in first), f"250 {last}\r\n"]).encode("ascii"))

    def _mail(self, rest: str) -> None:
        if not self._is_greeted or self._sender is not None:
            raise LmtpError("503 5.5.1", "LHLO comes before MAIL, and one MAIL before DATA")
        path = read_path(rest, "FROM")
        if path.size is not None and path.size > self._intake.bytes_limit:
            raise LmtpError("552 5.3.4", "the message is too large")
        self._sender = path
        self._to.write(_OK)

    async def _rcpt(self, rest: str) -> None:
        if self._sender is None:
            raise LmtpError("503 5.5.1", "MAIL comes before RCPT")
        path = read_path(rest, "TO")
        if len(self._recipients) >= LISTS_LIMIT:
            self._to.write(reply_line("452 4.5.3", f"more than {LISTS_LIMIT} recipients: the rest in another one"))
            return
        found = await self._intake.recipient(self._sender.address, path.address)
        if isinstance(found, RecipientReply):
            self._to.write(reply_line(found.code, f"<{path.address}>: {found.text}"))
            return
        self._recipients.append(found)
        self._to.write(_OK)

    async def _data(self) -> None:
        if not self._recipients or self._sender is None:
            self._to.write(_NO_RECIPIENTS)
            return
        self.is_busy = True
        try:
            await self._take(self._sender, self._recipients)
        finally:
            self.is_busy = self.is_deciding = False
            self._listener.large.leave(self)
        self._reset()

    async def _take(self, sender: Path, recipients: list[Recipient]) -> None:
        self._reader.expect_message(self._intake.bytes_limit)
        self._to.write(reply_line("354", "go on; end with a dot on a line of its own"))
        content = await self._whole_message()
        if content is None:
            replies: Sequence[RecipientReply] = [RecipientReply("552 5.3.4", "the message is too large")] * len(
                recipients
            )
        else:
            self.is_deciding = True
            async with self._listener.deciding:
                replies = await self._intake.message(sender, recipients, content)
        self.since = time.monotonic()
        for reply in replies:
            self._to.write(reply_line(reply.code, reply.text))
        self.is_deciding = False
        await self._to.drain()

    async def _whole_message(self) -> bytes | None:
        """Read a message. None if it is too large. Raises `_SlowError`, `ConnectionError`, `TimeoutError`."""
        limit = asyncio.timeout(MESSAGE_SECONDS)
        try:
            async with limit:
                await self._to.drain()
                while (found := self._reader.message()) is None:
                    if self._reader.held_bytes > SMALL_BYTES:
                        await self._listener.large.take(self)
                    if not await self._read():
                        raise ConnectionResetError("the message is not whole")
        except TimeoutError:
            if limit.expired():
                raise _SlowError from None
            raise
        return found[0]

    def _reset(self) -> None:
        self._sender, self._recipients = None, []
