"""A relay of gRPC calls before a real server. Tests see the calls there, and break or change them.

    client --call--> [ relay ] --the same call--> server
           <--answers or error--   <--answers or error--

Calls pass unchanged unless a test sets a `Fault` for their method. The relay knows the wire contract alone.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from namegraph.model.refusals import Refusal
from nameserver.wire.status_mapping import abort, pass_on
from shadowtree.v1 import admin_pb2, delivery_pb2, name_service_pb2

METHODS: dict[str, MethodDescriptor] = {
    f"/{service.full_name}/{method.name}": method
    for file in (name_service_pb2, delivery_pb2, admin_pb2)
    for service in file.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}


class RelayedCall:
    """One call on its way. Faults read its requests, its server's answers, and write answers of their own."""

    def __init__(self, method: MethodDescriptor, requests: AsyncIterator[bytes], context: Any, channel: Any) -> None:
        self.name = method.name
        self.requests: list[Any] = []
        """Requests that have come so far."""
        self.written: list[Any] = []
        """Answers that the client was sent."""
        self._method, self._context, self._channel = method, context, channel
        self._all_requests = requests
        self._begun: AsyncIterator[bytes] | None = None
        self._request_type = GetMessageClass(method.input_type)
        self._answer_type = GetMessageClass(method.output_type)

    async def answers(self) -> AsyncIterator[Any]:
        """Pass the call on, and yield the answers of the server. Raises `grpc.aio.AioRpcError`."""
        path = f"/{self._method.containing_service.full_name}/{self.name}"
        call = self._channel.stream_stream(path, None, self._answer_type.FromString)(
            self._passed_requests(), timeout=self._context.time_remaining()
        )
        try:
            async for answer in call:
                yield answer
        finally:
            call.cancel()

    async def _passed_requests(self) -> AsyncIterator[bytes]:
        async for request in self._remaining():
            self.requests.append(self._request_type.FromString(request))
            yield request

    def _remaining(self) -> AsyncIterator[bytes]:
        # An iterator that is never read would be reported as a fault of its own.
        if self._begun is None:
            self._begun = aiter(self._all_requests)
        return self._begun

    async def write(self, answer: Any) -> None:
        """Send an answer to the client."""
        self.written.append(answer)
        await self._context.write(answer.SerializeToString())

    async def read_request(self) -> Any:
        """Return the next request, which is not passed on."""
        self.requests.append(self._request_type.FromString(await anext(self._remaining())))
        return self.requests[-1]

    async def abort(self, code: grpc.StatusCode, details: str) -> None:
        """End the call with an error."""
        await self._context.abort(code, details)

    async def refuse(self, refusal: Refusal) -> None:
        """End the call as a server does that refuses it."""
        await abort(self._context, refusal)


Fault = Callable[[RelayedCall], Awaitable[None]]
"""A course of a call in place of the usual one. It runs in the event loop of the relay."""


class CallRelay(grpc.GenericRpcHandler):
    """The relay before the server at `target`. `calls`: all calls that have come, in order."""

    def __init__(self, target: str) -> None:
        """`target`: HOST:PORT."""
        self.calls: list[RelayedCall] = []
        self.address = ""
        self._target = target
        self._faults: dict[str, list[tuple[Fault, float]]] = {}

    def set(self, fault: Fault, *methods: str, times: float = float("inf")) -> None:
        """Give the next `times` calls of each of these methods a fault. Calls after these have the fault set next."""
        assert set(methods) <= {method.name for method in METHODS.values()}
        for method in methods:
            self._faults.setdefault(method, []).append((fault, times))

    def clear(self) -> None:
        """Let all calls pass from now on, and forget those that came."""
        self._faults.clear()
        self.calls.clear()

    @property
    def names(self) -> list[str]:
        """Methods of all calls that have come, in order."""
        return [call.name for call in self.calls]

    @property
    def counts(self) -> Counter[str]:
        """Number of calls of each method."""
        return Counter(self.names)

    def requests(self, *methods: str) -> list[Any]:
        """Return the requests of all calls of these methods, in order."""
        return [request for call in self.calls if call.name in methods for request in call.requests]

    async def start(self, listen: str = "127.0.0.1:0") -> None:
        """Take calls; `address` is set then."""
        options = [("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", -1)]
        self._server = grpc.aio.server(options=options)
        self._server.add_generic_rpc_handlers((self,))
        self._channel = grpc.aio.insecure_channel(
            self._target, options=[*options, ("grpc.use_local_subchannel_pool", 1)]
        )
        self.address = f"127.0.0.1:{self._server.add_insecure_port(listen)}"
        await self._server.start()

    async def close(self) -> None:
        """End the calls under way, and take no more."""
        await self._server.stop(None)
        await self._channel.close()

    def service(self, details: Any) -> Any:
        """Return the handler of a call."""
        method = METHODS.get(details.method)

        async def handle(requests: AsyncIterator[bytes], context: Any) -> None:
            assert method is not None
            call = RelayedCall(method, requests, context, self._channel)
            self.calls.append(call)
            try:
                await self._next_fault(call.name)(call)
            except grpc.aio.AioRpcError as error:
                await pass_on(context, error)

        return None if method is None else grpc.stream_stream_rpc_method_handler(handle)

    def _next_fault(self, method: str) -> Fault:
        coming = self._faults.get(method)
        if not coming:
            return passing
        fault, times = coming[0]
        coming[:1] = [(fault, times - 1)] if times > 1 else []
        return fault


async def passing(call: RelayedCall) -> None:
    """Change nothing."""
    async for answer in call.answers():
        await call.write(answer)


async def losing_answers(call: RelayedCall) -> None:
    """Let the server do its work, and lose its answers."""
    async for _ in call.answers():
        pass
    await call.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")


def breaking(is_time: Callable[[list[Any]], bool]) -> Fault:
    """Break the call once the answers of the server so far meet a condition. The last answer is lost."""

    async def fault(call: RelayedCall) -> None:
        answers: list[Any] = []
        async for answer in call.answers():
            answers.append(answer)
            if is_time(answers):
                await call.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
            await call.write(answer)

    return fault


async def unknown(call: RelayedCall) -> None:
    """Answer as a server of a version without the method."""
    await call.abort(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")


def refusing(refusal: Refusal) -> Fault:
    """Refuse the call. The server is asked nothing."""

    async def fault(call: RelayedCall) -> None:
        await call.read_request()
        await call.refuse(refusal)

    return fault


def answering(answer: Message) -> Fault:
    """Answer with a given message, whatever the server would say. It is asked nothing."""

    async def fault(call: RelayedCall) -> None:
        await call.read_request()
        await call.write(answer)

    return fault


def changing(change: Callable[[Any], None]) -> Fault:
    """Change each answer of the server. `change` gets the message."""

    async def fault(call: RelayedCall) -> None:
        async for answer in call.answers():
            change(answer)
            await call.write(answer)

    return fault


class Holding:
    """A fault that lets a call pass only after `let_go`, which any thread may call."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_free = asyncio.Event()

    async def __call__(self, call: RelayedCall) -> None:
        """See `Fault`."""
        self._loop = asyncio.get_running_loop()
        await self._is_free.wait()
        await passing(call)

    def let_go(self) -> None:
        """Let all calls pass, those that wait too."""
        if self._loop is None:
            self._is_free.set()
        else:
            self._loop.call_soon_threadsafe(self._is_free.set)
