"""Locality of updates: the test if an update concerns this server alone, and the nodes that an update names.

An update concerns one server if two conditions hold. All affected nodes live there, including the parents of groups
that it deletes. No entry there affects the same nodes. Such an update is done in one step.

Source: docs/protocol-updates.md, "Who takes part".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from namegraph.events import ImportCommand
from namegraph.model.names import NodeId
from namegraph.model.operations import ChildKind, CreateGroup, DeleteGroup, JoinArc, LeaveArc, Operation, SetPolicy
from namegraph.model.refusals import Reason, RefusedError, refuse
from namegraph.replication.ancestry_store import AncestryStore
from namegraph.rights.subjects import base_of
from namegraph.state.context import ServerContext
from namegraph.update.order_queue import Entries


def concerns_one_server(
    context: ServerContext, records: AncestryStore, entries: Entries, operations: Iterable[Operation]
) -> bool:
    """Return True if these operations affect nodes of this server alone, and none that an entry affects."""
    tails: list[NodeId] = []
    heads: list[NodeId] = []
    for operation in operations:
        if context.server_policy is not None:
            tails += companions_judged(operation)
        match operation:
            case SetPolicy(group):
                tails.append(group)
            case CreateGroup(group) | DeleteGroup(group):
                heads.append(group)
                if _is_below_another_server(group, context, records):
                    return False
            case JoinArc(parent, child) | LeaveArc(parent, child):
                tails.append(parent)
                heads.append(child)
                if context.home_below(parent=parent, child=child) != context.server:
                    return False
    return _all_is_here(context, records, entries, tails=tails, heads=heads)


def import_concerns_one_server(
    context: ServerContext, records: AncestryStore, entries: Entries, command: ImportCommand
) -> bool:
    """Return the result of `concerns_one_server` for a whole imported graph."""
    return _all_is_here(context, records, entries, tails=(), heads=command.names)


def names_in(operations: Iterable[Operation]) -> list[NodeId]:
    """Return the nodes that operations name, each once, in their order."""
    found: dict[NodeId, None] = {}
    for operation in operations:
        match operation:
            case CreateGroup(group) | DeleteGroup(group) | SetPolicy(group):
                found[group] = None
            case JoinArc(parent, child) | LeaveArc(parent, child):
                found[parent] = None
                found[child] = None
            case _:
                assert_never(operation)
    return list(found)


def heads_in(operations: Iterable[Operation]) -> list[NodeId]:
    """Return the nodes whose ancestry operations change: children of arcs, and groups that are created or deleted."""
    return [
        operation.child if isinstance(operation, JoinArc | LeaveArc) else operation.group for operation in operations
    ]


def companions_judged(operation: Operation) -> list[NodeId]:
    """Return the groups whose policy decides about companions that an operation changes.

    The update is ordered with the updates that change these policies.
    """
    changed = (operation.parent, operation.child) if isinstance(operation, JoinArc | LeaveArc) else (operation.group,)
    return [base[0] for name in changed if (base := base_of(name)) is not None]


def require_kinds_of_waiting(context: ServerContext, operations: Iterable[Operation]) -> None:
    """Raise `RefusedError` if an arc may wait for its child's home and the request does not give the child's kind."""
    for operation in operations:
        if not (isinstance(operation, JoinArc) and operation.offline and operation.kind is ChildKind.AUTO):
            continue
        if context.table.home_of(operation.child) != context.server:
            raise refuse(
                Reason.INVALID_REQUEST,
                f"say whether {operation.child} is a group or a process: its server may be out of reach",
                field="kind",
                member=operation.child,
            )


def not_for_this_server(context: ServerContext, node: NodeId) -> RefusedError:
    """Return the refusal of an update that another server coordinates."""
    home = context.home_of(node)
    if context.is_away(home):
        return context.out_of_reach(home)
    return refuse(
        Reason.UNAVAILABLE,
        f"{node} is owned by the server {home}; ask it",
        group=node,
        server=home,
    )


def _all_is_here(
    context: ServerContext,
    records: AncestryStore,
    entries: Entries,
    *,
    tails: Iterable[NodeId],
    heads: Iterable[NodeId],
) -> bool:
    names = [*tails, *heads]
    if any(context.home_of(name) != context.server for name in names):
        return False
    if context.graph.suspended and any(_has_suspended(context, name) for name in names):
        return False
    if not (records.above or records.leaving or entries.by_update):
        return True
    graph = context.graph
    numbers = [number for name in heads if (number := graph.index.get(name)) is not None]
    affected = graph.descendants(numbers) if any(graph.children[number] for number in numbers) else set(numbers)
    assert affected is not None
    if not affected.isdisjoint(records.leaving):
        return False
    return not (entries.by_update and entries.affects(affected, names))


def _is_below_another_server(group: NodeId, context: ServerContext, records: AncestryStore) -> bool:
    node = context.graph.index.get(group)
    return node is not None and not records.above.keys().isdisjoint(context.graph.parents[node])


def _has_suspended(context: ServerContext, name: NodeId) -> bool:
    node = context.graph.index.get(name)
    return node is not None and (node in context.graph.suspended_from or node in context.graph.suspended_into)
