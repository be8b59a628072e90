"""Records for the tests of storage, and what a store holds in a form that can be compared."""

from __future__ import annotations

from dataclasses import dataclass

from namegraph.model.names import NodeId, ServerId
from namegraph.model.rows import (
    ArcRecord,
    ChangeRecord,
    LogRecord,
    NodeIndex,
    NodeKind,
    NodeRecord,
    OutcomeRecord,
    ProtocolRow,
    RequestId,
    VirtualNodeRecord,
)
from storage import Store
from storage.store import LogWanted

ANNA = ServerId("anna")
BERTA = ServerId("berta")


def node(
    number: int,
    node_id: str | None = None,
    *,
    kind: NodeKind = NodeKind.GROUP,
    virtual_node: int | None = None,
    version: int = 1,
    version_server: ServerId | None = None,
) -> NodeRecord:
    name = NodeId(node_id or f"g{number}@x")
    return NodeRecord(NodeIndex(number), name, kind, virtual_node, version, version_server)


def arc(
    parent: int,
    child: int,
    *,
    cost: int = 1,
    version: int = 1,
    writer: int = 1,
    present: bool = True,
    suspended: bool = False,
) -> ArcRecord:
    return ArcRecord(NodeIndex(parent), NodeIndex(child), cost, version, writer, present, suspended)


def virtual_node(number: int, *, counter: int = 1, present: bool = True) -> VirtualNodeRecord:
    return VirtualNodeRecord(number, NodeId("a@x"), counter, ANNA, present)


def outcome(request_id: str, sequence: int, *, answer: str = "{}") -> OutcomeRecord:
    return OutcomeRecord(RequestId(request_id), sequence, f"digest of {request_id}", answer)


def deleted_arc(parent: int, child: int) -> ArcRecord:
    return arc(parent, child, version=0, present=False)


def protocol_row(key: str, value: bytes | None = b"value", *, part: str = "entries") -> ProtocolRow:
    return ProtocolRow(part, key, value)


def log_record(position: int, encoded: bytes = b"parcel", *, audience: int = 1) -> LogRecord:
    return LogRecord(position, audience, encoded)


@dataclass(frozen=True)
class Contents:
    """Everything that a store gives back; lists without a promised order are sorted."""

    server: str
    counter: int
    nodes: list[NodeRecord]
    virtual_nodes: list[VirtualNodeRecord]
    arcs: list[ArcRecord]
    outcomes: list[OutcomeRecord]
    protocol: list[ProtocolRow]
    log: list[LogRecord]


def contents(store: Store) -> Contents:
    state = store.load()
    return Contents(
        server=state.server,
        counter=state.counter,
        nodes=list(state.nodes),
        virtual_nodes=sorted(state.virtual_nodes),
        arcs=sorted(state.arcs),
        outcomes=list(state.outcomes),
        protocol=sorted(state.protocol),
        log=whole_log(store),
    )


def whole_log(store: Store) -> list[LogRecord]:
    """Return the log, read piece by piece as a server does."""
    log: list[LogRecord] = []
    while piece := store.read_log(LogWanted(log[-1].position if log else 0)):
        log += piece
    return log


def change(number, counter, told_at=0):
    """Return a record of changes whose revision is COUNTER@x."""
    caller, server = "10.0.0.1:5", ServerId("x")
    return ChangeRecord(number, counter, f"{counter}@x", RequestId("r"), told_at, caller, server, b"\x00\xff")
