"""Requests on their way to this server: limits for large or slow ones that come at the same time.

    a call comes -> its request is read, few at a time -> it came at once, as nearly all do   -> the handler
                                                      '-> it is slow: others go on meanwhile -> the handler
                                                      '-> too many are slow, and take memory -> RESOURCE_EXHAUSTED

gRPC receives no more of a request than `UNREAD_BYTES` until its handler reads it, and all of it from then on. Each
method with one request is therefore registered as a method with a stream, whose first message is read here. An
abandoned read returns its memory. A slow request delays others by `SLOW_SECONDS` at most.
"""

from __future__ import annotations

import asyncio
import resource
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from inspect import isasyncgenfunction
from pathlib import Path
from typing import Any, Final

import grpc

from namegraph import Reason, RefusedError, refuse
from nameserver.calls.adapters import Context, Handler
from nameserver.config.addresses import network_of
from nameserver.wire.status_mapping import abort

PAGE_BYTES: Final = resource.getpagesize()

MEMORY: Final = Path("/proc/self/statm")
"""File with the memory of the process, on Linux. Elsewhere no request is ended because of memory."""

UNREAD_BYTES: Final = 256 * 1024
"""Bytes of one stream that gRPC receives before they are read: 5 MB/s from a client 50 ms away.

If gRPC chose this size itself, it would be up to 8 MiB.
"""

READ_AT_ONCE: Final = 4
"""Requests that are read at once, slow ones not counted. Reading as many of 8 MiB from gRPC takes some 30 ms."""

SLOW_SECONDS: Final = 0.02
"""Time after which a request on its way is slow: it is large, or its client is slow."""

SLOW_REQUESTS_LIMIT: Final = 2
"""Slow requests at once, if the process has grown: 16 MiB at most."""

GROWTH_BYTES: Final = 32 * 1024 * 1024
"""Growth of the process's memory from which slow requests are ended.

Many slow clients with small requests are no burden.
"""

UNDISTURBED_SECONDS: Final = 5.0
"""Time that a request may take before it gives way to a newer one."""

ARRIVAL_SECONDS: Final = 60.0
"""Longest time that a request may take: 8 MiB at 1.1 Mbit/s."""

REPORT_SECONDS: Final = 60.0
"""Shortest time between two reports to operators that requests were ended."""


@dataclass(slots=True, eq=False)
class _Arrival:
    began: float
    context: Context
    task: asyncio.Task[Any]
    is_slow: bool = False
    ended: RefusedError | None = None

    def end(self, reason: Reason, why: str) -> None:
        """Give up reading the request."""
        if self.ended is None:
            self.ended = refuse(reason, why)
            self.task.cancel()


