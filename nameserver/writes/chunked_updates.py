"""ApplyInChunks: an atomic update that is larger than one message, at the home of its first parent."""

from __future__ import annotations

from typing import Protocol

import grpc

from nameserver.access.caller import current_caller
from nameserver.calls.adapters import Answer, Context
from nameserver.calls.home_dispatch import NAME_SERVICE
from nameserver.routing.forwarding import Forwarder, not_owned_here, working_seconds
from nameserver.routing.ownership import OwnerKind, Routing
from nameserver.writes.update_chunks import ChunkedUpdate, read_chunks

METHOD = f"/{NAME_SERVICE}/ApplyInChunks"
METHOD_OF_ONE_MESSAGE = f"/{NAME_SERVICE}/ApplyUpdates"


class AppliesHere(Protocol):
    """Servicer of updates that this server coordinates."""

    async def apply_chunked(self, update: ChunkedUpdate, context: Context) -> Answer:
        """Add and remove many arcs as one atomic update."""


class ChunkedUpdateCalls:
    """Servicer of ApplyInChunks."""

    def __init__(self, *, updates: AppliesHere, routing: Routing, forwarder: Forwarder) -> None:
        self._updates = updates
        self._routing = routing
        self._forwarder = forwarder

    async def apply_in_chunks(self, encoded: list[bytes], context: Context) -> Answer:
        """Carry out the update of these chunks, or pass it on to the home of its first parent."""
        update = await read_chunks(encoded)
        first = update.first_parent
        if self._routing.owner_kind(first) is not OwnerKind.ANOTHERS:
            return await self._updates.apply_chunked(update, context)
        if current_caller().is_forwarded:
            raise not_owned_here(first, self._routing.server)
        home = await self._routing.home_of(first)
        is_repeatable = bool(update.request_id)
        try:
            return await self._forwarder.ask_in_chunks(
                home,
                METHOD,
                update.encoded,
                seconds=working_seconds(context),
                is_repeatable=is_repeatable,
            )
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
                raise
        # The home, or the server that passes the call on, is of the previous version: it takes 8 MiB in one message.
        return await self._forwarder.ask(
            home,
            METHOD_OF_ONE_MESSAGE,
            update.in_one_message(),
            seconds=working_seconds(context),
            changes=True,
            is_repeatable=is_repeatable,
        )
