"""Calls of older servers for a third server, which this server does not pass on.

A server before tunnels marks such a call with its receiver. Without this refusal the call would be answered here, and
the answer taken for that of the other server. The refusal is what a server says that does not reach the receiver.
"""

from __future__ import annotations

from typing import Any

import grpc

from namegraph import Reason, Refusal
from nameserver.calls.adapters import Context, Handler
from nameserver.wire.status_mapping import abort

RELAY_KEY = "shadowtree-relay-to"
"""Metadata key of the receiver of such a call."""

NAME_LIMIT = 100
"""Most characters of a name that are repeated to the caller."""


class RetiredRelays(grpc.GenericRpcHandler):  # type: ignore[type-arg]
    """Handler of all calls that are marked for another server. It leaves other calls to other handlers."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Handler | None:
        """Return the handler that refuses a call. None if the call is for this server."""
        metadata = handler_call_details.invocation_metadata or ()
        receiver = next((str(value) for key, value in metadata if key == RELAY_KEY), None)
        if receiver is None:
            return None
        receiver = receiver[:NAME_LIMIT]
        why = f"no call is passed on to {receiver}: servers of this version reach others through tunnels"
        refusal = Refusal(Reason.UNAVAILABLE, why, {"unreachable": receiver, "server": receiver})

        async def refuse_call(requests: Any, context: Context) -> None:
            del requests
            await abort(context, refusal)

        return grpc.stream_stream_rpc_method_handler(refuse_call)
