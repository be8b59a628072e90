"""Find out who calls: once a call, before anything of its request is read.

    listener, connection --.
    credential ------------+--> identify --> Caller, for the task of the call
    mark of another server -'      '-------> UNAUTHENTICATED, INVALID_ARGUMENT

No other code reads an identity from the metadata of a call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from inspect import isasyncgenfunction
from typing import Any, Final

import grpc

from namegraph import ANONYMOUS, OPERATOR, Reason, RefusedError, guest_of, is_identified, refuse, subnet_of_principal
from nameserver.access.caller import Caller, How
from nameserver.access.marks import InvalidMarkError, Mark, read_mark
from nameserver.wire.metadata import CALLER, FORWARDED_KEY, PRINCIPAL_KEY
from nameserver.wire.status_mapping import abort

Context = grpc.aio.ServicerContext[Any, Any]

KNOWN_CALLERS_LIMIT: Final = 1_000
"""Callers that are kept by their connection, so that a call makes no new one."""

_KINDS: Final = {
    (False, False): "unary_unary",
    (False, True): "unary_stream",
    (True, False): "stream_unary",
    (True, True): "stream_stream",
}
"""Attribute of a handler, by whether requests and responses are streams."""


class Listener(Enum):
    """Kind of listener that a call came to."""

    PLAINTEXT = "plaintext"
    """Address of an unprotected server. All that a caller says is believed, because nothing is proven."""
    LOCAL = "local"
    """Local socket."""


class Identification:
    """Finder of the callers of one listener."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._known: dict[str, Caller] = {}
        """Callers that gave nothing but their connection, by connection."""

    def identify(self, context: Context) -> Caller:
        """Return the caller of a call. Raises `RefusedError` if it gives a proof that does not hold."""
        peer = context.peer() or ""
        metadata = context.invocation_metadata() or ()
        for key, _ in metadata:
            if key in _PROOFS:
                return self._of_proofs({key: str(value) for key, value in metadata}, peer)
        caller = self._known.get(peer)
        if caller is None:
            if len(self._known) >= KNOWN_CALLERS_LIMIT:
                self._known.clear()
            caller = self._known[peer] = self._of_connection(peer)
        return caller

    def _of_connection(self, peer: str) -> Caller:
        if self._listener is Listener.LOCAL:
            return Caller(OPERATOR, How.LOCAL, peer)
        return Caller(ANONYMOUS, How.LOOPBACK, peer)

    def _of_proofs(self, metadata: Mapping[str, str], peer: str) -> Caller:
        try:
            mark = read_mark(metadata)
        except InvalidMarkError as error:
            raise refuse(Reason.INVALID_REQUEST, str(error), field=PRINCIPAL_KEY) from None
        if mark is None:
            return self._of_connection(peer)
        if self._listener is Listener.LOCAL:
            raise refuse(
                Reason.INVALID_REQUEST,
                "no server forwards calls to the local socket of another one; call its address",
                field=PRINCIPAL_KEY,
            )
        return _believed(mark, peer)

    def handlers(self, handlers: Mapping[str, Any]) -> dict[str, Any]:
        """Return the handlers of one service. Each finds out who calls, before it begins."""
        return {name: self._of(handler) for name, handler in handlers.items()}

    def _of(self, handler: Any) -> Any:
        attribute = _KINDS[bool(handler.request_streaming), bool(handler.response_streaming)]
        method = getattr(handler, attribute)
        identified = self._generator(method) if isasyncgenfunction(method) else self._coroutine(method)
        return handler._replace(**{attribute: identified})

    def _coroutine(self, method: Callable[[Any, Context], Awaitable[Any]]) -> Callable[[Any, Context], Awaitable[Any]]:
        identify = self.identify

        async def call(request: Any, context: Context) -> Any:
            try:
                CALLER.set(identify(context))
            except RefusedError as error:
                await abort(context, error.refusal)
            return await method(request, context)

        return call

    def _generator(self, method: Callable[[Any, Context], Any]) -> Callable[[Any, Context], Any]:
        identify = self.identify

        async def call(request: Any, context: Context) -> Any:
            try:
                CALLER.set(identify(context))
            except RefusedError as error:
                await abort(context, error.refusal)
            async for answer in method(request, context):
                yield answer

        return call


_PROOFS: Final = frozenset((FORWARDED_KEY, PRINCIPAL_KEY))


def _believed(mark: Mark, peer: str) -> Caller:
    """Return the caller of a marked call to an unprotected server, which believes the mark."""
    server = mark.server
    if server is None:
        raise refuse(
            Reason.INVALID_REQUEST, "a forwarded call must name the server that forwards it", field=PRINCIPAL_KEY
        )
    # Opening the local socket proves an operator, and no other server does.
    is_operator = is_identified(mark.principal) and subnet_of_principal(mark.principal) is None
    principal = guest_of(server) if is_operator else mark.principal
    return Caller(principal, How.PEER, peer, via=server, told_address=mark.address)
