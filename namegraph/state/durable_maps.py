"""Maps that are written with the step that changes them, and filled with what was written when a server starts.

    a part's DurableMap -- a key is set, deleted or touched --> DurableState -- take_rows, once a step --> ProtocolRow
    stored rows --> DurableState(rows) --> DurableMap(...): each map takes up the rows of its part as it is created

No part writes or reads rows of its own. So none can be left out of a step, nor be forgotten at a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import msgspec

from namegraph.model.names import NodeId, ServerId, Subnet
from namegraph.model.rows import ProtocolRow
from namegraph.wire.by_fields import encode_by_fields
from namegraph.wire.inflation import compressed, decompressed
from namegraph.wire.message_parts import ArcId, UpdateId

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True)
class KeyForm(Generic[K]):
    """How keys are written; `read` takes back what `write` gives."""

    write: Callable[[K], str]
    read: Callable[[str], K]


@dataclass(frozen=True)
class ValueForm(Generic[V]):
    """How values are written; `read` takes back what `write` gives."""

    write: Callable[[V], bytes]
    read: Callable[[bytes], V]


class DurableState:
    """All durable maps of one server, by the part that their rows name."""

    def __init__(self, rows: Iterable[ProtocolRow] = ()) -> None:
        """`rows`: what was written before, for the maps that will be created."""
        self.maps: dict[str, DurableMap[Any, Any]] = {}
        self._stored: dict[str, list[ProtocolRow]] = {}
        for row in rows:
            self._stored.setdefault(row.part, []).append(row)
        self.must_write = False
        """Whether something changed that cannot wait for the next step."""

    def add(self, durable_map: DurableMap[Any, Any]) -> list[ProtocolRow]:
        """Take a map, as it is created; return the stored rows of its part."""
        assert durable_map.part not in self.maps, f"two maps write {durable_map.part!r}"
        self.maps[durable_map.part] = durable_map
        return self._stored.pop(durable_map.part, [])

    def parts_left(self) -> list[str]:
        """The parts of stored rows that no map has taken up, sorted."""
        return sorted(self._stored)

    def take_rows(self) -> list[ProtocolRow]:
        """The rows of all that changed since this was last asked; none while all of it can wait."""
        if not self.must_write:
            return []
        self.must_write = False
        return [row for each in self.maps.values() if each._changed for row in each.take_rows()]


class VolatileState(DurableState):
    """Maps that are in memory alone: what changes in them is written nowhere."""

    def take_rows(self) -> list[ProtocolRow]:
        """None."""
        if self.must_write:
            self.must_write = False
            for each in self.maps.values():
                each._changed.clear()
        return []


class DurableMap(dict[K, V]):
    """A dict of one part. Values that are changed in place are to be `touch`ed; they are encoded once a step."""

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
        """Say that the value of a key has changed."""
        self._changed[key] = None
        self._durable.must_write = True

    def put_off(self, key: K, value: V | None) -> None:
        """Set the value of a key, or delete it where that is None; it becomes durable with what cannot wait."""
        if value is None:
            super().pop(key, None)
        else:
            super().__setitem__(key, value)
        self._changed[key] = None

    def __copy__(self) -> dict[K, V]:
        """What is in it now, to be read: nothing that is done to it is written."""
        return dict(self)

    def row(self, key: K) -> ProtocolRow:
        """The row of a key; without a value where the map has none."""
        return ProtocolRow(self.part, self._keys.write(key), self._values.write(self[key]) if key in self else None)

    def read(self, row: ProtocolRow) -> tuple[K, V | None]:
        """The key and the value of a row of this map; None where it deletes the key."""
        return self._keys.read(row.key), None if row.value is None else self._values.read(row.value)

    @property
    def changed(self) -> Collection[K]:
        """The keys whose rows are not taken yet."""
        return self._changed.keys()

    def take_rows(self) -> list[ProtocolRow]:
        """The rows of the keys that changed since this was last asked."""
        if not self._changed:
            return []
        changed, self._changed = self._changed, {}
        return list(map(self.row, changed))

    def __setitem__(self, key: K, value: V) -> None:
        """As of a dict."""
        super().__setitem__(key, value)
        self.touch(key)

    def __delitem__(self, key: K) -> None:
        """As of a dict."""
        super().__delitem__(key)
        self.touch(key)

    def clear(self) -> None:
        """As of a dict."""
        for key in self:
            self.touch(key)
        super().clear()

    if not TYPE_CHECKING:
        # Their types are those of `dict`, which would change the map without a word.
        popitem, setdefault, update = MutableMapping.popitem, MutableMapping.setdefault, MutableMapping.update

        def pop(self, key: K, *default: V) -> V:
            """As of a dict."""
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


# No name holds a tab.
ARCS = KeyForm[ArcId](lambda arc: f"{arc.parent}\t{arc.child}", _of_arc)
NUMBERS_OF_SERVERS = KeyForm[tuple[ServerId, int]](lambda key: f"{key[1]} {key[0]}", _of_number)
UPDATES = KeyForm[UpdateId](lambda key: f"{key.number} {key.coordinator}", lambda key: UpdateId(*_of_number(key)))

BYTES = ValueForm[bytes](bytes, bytes)
DIGITS = ValueForm[int](lambda number: str(number).encode(), int)
TEXT = ValueForm[str](str.encode, bytes.decode)
SERVER = ValueForm[ServerId](str.encode, lambda encoded: ServerId(encoded.decode()))
PRESENCE = ValueForm[None](lambda _: b"1", lambda _: None)
"""Of maps whose keys say all."""


@overload
def packed(kind: type[V]) -> ValueForm[V]: ...
@overload
def packed(kind: Any) -> ValueForm[Any]: ...
def packed(kind: Any) -> ValueForm[Any]:
    """Values of a type in the MessagePack format."""
    return ValueForm(_ENCODER.encode, msgspec.msgpack.Decoder(kind).decode)


def packed_small(kind: type[V]) -> ValueForm[V]:
    """As `packed`, for arrays that may be large: compressed then."""
    read = msgspec.msgpack.Decoder(kind).decode
    return ValueForm(lambda value: compressed(encode_by_fields(value)), lambda encoded: read(decompressed(encoded)))


_ENCODER = msgspec.msgpack.Encoder(order="deterministic")
