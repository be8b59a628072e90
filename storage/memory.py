"""A store that loses everything when the process ends: the fake for tests and simulations.

`MemoryStore` passes the contract suite of the durable stores. `MemoryDatabase` takes the place of the file: it outlives
the stores that are opened on it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from namegraph import (
    UPDATE,
    ArcRecord,
    ChangeRecord,
    LogRecord,
    NodeIndex,
    NodeRecord,
    OutcomeRecord,
    ProtocolRow,
    Records,
    RequestId,
    ServerId,
    StoredState,
    VirtualNodeRecord,
    change_sizes,
)
from storage.errors import DatabaseInUseError
from storage.identity import settle_identity
from storage.store import LOG_RECORDS_PER_READ, ChangesFound, ChangesWanted, LogWanted


@dataclass(slots=True)
class MemoryDatabase:
    """Committed state, and the store that has the database open."""

    server: ServerId | None = None
    counter: int = 0
    nodes: dict[NodeIndex, NodeRecord] = field(default_factory=dict)
    arcs: dict[tuple[NodeIndex, NodeIndex], ArcRecord] = field(default_factory=dict)
    virtual_nodes: dict[int, VirtualNodeRecord] = field(default_factory=dict)
    outcomes: dict[RequestId, OutcomeRecord] = field(default_factory=dict)
    protocol: dict[tuple[str, str], ProtocolRow] = field(default_factory=dict)
    changes: dict[int, ChangeRecord] = field(default_factory=dict)
    log: dict[int, LogRecord] = field(default_factory=dict)
    holder: MemoryStore | None = None


class MemoryStore:
    """A `Store` over a `MemoryDatabase`."""

    def __init__(self, database: MemoryDatabase, *, server: ServerId | None = None) -> None:
        if database.holder is not None:
            raise DatabaseInUseError(
                database="in memory", problem="another name server is using it", remedy="close that one first"
            )
        self._server = settle_identity(stored=database.server, given=server, database="in memory")
        self._database = database
        database.server = self._server
        database.holder = self

    @property
    def server(self) -> ServerId:
        """See `Store`."""
        return self._server

    @property
    def cautions(self) -> tuple[str, ...]:
        """See `Store`."""
        return ()

    def load(self) -> StoredState:
        """See `Store`."""
        self._check_open()
        database = self._database
        return StoredState(
            server=self._server,
            counter=database.counter,
            nodes=[database.nodes[node] for node in sorted(database.nodes)],
            virtual_nodes=list(database.virtual_nodes.values()),
            arcs=list(database.arcs.values()),
            outcomes=sorted(database.outcomes.values(), key=lambda outcome: outcome.sequence),
            protocol=list(database.protocol.values()),
            last_change=max(database.changes, default=0),
            change_sizes=change_sizes(database.changes.values()),
            last_change_hash=database.changes[max(database.changes)].hash if database.changes else b"",
        )

    def commit(self, records: Records) -> None:
        """See `Store`."""
        self._check_open()
        database = self._database
        database.nodes.update((record.node, record) for record in records.nodes)
        for virtual_node in records.virtual_nodes:
            if virtual_node.present:
                database.virtual_nodes[virtual_node.number] = virtual_node
            else:
                database.virtual_nodes.pop(virtual_node.number, None)
        for arc in records.arcs:
            if arc.version == 0:
                database.arcs.pop((arc.parent, arc.child), None)
            else:
                database.arcs[arc.parent, arc.child] = arc
        for row in records.protocol:
            if row.value is None:
                database.protocol.pop((row.part, row.key), None)
            else:
                database.protocol[row.part, row.key] = row
        database.outcomes.update((record.request_id, record) for record in records.outcomes)
        if records.forget_outcomes_through is not None:
            database.outcomes = {
                request: outcome
                for request, outcome in database.outcomes.items()
                if outcome.sequence > records.forget_outcomes_through
            }
        database.changes.update((record.number, record) for record in records.changes)
        if records.forget_changes_through is not None:
            for number in [number for number in database.changes if number <= records.forget_changes_through]:
                del database.changes[number]
        database.log.update((record.position, record) for record in records.log)
        if records.cut_log_through is not None:
            for position in [position for position in database.log if position <= records.cut_log_through]:
                del database.log[position]
        for position in records.log_gone:
            database.log.pop(position, None)
        if records.counter is not None:
            database.counter = records.counter

    def read_changes(self, wanted: ChangesWanted) -> ChangesFound:
        """See `Store`."""
        self._check_open()
        changes = self._database.changes
        oldest, newest = min(changes, default=None), max(changes, default=None)
        if oldest is not None and newest is not None and wanted.newest is not None:
            oldest = max(oldest, newest - wanted.newest + 1)
        last = newest or 0
        through = last if wanted.through is None else min(wanted.through, last)
        found = [
            row
            for number, row in sorted(changes.items())
            if max(wanted.after, (oldest or 0) - 1) < number <= through
            and (wanted.with_events or _is_wanted(row, wanted))
            and wanted.revision in (None, row.revision)
        ]
        return ChangesFound(found[: wanted.limit], oldest, newest)

    def read_log(self, wanted: LogWanted) -> list[LogRecord]:
        """See `Store`."""
        self._check_open()
        log = self._database.log
        last = max(log, default=0) if wanted.through is None else wanted.through
        positions = [position for position in sorted(log) if wanted.after < position <= last]
        found: list[LogRecord] = []
        size = 0
        for position in positions[:LOG_RECORDS_PER_READ]:
            found.append(log[position])
            size += len(log[position].encoded)
            if size >= wanted.bytes_limit:
                break
        return found

    def probe(self) -> None:
        """See `Store`."""
        self._check_open()

    def close(self) -> None:
        """See `Store`."""
        if self._database.holder is self:
            self._database.holder = None

    def _check_open(self) -> None:
        assert self._database.holder is self, "the store is closed"


def _is_wanted(row: ChangeRecord, wanted: ChangesWanted) -> bool:
    return row.kind == UPDATE and row.counter >= wanted.counter_from and row.told_at >= wanted.told_from
