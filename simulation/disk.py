"""A simulated disk: rows as a database would keep them, each step's records written whole or not at all."""

from __future__ import annotations

from namegraph.names import ServerId
from namegraph.records import (
    ArcRecord,
    NodeIndex,
    NodeRecord,
    OutcomeRecord,
    ProtocolRow,
    Records,
    RequestId,
    StoredState,
    VirtualNodeRecord,
)


class Disk:
    """What one server has made durable."""

    def __init__(self, server: ServerId) -> None:
        self._server = server
        self._counter = 0
        self._nodes: dict[NodeIndex, NodeRecord] = {}
        self._arcs: dict[tuple[NodeIndex, NodeIndex], ArcRecord] = {}
        self._virtual_nodes: dict[int, VirtualNodeRecord] = {}
        self._outcomes: dict[RequestId, OutcomeRecord] = {}
        self._protocol: dict[tuple[str, str], bytes] = {}

    def write(self, records: Records) -> None:
        """Make records durable."""
        self._nodes.update((record.node, record) for record in records.nodes)
        self._virtual_nodes.update((record.number, record) for record in records.virtual_nodes)
        self._outcomes.update((record.request_id, record) for record in records.outcomes)
        for arc in records.arcs:
            if arc.version:
                self._arcs[arc.parent, arc.child] = arc
            else:
                self._arcs.pop((arc.parent, arc.child), None)
        for part, key, value in records.protocol:
            if value is None:
                self._protocol.pop((part, key), None)
            else:
                self._protocol[part, key] = value
        if records.counter is not None:
            self._counter = records.counter

    def read(self) -> StoredState:
        """What a server that starts finds."""
        return StoredState(
            server=self._server,
            counter=self._counter,
            nodes=[self._nodes[node] for node in sorted(self._nodes)],
            virtual_nodes=list(self._virtual_nodes.values()),
            arcs=list(self._arcs.values()),
            outcomes=sorted(self._outcomes.values(), key=lambda outcome: outcome.sequence),
            protocol=[ProtocolRow(part, key, value) for (part, key), value in self._protocol.items()],
        )
