"""Places, bytes of requests, and time without a message that all calls of one service may take together.

    a call comes -> is there a place? -> requests are read, each within its time -> is there room for its bytes?
                       no: RESOURCE_EXHAUSTED        no: DEADLINE_EXCEEDED             no: RESOURCE_EXHAUSTED
                 -> parsed, a large one when few others are -> the handler

A request of a client that is larger than `CLIENT_MESSAGE_BYTES_LIMIT` is refused unparsed. What does not fit one
message comes in chunks (`gathering.py`).
Each service has places of its own: however many calls of clients rest here, peers, operators and health are answered.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError

from namegraph import Reason, RefusedError, refuse
from nameserver.calls.adapters import Context, Handler
from nameserver.calls.gathering import Gathering
from nameserver.routing.forwarding import is_forwarded
from nameserver.wire.status_mapping import abort

FIRST_MESSAGE_SECONDS: Final = 5.0
"""How long a stream may be open before anything comes on it."""

NEXT_MESSAGE_SECONDS: Final = 30.0
"""How long a client may be silent on a stream once it was answered."""

REQUEST_BYTES_LIMIT: Final = 128 * 1024 * 1024
"""Bytes of all requests that are under way, before they are parsed."""

SMALL_REQUEST_BYTES: Final = 64 * 1024
"""Nearly all requests are smaller."""

RESERVED_BYTES: Final = 72 * 1024 * 1024
"""Bytes of requests that no larger one takes: so small ones are not refused because of large ones."""

CLIENT_MESSAGE_BYTES_LIMIT: Final = 2 * 1024 * 1024
"""Bytes of one message of a client. gRPC takes larger ones (`RECEIVED_MESSAGE_BYTES_LIMIT` in `server.py`), which other
servers send: its limit is one for a whole server."""

LARGE_REQUEST_BYTES: Final = 1024 * 1024
"""Parsed, a request takes many times as much."""

LARGE_REQUESTS_AT_ONCE: Final = 2
"""Large requests that are parsed or carried out at once; others wait as bytes. As many of those that other servers
forward are worked on besides: servers that wait for one another would else wait for ever."""


class RequestBytes:
    """Bytes of the requests that are under way, of all services."""

    def __init__(self) -> None:
        self._under_way = 0
        self._large = asyncio.Semaphore(LARGE_REQUESTS_AT_ONCE)
        self._large_forwarded = asyncio.Semaphore(LARGE_REQUESTS_AT_ONCE)

    def holding(self, size: int, context: Context) -> Held:
        """Count a request of this size, in a block, which begins when there is room to work on it."""
        large = self._large_forwarded if is_forwarded(context) else self._large
        return Held(self, size, large if size >= LARGE_REQUEST_BYTES else None)

    @property
    def are_few(self) -> bool:
        """Whether no large request is under way, nor many small ones."""
        return self._under_way < LARGE_REQUEST_BYTES

    def has_room(self, size: int) -> bool:
        """Whether so many bytes more may be under way."""
        reserved = 0 if size < SMALL_REQUEST_BYTES else RESERVED_BYTES
        return self._under_way + size <= REQUEST_BYTES_LIMIT - reserved

    def add(self, size: int) -> None:
        """So many bytes more are under way; raises `RefusedError` where there are too many already."""
        if not self.has_room(size):
            raise refuse(
                Reason.LIMIT_EXCEEDED,
                f"requests of {REQUEST_BYTES_LIMIT} bytes are under way already; try again in a moment",
                limit=str(REQUEST_BYTES_LIMIT),
            )
        self._under_way += size

    def remove(self, size: int) -> None:
        """They are no more."""
        self._under_way -= size


class Held:
    """One request that is counted, until the end of a block, or until it is given back."""

    def __init__(self, together: RequestBytes, size: int, large: asyncio.Semaphore | None) -> None:
        """`large`: of which it takes one, if it is large."""
        self._together, self._size, self._large = together, size, large
        self._is_counted = self._has_large = False

    async def __aenter__(self) -> None:
        self._together.add(self._size)
        self._is_counted = True
        if self._large is not None:
            try:
                self._has_large = await self._large.acquire()
            finally:
                if not self._has_large:
                    self.give_back()

    async def __aexit__(self, *_: object) -> None:
        self.give_back()

    def give_back(self) -> None:
        """Count it no more."""
        if self._is_counted:
            self._together.remove(self._size)
        if self._has_large and self._large is not None:
            self._large.release()
        self._is_counted = self._has_large = False


class Places:
    """Room for so many calls at once."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._taken = 0

    @property
    def are_taken(self) -> bool:
        """Whether none is free."""
        return self._taken >= self._count

    @contextmanager
    def one(self) -> Iterator[None]:
        """A place for the block; raises `RefusedError` where none is free."""
        if self.are_taken:
            raise refuse(
                Reason.LIMIT_EXCEEDED,
                f"{self._count} calls of this kind are under way already; try again in a moment",
                limit=str(self._count),
            )
        self._taken += 1
        try:
            yield
        finally:
            self._taken -= 1