class Arriving:
    """All requests of one server that are on their way."""

    def __init__(
        self,
        *,
        is_at_rest: Callable[[], bool] = lambda: True,
        report: Callable[[str], None] = lambda _line: None,
        memory: Callable[[], int] | None = None,
    ) -> None:
        """Create the reader of requests.

        `is_at_rest`: returns True if no large request is worked on. `report`: takes a line for operators. `memory`:
        returns the bytes that the process takes.
        """
        self.ended = 0
        """Requests that gave way since the start."""
        self._arrivals: dict[int, _Arrival] = {}
        """Requests on their way, the earliest first."""
        self._next = 0
        self._fresh = 0
        """Number of requests that are not slow."""
        self._waiting: deque[asyncio.Future[None]] = deque()
        """Calls whose requests are not read yet."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_at_rest = is_at_rest
        self._memory = memory or _memory
        self._memory_at_rest = self._memory()
        """Memory of the process when no large request was here or on its way."""
        self._report, self._reported = report, -REPORT_SECONDS

    def handlers(self, handlers: Mapping[str, Handler]) -> dict[str, Handler]:
        """Return the handlers of one service. Each reads its request as long as there is room for it."""
        return {name: self._of(handler) for name, handler in handlers.items()}

    def _of(self, handler: Any) -> Handler:
        forms = (handler.request_deserializer, handler.response_serializer)
        if handler.unary_unary is not None:
            return grpc.stream_unary_rpc_method_handler(self._reading(handler.unary_unary), *forms)
        if handler.unary_stream is not None and not isasyncgenfunction(handler.unary_stream):
            return grpc.stream_stream_rpc_method_handler(self._reading(handler.unary_stream), *forms)
        if handler.stream_unary is not None:
            return grpc.stream_unary_rpc_method_handler(_letting_go(handler.stream_unary), *forms)
        if handler.stream_stream is not None and not isasyncgenfunction(handler.stream_stream):
            return grpc.stream_stream_rpc_method_handler(_letting_go(handler.stream_stream), *forms)
        found: Handler = handler
        return found

    def _reading(self, method: Callable[[Any, Context], Awaitable[Any]]) -> Callable[[Any, Context], Awaitable[Any]]:
        async def read(_requests: object, context: Context) -> Any:
            try:
                arrived = await self._arrived(context)
            except RefusedError as error:
                await abort(context, error.refusal)
            return await method(arrived.pop(), context)

        return _letting_go(read)

    async def _arrived(self, context: Context) -> list[Any]:
        """Read a request. It is returned in a list, so that the caller can drop its reference to it."""
        number = self._next = self._next + 1
        loop = self._loop = self._loop or asyncio.get_running_loop()
        if self._fresh >= READ_AT_ONCE:
            await self._turn(loop)
        else:
            self._fresh += 1
        task = asyncio.current_task(loop)
        assert task is not None
        arrival = self._arrivals[number] = _Arrival(loop.time(), context, task)
        if self._timer is None:
            self._timer = loop.call_later(SLOW_SECONDS, self._look)
        try:
            request = await context.read()
        except asyncio.CancelledError:
            if arrival.ended is None:
                raise
            task.uncancel()
            raise arrival.ended from None
        finally:
            del self._arrivals[number]
            if not arrival.is_slow:
                self._next_turn()
        if not isinstance(request, bytes):
            raise refuse(Reason.INVALID_REQUEST, "the call has no request")
        return [request]

    async def _turn(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wait until a request may be read. It takes the place of another request."""
        turn = loop.create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._next_turn()
            raise

    def _next_turn(self) -> None:
        """Let the next request be read, because one that was read has arrived, or is slow."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._fresh -= 1

    def _look(self) -> None:
        """End requests that take too long, and slow requests above the limit."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        slow = []
        for arrival in self._arrivals.values():
            if now - arrival.began < SLOW_SECONDS:
                break
            if not arrival.is_slow:
                # The request may have arrived before the loop came to it, so it counts from the next look.
                arrival.is_slow = True
                self._next_turn()
            elif now - arrival.began >= ARRIVAL_SECONDS:
                arrival.end(
                    Reason.DEADLINE_EXCEEDED, f"the request did not come whole within {ARRIVAL_SECONDS:g} seconds"
                )
            elif arrival.ended is None:
                slow.append(arrival)
        if len(slow) > SLOW_REQUESTS_LIMIT and self._memory() - self._memory_at_rest >= GROWTH_BYTES:
            self._make_room(slow, now)
        if not self._arrivals and self._is_at_rest():
            self._memory_at_rest = self._memory()
        self._timer = loop.call_later(SLOW_SECONDS, self._look) if self._arrivals else None

    def _make_room(self, slow: list[_Arrival], now: float) -> None:
        networks = {id(arrival): network_of(arrival.context.peer() or "") for arrival in slow}
        most = Counter(networks.values())
        while len(slow) > SLOW_REQUESTS_LIMIT:
            network, _ = most.most_common(1)[0]
            of_network = [arrival for arrival in slow if networks[id(arrival)] == network]
            oldest = of_network[0]
            given_up = oldest if now - oldest.began >= UNDISTURBED_SECONDS else of_network[-1]
            given_up.end(
                Reason.LIMIT_EXCEEDED,
                f"{SLOW_REQUESTS_LIMIT} requests that are large or slow are on their way here already; try again in a "
                "moment",
            )
            slow.remove(given_up)
            most[network] -= 1
            self.ended += 1
        if now - self._reported >= REPORT_SECONDS:
            self._reported = now
            self._report(f"large or slow requests are refused, most of them from {most.most_common(1)[0][0]}")


def _letting_go(method: Callable[[Any, Context], Awaitable[Any]]) -> Callable[[Any, Context], Awaitable[Any]]:
    """Let a refused call forget its data.

    gRPC keeps the error with the call, and the error would keep the data until the collector looks for cycles.
    """

    async def call(request: Any, context: Context) -> Any:
        try:
            return await method(request, context)
        except grpc.aio.AbortError as error:
            error.__context__ = None
            raise error.with_traceback(None) from None

    return call


def _memory() -> int:
    try:
        return int(MEMORY.read_bytes().split()[1]) * PAGE_BYTES
    except FileNotFoundError:
        return 0
