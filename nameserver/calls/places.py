"""Places, bytes of requests, and idle time that all calls of one service may take together.

    a call comes -> is there a place? -> requests are read, each within its time -> is there room for its bytes?
                       no: RESOURCE_EXHAUSTED        no: DEADLINE_EXCEEDED             no: RESOURCE_EXHAUSTED
                 -> parsed, a large one when few others are -> the handler

A request of a client above `CLIENT_MESSAGE_BYTES_LIMIT` is refused unparsed. Requests that do not fit one message come
in chunks (`gathering.py`). Each service has places of its own: however many calls of clients rest here, peers,
operators and health are answered.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError

from namegraph import Reason, RefusedError, refuse
from nameserver.access.caller import current_caller
from nameserver.calls.adapters import Context, Handler
from nameserver.calls.gathering import BatchGathering
from nameserver.wire.status_mapping import abort
from nameserver.wire.undecodable import fault_of_text

FIRST_MESSAGE_SECONDS: Final = 5.0
"""Longest time for which a stream may be open before its first message."""

NEXT_MESSAGE_SECONDS: Final = 30.0
"""Longest silence of a client on a stream after its first message."""

REQUEST_BYTES_LIMIT: Final = 128 * 1024 * 1024
"""Bytes of all requests that are under way, before they are parsed."""

SMALL_REQUEST_BYTES: Final = 64 * 1024
"""Size of a small request. Nearly all requests are smaller."""

RESERVED_BYTES: Final = 72 * 1024 * 1024
"""Bytes reserved for small requests, so that large ones do not cause their refusal."""

CLIENT_MESSAGE_BYTES_LIMIT: Final = 2 * 1024 * 1024
"""Bytes of one message of a client.

Other servers send larger ones (`RECEIVED_MESSAGE_BYTES_LIMIT` in `server.py`).

gRPC's own limit holds for a whole server.
"""

LARGE_REQUEST_BYTES: Final = 1024 * 1024
"""Size of a large request. A parsed request takes many times as much memory."""

LARGE_REQUESTS_AT_ONCE: Final = 2
"""Large requests that are parsed or carried out at once.

Others wait as bytes.

The same number of forwarded requests is worked on in addition. Otherwise servers that wait for one another would
wait for ever.
"""


class RequestBytes:
    """Bytes of the requests that are under way, of all services."""

    def __init__(self) -> None:
        self._under_way = 0
        self._large = asyncio.Semaphore(LARGE_REQUESTS_AT_ONCE)
        self._large_forwarded = asyncio.Semaphore(LARGE_REQUESTS_AT_ONCE)

    def holding(self, size: int) -> Held:
        """Return a block that counts a request of this size. It begins when there is room to work on the request."""
        if size < LARGE_REQUEST_BYTES:
            return Held(self, size, None)
        return Held(self, size, self._large_forwarded if current_caller().is_forwarded else self._large)

    @property
    def are_few(self) -> bool:
        """True if no large request is under way, nor many small ones."""
        return self._under_way < LARGE_REQUEST_BYTES

    def has_room(self, size: int) -> bool:
        """Return True if `size` more bytes may be under way."""
        reserved = 0 if size < SMALL_REQUEST_BYTES else RESERVED_BYTES
        return self._under_way + size <= REQUEST_BYTES_LIMIT - reserved

    def add(self, size: int) -> None:
        """Count `size` more bytes. Raises `RefusedError` if there are too many already."""
        if not self.has_room(size):
            raise refuse(
                Reason.LIMIT_EXCEEDED,
                f"requests of {REQUEST_BYTES_LIMIT} bytes are under way already; try again in a moment",
                limit=str(REQUEST_BYTES_LIMIT),
            )
        self._under_way += size

    def remove(self, size: int) -> None:
        """Count `size` fewer bytes."""
        self._under_way -= size


class Held:
    """One counted request, until the end of a block, or until it is given back."""

    def __init__(self, together: RequestBytes, size: int, large: asyncio.Semaphore | None) -> None:
        """`large`: semaphore that a large request takes once. None for other requests."""
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
        """Stop counting the request."""
        if self._is_counted:
            self._together.remove(self._size)
        if self._has_large and self._large is not None:
            self._large.release()
        self._is_counted = self._has_large = False


class Places:
    """Places for a number of calls at once."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._taken = 0

    @property
    def are_taken(self) -> bool:
        """True if no place is free."""
        return self._taken >= self._count

    def take(self) -> None:
        """Take a place. Raises `RefusedError` if none is free."""
        if self.are_taken:
            raise refuse(
                Reason.LIMIT_EXCEEDED,
                f"{self._count} calls of this kind are under way already; try again in a moment",
                limit=str(self._count),
            )
        self._taken += 1

    def give_back(self) -> None:
        """Give back a place that was taken."""
        self._taken -= 1

    @contextmanager
    def one(self) -> Iterator[None]:
        """Hold a place for the block. Raises `RefusedError` if none is free."""
        self.take()
        try:
            yield
        finally:
            self.give_back()


class _Admission:
    """Block of one call, which holds a place. A refusal in the block ends the call."""

    def __init__(self, places: Places, context: Context) -> None:
        self._places, self._context = places, context

    async def __aenter__(self) -> None:
        try:
            self._places.take()
        except RefusedError as error:
            await abort(self._context, error.refusal)

    async def __aexit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        self._places.give_back()
        if isinstance(error, RefusedError):
            await abort(self._context, error.refusal)


