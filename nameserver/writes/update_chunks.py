"""Chunks of one atomic update: put together, and checked as far as the stream alone can be."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import NoReturn

from google.protobuf.message import DecodeError

from namegraph import Reason, refuse
from shadowtree.v1 import name_service_pb2 as messages

APPLY_OPERATIONS_LIMIT = 100_000
"""Operations of one atomic update. The core takes about a second over as many, and other updates wait meanwhile."""


def require_bounded(operations: int) -> None:
    """Raise `RefusedError` for more operations than one update holds."""
    if operations > APPLY_OPERATIONS_LIMIT:
        raise refuse(
            Reason.LIMIT_EXCEEDED,
            f"one atomic update holds at most {APPLY_OPERATIONS_LIMIT} operations, not {operations}",
            limit=str(APPLY_OPERATIONS_LIMIT),
            field="operations",
        )


class ChunkedUpdate:
    """One atomic update, with all its chunks."""

    def __init__(self, chunks: list[messages.ApplyUpdatesChunk]) -> None:
        """`chunks`: at least one, each with operations."""
        first = chunks[0]
        self.request_id = first.request_id
        """The caller's name of the update. Empty if the caller will not repeat it."""
        self.report_control = first.report_control
        """True if the caller asks for controlled and released nodes."""
        self.first_parent = first.operations[0].parent
        """Group whose home coordinates the update."""
        self._chunks = chunks

    def take_operations(self) -> Iterator[Sequence[messages.ApplyUpdatesRequest.Operation]]:
        """Yield the operations of chunk after chunk, and drop each chunk."""
        while self._chunks:
            yield self._chunks.pop(0).operations

    def encoded(self) -> Iterator[bytes]:
        """Serialize chunk after chunk."""
        for chunk in self._chunks:
            yield chunk.SerializeToString()

    def in_one_message(self) -> bytes:
        """Serialize the update for a server that takes no chunks."""
        request = messages.ApplyUpdatesRequest(request_id=self.request_id, report_control=self.report_control)
        for chunk in self._chunks:
            request.operations.extend(chunk.operations)
        return request.SerializeToString()


async def read_chunks(encoded: list[bytes]) -> ChunkedUpdate:
    """Put the chunks of a stream together, and drop their bytes.

    Other calls are served between two chunks.

    Raises `RefusedError` if a chunk is out of place, or if the stream has not as many operations as it announces. gRPC
    for Python reports a broken stream like one that ended. Only the count tells them apart.
    """
    chunks: list[messages.ApplyUpdatesChunk] = []
    count = 0
    encoded.reverse()
    while encoded:
        chunk = _parsed(encoded.pop(), len(chunks) + 1)
        if not chunks:
            require_bounded(chunk.operation_count)
        elif chunk.request_id or chunk.report_control or chunk.operation_count:
            _refuse(len(chunks) + 1, "only the first chunk has a request id, a count, and report_control", "request_id")
        if not chunk.operations:
            _refuse(len(chunks) + 1, "it has no operations", "operations")
        chunks.append(chunk)
        count += len(chunk.operations)
        await asyncio.sleep(0)
    announced = chunks[0].operation_count if chunks else 0
    if not chunks or count != announced:
        raise refuse(
            Reason.INVALID_REQUEST,
            f"the stream ended with {count} operations, and its first chunk announces {announced}; nothing was done",
            field="operation_count",
        )
    return ChunkedUpdate(chunks)


def _parsed(encoded: bytes, number: int) -> messages.ApplyUpdatesChunk:
    try:
        return messages.ApplyUpdatesChunk.FromString(encoded)
    except DecodeError:
        _refuse(number, "it is no message of this method", "operations")


def _refuse(number: int, why: str, field: str) -> NoReturn:
    raise refuse(Reason.INVALID_REQUEST, f"chunk {number} of the update: {why}", field=field)