def guarded(
    handlers: dict[str, Handler],
    *,
    places: Places,
    request_bytes: RequestBytes,
    patient: Collection[str] = (),
    chunked: Collection[str] = (),
    is_of_servers: bool = False,
) -> dict[str, Handler]:
    """The handlers of one service, each of whose calls takes a place, and whose requests are counted.

    `patient`: the methods on whose streams a client may be silent for as long as it likes, after its first message.
    `chunked`: the methods whose request comes in chunks; their handlers are given all of these, as bytes.
    `is_of_servers`: True if no client needs the service.
    """
    guard = _Guard(places, request_bytes, next_message_seconds=NEXT_MESSAGE_SECONDS, is_of_servers=is_of_servers)
    patient_guard = _Guard(places, request_bytes, next_message_seconds=None, is_of_servers=is_of_servers)
    found = {name: (patient_guard if name in patient else guard).of(handler) for name, handler in handlers.items()}
    return found | {name: guard.of_chunked(handlers[name]) for name in chunked}


def admitted_shortly(
    answer: Callable[[bytes], bytes | None], *, places: Places, request_bytes: RequestBytes
) -> Callable[[bytes], bytes | None]:
    """A short way that answers only where the guard of the long way would let the call pass.

    It takes no place: no other call comes before its answer.
    """

    def admitted(request: bytes) -> bytes | None:
        if len(request) > CLIENT_MESSAGE_BYTES_LIMIT or places.are_taken or not request_bytes.has_room(len(request)):
            return None
        return answer(request)

    return admitted


