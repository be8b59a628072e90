"""The PeerService, which other name servers call."""

from __future__ import annotations

from typing import Any

import grpc

from namegraph import CoreQueries
from nameserver.calls.adapters import Context, Handler, unary_call
from nameserver.config.addresses import host_of
from nameserver.transport.peer_streams import AcceptedStream
from nameserver.transport.peer_transport import PeerTransport
from shadowtree.v1 import peer_pb2 as messages


def peer_service_handlers(core: CoreQueries, transport: PeerTransport) -> dict[str, Handler]:
    """Return the handler of each method, by its name."""

    async def converse(frames: Any, context: Context) -> None:
        del frames
        await transport.accept(AcceptedStream(context), host_of(context.peer()))

    async def identify(request: messages.IdentifyRequest, context: Context) -> messages.IdentifyResponse:
        del request, context
        return messages.IdentifyResponse(server=core.server, subnets=sorted(core.subnets), start=transport.start)

    # Frames come and go as bytes. The session refuses bytes that are no frame.
    return {
        "Converse": grpc.stream_stream_rpc_method_handler(converse),
        "Identify": unary_call(identify, messages.IdentifyRequest),
    }
