"""Records for the tests of storage, and what a store holds in a form that can be compared."""

from __future__ import annotations

from dataclasses import dataclass

from namegraph.names import NodeId, ServerId
from namegraph.records import (
    ArcRecord,
    NodeIndex,
    NodeKind,
    NodeRecord,
    OutcomeRecord,
    RequestId,
    VirtualNodeRecord,
)
from storage import Store

ANNA = ServerId("anna")
BERTA = ServerId("berta")


def node(
    number: int,
    node_id: str | None = None,
    *,
    kind: NodeKind = NodeKind.GROUP,
    virtual_node: int | None = None,
    version: int = 1,
) -> NodeRecord:
    return NodeRecord(NodeIndex(number), NodeId(node_id or f"g{number}@x"), kind, virtual_node, version)


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


@dataclass(frozen=True)
class Contents:
    """Everything that a store gives back when it loads; lists without a promised order are sorted."""

    server: str
    counter: int
    nodes: list[NodeRecord]
    virtual_nodes: list[VirtualNodeRecord]
    arcs: list[ArcRecord]
    outcomes: list[OutcomeRecord]


def contents(store: Store) -> Contents:
    state = store.load()
    return Contents(
        server=state.server,
        counter=state.counter,
        nodes=list(state.nodes),
        virtual_nodes=sorted(state.virtual_nodes),
        arcs=sorted(state.arcs),
        outcomes=list(state.outcomes),
    )
