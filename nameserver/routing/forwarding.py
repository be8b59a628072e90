"""Asks another server what this one cannot answer: the same method, the same request, the same errors.

    client --call--> this server --the call, marked as forwarded--> the server that can answer
                                 <--answer or error, as it is------

A forwarded call is answered by its receiver alone, from what it knows itself; what it does not own it refuses. So no
call goes further than one server, whatever the servers think of who owns what, and none can go in circles.

Source: interfaces.md, gRPC (any server accepts any call and forwards what it does not own).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from contextlib import aclosing, contextmanager
from typing import Any, NoReturn

import grpc

from namegraph import Reason, RefusedError, ServerId, refuse
from nameserver.routing.planned_restarts import RESTARTS_LIMIT, is_outlasted, outlast_restarts
from nameserver.transport.peer_directory import PeerDirectory
from nameserver.transport.relayed_channel import CallChannel, Metadata
from nameserver.wire.metadata import CALLER_KEY, FORWARDED_KEY, TRACE_CONTEXT
from nameserver.wire.status_mapping import refusal_of

PART_SECONDS = 10.0
"""How long a part of an answer is waited for at most, before the answer goes out without it and says so."""

PART_SHARE = 0.8
"""How much of the caller's time goes into waiting for parts: the rest is for telling what was found."""

TELLING_SHARE = 0.2
TELLING_SECONDS = 1.0
"""How much of the caller's time is kept for telling why nothing came of a call: the smaller of the two."""

_NEVER_SENT = ("failed to connect to all addresses", "DNS resolution failed")

Context = grpc.aio.ServicerContext[Any, Any]


def is_forwarded(context: Context) -> bool:
    """Whether another server forwarded this call."""
    return any(key == FORWARDED_KEY for key, _ in context.invocation_metadata() or ())


def working_seconds(context: Context) -> float | None:
    """How long the work on a call may take, so that its caller hears in time what it waited for; None: for ever."""
    remaining: float | None = context.time_remaining()
    return None if remaining is None else remaining - min(TELLING_SHARE * remaining, TELLING_SECONDS)


def part_seconds(context: Context) -> float:
    """How long to wait for the parts of the answer to a call."""
    remaining: float | None = context.time_remaining()
    return PART_SECONDS if remaining is None else min(PART_SECONDS, PART_SHARE * remaining)


