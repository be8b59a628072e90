"""Control socket of the running gateway: commands send a line of JSON over a UNIX socket.

Only the gateway's user may open the socket.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import stat
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from mailing.rules.addresses import is_same_person, unquoted
from mailing.rules.events import Cleared, Dropped, Retried
from mailing.rules.queue import MessageFate, QueueEntry, Stats, Suppressed, queued, suppressed
from mailing.rules.spooled import MailState
from mailing.shell.deciding import Deciding
from mailing.shell.delivery_report import DeliveryReport
from mailing.shell.log import say
from mailing.shell.spooling import Spooling
from mailing.spool.store import SpoolError
from shadowtree.vocabulary import MemberId

ANSWER_SECONDS = 30.0
RETRY_SECONDS = 0.1
REQUEST_LIMIT = 4_096
ANSWER_LIMIT = 64 * 1024 * 1024
"""Most bytes of an answer: some hundred thousand messages that wait."""

Word = Literal["queue", "held", "retry", "drop", "approve", "reject", "why", "suppressed", "clear", "stats"]


class ControlError(Exception):
    """The gateway was not reached, or cannot do it. The message is one line."""


class Request(msgspec.Struct, frozen=True):
    """Request of a command. Without an id it is about all messages that are not final."""

    word: Word
    id: str | None = None
    address: str = ""
    """Person that `why` or `clear` is about."""
    server: str = ""
    """Server that `drop` stops waiting for. Empty to drop the whole message."""


class ControlAnswer(msgspec.Struct, frozen=True):
    """Answer to a command: the result, or an error."""

    messages: tuple[QueueEntry, ...] = ()
    reached: MessageFate | None = None
    """Result of `why`."""
    suppressed: tuple[Suppressed, ...] = ()
    """Result of `suppressed` and `clear`."""
    stats: Stats | None = None
    """Result of `stats`."""
    error: str = ""


class Control:
    """The gateway's end of the control socket."""

    def __init__(self, spooling: Spooling, seeing: DeliveryReport, deciding: Deciding, *, host: str) -> None:
        self._spooling = spooling
        self._seeing = seeing
        self._deciding = deciding
        self._host = host

    async def listen(self, path: Path) -> asyncio.Server:
        """Take connections. Raises `OSError`, also if another gateway takes them at that path."""
        return await listen_at(path, self._serve)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                answer = await self._answer(msgspec.json.decode(await reader.readline(), type=Request))
                writer.write(msgspec.json.encode(answer) + b"\n")
                await writer.drain()
        except (OSError, TimeoutError, ValueError):
            # The client is gone, or sent no command.
            pass
        finally:
            writer.close()

    async def _answer(self, request: Request) -> ControlAnswer:
        try:
            if request.word == "clear":
                return await self._clear(unquoted(request.address))
            if request.word == "stats":
                return ControlAnswer(stats=self._spooling.stats())
            if request.word == "suppressed":
                return ControlAnswer(suppressed=tuple(map(suppressed, self._spooling.suppressed())))
            if request.id is None:
                return self._all(request.word)
            if request.word == "why":
                found = await self._seeing.why(request.id, request.address)
                return ControlAnswer(reached=found) if found is not None else _no_message(request.id)
            state = self._state(request.id)
            if request.word == "queue":
                return await self._one(request.id)
            if state is None:
                return await self._not_open(request)
            if request.word in ("approve", "reject"):
                return await self._decide(request.id, request.word)
            if request.word == "drop" and request.server:
                return await self._drop_for(request.id, request.server)
            await self._spooling.tell_durably(_EVENTS[request.word](request.id))
            return self._told(request.word, await self._one(request.id))
        except SpoolError as error:
            return ControlAnswer(error=str(error))

    async def _not_open(self, request: Request) -> ControlAnswer:
        """Return the reason why nothing can be done about a message."""
        assert request.id is not None, "it was asked about one message"
        spooled = await self._spooling.spooled(request.id)
        if spooled is None:
            if request.word in ("approve", "reject"):
                return ControlAnswer(
                    error=f"no message {request.id} is held; `shadowtree mail held` lists those that are"
                )
            return ControlAnswer(
                error=f"there is no message {request.id}; `shadowtree mail queue` lists those under way"
            )
        is_decision = request.word in ("approve", "reject")
        why = "nothing of it is held" if is_decision else "nothing of it waits"
        return ControlAnswer(error=f"the message {request.id} is {spooled.message.state}: {why}")

    async def _decide(self, id_: str, word: Word) -> ControlAnswer:
        if not self._is_held(id_):
            return ControlAnswer(error=f"nothing of the message {id_} is held; `shadowtree mail held` lists what is")
        spooled = await self._spooling.spooled(id_)
        assert spooled is not None, "it is held"
        await self._deciding.by_command(spooled.message, approves=word == "approve")
        return self._told(word, await self._one(id_))

    async def _drop_for(self, id_: str, server: str) -> ControlAnswer:
        spooled = await self._spooling.spooled(id_)
        waits_for = () if spooled is None else spooled.message.waits_for
        if server not in waits_for:
            return ControlAnswer(
                error=f"the message {id_} waits for {', '.join(waits_for) or 'no server'}, not for {server}"
            )
        await self._spooling.tell_durably(Dropped(id_, server))
        return self._told("drop", await self._one(id_))

    def _all(self, word: Word) -> ControlAnswer:
        return ControlAnswer(
            tuple(
                queued(spooled, state, host=self._host)
                for spooled, state in self._spooling.unfinished()
                if word == "queue" or self._is_held(spooled.message.id)
            )
        )

    @staticmethod
    def _told(word: Word, answer: ControlAnswer) -> ControlAnswer:
        for message in answer.messages:
            lists = ", ".join(message.lists)
            said = f"{message.id}: {word} by command, for {lists}"
            say(logging.INFO, "decided_by_command", said, id=message.id, lists=lists, command=word)
        return answer

    async def _one(self, id_: str) -> ControlAnswer:
        spooled = await self._spooling.spooled(id_)
        if spooled is None:
            return _no_message(id_)
        return ControlAnswer((queued(spooled, self._state(id_) or spooled.message.state, host=self._host),))

    async def _clear(self, person: MemberId) -> ControlAnswer:
        found = next((each for each in self._spooling.suppressed() if is_same_person(each.person, person)), None)
        if found is None:
            return ControlAnswer(error=f"{person} is not suppressed")
        await self._spooling.tell_durably(Cleared(found.person))
        say(logging.INFO, "cleared", f"{found.person}: sent to again", person=found.person)
        return ControlAnswer(suppressed=(suppressed(found),))

    def _state(self, id_: str) -> MailState | None:
        return next((state for each, state in self._spooling.unfinished() if each.message.id == id_), None)

    def _is_held(self, id_: str) -> bool:
        return any(each.message.id == id_ and each.message.is_held for each, _ in self._spooling.unfinished())