class _Guard:
    """Stands before the handlers of one service; requests come to it as bytes."""

    def __init__(
        self,
        places: Places,
        request_bytes: RequestBytes,
        *,
        next_message_seconds: float | None,
        is_of_servers: bool,
    ) -> None:
        self._next_message_seconds = next_message_seconds
        self._is_of_servers = is_of_servers
        self._places = places
        self._request_bytes = request_bytes
        self._gathering = Gathering(request_bytes)

    def of(self, handler: Any) -> Handler:
        if handler.unary_unary is not None:
            return grpc.unary_unary_rpc_method_handler(
                self._of_request(handler.unary_unary, handler), None, handler.response_serializer
            )
        if handler.unary_stream is not None:
            return grpc.unary_stream_rpc_method_handler(
                self._of_request(handler.unary_stream, handler), None, handler.response_serializer
            )
        if handler.stream_unary is not None:
            return grpc.stream_unary_rpc_method_handler(
                self._of_stream(handler.stream_unary, handler), None, handler.response_serializer
            )
        assert handler.stream_stream is not None
        of_stream = self._of_answers if inspect.isasyncgenfunction(handler.stream_stream) else self._of_stream
        return grpc.stream_stream_rpc_method_handler(
            of_stream(handler.stream_stream, handler), None, handler.response_serializer
        )

    def of_chunked(self, handler: Any) -> Handler:
        behaviour = handler.stream_unary

        async def handle(requests: AsyncIterator[bytes], context: Context) -> Any:
            async with self._admitted(context):
                async with self._chunks(requests, context) as chunks:
                    batch = await self._gathering.whole(chunks, context)
                # Nothing is awaited between the two: what was counted of the batch until now is so from here on.
                async with self._request_bytes.holding(batch.size, context):
                    return await behaviour(batch.chunks, context)

        return grpc.stream_unary_rpc_method_handler(handle, None, handler.response_serializer)

    def _of_request(
        self, behaviour: Callable[[Any, Context], Any], handler: Handler
    ) -> Callable[[bytes, Context], Any]:
        async def handle(request: bytes, context: Context) -> Any:
            async with self._admitted(context), self._holding(request, context):
                return await behaviour(_parsed(request, handler), context)

        return handle

    def _of_stream(
        self, behaviour: Callable[[Any, Context], Any], handler: Handler
    ) -> Callable[[AsyncIterator[bytes], Context], Any]:
        async def handle(requests: AsyncIterator[bytes], context: Context) -> Any:
            async with self._admitted(context), self._counted(requests, handler, context) as counted:
                return await behaviour(counted, context)

        return handle

    def _of_answers(
        self, behaviour: Callable[[Any, Context], AsyncIterator[Any]], handler: Handler
    ) -> Callable[[AsyncIterator[bytes], Context], Any]:
        async def handle(requests: AsyncIterator[bytes], context: Context) -> AsyncIterator[Any]:
            async with self._admitted(context), self._counted(requests, handler, context) as counted:
                async for answer in behaviour(counted, context):
                    yield answer

        return handle

    @asynccontextmanager
    async def _admitted(self, context: Context) -> AsyncIterator[None]:
        try:
            with self._places.one():
                yield
        except RefusedError as error:
            await abort(context, error.refusal)

    def _counted(self, requests: AsyncIterator[bytes], handler: Handler, context: Context) -> _Requests:
        return _Requests(
            requests,
            parse=lambda request: _parsed(request, handler),
            hold=lambda request: self._holding(request, context),
            next_message_seconds=self._next_message_seconds,
        )

    def _chunks(self, requests: AsyncIterator[bytes], context: Context) -> _Requests:
        """The chunks of a batch, which are counted together with it."""

        def hold(chunk: bytes) -> Held:
            self._require_bounded(chunk, context)
            return Held(self._request_bytes, 0, None)

        return _Requests(requests, parse=bytes, hold=hold, next_message_seconds=self._next_message_seconds)

    def _holding(self, request: bytes, context: Context) -> Held:
        self._require_bounded(request, context)
        return self._request_bytes.holding(len(request), context)

    def _require_bounded(self, request: bytes, context: Context) -> None:
        size = len(request)
        if size > CLIENT_MESSAGE_BYTES_LIMIT and not (self._is_of_servers or is_forwarded(context)):
            raise refuse(
                Reason.LIMIT_EXCEEDED,
                f"one message of a client has at most {CLIENT_MESSAGE_BYTES_LIMIT} bytes, not {size}: send less at "
                "once, or a large atomic update by ApplyInChunks, as clients of this version do",
                limit=str(CLIENT_MESSAGE_BYTES_LIMIT),
            )


class _Requests:
    """The requests of a stream, each counted until the next one is asked for, or the call ends.

    No generator: a task of the call may still wait for the next request when the call ends, and nobody could close a
    generator then, nor give back what it holds.
    """

    def __init__(
        self,
        requests: AsyncIterator[bytes],
        *,
        parse: Callable[[bytes], Any],
        hold: Callable[[bytes], Held],
        next_message_seconds: float | None,
    ) -> None:
        self._requests = requests
        self._remaining: AsyncIterator[bytes] | None = None
        """Begun with the first request that is asked for: some calls read their requests in another way."""
        self._parse = parse
        self._hold = hold
        self._next_message_seconds = next_message_seconds
        self._seconds: float | None = FIRST_MESSAGE_SECONDS
        self._held: Held | None = None
        self._is_over = False

    async def __aenter__(self) -> _Requests:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_over = True
        self._give_back()

    def _give_back(self) -> None:
        if self._held is not None:
            self._held.give_back()

    def __aiter__(self) -> _Requests:
        return self

    async def __anext__(self) -> Any:
        """Raises `RefusedError` where nothing comes for too long, or there is no room."""
        self._give_back()
        if self._remaining is None:
            self._remaining = aiter(self._requests)
        try:
            if self._seconds is None:
                request = await anext(self._remaining)
            else:
                async with asyncio.timeout(self._seconds):
                    request = await anext(self._remaining)
        except TimeoutError:
            raise refuse(
                Reason.DEADLINE_EXCEEDED,
                f"nothing came on this stream for {self._seconds:g} seconds; it was ended",
                idle_seconds=f"{self._seconds:g}",
            ) from None
        self._held = self._hold(request)
        await self._held.__aenter__()
        if self._is_over:
            self._give_back()
            raise StopAsyncIteration
        self._seconds = self._next_message_seconds
        return self._parse(request)


def _parsed(request: bytes, handler: Handler) -> Any:
    if handler.request_deserializer is None:
        return request
    try:
        return handler.request_deserializer(request)
    except DecodeError:
        raise refuse(Reason.INVALID_REQUEST, "the request is no message of this method") from None