def guarded(
    handlers: dict[str, Handler],
    *,
    places: Places,
    request_bytes: RequestBytes,
    patient: Collection[str] = (),
    chunked: Collection[str] = (),
    is_of_servers: bool = False,
) -> dict[str, Handler]:
    """Return the handlers of one service, so that each call takes a place, and its requests are counted.

    `patient`: methods on whose streams a client may be silent for any time after its first message. `chunked`: methods
    whose request comes in chunks. Their handlers get all chunks as bytes. `is_of_servers`: True if no client needs the
    service.
    """
    guard = _Guard(places, request_bytes, next_message_seconds=NEXT_MESSAGE_SECONDS, is_of_servers=is_of_servers)
    patient_guard = _Guard(places, request_bytes, next_message_seconds=None, is_of_servers=is_of_servers)
    found = {name: (patient_guard if name in patient else guard).of(handler) for name, handler in handlers.items()}
    return found | {name: guard.of_chunked(handlers[name]) for name in chunked}


def admitted_shortly(
    answer: Callable[[bytes], bytes | None], *, places: Places, request_bytes: RequestBytes
) -> Callable[[bytes], bytes | None]:
    """Return a short way that answers only if the guard of the long way would let the call pass.

    It takes no place, because no other call comes before its answer.
    """

    def admitted(request: bytes) -> bytes | None:
        if len(request) > CLIENT_MESSAGE_BYTES_LIMIT or places.are_taken or not request_bytes.has_room(len(request)):
            return None
        return answer(request)

    return admitted


class _Guard:
    """Guard before the handlers of one service. Requests come to it as bytes."""

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
        self._gathering = BatchGathering(request_bytes)

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
                async with self._chunks(requests) as chunks:
                    batch = await self._gathering.whole(chunks, context)
                # No await between the two lines: the bytes of the batch were counted until now, and are counted again
                # from here on.
                async with self._request_bytes.holding(batch.size):
                    return await behaviour(batch.chunks, context)

        return grpc.stream_unary_rpc_method_handler(handle, None, handler.response_serializer)

    def _of_request(
        self, behaviour: Callable[[Any, Context], Any], handler: Handler
    ) -> Callable[[bytes, Context], Any]:
        async def handle(request: bytes, context: Context) -> Any:
            async with self._admitted(context), self._holding(request):
                return await behaviour(_parsed(request, handler), context)

        return handle

    def _of_stream(
        self, behaviour: Callable[[Any, Context], Any], handler: Handler
    ) -> Callable[[AsyncIterator[bytes], Context], Any]:
        async def handle(requests: AsyncIterator[bytes], context: Context) -> Any:
            async with self._admitted(context), self._counted(requests, handler) as counted:
                return await behaviour(counted, context)

        return handle

    def _of_answers(
        self, behaviour: Callable[[Any, Context], AsyncIterator[Any]], handler: Handler
    ) -> Callable[[AsyncIterator[bytes], Context], Any]:
        async def handle(requests: AsyncIterator[bytes], context: Context) -> AsyncIterator[Any]:
            async with self._admitted(context), self._counted(requests, handler) as counted:
                async for answer in behaviour(counted, context):
                    yield answer

        return handle

    def _admitted(self, context: Context) -> _Admission:
        return _Admission(self._places, context)

    def _counted(self, requests: AsyncIterator[bytes], handler: Handler) -> _Requests:
        return _Requests(
            requests,
            parse=lambda request: _parsed(request, handler),
            hold=self._holding,
            next_message_seconds=self._next_message_seconds,
        )

    def _chunks(self, requests: AsyncIterator[bytes]) -> _Requests:
        """Return the chunks of a batch, which are counted together with it."""

        def hold(chunk: bytes) -> Held:
            self._require_bounded(chunk)
            return Held(self._request_bytes, 0, None)

        return _Requests(requests, parse=bytes, hold=hold, next_message_seconds=self._next_message_seconds)

    def _holding(self, request: bytes) -> Held:
        self._require_bounded(request)
        return self._request_bytes.holding(len(request))

    def _require_bounded(self, request: bytes) -> None:
        size = len(request)
        if size > CLIENT_MESSAGE_BYTES_LIMIT and not (self._is_of_servers or current_caller().is_forwarded):
            raise refuse(
                Reason.LIMIT_EXCEEDED,
                f"one message of a client has at most {CLIENT_MESSAGE_BYTES_LIMIT} bytes, not {size}: send less at "
                "once, or a large atomic update by ApplyInChunks, as clients of this version do",
                limit=str(CLIENT_MESSAGE_BYTES_LIMIT),
            )


class _Requests:
    """Requests of a stream, each counted until the next one is read, or the call ends.

    This is no generator: a task of the call may still wait for the next request when the call ends. A generator could
    not be closed then, nor its request given back.
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
        """Begun with the first request that is read here. Some calls read their requests in another way."""
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
        """Return the next request. Raises `RefusedError` if none comes in time, or there is no room."""
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
    parse: Any = handler.request_deserializer
    if parse is None:
        return request
    try:
        return parse(request)
    except DecodeError:
        # Usually the parser is the method `FromString` of the class of the request.
        kind = getattr(getattr(parse, "__self__", None), "DESCRIPTOR", None)
        fault = None if kind is None else fault_of_text(request, kind)
        if fault is None:
            raise refuse(Reason.INVALID_REQUEST, "the request is no message of this method") from None
        field, why = fault
        raise refuse(Reason.INVALID_REQUEST, f"invalid {field}: {why}; write it in UTF-8", field=field) from None