async def listen_at(
    path: Path, serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None] | None]
) -> asyncio.Server:
    """Take connections at a path. Raises `OSError`, also if another gateway takes them there."""
    with suppress(FileNotFoundError):
        if stat.S_ISSOCK(path.stat().st_mode):
            await _require_that_nobody_answers(path)
            # A gateway that was killed left the socket.
            path.unlink()
    mask = os.umask(0o177)
    try:
        return await asyncio.start_unix_server(serve, _shortest(path), limit=REQUEST_LIMIT)
    finally:
        os.umask(mask)


def _no_message(id_: str) -> ControlAnswer:
    return ControlAnswer(error=f"there is no message {id_}")


def _shortest(path: Path) -> str:
    """Return the shorter of two forms of a path, because a socket's path has some hundred bytes at most."""
    return min(str(path), os.path.relpath(path), key=len)


async def _require_that_nobody_answers(path: Path) -> None:
    try:
        _, writer = await asyncio.open_unix_connection(_shortest(path))
    except ConnectionRefusedError:
        return
    writer.close()
    raise OSError(errno.EADDRINUSE, "another mail gateway takes its commands there", str(path))


_EVENTS: dict[str, type[Retried] | type[Dropped]] = {"retry": Retried, "drop": Dropped}


async def ask(
    path: Path,
    request: Request,
    *,
    patience: float = 0.0,
    on_wait: Callable[[ControlError], None] = lambda _: None,
) -> ControlAnswer:
    """Ask the running gateway, and return its answer. Raises `ControlError`.

    `patience`: seconds to wait for a gateway that is starting. `on_wait`: called with the reason of each wait.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            reader, writer = await asyncio.open_unix_connection(_shortest(path), limit=ANSWER_LIMIT)
            break
        except OSError as error:
            failure = _not_reached(path, error)
            if not isinstance(error, ConnectionRefusedError | FileNotFoundError) or time.monotonic() > deadline:
                raise failure from None
        on_wait(failure)
        await asyncio.sleep(RETRY_SECONDS)
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            writer.write(msgspec.json.encode(request) + b"\n")
            answer = msgspec.json.decode(await reader.readline(), type=ControlAnswer)
    except (OSError, TimeoutError, ValueError) as error:
        raise _not_reached(path, error) from None
    finally:
        writer.close()
    if answer.error:
        raise ControlError(answer.error)
    return answer


def _not_reached(path: Path, error: Exception) -> ControlError:
    why = getattr(error, "strerror", None) or ("it does not answer" if isinstance(error, TimeoutError) else error)
    return ControlError(f"the mail gateway is not reached by {path}: {why}; does it run?")
