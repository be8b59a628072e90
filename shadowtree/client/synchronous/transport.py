"""Channels and waiting of the synchronous client; `shadowtree.client.asynchronous.transport` has the same names."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Lock
from typing import Any, ParamSpec, TypeVar

import grpc

from shadowtree.client import calls
from shadowtree.client.bulk_check import Pair
from shadowtree.client.bulk_check import batches as batches_of
from shadowtree.client.channel import OPTIONS, STREAMS_WITHOUT_THREADS, Addresses
from shadowtree.client.checks_together import METHOD as CHECK_TOGETHER
from shadowtree.client.checks_together import ChecksOfThreads
from shadowtree.client.credentials import NO_CREDENTIALS, Credentials
from shadowtree.client.failures import Failure, client_closed, is_unknown_call
from shadowtree.client.retry import Attempts
from shadowtree.errors import ClientClosed, ShadowtreeError
from shadowtree.v1 import name_service_pb2
from shadowtree.v1.admin_pb2_grpc import AdminServiceStub
from shadowtree.v1.delivery_pb2_grpc import DeliveryServiceStub
from shadowtree.v1.name_service_pb2_grpc import NameServiceStub
from shadowtree.vocabulary import Address, RequestId, Seconds

__all__ = [
    "Attempt",
    "Connection",
    "Connections",
    "Pairs",
    "Requests",
    "RpcError",
    "Way",
    "batches_of",
    "in_thread",
    "once",
    "pause",
]

RpcError = grpc.RpcError

Pairs = Iterable[Pair]
"""Pairs of a group and a member to be checked."""

Found = TypeVar("Found")
Given = ParamSpec("Given")

pause = time.sleep
"""Sleep for a number of seconds."""

_NOT_CANCELLED: AbstractContextManager[None] = nullcontext()


class Connection:
    """The channel to one address."""

    def __init__(self, address: Address, credentials: Credentials = NO_CREDENTIALS) -> None:
        self.address = address
        self._credentials = credentials
        self.channel = credentials.channel(address, (*OPTIONS, *STREAMS_WITHOUT_THREADS), of=grpc)
        stubs = (NameServiceStub, AdminServiceStub, DeliveryServiceStub)
        self._names, self._admin, self._delivery = (stub(self.channel) for stub in stubs)
        self.unknown_calls: set[str] = set()
        """Calls that the server, which is older than this client, does not know."""
        self.checks = ChecksOfThreads(self._check_known)

    def call(self, method: str, request: Any, timeout: Seconds | None) -> Any:
        """Make a call of any service, or begin a stream. Raises `ClientClosed`."""
        is_admin, is_delivery = method in calls.ADMIN_METHODS, method in calls.DELIVERY_METHODS
        stub: Any = self._admin if is_admin else self._delivery if is_delivery else self._names
        metadata = self._credentials.metadata()
        try:
            return getattr(stub, method)(request, timeout=timeout, metadata=metadata)
        except ValueError:
            # gRPC raises ValueError for a channel that was closed.
            raise client_closed() from None

    def _check_known(
        self, request: name_service_pb2.CheckKnownRequest, timeout: Seconds | None
    ) -> name_service_pb2.CheckKnownResponse | None:
        try:
            response: name_service_pb2.CheckKnownResponse = self.call(CHECK_TOGETHER, request, timeout)
        except RpcError as error:
            if is_unknown_call(error):
                self.unknown_calls.add(CHECK_TOGETHER)
            return None
        except ClientClosed:
            return None
        return response


Attempt = Callable[[Connection, Seconds | None], Found]
"""Function that makes one attempt of a call, with a time limit in seconds."""


class Connections:
    """Connections of one client, by address. Threads may share them."""

    def __init__(self, addresses: Addresses, credentials: Credentials = NO_CREDENTIALS) -> None:
        self._addresses = addresses
        self._credentials = credentials
        self._lock = Lock()
        self._by_address: dict[Address, Connection] = {}
        self._is_closed = False

    def current(self) -> Connection:
        """Return the connection to use; raise `ClientClosed` if the client is closed.

        The connection is opened at first use, so that a client may be made before a process forks.
        """
        with self._lock:
            if self._is_closed:
                raise client_closed()
            address = self._addresses.current
            if address not in self._by_address:
                self._by_address[address] = Connection(address, self._credentials)
            return self._by_address[address]

    def close(self) -> None:
        """End all connections. Calls under way, and later ones, raise `ClientClosed`."""
        with self._lock:
            self._is_closed = True
            by_address, self._by_address = self._by_address, {}
        for connection in by_address.values():
            connection.channel.close()

    def telling_if_closed(self, _request_id: RequestId | None = None) -> AbstractContextManager[None]:
        """Do nothing: gRPC itself reports a call that ended because its channel was closed."""
        return _NOT_CANCELLED


@dataclass(frozen=True, slots=True)
class Way:
    """Connections and retry rules of streams, which may have to be opened again."""

    connections: Connections
    failure: Callable[[RpcError, Connection], Failure]
    begin_attempts: Callable[[], Attempts]
    tell_wait: Callable[[ShadowtreeError], None]


class Requests:
    """Queue of the requests of one stream. gRPC reads it in a thread of its own."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Any] = SimpleQueue()

    def put(self, request: Any) -> None:
        """Add a request."""
        self._queue.put(request)

    def end(self) -> None:
        """End the stream of requests."""
        self._queue.put(None)

    def stream(self) -> Iterator[Any]:
        """Return the requests until their end."""
        return iter(self._queue.get, None)


def once(request: Any) -> Iterator[Any]:
    """Return one request, as a stream."""
    return iter((request,))


def in_thread(function: Callable[Given, Found], *given: Given.args, **named: Given.kwargs) -> Found:
    """Call a function; the caller's own thread waits for it."""
    return function(*given, **named)
