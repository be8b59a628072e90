"""Search for the text that makes a request undecodable, so that the refusal can name its field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor

DEPTH_LIMIT: Final = 10
"""Messages within messages that are searched. Requests are less deep."""

_VARINT: Final = 0
_DELIMITED: Final = 2
_FIXED_BYTES: Final = {1: 8, 5: 4}
"""Forms of fields in the encoding of Protocol Buffers; of those of a fixed size, their bytes."""


def fault_of_text(encoded: bytes, kind: Descriptor) -> tuple[str, str] | None:
    """Return the field of the first text that is not UTF-8, with the fault, or None if no text is at fault.

    The field is a path, such as `details.description`.
    """
    try:
        return _fault_in(memoryview(encoded), kind, "", DEPTH_LIMIT)
    except ValueError:
        return None


def _fault_in(encoded: memoryview, kind: Descriptor, path: str, depth: int) -> tuple[str, str] | None:
    for number, value in _delimited_fields(encoded):
        field = kind.fields_by_number.get(number)
        if field is None:
            continue
        if field.type == FieldDescriptor.TYPE_STRING:
            try:
                str(value, "utf-8")
            except UnicodeDecodeError as error:
                return f"{path}{field.name}", f"byte {error.start + 1} (0x{value[error.start]:02X}) is not UTF-8"
        elif field.message_type is not None and depth:
            found = _fault_in(value, field.message_type, f"{path}{field.name}.", depth - 1)
            if found is not None:
                return found
    return None


def _delimited_fields(encoded: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield number and content of each field with a length. Raises `ValueError` for bytes that are no message."""
    place = 0
    while place < len(encoded):
        tag, place = _varint(encoded, place)
        number, form = tag >> 3, tag & 7
        if form == _VARINT:
            _, place = _varint(encoded, place)
        elif form == _DELIMITED:
            length, place = _varint(encoded, place)
            yield number, encoded[place : place + length]
            place += length
        elif form in _FIXED_BYTES:
            place += _FIXED_BYTES[form]
        else:
            raise ValueError("a field of an unknown form")


def _varint(encoded: memoryview, place: int) -> tuple[int, int]:
    """Return the number at a place, and the place behind it."""
    found = 0
    for shift in range(0, 70, 7):
        if place >= len(encoded):
            raise ValueError("a number is cut off")
        byte = encoded[place]
        place += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return found, place
    raise ValueError("a number is too long")
