"""Common parts of all calls: refusals become errors, and no answer leaves before the state it rests on is durable.

A *read* waits until the revision it asks for is reflected. It computes its answer from one state of the graph, the
newest durable one. It waits for no flush.

A method is a coroutine function of a request and a context. Its result is sent, as a message or serialized.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import Any, Protocol, TypeAlias, TypeVar

import grpc
from google.protobuf.message import Message

from namegraph import Reason, RefusedError, refuse
from nameserver.calls.read_your_writes import Revisions
from nameserver.driver.ancestry_filling import AncestryFilling
from nameserver.driver.run_loop import RunLoop
from nameserver.routing.forwarding import working_seconds
from nameserver.wire.status_mapping import abort, pass_on

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Context = grpc.aio.ServicerContext[Any, Any]
RequestT = TypeVar("RequestT", bound=Message)
Answer: TypeAlias = Message | bytes
Chunks: TypeAlias = Iterable[bytes] | AsyncGenerator[bytes, None]
"""Serialized messages that no later update changes."""

GATHERED_BYTES_LIMIT = 1024 * 1024
"""Bytes of the messages of a stream that one answer holds.

A larger answer would let other calls wait while it is sent.
"""

Method = Callable[[RequestT, Context], Awaitable[Answer]]
StreamMethod = Callable[[RequestT, Context], Awaitable[Chunks]]


class Read(Protocol):
    """A request for information, not for a change."""

    @property
    def at_least_revision(self) -> str:
        """Revision to reflect. Empty for none."""


ReadT = TypeVar("ReadT", bound=Read)
AnswerT = TypeVar("AnswerT")


def deadline_of(context: Context, run_loop: RunLoop) -> float | None:
    """Return the end of the work on a call, on the clock of the run loop. None if the caller set no deadline."""
    seconds = working_seconds(context)
    return None if seconds is None else run_loop.now() + seconds


async def at_once() -> None:
    """Return at once, for reads that wait for no condition."""


def read(
    answer: Callable[[ReadT, Context], Awaitable[AnswerT]],
    revisions: Revisions,
    filling: AncestryFilling,
    *,
    of: Callable[[ReadT], Sequence[str]] | None = None,
    until_ready: Callable[[], Awaitable[None]] = at_once,
) -> Callable[[ReadT, Context], Awaitable[AnswerT]]:
    """Return a method that answers from the present state, once that reflects the requested revision.

    `of`: returns the nodes whose ancestors the read asks for. None for a read that asks for no ancestors.
    `until_ready`: waits, after a start, until the state is known to be that of other servers too, and refuses at the
    end of the server.
    """

    async def method(request: ReadT, context: Context) -> AnswerT:
        await until_ready()
        if request.at_least_revision:
            await revisions.reflect(request.at_least_revision, context)
        if of is not None:
            await filling.fill_for(of(request))
        try:
            return await answer(request, context)
        finally:
            # An answer given while this server parts from other servers may lack their changes.
            await until_ready()

    return method


def unary_call(method: Method[RequestT], request_type: type[RequestT]) -> Handler:
    """Return the handler of a method with one request and one answer."""
    return grpc.unary_unary_rpc_method_handler(
        _refusable(method), request_deserializer=request_type.FromString, response_serializer=_serialize
    )


def stream_call(
    method: StreamMethod[RequestT], request_type: type[RequestT], *, stalled_seconds: float | None = None
) -> Handler:
    """Return the handler of a method with one request and many messages.

    Other calls are served between them.

    `stalled_seconds`: longest time for which the caller may take no message. None for no limit.
    """

    async def write(chunk: bytes, context: Context) -> None:
        try:
            async with asyncio.timeout(stalled_seconds):
                await context.write(chunk)
        except TimeoutError:
            raise refuse(
                Reason.DEADLINE_EXCEEDED, f"nothing was taken from this stream for {stalled_seconds} seconds"
            ) from None

    async def handle(request: RequestT, context: Context) -> None:
        chunks = await method(request, context)
        if isinstance(chunks, AsyncGenerator):
            # The resources of the generator are released at once, however the call ends.
            async with aclosing(chunks):
                async for chunk in chunks:
                    await write(chunk, context)
        else:
            for chunk in chunks:
                await context.write(chunk)

    return grpc.unary_stream_rpc_method_handler(_refusable(handle), request_deserializer=request_type.FromString)


def gathered(method: StreamMethod[RequestT], too_large: Message) -> Method[RequestT]:
    """Return a method that answers with all messages of a stream in one.

    Serialized messages merge by being joined.

    `too_large`: the answer in place of more than `GATHERED_BYTES_LIMIT`.
    """

    async def at_once(request: RequestT, context: Context) -> Answer:
        chunks = await method(request, context)
        found, size = list[bytes](), 0
        if isinstance(chunks, AsyncGenerator):
            async with aclosing(chunks):
                async for chunk in chunks:
                    found.append(chunk)
                    size += len(chunk)
                    if size > GATHERED_BYTES_LIMIT:
                        return too_large
        else:
            for chunk in chunks:
                found.append(chunk)
                size += len(chunk)
                if size > GATHERED_BYTES_LIMIT:
                    return too_large
        return b"".join(found)

    return at_once


def incoming_stream_call(
    method: Callable[[AsyncIterator[RequestT], Context], Awaitable[Answer]], request_type: type[RequestT]
) -> Handler:
    """Return the handler of a method with many messages and one answer."""
    return grpc.stream_unary_rpc_method_handler(
        _refusable(method), request_deserializer=request_type.FromString, response_serializer=_serialize
    )


def chunked_call(method: Callable[[list[bytes], Context], Awaitable[Answer]]) -> Handler:
    """Return the handler of a method with one request in chunks and one answer.

    The method gets all chunks as they came, once the stream has ended.
    """
    return grpc.stream_unary_rpc_method_handler(_refusable(method), response_serializer=_serialize)


def conversation_call(
    converse: Callable[[AsyncIterator[RequestT], Context], Awaitable[None]], request_type: type[RequestT]
) -> Handler:
    """Return the handler of a method with many messages either way. `converse` writes serialized messages itself."""
    return grpc.stream_stream_rpc_method_handler(_refusable(converse), request_deserializer=request_type.FromString)


def bytes_call(converse: Callable[[Context], Awaitable[None]]) -> Handler:
    """Return the handler of a method with serialized messages either way, which `converse` reads and writes itself."""

    async def handle(messages: object, context: Context) -> None:
        del messages
        await converse(context)

    return grpc.stream_stream_rpc_method_handler(_refusable(handle))


AnyRequest = TypeVar("AnyRequest")
AnyResponse = TypeVar("AnyResponse")


def _refusable(
    method: Callable[[AnyRequest, Context], Awaitable[AnyResponse]],
) -> Callable[[AnyRequest, Context], Awaitable[AnyResponse]]:
    async def handle(request: AnyRequest, context: Context) -> AnyResponse:
        try:
            return await method(request, context)
        except RefusedError as error:
            await abort(context, error.refusal)
        except grpc.aio.AioRpcError as error:
            await pass_on(context, error)

    return handle


def _serialize(answer: Answer) -> bytes:
    return answer if isinstance(answer, bytes) else answer.SerializeToString()
