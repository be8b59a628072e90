"""Updates that this server was ready for when it was cut off from their coordinator: they may have been done, or not.

    Ready --> (a view without the coordinator, in which nobody knows the outcome) --> in doubt --> (healed with it)

They are dropped with the view, so that all else can go on. But the coordinator may have answered its client. So what
the update was to change is remembered: no answer that touches it is complete, until the two have met and healed.

Source: protocol.md section 7 (a ready participant never decides alone; while faults last, no answer is wrong without
saying that it is incomplete).
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable

import msgspec

from namegraph.message_parts import UpdateId
from namegraph.names import NodeId, ServerId
from namegraph.records import ProtocolRow

DOUBT = "doubt"
"""Rows: what an update in doubt was to change here, by the update."""


class Doubts:
    """The updates in doubt of one server."""

    def __init__(self) -> None:
        self._nodes: dict[UpdateId, tuple[NodeId, ...]] = {}
        self._servers: dict[NodeId, tuple[ServerId, ...]] = {}
        """By node, who may know better; follows from `_nodes`."""
        self._changed: dict[UpdateId, None] = {}

    def __bool__(self) -> bool:
        return bool(self._nodes)

    @property
    def nodes(self) -> Collection[NodeId]:
        """The nodes at which something may have changed."""
        return self._servers.keys()

    def servers(self) -> list[ServerId]:
        """The coordinators, sorted."""
        return sorted({update_id.coordinator for update_id in self._nodes})

    def about(self, node: NodeId) -> tuple[ServerId, ...]:
        """The coordinators of what may have changed at a node; most often nobody."""
        return self._servers.get(node, ())

    def note(self, update_id: UpdateId, nodes: Iterable[NodeId]) -> None:
        """An update was dropped whose outcome is not known."""
        self._nodes[update_id] = tuple(sorted(nodes))
        self._changed[update_id] = None
        self._find_servers()

    def healed(self, with_servers: Container[ServerId]) -> None:
        """What these servers have done is known here."""
        over = [update_id for update_id in self._nodes if update_id.coordinator in with_servers]
        for update_id in over:
            del self._nodes[update_id]
            self._changed[update_id] = None
        if over:
            self._find_servers()

    def take_rows(self) -> list[ProtocolRow]:
        """The rows that changed since this was last asked."""
        rows = []
        for update_id in self._changed:
            nodes = self._nodes.get(update_id)
            key = f"{update_id.number} {update_id.coordinator}"
            rows.append(ProtocolRow(DOUBT, key, None if nodes is None else _ENCODER.encode(nodes)))
        self._changed = {}
        return rows

    def restore(self, rows: Iterable[ProtocolRow]) -> None:
        """Take up what was in doubt."""
        for row in rows:
            if row.part == DOUBT:
                number, _, coordinator = row.key.partition(" ")
                self._nodes[UpdateId(ServerId(coordinator), int(number))] = _DECODER.decode(row.value or b"")
        self._find_servers()

    def _find_servers(self) -> None:
        found: dict[NodeId, set[ServerId]] = {}
        for update_id, nodes in self._nodes.items():
            for node in nodes:
                found.setdefault(node, set()).add(update_id.coordinator)
        self._servers = {node: tuple(sorted(servers)) for node, servers in found.items()}


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(tuple[NodeId, ...])
