"""Calls to an unreachable server, through a server that reaches it. Each call is marked with its receiver."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol

from namegraph import ServerId

RELAY_KEY = "shadowtree-relay-to"
"""Metadata key of a call that is to be passed on. The value is the server that answers it."""

Metadata = Sequence[tuple[str, str]]


class CallChannel(Protocol):
    """Part of a gRPC channel that forwarding needs: methods of serialized messages, by path."""

    def unary_unary(self, method: str, request_serializer: Any, response_deserializer: Any) -> Any:
        """Return a call with one request and one response."""

    def unary_stream(self, method: str, request_serializer: Any, response_deserializer: Any) -> Any:
        """Return a call with one request and many responses."""

    def stream_unary(self, method: str, request_serializer: Any, response_deserializer: Any) -> Any:
        """Return a call with many requests and one response."""

    def stream_stream(self, method: str, request_serializer: Any, response_deserializer: Any) -> Any:
        """Return a call with many requests and many responses."""


class RelayedChannel:
    """Channel to one server over the channel of another server."""

    def __init__(self, channel: CallChannel, destination: ServerId) -> None:
        """`channel` leads to the server that passes calls on."""
        self._channel = channel
        self._mark = ((RELAY_KEY, destination),)

    def unary_unary(self, method: str, request_serializer: Any, response_deserializer: Any) -> Any:
        """Return the marked call, as `CallChannel` defines."""
        return self._marked(self._channel.unary_unary(method, request_serializer, response_deserializer))

    def unary_stream(self, method: str, request_serializer: Any, response_deserializer: Any) -> Any:
        """Return the marked call, as `CallChannel` defines."""
        return self._marked(self._channel.unary_stream(method, request_serializer, response_deserializer))

    def stream_unary(self, method: str, request_serializer: Any, response_deserializer: Any) -> Any:
        """Return the marked call, as `CallChannel` defines."""
        return self._marked(self._channel.stream_unary(method, request_serializer, response_deserializer))

    def stream_stream(self, method: str, request_serializer: Any, response_deserializer: Any) -> Any:
        """Return the marked call, as `CallChannel` defines."""
        return self._marked(self._channel.stream_stream(method, request_serializer, response_deserializer))

    def _marked(self, call: Any) -> Any:
        def marked(
            request: bytes | AsyncIterator[bytes], *, timeout: float | None = None, metadata: Metadata = ()
        ) -> Any:
            return call(request, timeout=timeout, metadata=(*metadata, *self._mark))

        return marked
