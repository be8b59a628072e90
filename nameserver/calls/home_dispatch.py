"""Calls that the home of one name answers: answered here if this server is that home, else forwarded."""

from __future__ import annotations

from collections.abc import Callable

from nameserver.access.caller import current_caller
from nameserver.calls.adapters import Answer, Chunks, Context, Method, RequestT, StreamMethod
from nameserver.routing.forwarding import Forwarder, not_owned_here, working_seconds
from nameserver.routing.ownership import OwnerKind, Routing
from shadowtree.v1 import name_service_pb2 as messages

NAME_SERVICE: str = messages.DESCRIPTOR.services_by_name["NameService"].full_name


class HomeDispatch:
    """Maker of methods that any server can be asked for, from methods of the home."""

    def __init__(self, *, routing: Routing, forwarder: Forwarder, service: str = NAME_SERVICE) -> None:
        """`service`: service of the methods."""
        self._service = service
        self._routing = routing
        self._forwarder = forwarder

    def unary(
        self, name: str, decisive: Callable[[RequestT], str], method: Method[RequestT], *, changes: bool
    ) -> Method[RequestT]:
        """Return the method for any server.

        `name`: name of the method. `decisive`: returns the name whose home answers.
        """
        routing = self._routing

        async def anywhere(request: RequestT, context: Context) -> Answer:
            of = decisive(request)
            owner_kind = routing.owner_kind(of)
            if owner_kind is OwnerKind.UNOWNED and not changes:
                routing.require_listed(of)
            if owner_kind is not OwnerKind.ANOTHERS:
                return await method(request, context)
            self._require_own_call(of)
            home = await routing.home_of(of)
            path, seconds = f"/{self._service}/{name}", working_seconds(context)
            return await self._forwarder.ask(
                home,
                path,
                request.SerializeToString(),
                seconds=seconds,
                changes=changes,
                is_repeatable=not changes or bool(getattr(request, "request_id", "")),
            )

        return anywhere

    def stream(
        self, name: str, decisive: Callable[[RequestT], str], method: StreamMethod[RequestT]
    ) -> StreamMethod[RequestT]:
        """Do as `unary`, for a method whose answer is a stream."""
        routing = self._routing

        async def anywhere(request: RequestT, context: Context) -> Chunks:
            of = decisive(request)
            owner_kind = routing.owner_kind(of)
            if owner_kind is OwnerKind.UNOWNED:
                routing.require_listed(of)
            if owner_kind is not OwnerKind.ANOTHERS:
                return await method(request, context)
            self._require_own_call(of)
            home = await routing.home_of(of)
            path, seconds = f"/{self._service}/{name}", working_seconds(context)
            return self._forwarder.stream(home, path, request.SerializeToString(), seconds=seconds)

        return anywhere

    def _require_own_call(self, of: str) -> None:
        if current_caller().is_forwarded:
            raise not_owned_here(of, self._routing.server)
