"""Collector of the chunks of a snapshot. For each key the rows of the latest chunk are valid."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError

from shadowtree.client.answers import details_in
from shadowtree.client.foreign_text import printable
from shadowtree.client.snapshots.messages import MessageCollector
from shadowtree.client.snapshots.schema import (
    DETAILS_SCHEMA,
    DETAILS_TABLE,
    MESSAGE_TABLES,
    POLICIES_SCHEMA,
    POLICIES_TABLE,
    POLICY_PRIVILEGES,
    SCHEMA_VERSION,
    TABLES,
)
from shadowtree.errors import ServerFault
from shadowtree.v1 import admin_pb2

_KINDS: Final = np.array(["absent", "group", "process"], dtype=object)
_STATES: Final = np.array([None, "normal", "shadow", "fade", "suspended"], dtype=object)
_ABSENT: Final = 0
_OWNED, _HELD = 1, 2
_PRESENT, _SUSPENDED, _TRUTH, _RECORD = 1, 2, 4, 8

SNAPSHOT_BYTES_LIMIT: Final = 4 * 1024**3
"""Maximum size of one snapshot in bytes: its messages, and `ITEM_BYTES` for each row and each name in a list."""
ITEM_BYTES: Final = 100
"""Bytes of memory for an item besides its own data: objects of Python, places in columns."""

Numbers = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class SnapshotTables:
    """One server at one revision: facts for the manifest, and tables by name."""

    manifest: dict[str, Any]
    tables: dict[str, pa.Table]
    taken_at: datetime
    """Time at which the last chunk came, in UTC."""


class SnapshotCollector:
    """Collector that takes chunks in order. Call `finish` after the last one."""

    def __init__(self) -> None:
        self.rows = 0
        """Number of rows that have come."""
        self._size = 0
        self._node_columns = [_node_columns(admin_pb2.SnapshotChunk.Nodes())]
        self._arc_columns = [_arc_columns(admin_pb2.SnapshotChunk.Arcs())]
        self._virtual_nodes: dict[int, admin_pb2.SnapshotChunk.VirtualNode] = {}
        self._sets: dict[int, tuple[bytes, int]] = {}
        self._under_way: list[admin_pb2.SnapshotChunk.UnderWay] = []
        self._details: dict[str, dict[str, str]] = {}
        self._policies: dict[str, tuple[str, dict[str, list[str]]]] = {}
        self._messages = MessageCollector()
        self._end: admin_pb2.SnapshotChunk.End | None = None
        self._ended_at = datetime.now(UTC)

    def add(self, chunk: admin_pb2.SnapshotChunk) -> None:
        """Take the next chunk; raise `ServerFault` if it is malformed."""
        self._count(chunk.ByteSize())
        with _told_as_a_fault():
            for piece in chunk.pieces:
                self._take(admin_pb2.SnapshotChunk.FromString(piece))
            self._take(chunk)

    def _count(self, size: int) -> None:
        self._size += size
        if self._size > SNAPSHOT_BYTES_LIMIT:
            raise ServerFault(f"the server sent a snapshot of more than {SNAPSHOT_BYTES_LIMIT // 1024**3} GiB")

    def _take(self, chunk: admin_pb2.SnapshotChunk) -> None:
        self._count(ITEM_BYTES * _items_of(chunk))
        nodes, arcs, sets = chunk.nodes, chunk.arcs, chunk.ancestor_sets
        if nodes.numbers:
            self._node_columns.append(_node_columns(nodes))
        if arcs.parents:
            self._arc_columns.append(_arc_columns(arcs))
        for virtual_node in chunk.virtual_nodes:
            self._virtual_nodes[virtual_node.number] = virtual_node
        for node, ancestors, size in zip(sets.representatives, sets.sets, sets.sizes, strict=True):
            self._sets[node] = ancestors, size
        self._under_way += chunk.under_way
        self._details.update((each.group, details_in(each.details)) for each in chunk.details)
        for policy in chunk.policies:
            subjects = {each.privilege: list(each.subjects) for each in policy.privileges}
            self._policies[policy.group] = policy.preset, subjects
        self._messages.take(chunk)
        if chunk.HasField("end"):
            self._end = chunk.end
            self._ended_at = datetime.now(UTC)
        self.rows += len(nodes.numbers) + len(arcs.parents) + len(sets.representatives) + len(chunk.log)

    def finish(self) -> SnapshotTables:
        """Return the state at one instant; raise `ServerFault` if the last chunk is missing or chunks are malformed."""
        end = self._end
        if end is None:
            raise ServerFault("the server ended the snapshot before it was whole")
        with _told_as_a_fault():
            return self._tables(end)

    def _tables(self, end: admin_pb2.SnapshotChunk.End) -> SnapshotTables:
        if not end.has_ancestor_sets:
            self._sets = {}
        arcs = self._arcs()
        nodes, representatives, held = self._nodes(mentioned=np.union1d(arcs["parent"], arcs["child"]))
        of_held = {int(node) for node in representatives[held]}
        tables: dict[str, dict[str, Any] | Sequence[tuple[Any, ...]]] = {
            "nodes": nodes,
            "arcs": arcs,
            "virtual_nodes": self._virtual_node_rows(),
            "ancestors": sorted((node, found) for node, (found, _) in self._sets.items() if node in of_held),
            "updates": self._updates(),
            DETAILS_TABLE: self._detail_rows(),
            POLICIES_TABLE: self._policy_rows(),
            **self._messages.tables(),
        }
        manifest = {**_manifest(end), "messages": self._messages.ends()}
        written = {name: _table(name, rows) for name, rows in tables.items()}
        return SnapshotTables(manifest, written, self._ended_at)

    def _nodes(self, mentioned: Numbers) -> tuple[dict[str, Any], Numbers, Numbers]:
        columns = [np.concatenate(column) for column in zip(*self._node_columns, strict=True)]
        numbers = columns[0].astype(np.int64)
        batches = np.repeat(np.arange(len(self._node_columns)), [len(columns[0]) for columns in self._node_columns])
        wanted = _latest(numbers, batches)
        numbers, ids, kinds, homes, places, counters, servers, virtual_nodes, representatives = (
            column[wanted] for column in columns
        )
        is_there = (kinds != _ABSENT) | np.isin(numbers, mentioned)
        vnids = {number: found.vnid for number, found in self._virtual_nodes.items()}
        sizes = {node: size for node, (_, size) in self._sets.items()}
        held = (places & _HELD).astype(bool)
        found: dict[str, Any] = {
            "node": numbers,
            "id": ids,
            "kind": _KINDS[kinds],
            "home": homes,
            "owned": (places & _OWNED).astype(bool),
            "held": held,
            "vnid": _each(virtual_nodes, vnids.get),
            "version_counter": _where(counters != 0, counters.astype(object)),
            "version_server": _where(counters != 0, servers),
            "level": _where(held, _each(representatives, sizes.get)),
        }
        return {name: column[is_there] for name, column in found.items()}, representatives, held

    def _arcs(self) -> dict[str, Any]:
        columns = [np.concatenate(column) for column in zip(*self._arc_columns, strict=True)]
        parents, children = columns[0].astype(np.int64), columns[1].astype(np.int64)
        batches = np.repeat(np.arange(len(self._arc_columns)), [len(columns[0]) for columns in self._arc_columns])
        wanted = _latest(parents << 32 | children, batches)
        parents, children, costs, versions, writers, flags, states = (column[wanted] for column in columns)
        is_there = (flags & (_TRUTH | _RECORD)).astype(bool)
        found = {
            "parent": parents,
            "child": children,
            "cost": costs,
            "version": versions,
            "writer": writers,
            "present": (flags & _PRESENT).astype(bool),
            "suspended": (flags & _SUSPENDED).astype(bool),
            "state": _STATES[states.astype(np.int64)],
            "is_truth": (flags & _TRUTH).astype(bool),
            "is_record": (flags & _RECORD).astype(bool),
        }
        return {name: column[is_there] for name, column in found.items()}

    def _virtual_node_rows(self) -> list[tuple[Any, ...]]:
        there = [found for found in self._virtual_nodes.values() if found.components]
        return sorted((found.vnid, found.smallest, sorted(found.components)) for found in there)

    def _detail_rows(self) -> list[tuple[Any, ...]]:
        there = sorted((group, each) for group, each in self._details.items() if each)
        return [(group, *map(each.get, DETAILS_SCHEMA.names[1:])) for group, each in there]

    def _policy_rows(self) -> list[tuple[Any, ...]]:
        return [
            (group, preset, *(subjects.get(privilege, []) for privilege in POLICY_PRIVILEGES))
            for group, (preset, subjects) in sorted(self._policies.items())
        ]

    def _updates(self) -> list[tuple[Any, ...]]:
        return [
            (
                found.update,
                found.coordinator,
                "coordinator" if found.is_coordinator else "participant",
                found.state,
                found.priority_counter or None,
                found.priority_server or None,
                list(found.waits_for),
            )
            for found in self._under_way
        ]


@contextmanager
def _told_as_a_fault() -> Iterator[None]:
    """Report columns that do not fit together as a fault of the server."""
    try:
        yield
    except (DecodeError, ValueError, IndexError, OverflowError, pa.ArrowException) as error:
        raise ServerFault(f"the server sent a snapshot that makes no sense: {printable(str(error))[:200]}") from None


def _items_of(chunk: admin_pb2.SnapshotChunk) -> int:
    """Return the number of rows of a chunk, plus names in lists of its rows."""
    rows = len(chunk.nodes.ids) + len(chunk.nodes.servers) + len(chunk.arcs.parents)
    rows += len(chunk.ancestor_sets.sets) + len(chunk.virtual_nodes) + len(chunk.under_way) + len(chunk.details)
    rows += len(chunk.policies) + sum(len(each.subjects) for policy in chunk.policies for each in policy.privileges)
    rows += len(chunk.log) + len(chunk.audiences) + len(chunk.mailboxes)
    rows += len(chunk.cursors) + len(chunk.unsettled) + len(chunk.reached)
    return rows + sum(len(entry.targets) for entry in chunk.log) + sum(len(row.targets) for row in chunk.reached)


def _manifest(end: admin_pb2.SnapshotChunk.End) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "server": end.server,
        "subnets": list(end.subnets),
        "revision": end.revision,
        "counter": end.counter,
        "consistency": "cut" if end.cut else "server",
        "cut": end.cut or None,
        "peers": [{"server": peer.server, "subnets": list(peer.subnets)} for peer in end.peers],
        "database_failure": end.database_failure or None,
    }


def _node_columns(nodes: admin_pb2.SnapshotChunk.Nodes) -> tuple[Any, ...]:
    servers = np.array([None, *nodes.servers], dtype=object)
    return (
        np.array(nodes.numbers, dtype=np.uint32),
        np.array(nodes.ids, dtype=object),
        np.frombuffer(nodes.kinds, dtype=np.uint8),
        servers[np.array(nodes.homes, dtype=np.uint32)],
        np.frombuffer(nodes.places, dtype=np.uint8),
        np.array(nodes.version_counters, dtype=np.uint64),
        servers[np.array(nodes.version_servers, dtype=np.uint32)],
        np.array(nodes.virtual_nodes, dtype=np.uint32),
        np.array(nodes.representatives, dtype=np.uint32),
    )


def _arc_columns(arcs: admin_pb2.SnapshotChunk.Arcs) -> tuple[Any, ...]:
    return (
        np.array(arcs.parents, dtype=np.uint32),
        np.array(arcs.children, dtype=np.uint32),
        np.array(arcs.costs, dtype=np.uint64),
        np.array(arcs.versions, dtype=np.uint64),
        np.array(arcs.writers, dtype=np.uint64),
        np.frombuffer(arcs.flags, dtype=np.uint8),
        np.frombuffer(arcs.states, dtype=np.uint8),
    )


def _latest(keys: Numbers, batches: Numbers) -> Numbers:
    """Return the places of the rows in the latest batch of their key, sorted by key."""
    order = np.lexsort((batches, keys))
    keys, batches = keys[order], batches[order]
    is_last = np.append(keys[1:] != keys[:-1], True) if len(keys) else np.array([], dtype=bool)
    # The batch of the last row of each key, at each of its rows.
    ends = np.flatnonzero(is_last)
    group = np.searchsorted(ends, np.arange(len(keys)))
    found: Numbers = order[batches == batches[ends[group]]] if len(keys) else order
    return found


def _each(numbers: Numbers, look_up: Callable[[int], object]) -> Numbers:
    found = np.empty(len(numbers), dtype=object)
    found[:] = [look_up(number) for number in numbers.tolist()]
    return found


def _where(is_there: Numbers, column: Numbers) -> Numbers:
    """Return the column, with None where `is_there` is false."""
    found = column.copy()
    found[~is_there] = None
    return found


def _table(name: str, rows: dict[str, Any] | Sequence[tuple[Any, ...]]) -> pa.Table:
    schema = {**TABLES, **MESSAGE_TABLES, DETAILS_TABLE: DETAILS_SCHEMA, POLICIES_TABLE: POLICIES_SCHEMA}[name]
    if not isinstance(rows, dict):
        columns = list(zip(*rows, strict=True)) or [()] * len(schema)
        rows = dict(zip(schema.names, columns, strict=True))
    arrays = [pa.array(_plain(rows[field.name]), type=field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def _plain(column: Any) -> Any:
    # pyarrow would load pandas for an array of objects, which takes a second.
    return column.tolist() if isinstance(column, np.ndarray) and column.dtype == object else column
