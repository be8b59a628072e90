"""Calls between two servers that cannot reach each other, passed on by this server, which reaches both.

    a --call, marked as forwarded by a and for b--> this server --the same, not marked for b--> b
      <--answers or error, as they are--                        <--

Bytes are passed on unread, so one way serves all methods that servers ask of one another. Only calls that are marked as
forwarded by a connected server are passed on, and only to a server that this one reaches itself. The receiver answers
from its own state, and no call goes further.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from functools import partial
from typing import Any

import grpc

from namegraph import Reason, RefusedError, ServerId, refuse
from nameserver.calls.adapters import Context, Handler
from nameserver.calls.places import Places
from nameserver.transport.peer_directory import PeerDirectory
from nameserver.transport.relayed_channel import RELAY_KEY, Metadata
from nameserver.wire.metadata import CALLER_KEY, FORWARDED_KEY, PRINCIPAL_KEY, TRACE_KEYS
from nameserver.wire.status_mapping import abort, pass_on

NAME_LIMIT = 100
"""Most characters of a name that are repeated to the caller."""


class RelayedCalls(grpc.GenericRpcHandler):  # type: ignore[type-arg]
    """Handler of all calls that are marked for another server. It leaves other calls to other handlers."""

    def __init__(self, directory: PeerDirectory, *, methods: Collection[str], places: Places) -> None:
        """`methods`: paths of the methods that servers ask of one another."""
        self._directory = directory
        self._methods = frozenset(methods)
        self._places = places

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Handler | None:
        """Return the handler of a call. None if the call is not to be passed on."""
        destination = _value(handler_call_details, RELAY_KEY)
        method = handler_call_details.method
        if destination is None or method not in self._methods:
            return None
        is_marked = _value(handler_call_details, FORWARDED_KEY) is not None
        metadata = _passed_on(handler_call_details) if is_marked else None
        return grpc.stream_stream_rpc_method_handler(partial(self._pass_on, method, ServerId(destination), metadata))

    async def _pass_on(
        self,
        method: str,
        destination: ServerId,
        metadata: Metadata | None,
        requests: AsyncIterator[bytes],
        context: Context,
    ) -> None:
        try:
            with self._places.one():
                await self._call(method, destination, metadata, requests, context)
        except RefusedError as error:
            await abort(context, error.refusal)
        except grpc.aio.AioRpcError as error:
            await pass_on(context, error)

    async def _call(
        self,
        method: str,
        destination: ServerId,
        metadata: Metadata | None,
        requests: AsyncIterator[bytes],
        context: Context,
    ) -> None:
        if metadata is None:
            raise refuse(Reason.INVALID_REQUEST, "only calls that a server forwards are passed on", field=RELAY_KEY)
        self._require_connected(ServerId(dict(metadata)[FORWARDED_KEY]), destination)
        channel = await self._directory.direct_channel_to(destination)
        call: Any = channel.stream_stream(method, None, None)(
            requests, timeout=context.time_remaining(), metadata=metadata
        )
        try:
            async for answer in call:
                await context.write(answer)
        finally:
            call.cancel()

    def _require_connected(self, sender: ServerId, destination: ServerId) -> None:
        if self._directory.is_connected(sender):
            return
        why = f"the server {sender[:NAME_LIMIT]} is not connected: no call of it is passed on"
        if sender in self._directory.others():
            # The sender may have started again, or have been cut off, without noticing it.
            raise refuse(Reason.UNAVAILABLE, why, unreachable=destination, server=destination)
        raise refuse(Reason.PERMISSION_DENIED, why)


def _passed_on(call: grpc.HandlerCallDetails) -> Metadata:
    passed_on = (FORWARDED_KEY, CALLER_KEY, PRINCIPAL_KEY, *TRACE_KEYS)
    return tuple((key, str(value)) for key, value in call.invocation_metadata or () if key in passed_on)


def _value(call: grpc.HandlerCallDetails, wanted: str) -> str | None:
    for key, value in call.invocation_metadata or ():
        if key == wanted:
            return str(value)
    return None
