"""Pieces of the bytes of a tunnel, and their encoding."""

from __future__ import annotations

from google.protobuf.message import DecodeError

from shadowtree.v1 import peer_pb2 as messages

PIECE_BYTES_LIMIT = 64 * 1024
"""Bytes of one piece: large enough that its call costs little beside its bytes, small enough to hold many."""

OPENED = b""
"""Encoded piece without bytes: the first answer to a call of `Tunnel`, once the connection is there."""


class NoPieceError(Exception):
    """Received bytes are no piece. The message is one line."""


def encode_piece(data: bytes) -> bytes:
    """Return the encoded piece."""
    return messages.TunnelPiece(data=data).SerializeToString()


def decode_piece(encoded: bytes) -> bytes:
    """Return the bytes of a piece. Raises `NoPieceError`."""
    try:
        data = messages.TunnelPiece.FromString(encoded).data
    except DecodeError:
        raise NoPieceError("bytes came that are no piece of a tunnel") from None
    if len(data) > PIECE_BYTES_LIMIT:
        raise NoPieceError(f"a piece of more than {PIECE_BYTES_LIMIT} bytes came")
    return data
