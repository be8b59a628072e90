"""Inflation of other servers' compressed letters within limits: a few bytes must not become gigabytes of objects.

    inflated, against the bytes that came      objects in it
    up to 256 KiB, or 20 times                 not counted
    up to 64 MiB, or 40 times and 1 GiB        at most eight for each byte that came, and 20 million

Columns are one object, however long they are. A message that compresses better than that is sent uncompressed.
"""

from __future__ import annotations

import zlib

COMPRESSED_FROM_BYTES = 64 * 1024

INFLATED_BYTES_LIMIT = 1024 * 1024 * 1024
"""Largest inflated size of a letter, in bytes: room for the part of the largest import that concerns one server."""

UNCOUNTED_BYTES = 256 * 1024
"""Inflated size up to which objects are not counted: some milliseconds of decoding, whatever the letter holds."""

UNCOUNTED_RATIO = 20
"""Inflation ratio up to which objects are not counted. Lists of names reach less."""

COUNTED_FROM_BYTES = 8 * 1024 * 1024
"""Inflated size from which objects are counted at any ratio."""

INFLATED_AT_ANY_RATIO_BYTES = 64 * 1024 * 1024
"""Inflated size that is allowed at any ratio: two million arcs in columns."""

INFLATED_RATIO_LIMIT = 40
"""Largest inflation ratio of a large letter. Columns of an import reach a quarter of it."""

OBJECTS_LIMIT = 20_000_000
"""Most objects in one letter: four for each name of the largest import."""

OBJECTS_OF_A_BYTE = 8
"""Most objects for each byte that came. Lists of names and versions, however alike, have half as many."""

OBJECTS_LET_THROUGH = 250_000
"""Objects that are allowed in a letter of any size: some 20 MB."""

HEAD_BYTES = 1_024
"""Bytes at the start of a letter within which a compressed part begins: after the names of a view and of a
coordinator."""

SMALL_LETTER_BYTES = 4 * 1024
"""Size of a letter that needs no check: it inflates to 4 MB at most, with no more objects than are let through."""

_COMPRESSED = b"x"
"""First byte of zlib's output. No array of MessagePack begins with it."""


class TooLargeError(ValueError):
    """Bytes that would take too much memory for their size."""


def compressed(encoded: bytes) -> bytes:
    """Return an encoded array, compressed if it is long."""
    if len(encoded) <= COMPRESSED_FROM_BYTES:
        return encoded
    found = zlib.compress(encoded, 1)
    return found if len(encoded) <= _limit_of(found) else zlib.compress(encoded, 0)


def _limit_of(came: bytes) -> int:
    """Return the largest size to which another server's letter may be inflated, in bytes."""
    return min(INFLATED_BYTES_LIMIT, max(INFLATED_AT_ANY_RATIO_BYTES, INFLATED_RATIO_LIMIT * len(came)))


def is_compressed(encoded: bytes) -> bool:
    """Return True if these bytes were compressed by `compressed`."""
    return encoded[:1] == _COMPRESSED


def may_inflate(letter: bytes) -> bool:
    """Return True if an encoded letter may hold far more than its size tells."""
    return len(letter) > SMALL_LETTER_BYTES and _COMPRESSED in letter[:HEAD_BYTES]


def decompressed(encoded: bytes, *, limit: int = INFLATED_BYTES_LIMIT) -> bytes | bytearray:
    """Return the bytes that were given to `compressed`. Raises `TooLargeError` or `zlib.error`."""
    if not is_compressed(encoded):
        return encoded
    decompressor = zlib.decompressobj()
    found = bytearray()
    # A single call would copy everything at once, and no other thread could run meanwhile.
    for start in range(0, len(encoded), COMPRESSED_FROM_BYTES):
        rest = encoded[start : start + COMPRESSED_FROM_BYTES]
        while rest:
            found += decompressor.decompress(rest, COUNTED_FROM_BYTES)
            if len(found) > limit:
                raise TooLargeError(f"{len(encoded)} bytes that inflate to more than {limit}")
            rest = decompressor.unconsumed_tail
    if not decompressor.eof:
        raise TooLargeError("a compressed message that is cut off")
    return found


def inflated(encoded: bytes) -> bytes | bytearray:
    """Decompress another server's letter. Raises `TooLargeError` if it holds too much for its size."""
    found = decompressed(encoded, limit=_limit_of(encoded))
    size, came = len(found), len(encoded)
    if size > UNCOUNTED_BYTES and (size > UNCOUNTED_RATIO * came or size > COUNTED_FROM_BYTES):
        require_few_objects(found, limit=min(OBJECTS_LIMIT, max(OBJECTS_LET_THROUGH, OBJECTS_OF_A_BYTE * came)))
    return found


def require_few_objects(packed: bytes | bytearray, *, limit: int) -> None:
    """Raise `TooLargeError` if a MessagePack value holds more than `limit` single values. Bytes of another format
    pass."""
    left, count, place, size = 1, 0, 0, len(packed)
    while left and place < size:
        head = packed[place]
        left -= 1
        count += 1
        width, is_container, units = _SHAPES[head]
        place += 1
        if width:
            units *= int.from_bytes(packed[place : place + width], "big")
            place += width
            if not is_container:
                units += _FIXED_AFTER_LENGTH[head]
        if is_container:
            left += units
            if count + left > limit:
                raise TooLargeError(f"more than {limit} values in {size} bytes")
        else:
            place += units


def _shape(head: int) -> tuple[int, bool, int]:
    """Return the shape of values with this first byte: bytes of the length, True if values follow, and number of
    units.

    Without a length, the units are the number of units that follow. With a length, they are multiplied by it.
    """
    match head:
        case _ if 0x80 <= head <= 0x8F:
            return 0, True, 2 * (head & 0x0F)
        case _ if 0x90 <= head <= 0x9F:
            return 0, True, head & 0x0F
        case _ if 0xA0 <= head <= 0xBF:
            return 0, False, head & 0x1F
        case 0xC4 | 0xD9 | 0xC7:
            return 1, False, 1
        case 0xC5 | 0xDA | 0xC8:
            return 2, False, 1
        case 0xC6 | 0xDB | 0xC9:
            return 4, False, 1
        case 0xCC | 0xD0:
            return 0, False, 1
        case 0xCD | 0xD1 | 0xD4:
            return 0, False, 2
        case 0xD5:
            return 0, False, 3
        case 0xCA | 0xCE | 0xD2:
            return 0, False, 4
        case 0xD6:
            return 0, False, 5
        case 0xCB | 0xCF | 0xD3:
            return 0, False, 8
        case 0xD7:
            return 0, False, 9
        case 0xD8:
            return 0, False, 17
        case 0xDC:
            return 2, True, 1
        case 0xDD:
            return 4, True, 1
        case 0xDE:
            return 2, True, 2
        case 0xDF:
            return 4, True, 2
        case _:
            return 0, False, 0


_SHAPES = tuple(map(_shape, range(256)))
_FIXED_AFTER_LENGTH = tuple(1 if 0xC7 <= head <= 0xC9 else 0 for head in range(256))
"""One byte for the type of an extension, between its length and its bytes."""
