"""Calls to a server that cannot be reached, through one that reaches it; each is marked with its receiver."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol

from namegraph import ServerId

RELAY_KEY = "shadowtree-relay-to"
"""Metadata of a call that is to be passed on; its value is the server that answers it."""

Metadata = Sequence[tuple[str, str]]


class CallChannel(Protocol):
    """What forwarding needs of a gRPC channel: methods of serialized messages, by path."""

    def unary_unary(self, method: str, request_serializer: Any, response_deserializer: Any) -> Any:
        """One message out, one back."""

    def unary_stream(self, method: str, request_serializer: Any, response_deserializer: Any) -> Any:
        """One message out, many back."""

    def stream_unary(self, method: str, request_serializer: Any, response_deserializer: Any) -> Any:
        """Many messages out, one back."""

    def stream_stream(self, method: str, request_serializer: Any, response_deserializer: Any) -> Any:
        """Many messages either way."""


class RelayedChannel:
    """A channel to one server over the channel of another."""

    def __init__(self, channel: CallChannel, destination: ServerId) -> None:
        """`channel` is that of the server which passes calls on."""
        self._channel = channel
        self._mark = ((RELAY_KEY, destination),)

    def unary_unary(self, method: str, request_serializer: Any, response_deserializer: Any) -> Any:
        """As `CallChannel` says."""
        return self._marked(self._channel.unary_unary(method, request_serializer, response_deserializer))

    def unary_stream(self, method: str, request_serializer: Any, response_deserializer: Any) -> Any:
        """As `CallChannel` says."""
        return self._marked(self._channel.unary_stream(method, request_serializer, response_deserializer))

    def stream_unary(self, method: str, request_serializer: Any, response_deserializer: Any) -> Any:
        """As `CallChannel` says."""
        return self._marked(self._channel.stream_unary(method, request_serializer, response_deserializer))

    def stream_stream(self, method: str, request_serializer: Any, response_deserializer: Any) -> Any:
        """As `CallChannel` says."""
        return self._marked(self._channel.stream_stream(method, request_serializer, response_deserializer))

    def _marked(self, call: Any) -> Any:
        def marked(
            request: bytes | AsyncIterator[bytes], *, timeout: float | None = None, metadata: Metadata = ()
        ) -> Any:
            return call(request, timeout=timeout, metadata=(*metadata, *self._mark))

        return marked
