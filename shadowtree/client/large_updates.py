"""Atomic updates that are larger than one message: cut into chunks, which the server joins. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from shadowtree.v1 import name_service_pb2

METHOD: Final = "ApplyInChunks"

CHUNK_BYTES: Final = 1024 * 1024
"""Maximum size in bytes of a chunk, and of an update in one message. A server takes messages of twice the size."""


def chunks_of(request: name_service_pb2.ApplyUpdatesRequest) -> list[name_service_pb2.ApplyUpdatesChunk]:
    """Cut an update into chunks. Return an empty list if it fits one message."""
    if request.ByteSize() <= CHUNK_BYTES:
        return []
    chunks = [name_service_pb2.ApplyUpdatesChunk(operations=part) for part in _parts(request)]
    first = chunks[0]
    first.request_id, first.report_control = request.request_id, request.report_control
    first.operation_count = len(request.operations)
    return chunks


def _parts(
    request: name_service_pb2.ApplyUpdatesRequest,
) -> Iterator[list[name_service_pb2.ApplyUpdatesRequest.Operation]]:
    part: list[name_service_pb2.ApplyUpdatesRequest.Operation] = []
    size = 0
    for operation in request.operations:
        bytes_more = operation.ByteSize() + _FRAME_BYTES
        if part and size + bytes_more > CHUNK_BYTES:
            yield part
            part, size = [], 0
        part.append(operation)
        size += bytes_more
    yield part


_FRAME_BYTES: Final = 4
"""Bytes around an operation in a message: its field, and its length below 2 MiB."""