class Forwarder:
    """Calls methods of other servers, on serialized messages.

    Raises `RefusedError` where the other server is out of reach, and `grpc.aio.AioRpcError` where it refused: that
    goes to the caller as it is. `seconds` is the time there is; None waits for ever.
    """

    def __init__(self, *, server: ServerId, directory: PeerDirectory) -> None:
        self._directory = directory
        self._mark = ((FORWARDED_KEY, server),)

    def _metadata(self, caller: str = "") -> Metadata:
        asked_by = ((CALLER_KEY, caller),) if caller.isascii() and caller else ()
        return (*self._mark, *asked_by, *TRACE_CONTEXT.get())

    async def require_reachable(self, home: ServerId) -> None:
        """Raise `RefusedError` where it is known that a call to this server would not arrive."""
        await self._directory.channel_to(home)

    async def ask(
        self,
        home: ServerId,
        method: str,
        request: bytes,
        *,
        seconds: float | None,
        changes: bool = False,
        is_repeatable: bool = True,
        caller: str = "",
    ) -> bytes:
        """One message out, one back, also where the server restarts meanwhile.

        `changes`: an answer that is lost leaves in doubt whether it was done; unless it `is_repeatable`, by its request
        id, it is not asked again then.
        """
        deadline = None if seconds is None else asyncio.get_running_loop().time() + seconds

        async def attempt() -> bytes:
            channel = await self._channel_to(home, deadline)
            call = channel.unary_unary(method, None, None)(
                request, timeout=_left(deadline), metadata=self._metadata(caller)
            )
            with self._until_lost(home, call, changes=changes):
                answer: bytes = await call
            return answer

        return await outlast_restarts(attempt, self._directory, seconds=seconds, may_be_done=is_repeatable)

    async def ask_in_chunks(
        self,
        home: ServerId,
        method: str,
        chunks: Callable[[], Iterable[bytes]],
        *,
        seconds: float | None,
        is_repeatable: bool,
        caller: str,
    ) -> bytes:
        """Ask for a change whose request is a stream, as `ask` does; `chunks` makes its messages for each attempt."""
        deadline = None if seconds is None else asyncio.get_running_loop().time() + seconds

        async def sent() -> AsyncIterator[bytes]:
            for chunk in chunks():
                yield chunk

        async def attempt() -> bytes:
            channel = await self._channel_to(home, deadline)
            call = channel.stream_unary(method, None, None)(
                sent(), timeout=_left(deadline), metadata=self._metadata(caller)
            )
            with self._until_lost(home, call, changes=True):
                answer: bytes = await call
            return answer

        return await outlast_restarts(attempt, self._directory, seconds=seconds, may_be_done=is_repeatable)

    async def _channel_to(self, home: ServerId, deadline: float | None) -> CallChannel:
        try:
            async with asyncio.timeout_at(deadline):
                return await self._directory.channel_to(home)
        except TimeoutError:
            raise refuse(
                Reason.UNAVAILABLE,
                f"the server {home} cannot be reached: it has not come back in the time given",
                server=home,
                unreachable=home,
            ) from None

    async def stream(
        self, home: ServerId, method: str, request: bytes, *, seconds: float | None
    ) -> AsyncGenerator[bytes, None]:
        """One message out, many back, each when the one before was taken; asked again where the server restarts."""
        deadline = None if seconds is None else asyncio.get_running_loop().time() + seconds
        for _ in range(1 + RESTARTS_LIMIT):
            has_begun, comebacks = False, self._directory.comebacks
            try:
                async with aclosing(self._stream_once(home, method, request, deadline)) as messages:
                    async for message in messages:
                        has_begun = True
                        yield message
            except (RefusedError, grpc.aio.AioRpcError) as error:
                if has_begun or not await is_outlasted(error, self._directory, comebacks, deadline=deadline):
                    raise
            else:
                return

    async def _stream_once(
        self, home: ServerId, method: str, request: bytes, deadline: float | None
    ) -> AsyncGenerator[bytes, None]:
        channel = await self._channel_to(home, deadline)
        call = channel.unary_stream(method, None, None)(request, timeout=_left(deadline), metadata=self._metadata())
        try:
            with self._until_lost(home, call, changes=False):
                async for message in call:
                    yield message
        finally:
            call.cancel()

    async def send(
        self, home: ServerId, method: str, requests: AsyncIterator[bytes], *, seconds: float | None, caller: str
    ) -> bytes:
        """Many messages out, one back, for a change."""
        channel = await self._directory.channel_to(home)
        call = channel.stream_unary(method, None, None)(requests, timeout=seconds, metadata=self._metadata(caller))
        with self._until_lost(home, call, changes=True):
            answer: bytes = await call
        return answer

    async def converse(
        self,
        home: ServerId,
        method: str,
        requests: AsyncIterator[bytes],
        *,
        seconds: float | None,
        changes: bool = True,
    ) -> AsyncGenerator[bytes, None]:
        """Many messages either way, each when the one before was taken; not asked again: who sends knows how."""
        channel = await self._directory.channel_to(home)
        call = channel.stream_stream(method, None, None)(requests, timeout=seconds, metadata=self._metadata())
        try:
            with self._until_lost(home, call, changes=changes):
                async for message in call:
                    yield message
        finally:
            call.cancel()

    @contextmanager
    def _until_lost(self, home: ServerId, call: Any, *, changes: bool) -> Iterator[None]:
        """Await a call until it ends or its server is lost; whatever ends it without an answer is raised."""
        try:
            with self._directory.under_way(home, call):
                yield
        except grpc.aio.AioRpcError as error:
            raise_failure(error, home, changes=changes)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling() or not call.cancelled():
                raise
            raise_silence(home, "it was lost while the call was under way", changes=changes)


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - asyncio.get_running_loop().time())


def raise_failure(error: grpc.aio.AioRpcError, home: ServerId, *, changes: bool) -> NoReturn:
    """Raise the error as it is where the server itself answered, else what its silence means."""
    late = error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    lost = error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
    if not (late or lost) or refusal_of(error) is not None:
        raise error
    if late and not changes:
        raise refuse(
            Reason.DEADLINE_EXCEEDED,
            f"the server {home} did not answer in the time given",
            server=home,
            unreachable=home,
        ) from None
    why = "no answer in the time given" if late else " ".join((error.details() or error.code().name).split())
    raise_silence(home, why, changes=changes and not why.startswith(_NEVER_SENT))


def raise_silence(home: ServerId, why: str, *, changes: bool) -> NoReturn:
    """Raise what it means that a server has not answered. `changes`: whether it may have the update."""
    if changes:
        raise refuse(
            Reason.OUTCOME_UNKNOWN,
            f"the server {home} fell silent while it had the update, which may or may not be done; repeat its request "
            f"id to learn: {why}",
            server=home,
        ) from None
    raise refuse(
        Reason.UNAVAILABLE, f"the server {home} cannot be reached: {why}", server=home, unreachable=home
    ) from None


def is_out_of_reach(error: RefusedError | grpc.aio.AioRpcError) -> bool:
    """Whether a part of an answer is missing because of this error, while the others still hold."""
    refusal = error.refusal if isinstance(error, RefusedError) else refusal_of(error)
    if refusal is None and isinstance(error, grpc.aio.AioRpcError):
        # By gRPC itself: the answer is above the limit of a message, or the server has no room for the call.
        return error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    if refusal is None or refusal.reason not in (Reason.UNAVAILABLE, Reason.DEADLINE_EXCEEDED):
        return False
    # A server that cannot reflect the revision asked for could still be reached.
    return "revision" not in refusal.facts


def not_owned_here(name: str, server: ServerId) -> RefusedError:
    """The refusal of a call that was forwarded to the wrong server."""
    return refuse(
        Reason.UNAVAILABLE,
        f"the server {server} was asked for {name} by a server that takes it for the owner, which it is not; compare "
        "the peers of the two",
        name=name,
        server=server,
    )
