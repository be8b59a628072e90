"""Forwarding of calls that this server cannot answer: the same method, the same request, the same errors.

    client --call--> this server --the call, marked as forwarded--> the server that can answer
                                 <--answer or error, as it is------

A forwarded call is answered by its receiver alone, from its own state. The receiver refuses names that it does not own.
No call therefore goes further than one server, whatever the servers know of owners, and no call can go in circles.

Source: docs/operators.md, "Several servers, one address" (any server takes any call).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Set
from contextlib import aclosing, contextmanager
from typing import Any, NoReturn
from urllib.parse import urlencode

import grpc

from namegraph import Reason, RefusedError, ServerId, refuse
from nameserver.routing.planned_restarts import RESTARTS_LIMIT, is_outlasted, outlast_restarts
from nameserver.transport.peer_directory import PeerDirectory
from nameserver.wire.metadata import CALLER, CALLER_KEY, FORWARDED_KEY, PRINCIPAL_KEY, TRACE_CONTEXT, Metadata
from nameserver.wire.status_mapping import refusal_of

PART_SECONDS = 10.0
"""Longest wait for a part of an answer, before the answer leaves without it and says so."""

PART_SHARE = 0.8
"""Share of the caller's time for waiting for parts. The rest is for sending the answer."""

TELLING_SHARE = 0.2
TELLING_SECONDS = 1.0
"""Part of the caller's time that is kept for reporting a failed call: the smaller of the two."""

_NEVER_SENT = ("failed to connect to all addresses", "DNS resolution failed")

Context = grpc.aio.ServicerContext[Any, Any]


def working_seconds(context: Context) -> float | None:
    """Return the seconds for work on a call, so that its caller gets an answer in time. None for no limit."""
    remaining: float | None = context.time_remaining()
    return None if remaining is None else remaining - min(TELLING_SHARE * remaining, TELLING_SECONDS)


def part_seconds(context: Context) -> float:
    """Return the seconds to wait for the parts of the answer to a call."""
    remaining: float | None = context.time_remaining()
    return PART_SECONDS if remaining is None else min(PART_SECONDS, PART_SHARE * remaining)


class Forwarder:
    """Caller of methods of other servers, on serialized messages.

    Raises `RefusedError` if the other server is unreachable, and `grpc.aio.AioRpcError` if it refused. The latter goes
    to the caller unchanged. `seconds` is the time for the call. None for no limit.
    """

    def __init__(self, *, server: ServerId, directory: PeerDirectory) -> None:
        self._directory = directory
        self._own_mark = urlencode({"server": server})
        self._old_mark = (FORWARDED_KEY, server)

    def _metadata(self) -> Metadata:
        """Return the mark of the caller of this task, in its present form and in that of protocol 7."""
        caller, trace = CALLER.get(), TRACE_CONTEXT.get()
        if caller is None:
            return ((PRINCIPAL_KEY, self._own_mark), self._old_mark, *trace)
        mark = (PRINCIPAL_KEY, f"{caller.mark()}&{self._own_mark}")
        address = caller.address
        asked_by = ((CALLER_KEY, address),) if address.isascii() and address else ()
        return (mark, self._old_mark, *asked_by, *trace)

    @property
    def unbelieved(self) -> Set[ServerId]:
        """Servers of other organisations, which are believed about their own nodes alone."""
        return self._directory.unbelieved

    async def require_reachable(self, home: ServerId) -> None:
        """Raise `RefusedError` if it is known that a call to this server would not arrive."""
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
    ) -> bytes:
        """Send one message and return the answer, also if the server restarts meanwhile.

        `changes`: True if a lost answer leaves in doubt if the change was done. `is_repeatable`: True if such a call
        may be sent again, because of its request id.
        """
        deadline = None if seconds is None else asyncio.get_running_loop().time() + seconds

        async def attempt() -> bytes:
            channel = await self._channel_to(home, deadline)
            call = channel.unary_unary(method, None, None)(request, timeout=_left(deadline), metadata=self._metadata())
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
    ) -> bytes:
        """Send a change whose request is a stream, as `ask` does. `chunks` makes its messages for each attempt."""
        deadline = None if seconds is None else asyncio.get_running_loop().time() + seconds

        async def sent() -> AsyncIterator[bytes]:
            for chunk in chunks():
                yield chunk

        async def attempt() -> bytes:
            channel = await self._channel_to(home, deadline)
            call = channel.stream_unary(method, None, None)(sent(), timeout=_left(deadline), metadata=self._metadata())
            with self._until_lost(home, call, changes=True):
                answer: bytes = await call
            return answer

        return await outlast_restarts(attempt, self._directory, seconds=seconds, may_be_done=is_repeatable)

    async def _channel_to(self, home: ServerId, deadline: float | None) -> grpc.aio.Channel:
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
        """Yield the answers to one message, each when the previous was taken.

        If the server restarts, the call is repeated.
        """
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
        self, home: ServerId, method: str, requests: AsyncIterator[bytes], *, seconds: float | None
    ) -> bytes:
        """Send many messages of a change, and return the answer."""
        channel = await self._directory.channel_to(home)
        call = channel.stream_unary(method, None, None)(requests, timeout=seconds, metadata=self._metadata())
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
        """Exchange many messages either way, each when the previous was taken.

        The call is not repeated, because the sender knows how to repeat its messages.
        """
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
        """Await a call until it ends or its server is lost. Raises the reason if there is no answer."""
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
    """Raise the error unchanged if the server itself answered, else the refusal for its silence."""
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
    """Raise the refusal for a server that has not answered. `changes`: True if the server may have the update."""
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
    """Return True if the error makes one part of an answer missing, while the other parts still hold."""
    refusal = error.refusal if isinstance(error, RefusedError) else refusal_of(error)
    if refusal is None and isinstance(error, grpc.aio.AioRpcError):
        # An error of gRPC itself: the answer is above the limit of a message, or the server has no room for the call.
        return error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    if refusal is None or refusal.reason not in (Reason.UNAVAILABLE, Reason.DEADLINE_EXCEEDED):
        return False
    # A server that cannot reflect the requested revision could still be reached.
    return "revision" not in refusal.facts


def not_owned_here(name: str, server: ServerId) -> RefusedError:
    """Return the refusal of a call that was forwarded to the wrong server."""
    return refuse(
        Reason.UNAVAILABLE,
        f"the server {server} was asked for {name} by a server that takes it for the owner, which it is not; compare "
        "the peers of the two",
        name=name,
        server=server,
    )
