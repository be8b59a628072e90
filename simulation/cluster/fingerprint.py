"""Fingerprint of a run: a hash over all effects of all steps of all servers.

Two runs with one fingerprint wrote the same rows, sent the same bytes and gave the same answers, in the same order. The
names of classes and fields do not count, and empty fields of dataclasses do not count. A change of representation
leaves a fingerprint as it is. A new field changes only the runs that use it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from enum import Enum

from msgspec import Struct, structs
from pyroaring import BitMap

from delivery.server import ServerEffects
from namegraph import ServerId

DIGEST_BYTES = 8
"""Length of a fingerprint in bytes. Two different runs share one by chance once in 2 ** 64."""


EMPTY: tuple[list[object], tuple[object, ...]] = ([], ())


class Fingerprint:
    """Hash over the effects of a run so far."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=DIGEST_BYTES)

    def add(self, server: ServerId, effects: ServerEffects) -> None:
        """Add the effects of one step. Raises `TypeError` for a value without a canonical form."""
        self._hash.update(canonical((server, effects)))

    def hexdigest(self) -> str:
        """Return the hash over all steps so far, in 16 hexadecimal digits."""
        return self._hash.hexdigest()


def canonical(value: object) -> bytes:
    """Return bytes that are equal for equal values alone, without hash order and without class names.

    Raises `TypeError` for a value that has no such form.
    """
    parts: list[bytes] = []
    _append(value, parts)
    return b"".join(parts)


def _append(value: object, parts: list[bytes]) -> None:
    if isinstance(value, Enum):
        value = value.value
    if value is None or isinstance(value, bool | int | float):
        parts.append(b"%a;" % (value,))
    elif isinstance(value, str):
        encoded = value.encode("utf-8", "surrogatepass")
        parts.append(b"s%d:%b" % (len(encoded), encoded))
    elif isinstance(value, bytes | bytearray | memoryview):
        parts.append(b"b%d:%b" % (len(value), bytes(value)))
    elif isinstance(value, BitMap):
        _append_all("m", sorted(value), parts)
    elif isinstance(value, Mapping):
        pairs = sorted((canonical(key), canonical(held)) for key, held in value.items())
        _append_all("d", [each for pair in pairs for each in pair], parts)
    elif isinstance(value, Set):
        _append_all("u", sorted(map(canonical, value)), parts)
    elif isinstance(value, Sequence):
        _append_all("l", value, parts)
    elif isinstance(value, Struct):
        _append_all("l", structs.astuple(value), parts)
    elif is_dataclass(value):
        held = [getattr(value, each.name) for each in fields(value)]
        _append_all("l", [each for each in held if each is not None and each not in EMPTY], parts)
    else:
        raise TypeError(f"no canonical form of a {type(value).__name__} is known: add one to canonical()")


def _append_all(kind: str, values: Sequence[object], parts: list[bytes]) -> None:
    parts.append(b"%b%d:" % (kind.encode(), len(values)))
    for each in values:
        _append(each, parts)
