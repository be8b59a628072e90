"""Conversion of update-protocol rows from layout 0005 to layout 0006, for the migration of that name alone.

Layout 0006 has no duplication-control records of arcs between servers, nor messages about them:

    rows "boundary record", "releases"          gone
    Release, Released, Block, Recall            a `Drop` of an update that never was: their channels' numbers stay whole
    entries, updates, Abort, outcomes           without their fields about such records
    Commit                                      always the whole outcome where it was in the message, or else the part

In layout 0005 an outcome was encoded as a `Commit`: the name of the message, then the fields.

Values are decoded as plain arrays, not as types of the program, because those types change later.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

DROPPED_PARTS = ("boundary record", "releases")

Fields = list[Any]
"""Fields of one value in the order of encoding. The first field of a message is its name."""

_COMPRESSED = b"x"
"""First byte of zlib's output. No array of MessagePack begins with this byte."""


def as_now(part: str, value: bytes, *, server: str) -> bytes:
    """Convert the value of a row of one of `CHANGED_PARTS`; `server` owns the database."""
    return _changed(value, lambda fields: _PARTS[part](fields, server))


def releasing(entry: bytes) -> bool:
    """Return True if the entry waited for other servers to release records before its server became ready."""
    fields: Fields = msgspec.msgpack.decode(entry)
    return bool(fields[_RELEASES_DUE])


def not_covered(cover: bytes) -> bytes:
    """Return the cover row of a releasing entry with its fifth field cleared, so that its turn comes again."""
    return _changed(cover, lambda fields: [*fields[:4], None, *fields[5:]])


def _changed(encoded: bytes, change: Callable[[Fields], Fields]) -> bytes:
    is_compressed = encoded[:1] == _COMPRESSED
    changed = msgspec.msgpack.encode(
        change(msgspec.msgpack.decode(zlib.decompress(encoded) if is_compressed else encoded))
    )
    return zlib.compress(changed, 1) if is_compressed else changed


_RELEASES_DUE = 4


def _entry(fields: Fields, _: str) -> Fields:
    update_id, bound, final, is_ready, releases_due, is_covered_as_asked = fields[:6]
    # The server reports no `controlled` effects for an update that was under way during the migration.
    return [update_id, bound, final, is_ready and not releases_due, is_covered_as_asked and not releases_due, None]


def _update(fields: Fields, _: str = "") -> Fields:
    update_id, operations, size, leaves, _has_joins, read, reports_control, cut, brought = fields
    is_of_client = reports_control or brought is not None
    return [update_id, operations, size, leaves, read, is_of_client, False, cut, brought]


def _coordinated(fields: Fields, _: str) -> Fields:
    update_id, is_decided, servers, request_id, final, _released, told, everything, is_finished_by_view = fields
    return [
        update_id,
        is_decided,
        servers,
        request_id,
        final if is_decided else None,
        told,
        _outcome(everything) if everything else everything,
        is_finished_by_view,
    ]


def _early(fields: Fields, _: str) -> Fields:
    view, sender, encoded = fields
    return [view, sender, _letter(encoded, sender)]


def _letter(encoded: bytes, sender: str) -> bytes:
    return _changed(encoded, lambda fields: _message(fields, sender))


def _message(fields: Fields, sender: str) -> Fields:
    change = _MESSAGES.get(fields[0])
    return fields if change is None else change(fields, sender)


def _enclosed(fields: Fields, sender: str) -> Fields:
    name, view, encoded = fields
    return [name, view, _letter(encoded, sender)]


def _order(fields: Fields, _: str) -> Fields:
    return [fields[0], _update(fields[1]), *fields[2:]]


def _abort(fields: Fields, _: str) -> Fields:
    return fields[:2]


def _commit(fields: Fields, _: str) -> Fields:
    name, update_id, *_others = fields
    handed_on, everything = fields[8], fields[11]
    outcome = _outcome(everything) if everything else msgspec.msgpack.encode(_of_outcome(fields))
    # With two participants no other server could miss the outcome, and a part came alone.
    return [name, update_id, outcome, handed_on, bool(everything)]


def _outcome(everything: bytes) -> bytes:
    return _changed(everything, _of_outcome)


def _of_outcome(fields: Fields, _: str = "") -> Fields:
    return fields[1:8]


def _accept(fields: Fields, _: str) -> Fields:
    decided = [[update_id, _outcome(everything)] for update_id, everything in fields[6]]
    return [*fields[:6], decided]


def _install(fields: Fields, _: str) -> Fields:
    return [*fields[:4], [_outcome(everything) for everything in fields[4]]]


def _nothing(_: Fields, sender: str) -> Fields:
    # Updates are numbered from 1, so update 0 never existed.
    return ["Drop", [sender, 0]]


_MESSAGES: Mapping[str, Callable[[Fields, str], Fields]] = {
    "Enclosed": _enclosed,
    "Order": _order,
    "Abort": _abort,
    "Commit": _commit,
    "Accept": _accept,
    "Install": _install,
    "Release": _nothing,
    "Released": _nothing,
    "Block": _nothing,
    "Recall": _nothing,
}

_PARTS: Mapping[str, Callable[[Fields, str], Fields]] = {
    "entry": _entry,
    "update": _update,
    "coordinated": _coordinated,
    "decided": _of_outcome,
    "outbox": _message,
    "early letter": _early,
}

CHANGED_PARTS = tuple(_PARTS)
