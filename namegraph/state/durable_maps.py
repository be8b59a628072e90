"""Maps that are written with the step that changes them, and restored when a server starts.

    a part's DurableMap -- a key is set, deleted or touched --> DurableState -- take_rows, once a step --> ProtocolRow
    stored rows --> DurableState(rows) --> DurableMap(...): each map takes up the rows of its part as it is created

No part writes or reads rows of its own. No map can be left out of a step, or be forgotten at a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import msgspec

from namegraph.model.moments import Table
from namegraph.model.names import NodeId, ServerId, Subnet
from namegraph.model.rows import ProtocolRow
from namegraph.wire.by_fields import encode_by_fields
from namegraph.wire.inflation import compressed, decompressed
from namegraph.wire.message_parts import ArcId, UpdateId

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True)
class KeyForm(Generic[K]):
    """Text form of keys. `read` is the inverse of `write`."""

    write: Callable[[K], str]
    read: Callable[[str], K]


@dataclass(frozen=True)
class ValueForm(Generic[V]):
    """Byte form of values. `read` is the inverse of `write`."""

    write: Callable[[V], bytes]
    read: Callable[[bytes], V]


class DurableState:
    """All durable maps of one server, by the part that their rows name."""

    def __init__(self, rows: Iterable[ProtocolRow] = ()) -> None:
        """`rows`: the stored rows, for the maps that will be created."""
        self.maps: dict[str, DurableMap[Any, Any]] = {}
        self._stored: dict[str, list[ProtocolRow]] = {}
        for row in rows:
            self._stored.setdefault(row.part, []).append(row)
        self.must_write = False
        """True if a change cannot wait for the next step."""

    def add(self, durable_map: DurableMap[Any, Any]) -> list[ProtocolRow]:
        """Register a map as it is created. Return the stored rows of its part."""
        assert durable_map.part not in self.maps, f"two maps write {durable_map.part!r}"
        self.maps[durable_map.part] = durable_map
        return self._stored.pop(durable_map.part, [])

    def parts_left(self) -> list[str]:
        """Return the parts of stored rows that no map has taken up, sorted."""
        return sorted(self._stored)

    def take_rows(self) -> list[ProtocolRow]:
        """Return the rows of all changes since the last call. Empty while all changes can wait."""
        if not self.must_write:
            return []
        self.must_write = False
        return [row for each in self.maps.values() if each._changed for row in each.take_rows()]


class VolatileState(DurableState):
    """Maps that exist in memory alone. Their changes are not written."""

    def take_rows(self) -> list[ProtocolRow]:
        """Return no rows."""
        if self.must_write:
            self.must_write = False
            for each in self.maps.values():
                each._changed.clear()
        return []


class DurableMap(Table[K, V]):
    """A dict of one part. Call `touch` after a value is changed in place. Values are encoded once a step."""

    __slots__ = ("_changed", "_durable", "_keys", "_values", "part")

    def __init__(self, durable: DurableState, part: str, keys: KeyForm[K], values: ValueForm[V]) -> None:
        """`part` names the rows. Stored values are taken up in the order of their keys."""
        self.part = part
        self._durable = durable
        self._keys, self._values = keys, values
        self._changed: dict[K, None] = {}
        if rows := durable.add(self):
            stored = sorted((keys.read(row.key), row.value) for row in rows)
            super().__init__((key, values.read(value or b"")) for key, value in stored)

    def touch(self, key: K) -> None:
        """Record that the value of a key has changed."""
        self._changed[key] = None
        self._durable.must_write = True

    def put_off(self, key: K, value: V | None) -> None:
        """Set the value of a key, or delete the key if `value` is None. The change is written with the next one that
        cannot wait."""
        if value is None:
            super().pop(key, None)
        else:
            super().__setitem__(key, value)
        self._changed[key] = None

    def row(self, key: K) -> ProtocolRow:
        """Return the row of a key. Its value is None if the map has no such key."""
        value = self._values.write(self[key]) if key in self else None
        # This takes half the time of calling the class, and each update writes dozens of rows.
        return tuple.__new__(ProtocolRow, (self.part, self._keys.write(key), value))

    def read(self, row: ProtocolRow) -> tuple[K, V | None]:
        """Return the key and the value of a row of this map. The value is None if the row deletes the key."""
        return self._keys.read(row.key), None if row.value is None else self._values.read(row.value)

    @property
    def changed(self) -> Collection[K]:
        """Keys whose rows are not taken yet."""
        return self._changed.keys()

    def take_rows(self) -> list[ProtocolRow]:
        """Return the rows of the keys that changed since the last call."""
        if not self._changed:
            return []
        changed, self._changed = self._changed, {}
        return list(map(self.row, changed))

    def __setitem__(self, key: K, value: V) -> None:
        """Set the value of a key, like `dict`, and note the change."""
        super().__setitem__(key, value)
        self.touch(key)

    def __delitem__(self, key: K) -> None:
        """Delete a key, like `dict`, and note the change."""
        super().__delitem__(key)
        self.touch(key)

    def clear(self) -> None:
        """Delete all keys, like `dict`, and note the changes."""
        for key in self:
            self.touch(key)
        super().clear()

    if not TYPE_CHECKING:
        # The methods of `dict` would change the map without noting it, so only their types are used.
        popitem, update = MutableMapping.popitem, MutableMapping.update

        def pop(self, key: K, *default: V) -> V:
            """Remove a key and return its value, like `dict`, and note the change."""
            if key in self:
                self.touch(key)
            return super().pop(key, *default)

        def __ior__(self, other: Mapping[K, V]) -> DurableMap[K, V]:
            self.update(other)
            return self


TEXTS = KeyForm[str](str, str)
NUMBERS = KeyForm[int](str, int)
SERVERS = KeyForm[ServerId](str, ServerId)
SUBNETS = KeyForm[Subnet](str, Subnet)
NODES = KeyForm[NodeId](str, NodeId)


def _of_arc(key: str) -> ArcId:
    parent, _, child = key.partition("\t")
    return ArcId(NodeId(parent), NodeId(child))


def _of_number(key: str) -> tuple[ServerId, int]:
    number, _, server = key.partition(" ")
    return ServerId(server), int(number)


# The tab separates the names, because no name holds a tab.
ARCS = KeyForm[ArcId](lambda arc: f"{arc.parent}\t{arc.child}", _of_arc)
NUMBERS_OF_SERVERS = KeyForm[tuple[ServerId, int]](lambda key: f"{key[1]} {key[0]}", _of_number)
UPDATES = KeyForm[UpdateId](lambda key: f"{key.number} {key.coordinator}", lambda key: UpdateId(*_of_number(key)))

BYTES = ValueForm[bytes](bytes, bytes)
DIGITS = ValueForm[int](lambda number: str(number).encode(), int)
TEXT = ValueForm[str](str.encode, bytes.decode)
SERVER = ValueForm[ServerId](str.encode, lambda encoded: ServerId(encoded.decode()))
PRESENCE = ValueForm[None](lambda _: b"1", lambda _: None)
"""Form of values in maps whose keys hold all the information."""


@overload
def packed(kind: type[V]) -> ValueForm[V]: ...
@overload
def packed(kind: Any) -> ValueForm[Any]: ...
def packed(kind: Any) -> ValueForm[Any]:
    """Return the form of values of a type in the MessagePack format."""
    return ValueForm(_ENCODER.encode, msgspec.msgpack.Decoder(kind).decode)


def packed_small(kind: type[V]) -> ValueForm[V]:
    """Return the form of `packed` for arrays that may be large. Large values are compressed."""
    read = msgspec.msgpack.Decoder(kind).decode
    return ValueForm(lambda value: compressed(encode_by_fields(value)), lambda encoded: read(decompressed(encoded)))


_ENCODER = msgspec.msgpack.Encoder(order="deterministic")
