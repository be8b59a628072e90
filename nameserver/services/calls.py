"""What every call has in common: refusals become errors, and no answer leaves before what it rests on is durable.

A *read* computes its whole answer in one instant, from one state of the graph, then waits for that state to be durable
(not at all while nothing is under way), then sends.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, TypeAlias, TypeVar

import grpc
from google.protobuf.message import Message

from namegraph.refusals import RefusedError
from nameserver.failures import abort
from nameserver.run_loop import RunLoop

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Context = grpc.aio.ServicerContext[Any, Any]
RequestT = TypeVar("RequestT", bound=Message)
ResponseT = TypeVar("ResponseT", bound=Message)


def deadline_of(context: Context, run_loop: RunLoop) -> float | None:
    """The deadline of a call on the clock of the run loop; None where the caller set none."""
    remaining: float | None = context.time_remaining()
    return None if remaining is None else run_loop.now() + remaining


def read_call(answer: Callable[[RequestT], ResponseT], request_type: type[RequestT], run_loop: RunLoop) -> Handler:
    """One request, one answer, nothing changed."""

    async def handle(request: RequestT, context: Context) -> ResponseT:
        try:
            try:
                return answer(request)
            finally:
                # A refusal, too, may rest on what is not durable yet.
                if run_loop.newest_batch is not None:
                    await run_loop.until_durable()
        except RefusedError as error:
            await abort(context, error.refusal)

    return grpc.unary_unary_rpc_method_handler(
        handle, request_deserializer=request_type.FromString, response_serializer=_serialize
    )


def read_stream_call(
    answer: Callable[[RequestT], Awaitable[Iterable[bytes]]], request_type: type[RequestT], run_loop: RunLoop
) -> Handler:
    """One request, many messages, nothing changed.

    `answer` returns serialized messages that no later update changes; other calls are served between them.
    """

    async def handle(request: RequestT, context: Context) -> None:
        try:
            try:
                chunks = await answer(request)
            finally:
                if run_loop.newest_batch is not None:
                    await run_loop.until_durable()
        except RefusedError as error:
            await abort(context, error.refusal)
        for chunk in chunks:
            await context.write(chunk)

    return grpc.unary_stream_rpc_method_handler(handle, request_deserializer=request_type.FromString)


def write_call(carry_out: Callable[[RequestT, Context], Awaitable[Message]], request_type: type[RequestT]) -> Handler:
    """One request, one answer, once the change is durable."""
    return grpc.unary_unary_rpc_method_handler(
        _refusable(carry_out), request_deserializer=request_type.FromString, response_serializer=_serialize
    )


def write_stream_call(
    carry_out: Callable[[AsyncIterator[RequestT], Context], Awaitable[Message]], request_type: type[RequestT]
) -> Handler:
    """Many messages, one answer, once the change is durable."""
    return grpc.stream_unary_rpc_method_handler(
        _refusable(carry_out), request_deserializer=request_type.FromString, response_serializer=_serialize
    )


def conversation_call(
    converse: Callable[[AsyncIterator[RequestT], Context], Awaitable[None]], request_type: type[RequestT]
) -> Handler:
    """Many messages either way; `converse` writes serialized ones itself."""
    return grpc.stream_stream_rpc_method_handler(_refusable(converse), request_deserializer=request_type.FromString)


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

    return handle


def _serialize(message: Message) -> bytes:
    return message.SerializeToString()
