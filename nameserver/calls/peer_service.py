"""The PeerService, which other name servers call."""

from __future__ import annotations

from typing import Final

import grpc

from namegraph import CoreQueries, InvalidNameError, Reason, ServerId, parse_subnet, refuse
from nameserver.access.caller import current_caller
from nameserver.calls.adapters import Context, Handler, bytes_call, unary_call
from nameserver.config.addresses import host_of, is_loopback
from nameserver.transport.peer_streams import AcceptedStream
from nameserver.transport.peer_transport import PeerTransport
from nameserver.wire.metadata import TO_KEY
from shadowtree.v1 import peer_pb2 as messages

NAME_LIMIT = 100
"""Most characters of a name that are repeated to the caller."""


CONVERSE: Final = "Converse"
"""Method of sessions. A session judges the certificate of its peer, and says Goodbye with the reason."""

IDENTIFY: Final = "Identify"
"""Method that tells any caller which server this is: what its certificate tells, too."""


def peer_service_handlers(core: CoreQueries, transport: PeerTransport) -> dict[str, Handler]:
    """Return the handler of each method, by its name."""

    async def converse(frames: object, context: Context) -> None:
        del frames
        await transport.accept(AcceptedStream(context), host_of(context.peer()), context.auth_context())

    async def identify(request: messages.IdentifyRequest, context: Context) -> messages.IdentifyResponse:
        del request, context
        return messages.IdentifyResponse(server=core.server, subnets=sorted(core.subnets), start=transport.start)

    async def tunnel(context: Context) -> None:
        await transport.gate.carry(
            AcceptedStream(context),
            asker=connected_caller(transport),
            destination=_destination(context),
            is_of_this_machine=is_loopback(current_caller().peer),
        )

    # Frames and pieces come and go as bytes. The session and the tunnel end for bytes that are none.
    return {
        CONVERSE: grpc.stream_stream_rpc_method_handler(converse),
        IDENTIFY: unary_call(identify, messages.IdentifyRequest),
        "Tunnel": bytes_call(tunnel),
    }


def connected_caller(transport: PeerTransport) -> ServerId:
    """Return the peer that makes a call. Raises `RefusedError` if it has no direct session with this server.

    `identify` says which server it is, by as much proof as there is.
    """
    caller = current_caller().via
    if caller is None:
        raise refuse(Reason.PERMISSION_DENIED, "only another server gets a tunnel, and only if it says which one it is")
    if transport.ways.reaches(caller):
        return caller
    why = f"the server {caller[:NAME_LIMIT]} is not connected: no tunnel is opened for it"
    if caller in transport.others():
        # The caller may have started again, or have been cut off, without noticing it.
        raise refuse(Reason.UNAVAILABLE, why)
    raise refuse(Reason.PERMISSION_DENIED, why)


def _destination(context: Context) -> ServerId:
    found = dict(context.invocation_metadata() or ()).get(TO_KEY, "")
    try:
        return ServerId(parse_subnet(str(found)))
    except InvalidNameError as error:
        raise refuse(Reason.INVALID_REQUEST, f"a tunnel leads to a server: {error}", field=TO_KEY) from None
