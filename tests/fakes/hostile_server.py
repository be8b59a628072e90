"""A server that answers every call with texts which act on a terminal, and forge a line, wherever a text can stand."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
from google.protobuf.descriptor import FieldDescriptor, MethodDescriptor
from google.protobuf.message_factory import GetMessageClass
from grpc_status import rpc_status

from namegraph.model.refusals import Reason, Refusal
from nameserver.wire.status_mapping import as_status
from shadowtree.v1 import admin_pb2, name_service_pb2

FORGED = "staff@a.example"
ESCAPE = f"\x1b]0;PWNED\x07\x1b[2J\u202e\n{FORGED}\n"

METHODS: dict[str, MethodDescriptor] = {
    f"/{service.full_name}/{method.name}": method
    for file, name in ((name_service_pb2, "NameService"), (admin_pb2, "AdminService"))
    for service in [file.DESCRIPTOR.services_by_name[name]]
    for method in service.methods
}
_LEFT_OUT = {
    # The client would ask for page after page.
    "next_page_token",
}


class HostileServer(grpc.GenericRpcHandler):
    """`left_out`: fields that stay empty, beside. `reason`: refuse every call for it, in words of the same kind."""

    def __init__(self, left_out: frozenset[str] = frozenset(), reason: Reason | None = None) -> None:
        self._left_out = left_out | _LEFT_OUT
        self._reason = reason

    def service(self, details: Any) -> Any:
        """Find out how to answer a call."""
        method = METHODS[details.method]
        request, response = GetMessageClass(method.input_type), GetMessageClass(method.output_type)

        def answer(asked: Any, context: Any) -> Any:
            if method.client_streaming:
                next(asked, None)
            if self._reason is not None:
                refusal = Refusal(self._reason, ESCAPE, {"unreachable": ESCAPE, "group": ESCAPE, "server": ESCAPE})
                context.abort_with_status(rpc_status.to_status(as_status(refusal)))
            return self._filled(response())

        def answers(asked: Any, context: Any) -> Any:
            yield answer(asked, context)

        streams = {(False, False): "unary_unary", (True, False): "stream_unary", (False, True): "unary_stream"}
        kind = streams.get((method.client_streaming, method.server_streaming), "stream_stream")
        handler = getattr(grpc, f"{kind}_rpc_method_handler")
        return handler(
            answers if method.server_streaming else answer,
            request_deserializer=request.FromString,
            response_serializer=lambda message: message.SerializeToString(),
        )

    def _filled(self, message: Any) -> Any:
        for field in message.DESCRIPTOR.fields:
            if field.name in self._left_out:
                continue
            if field.type == FieldDescriptor.TYPE_MESSAGE:
                part = getattr(message, field.name)
                self._filled(part.add() if field.is_repeated else part)
            else:
                value = _VALUES.get(field.type, 1)
                if field.is_repeated:
                    getattr(message, field.name).append(value)
                else:
                    setattr(message, field.name, value)
        return message


_VALUES = {
    FieldDescriptor.TYPE_STRING: ESCAPE,
    FieldDescriptor.TYPE_BYTES: b"\x01",
    FieldDescriptor.TYPE_BOOL: False,
}


@contextmanager
def serve_hostile(**settings: Any) -> Iterator[str]:
    """Serve; gives the address."""
    server = grpc.server(ThreadPoolExecutor(4), handlers=(HostileServer(**settings),))
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield address
    finally:
        server.stop(None).wait()
