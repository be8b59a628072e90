"""Large values in the MessagePack format, one field after another: other threads run between two fields.

A call of the encoder or decoder holds up all of them. For what an import of half a million arcs decides it would be
some 50 ms, for as long as this server answers nobody.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Generic, TypeVar

import msgspec
from msgspec import Meta, Struct

S = TypeVar("S", bound=Struct)

_ENCODER = msgspec.msgpack.Encoder(order="deterministic")

_ARRAY = 0x90
"""The first byte of an array in the MessagePack format, with its length, up to the limit, added."""

_COLLECTIONS = (tuple, frozenset, bytes, Struct)
"""What may be large."""

_FIELDS_LIMIT = 15

_PIECES = msgspec.msgpack.Decoder(Annotated[tuple[msgspec.Raw, ...], Meta(max_length=_FIELDS_LIMIT)])


def encode_by_fields(value: object) -> bytes:
    """As the encoder does, but named tuples, and structs that are arrays without a tag, field by field."""
    return b"".join(_pieces(value))


def _pieces(value: object) -> Iterator[bytes]:
    fields = _fields_of(value)
    if any(isinstance(field, _COLLECTIONS) for field in fields):
        assert len(fields) <= _FIELDS_LIMIT, "few fields"
        yield bytes([_ARRAY + len(fields)])
        for field in fields:
            yield from _pieces(field)
    else:
        yield _ENCODER.encode(value)


def _fields_of(value: object) -> Sequence[object]:
    """None of what is encoded in one piece."""
    if isinstance(value, Struct):
        is_array = value.__struct_config__.array_like and value.__struct_config__.tag is None
        return [getattr(value, name) for name in value.__struct_fields__] if is_array else ()
    return value if isinstance(value, tuple) and hasattr(value, "_fields") else ()


class FieldDecoder(Generic[S]):
    """Reads structs that are arrays without a tag."""

    def __init__(self, kind: type[S]) -> None:
        fields = msgspec.structs.fields(kind)
        self._kind = kind
        self._decoders = [msgspec.msgpack.Decoder(field.type) for field in fields]
        self._required = sum(field.required for field in fields)

    def decode(self, encoded: bytes | bytearray) -> S:
        """Raises `msgspec.DecodeError`, as a decoder does."""
        pieces = _PIECES.decode(encoded)
        if len(pieces) < self._required:
            raise msgspec.ValidationError(f"{self._required} fields or more are expected, not {len(pieces)}")
        # Fields that a later version adds are passed over.
        return self._kind(*(decoder.decode(piece) for decoder, piece in zip(self._decoders, pieces, strict=False)))
