"""Passes calls on between two servers that cannot reach each other, through this one that reaches both.

    a --call, marked as forwarded by a and for b--> this server --the same, not marked for b--> b
      <--answers or error, as they are--                        <--

Bytes are passed on unread, so one way of passing on serves all methods. Only calls that are marked as forwarded are,
and only to a server that this one reaches itself: b answers from what it knows, and no call goes further.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import grpc

from namegraph import Reason, RefusedError, ServerId, refuse
from nameserver.calls.adapters import Context, Handler
from nameserver.transport.peer_directory import PeerDirectory
from nameserver.transport.peer_streams import CONVERSE_METHOD
from nameserver.transport.relayed_channel import RELAY_KEY
from nameserver.wire.metadata import FORWARDED_KEY
from nameserver.wire.status_mapping import abort, pass_on


class RelayedCalls(grpc.GenericRpcHandler):  # type: ignore[type-arg]
    """Takes all calls that are marked for another server, and leaves the others to other handlers."""

    def __init__(self, directory: PeerDirectory) -> None:
        self._directory = directory

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Handler | None:
        """The handler of a call; None: not one of these."""
        destination = _value(handler_call_details, RELAY_KEY)
        method = handler_call_details.method
        if destination is None or method == CONVERSE_METHOD:
            return None
        mark = _value(handler_call_details, FORWARDED_KEY)
        return grpc.stream_stream_rpc_method_handler(partial(self._pass_on, method, ServerId(destination), mark))

    async def _pass_on(
        self, method: str, destination: ServerId, mark: str | None, requests: AsyncIterator[bytes], context: Context
    ) -> None:
        try:
            await self._call(method, destination, mark, requests, context)
        except RefusedError as error:
            await abort(context, error.refusal)
        except grpc.aio.AioRpcError as error:
            await pass_on(context, error)

    async def _call(
        self, method: str, destination: ServerId, mark: str | None, requests: AsyncIterator[bytes], context: Context
    ) -> None:
        if mark is None:
            raise refuse(Reason.INVALID_REQUEST, "only calls that a server forwards are passed on", field=RELAY_KEY)
        channel = await self._directory.direct_channel_to(destination)
        call: Any = channel.stream_stream(method, None, None)(
            requests, timeout=context.time_remaining(), metadata=((FORWARDED_KEY, mark),)
        )
        try:
            async for answer in call:
                await context.write(answer)
        finally:
            call.cancel()


def _value(call: grpc.HandlerCallDetails, wanted: str) -> str | None:
    for key, value in call.invocation_metadata or ():
        if key == wanted:
            return str(value)
    return None
