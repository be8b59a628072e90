"""The standard health service: SERVING while calls can be answered.

The status is NOT_SERVING while the database cannot be written, and from SIGTERM on. One status holds for the server and
all its services. The servicer that gRPC ships never ends a watch by itself, which would delay the end of the server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import grpc
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import _async, reflection_pb2

HEALTH_SERVICE: str = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name

_Status = health_pb2.HealthCheckResponse


class Health:
    """Servicer of grpc.health.v1."""

    def __init__(self, services: Sequence[str]) -> None:
        self._services = frozenset(("", *services))
        self._serving = False
        self._ended = False
        self._changed = asyncio.Event()

    def report(self, *, serving: bool) -> None:
        """Set the status. Without effect once `end` was called."""
        if not self._ended:
            self._serving = serving
            self._wake_watchers()

    def end(self) -> None:
        """Set NOT_SERVING for good. Watches end after they have sent it."""
        self._serving = False
        self._ended = True
        self._wake_watchers()

    def handlers(self) -> dict[str, Any]:
        """Return the handler of each method, by its name."""
        return {
            "Check": grpc.unary_unary_rpc_method_handler(
                self.check,
                request_deserializer=health_pb2.HealthCheckRequest.FromString,
                response_serializer=_Status.SerializeToString,
            ),
            "Watch": grpc.unary_stream_rpc_method_handler(
                self.watch,
                request_deserializer=health_pb2.HealthCheckRequest.FromString,
                response_serializer=_Status.SerializeToString,
            ),
        }

    async def check(
        self, request: health_pb2.HealthCheckRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> health_pb2.HealthCheckResponse:
        """Answer the status of one service, or of the server if the request names none."""
        if request.service not in self._services:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"there is no service {request.service!r} here")
        return self._response(request.service)

    async def watch(self, request: health_pb2.HealthCheckRequest, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        """Send the status, and send it again whenever it changes."""
        sent: health_pb2.HealthCheckResponse | None = None
        while True:
            # Read together: a change while the response is written is sent in the next round.
            changed, ends = self._changed, self._ended
            response = self._response(request.service)
            if response != sent:
                await context.write(response)
                sent = response
            if ends:
                return
            await changed.wait()

    def _response(self, service: str) -> health_pb2.HealthCheckResponse:
        if service not in self._services:
            return _Status(status=_Status.SERVICE_UNKNOWN)
        return _Status(status=_Status.SERVING if self._serving else _Status.NOT_SERVING)

    def _wake_watchers(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def reflection_handlers(services: Sequence[str]) -> dict[str, Any]:
    """Return the handler of each method of gRPC's server reflection, by its name.

    `services` are the services it lists.
    """
    servicer = _async.ReflectionServicer(services)
    return {
        "ServerReflectionInfo": grpc.stream_stream_rpc_method_handler(
            servicer.ServerReflectionInfo,
            request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
            response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
        )
    }
