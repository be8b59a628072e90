"""Follow the calls of the server: their number, the status of each ended call, and its duration.

Each handler gets one wrapper when the server starts. A call costs a microsecond, plus the time that the followers take.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

import grpc

from nameserver.calls.adapters import Context, Handler

_KINDS = {
    (False, False): ("unary_unary", "unary"),
    (False, True): ("unary_stream", "server_stream"),
    (True, False): ("stream_unary", "client_stream"),
    (True, True): ("stream_stream", "bidi_stream"),
}
"""Attribute of a handler and name in metrics, by whether requests and responses are streams."""

ShortWay: TypeAlias = Callable[[bytes], bytes | None]
"""Function that answers an encoded request at once, or returns None."""

NO_SHORT_WAYS: Mapping[str, ShortWay] = MappingProxyType({})

_CODES: dict[object, grpc.StatusCode] = {code.value[0]: code for code in grpc.StatusCode}


class CallFollower(Protocol):
    """Receiver of the events of one method's calls."""

    def began(self, context: Context) -> None:
        """Note that a call has come. Runs in the task that carries out the call."""

    def ended(self, context: Context, code: grpc.StatusCode, seconds: float) -> None:
        """Note that a call is over."""


class CallsUnderWay:
    """All calls of all methods."""

    def __init__(self) -> None:
        self.count = 0
        """Number of calls under way."""
        self.followers: list[Callable[[str, str, str], CallFollower]] = []
        """Factories of followers. Each takes a service, a method and its kind, and returns the follower of
        its calls.
        """

    def followed(
        self, service: str, handlers: dict[str, Handler], short_ways: Mapping[str, ShortWay] = NO_SHORT_WAYS
    ) -> dict[str, Handler]:
        """Return the handlers of a service, each wrapped to report its calls.

        `short_ways`: functions that are asked before the handler, by method.
        """
        return {
            name: self._followed(service, name, handler, short_ways.get(name)) for name, handler in handlers.items()
        }

    def _followed(self, service: str, name: str, handler: Handler, short_way: ShortWay | None) -> Handler:
        attribute, kind = _KINDS[bool(handler.request_streaming), bool(handler.response_streaming)]
        method = getattr(handler, attribute)
        told = [follower(service, name, kind) for follower in self.followers]
        followed: Handler = handler._replace(**{attribute: self._wrapped(method, told, short_way)})  # type: ignore[attr-defined]
        return followed

    def _wrapped(
        self,
        method: Callable[[Any, Context], Awaitable[Any]],
        told: Sequence[CallFollower],
        short_way: ShortWay | None,
    ) -> Callable[[Any, Context], Awaitable[Any]]:
        clock = time.perf_counter

        async def call(request: Any, context: Context) -> Any:
            self.count += 1
            began, code = clock(), grpc.StatusCode.OK
            for follower in told:
                follower.began(context)
            try:
                answer = None if short_way is None else short_way(request)
                return await method(request, context) if answer is None else answer
            except BaseException as error:
                code = _code_of(error, context)
                raise
            finally:
                self.count -= 1
                seconds = clock() - began
                for follower in told:
                    follower.ended(context, code, seconds)

        return call


def _code_of(error: BaseException, context: Context) -> grpc.StatusCode:
    if isinstance(error, asyncio.CancelledError):
        return grpc.StatusCode.CANCELLED
    # `abort` has set the code. A bug leaves the code unset.
    code = context.code()
    code = _CODES.get(code, code)
    is_told = isinstance(code, grpc.StatusCode) and code is not grpc.StatusCode.OK
    return code if is_told else grpc.StatusCode.UNKNOWN
