"""The PeerService: what other name servers call."""

from __future__ import annotations

from typing import Any

import grpc

from nameserver.calls.adapters import Context, Handler
from nameserver.transport.peer_streams import AcceptedStream
from nameserver.transport.peer_transport import PeerTransport


def peer_service_handlers(transport: PeerTransport) -> dict[str, Handler]:
    """The handler of each method, by its name."""

    async def converse(frames: Any, context: Context) -> None:
        del frames
        await transport.accept(AcceptedStream(context))

    # Frames come and go as bytes: what is no frame is for the session to refuse.
    return {"Converse": grpc.stream_stream_rpc_method_handler(converse)}
