"""The two ends of a gRPC stream between servers, with one interface: messages in, messages out."""

from __future__ import annotations

import asyncio
import re
from typing import Any, Protocol

import grpc

from nameserver.wire.metadata import Metadata

CONVERSE_METHOD = "/shadowtree.v1.PeerService/Converse"

_PLACE = re.compile(r"^(?:[A-Z_]+: )?(?:ipv4|ipv6|unix):\S+: ")
"""Beginning of gRPC's error about an attempt to connect. The address in it is known."""

_END: Any = grpc.aio.EOF  # type: ignore[attr-defined]


class StreamBrokenError(Exception):
    """The connection is gone. The message is one line."""


class FrameStream(Protocol):
    """One end of a stream of frames."""

    async def read(self) -> bytes | None:
        """Return the next frame. None at the end. Raises `StreamBrokenError`."""

    async def write(self, data: bytes) -> None:
        """Send a frame. Returns when there is room for another frame. Raises `StreamBrokenError`."""

    async def finish(self) -> None:
        """Announce that no more frames will be sent."""


class DialledStream:
    """The end of the server that dialled."""

    def __init__(self, channel: grpc.aio.Channel, *, method: str = CONVERSE_METHOD, metadata: Metadata = ()) -> None:
        dial: Any = channel.stream_stream
        self._call: Any = dial(method)(metadata=metadata)

    async def read(self) -> bytes | None:
        """Read as `FrameStream` defines."""
        try:
            data = await self._call.read()
        except grpc.aio.AioRpcError as error:
            raise StreamBrokenError(_why(error)) from None
        return None if data is _END else data

    async def write(self, data: bytes) -> None:
        """Write as `FrameStream` defines."""
        try:
            await self._call.write(data)
        except grpc.aio.AioRpcError as error:
            raise StreamBrokenError(_why(error)) from None
        except asyncio.InvalidStateError:
            raise StreamBrokenError("the connection was closed") from None

    async def finish(self) -> None:
        """Finish as `FrameStream` defines."""
        if not self._call.done():
            await self._call.done_writing()

    def cancel(self) -> None:
        """Give the stream up."""
        self._call.cancel()


class AcceptedStream:
    """The end of the server that was dialled. The stream ends when its call does."""

    def __init__(self, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        self._context = context

    async def read(self) -> bytes | None:
        """Read as `FrameStream` defines."""
        try:
            data = await self._context.read()
        except (grpc.aio.InternalError, grpc.aio.UsageError) as error:
            raise StreamBrokenError(_one_line(str(error))) from None
        return None if data is _END else data

    async def write(self, data: bytes) -> None:
        """Write as `FrameStream` defines."""
        try:
            await self._context.write(data)
        except (grpc.aio.InternalError, grpc.aio.UsageError) as error:
            raise StreamBrokenError(_one_line(str(error))) from None

    async def finish(self) -> None:
        """Finish as `FrameStream` defines."""


def _why(error: grpc.aio.AioRpcError) -> str:
    details = error.details() or error.code().name
    for lead in ("last error: ", "Failed to connect to remote host: "):
        details = details.rpartition(lead)[2]
    return _one_line(_PLACE.sub("", details))


def _one_line(text: str) -> str:
    return " ".join(text.split())[:300]
