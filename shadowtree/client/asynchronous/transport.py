"""Channels and waiting of the asynchronous client; `shadowtree.client.synchronous.transport` has the same names."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from threading import Lock
from typing import Any, ParamSpec, TypeVar

import grpc.aio

from shadowtree.client import calls
from shadowtree.client.bulk_check import Pair, awaited_batches, batches
from shadowtree.client.channel import OPTIONS, Addresses
from shadowtree.client.checks_together import METHOD as CHECK_TOGETHER
from shadowtree.client.checks_together import ChecksOfTasks
from shadowtree.client.credentials import NO_CREDENTIALS, Credentials
from shadowtree.client.failures import Failure, client_closed, is_unknown_call, outcome_unknown
from shadowtree.client.retry import Attempts
from shadowtree.errors import ClientClosed, ShadowtreeError
from shadowtree.v1 import name_service_pb2
from shadowtree.v1.admin_pb2_grpc import AdminServiceStub
from shadowtree.v1.delivery_pb2_grpc import DeliveryServiceStub
from shadowtree.v1.name_service_pb2_grpc import NameServiceStub
from shadowtree.vocabulary import Address, RequestId, Seconds

RpcError = grpc.aio.AioRpcError

Pairs = Iterable[Pair] | AsyncIterable[Pair]
"""Pairs of a group and a member to be checked."""

Found = TypeVar("Found")
Given = ParamSpec("Given")

pause = asyncio.sleep
"""Sleep for a number of seconds."""


class Connection:
    """The channel to one address, for calls from the running event loop."""

    def __init__(self, address: Address, credentials: Credentials = NO_CREDENTIALS) -> None:
        self.address = address
        self._credentials = credentials
        self.channel = credentials.channel(address, OPTIONS, of=grpc.aio)
        stubs = (NameServiceStub, AdminServiceStub, DeliveryServiceStub)
        self._names, self._admin, self._delivery = (stub(self.channel) for stub in stubs)
        self.unknown_calls: set[str] = set()
        """Calls that the server, which is older than this client, does not know."""
        self.checks = ChecksOfTasks(self._check_known)

    def call(self, method: str, request: Any, timeout: Seconds | None) -> Any:
        """Make a call of any service, to be awaited, or begin a stream. Raises `ClientClosed`."""
        is_admin, is_delivery = method in calls.ADMIN_METHODS, method in calls.DELIVERY_METHODS
        stub: Any = self._admin if is_admin else self._delivery if is_delivery else self._names
        metadata = self._credentials.metadata()
        try:
            return getattr(stub, method)(request, timeout=timeout, metadata=metadata)
        except grpc.aio.UsageError:
            # gRPC raises UsageError for a channel that was closed.
            raise client_closed() from None

    async def _check_known(
        self, request: name_service_pb2.CheckKnownRequest, timeout: Seconds | None
    ) -> name_service_pb2.CheckKnownResponse | None:
        try:
            response: name_service_pb2.CheckKnownResponse = await self.call(CHECK_TOGETHER, request, timeout)
        except RpcError as error:
            if is_unknown_call(error):
                self.unknown_calls.add(CHECK_TOGETHER)
            return None
        except ClientClosed:
            return None
        return response


Attempt = Callable[[Connection, Seconds | None], Awaitable[Found]]
"""Function that makes one attempt of a call, with a time limit in seconds."""


class Connections:
    """Connections of one client, by event loop and address. Connections of closed loops are dropped."""

    def __init__(self, addresses: Addresses, credentials: Credentials = NO_CREDENTIALS) -> None:
        self._addresses = addresses
        self._credentials = credentials
        self._lock = Lock()
        self._by_loop: dict[asyncio.AbstractEventLoop, dict[Address, Connection]] = {}
        self._is_closed = False

    def current(self) -> Connection:
        """Return the connection to use in the running event loop; raise `ClientClosed` if the client is closed."""
        loop = asyncio.get_running_loop()
        # The dictionary is empty once the client is closed.
        mine = self._by_loop.get(loop)
        known = None if mine is None else mine.get(self._addresses.current)
        if known is not None:
            return known
        with self._lock:
            if self._is_closed:
                raise client_closed()
            if loop not in self._by_loop:
                self._by_loop = {one: mine for one, mine in self._by_loop.items() if not one.is_closed()}
            of_loop = self._by_loop.setdefault(loop, {})
            address = self._addresses.current
            if address not in of_loop:
                of_loop[address] = Connection(address, self._credentials)
            return of_loop[address]

    async def close(self) -> None:
        """End all connections. Calls under way, and later ones, raise `ClientClosed`."""
        with self._lock:
            self._is_closed = True
            by_loop, self._by_loop = self._by_loop, {}
        here = asyncio.get_running_loop()
        for loop, of_loop in by_loop.items():
            for connection in of_loop.values():
                if loop is here:
                    await connection.channel.close(None)
                elif loop.is_running():
                    closing = asyncio.run_coroutine_threadsafe(connection.channel.close(None), loop)
                    await asyncio.wrap_future(closing)

    def tell_if_closed(self, request_id: RequestId | None = None) -> None:
        """Raise the error of a call that was cancelled by closing the client, and not with its task."""
        task = asyncio.current_task()
        if self._is_closed and not (task is not None and task.cancelling()):
            raise client_closed() if request_id is None else outcome_unknown(client_closed(), request_id)

    def telling_if_closed(self, request_id: RequestId | None = None) -> TellingIfClosed:
        """Return a block that calls `tell_if_closed` if it is cancelled."""
        return TellingIfClosed(self, request_id)


class TellingIfClosed:
    """Block of a call, which may be cancelled by closing the client."""

    def __init__(self, connections: Connections, request_id: RequestId | None) -> None:
        self._connections = connections
        self._request_id = request_id

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, asyncio.CancelledError):
            self._connections.tell_if_closed(self._request_id)


@dataclass(frozen=True, slots=True)
class Way:
    """Connections and retry rules of streams, which may have to be opened again."""

    connections: Connections
    failure: Callable[[RpcError, Connection], Failure]
    begin_attempts: Callable[[], Attempts]
    tell_wait: Callable[[ShadowtreeError], None]


class Requests:
    """Queue of the requests of one stream."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Any] = asyncio.Queue()

    def put(self, request: Any) -> None:
        """Add a request."""
        self._queue.put_nowait(request)

    def end(self) -> None:
        """End the stream of requests."""
        self._queue.put_nowait(None)

    async def stream(self) -> AsyncIterator[Any]:
        """Yield the requests until their end."""
        while (request := await self._queue.get()) is not None:
            yield request


async def once(request: Any) -> AsyncIterator[Any]:
    """Yield one request, as a stream."""
    yield request


async def batches_of(pairs: Pairs) -> AsyncGenerator[list[Pair], None]:
    """Yield pairs in batches. The last batch is shorter than the others, or empty."""
    if isinstance(pairs, AsyncIterable):
        async for batch in awaited_batches(pairs):
            yield batch
        return
    for batch in batches(pairs):
        yield batch


async def in_thread(function: Callable[Given, Found], *given: Given.args, **named: Given.kwargs) -> Found:
    """Call a function that may take long, in another thread."""
    return await asyncio.to_thread(function, *given, **named)
