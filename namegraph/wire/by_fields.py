"""Large values in the MessagePack format, encoded one field after another, so that other threads run between two
fields.

A call of the encoder or decoder holds up all other threads. The outcome of an import of half a million arcs would
take some 50 ms, and this server would answer no call meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct

S = TypeVar("S", bound=Struct)

_ENCODER = msgspec.msgpack.Encoder(order="deterministic")

_ARRAY = 0x90
"""First byte of an array in the MessagePack format, to which its length, up to the limit, is added."""

_COLLECTIONS = frozenset((tuple, frozenset, bytes))

_SCALARS = frozenset((int, bool, float, str))

_LARGE = 4096
"""Number of elements, or bytes, from which a collection is a piece of its own, and its value is read field by field."""

_FIELDS_LIMIT = 15

_PIECES = msgspec.msgpack.Decoder(Annotated[tuple[msgspec.Raw, ...], Meta(max_length=_FIELDS_LIMIT)])


def encode_by_fields(value: object) -> bytes:
    """Encode a value like the encoder. Large named tuples, and large structs that are arrays without a tag, go field by
    field."""
    return b"".join(_pieces(value))


def _pieces(value: Any) -> Iterator[bytes]:
    if _is_large(value):
        names = _names_of(value)
        assert len(names) <= _FIELDS_LIMIT, "few fields"
        yield bytes([_ARRAY + len(names)])
        for name in names:
            yield from _pieces(getattr(value, name))
    else:
        yield _ENCODER.encode(value)


def _is_large(value: Any) -> bool:
    for name in _names_of_what_may_be_large(value.__class__):
        field = getattr(value, name)
        if len(field) >= _LARGE if field.__class__ in _COLLECTIONS else _is_large(field):
            return True
    return False


def _names_of(value: Any) -> tuple[str, ...]:
    """Return the field names. Empty for values that are encoded in one piece: those of another type, or of scalars
    alone."""
    return _field_names(value.__class__)


@cache
def _field_names(kind: Any) -> tuple[str, ...]:
    if issubclass(kind, Struct):
        config = kind.__struct_config__
        names = kind.__struct_fields__ if config.array_like and config.tag is None else ()
    else:
        names = getattr(kind, "_fields", ()) if issubclass(kind, tuple) else ()
    hints = get_type_hints(kind) if names else {}
    return names if any(getattr(hints[name], "__supertype__", hints[name]) not in _SCALARS for name in names) else ()


@cache
def _names_of_what_may_be_large(kind: Any) -> tuple[str, ...]:
    """Return the fields to inspect. Each update is looked through a dozen times, and most of it is numbers."""
    names = _field_names(kind)
    hints = get_type_hints(kind) if names else {}
    return tuple(name for name in names if not _is_small(hints[name]))


def _is_small(hint: Any) -> bool:
    """Return True if all values of a type are one piece."""
    hint = getattr(hint, "__supertype__", hint)
    if get_origin(hint) in (Union, UnionType):
        return all(map(_is_small, get_args(hint)))
    if hint in _SCALARS or hint is NoneType:
        return True
    is_of_fields = isinstance(hint, type) and (issubclass(hint, Struct) or hasattr(hint, "_fields"))
    return is_of_fields and not _field_names(hint)


class FieldDecoder(Generic[S]):
    """Reads structs that are arrays without a tag."""

    def __init__(self, kind: type[S]) -> None:
        fields = msgspec.structs.fields(kind)
        self._kind = kind
        self._decoder = msgspec.msgpack.Decoder(kind)
        self._decoders = [msgspec.msgpack.Decoder(field.type) for field in fields]
        self._required = sum(field.required for field in fields)

    def decode(self, encoded: bytes | bytearray) -> S:
        """Decode a struct. Raises `msgspec.DecodeError`, like a decoder."""
        if len(encoded) < _LARGE:
            return self._decoder.decode(encoded)
        pieces = _PIECES.decode(encoded)
        if len(pieces) < self._required:
            raise msgspec.ValidationError(f"{self._required} fields or more are expected, not {len(pieces)}")
        # Fields that a later version adds are ignored.
        return self._kind(*(decoder.decode(piece) for decoder, piece in zip(self._decoders, pieces, strict=False)))
