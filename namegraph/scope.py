"""Whether an update concerns this server alone, and what it names.

An update concerns one server if everything it affects lives there, the parents of groups that it deletes included, and
no entry here affects the same nodes. Such an update is done in one step.

Source: protocol.md section 5.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from namegraph.ancestry_records import AncestryRecords
from namegraph.events import ChildKind, CreateGroup, DeleteGroup, ImportCommand, JoinArc, LeaveArc, Operation
from namegraph.names import NodeId
from namegraph.ordering import Entries
from namegraph.refusals import Reason, RefusedError, refuse
from namegraph.site import Site


def concerns_one_server(
    site: Site, records: AncestryRecords, entries: Entries, operations: Iterable[Operation]
) -> bool:
    """Whether these operations affect nodes of this server alone, and none that an entry affects."""
    tails: list[NodeId] = []
    heads: list[NodeId] = []
    for operation in operations:
        match operation:
            case CreateGroup(group) | DeleteGroup(group):
                heads.append(group)
                if _is_below_another_server(group, site, records):
                    return False
            case JoinArc(parent, child) | LeaveArc(parent, child):
                tails.append(parent)
                heads.append(child)
                if site.home_below(parent=parent, child=child) != site.server:
                    return False
    return _all_is_here(site, records, entries, tails=tails, heads=heads)


def import_concerns_one_server(site: Site, records: AncestryRecords, entries: Entries, command: ImportCommand) -> bool:
    """As `concerns_one_server`, for a whole graph."""
    return _all_is_here(site, records, entries, tails=(), heads=command.names)


def names_in(operations: Iterable[Operation]) -> list[NodeId]:
    """The nodes that operations name, each once, in the order in which they come."""
    found: dict[NodeId, None] = {}
    for operation in operations:
        match operation:
            case CreateGroup(group) | DeleteGroup(group):
                found[group] = None
            case JoinArc(parent, child) | LeaveArc(parent, child):
                found[parent] = None
                found[child] = None
            case _:
                assert_never(operation)
    return list(found)


def require_kinds_of_waiting(site: Site, operations: Iterable[Operation]) -> None:
    """Raise `RefusedError` if an arc may wait for its child's home and the request does not give the child's kind."""
    for operation in operations:
        if not (isinstance(operation, JoinArc) and operation.offline and operation.kind is ChildKind.AUTO):
            continue
        if site.table.home_of(operation.child) != site.server:
            raise refuse(
                Reason.INVALID_REQUEST,
                f"say whether {operation.child} is a group or a process: its server may be out of reach",
                field="kind",
                member=operation.child,
            )


def not_for_this_server(site: Site, node: NodeId) -> RefusedError:
    """The refusal of an update that another server coordinates."""
    home = site.home_of(node)
    if site.is_away(home):
        return site.out_of_reach(home)
    return refuse(
        Reason.UNAVAILABLE,
        f"{node} is owned by the server {home}; ask it",
        group=node,
        server=home,
    )


def _all_is_here(
    site: Site, records: AncestryRecords, entries: Entries, *, tails: Iterable[NodeId], heads: Iterable[NodeId]
) -> bool:
    names = [*tails, *heads]
    if any(site.home_of(name) != site.server for name in names):
        return False
    if site.graph.suspended and any(_has_suspended(site, name) for name in names):
        return False
    if not (records.above or records.leaving or entries.by_update):
        return True
    graph = site.graph
    numbers = [number for name in heads if (number := graph.index.get(name)) is not None]
    affected = graph.descendants(numbers)
    assert affected is not None
    if not affected.isdisjoint(records.leaving):
        return False
    return not (entries.by_update and entries.affects(affected, names))


def _is_below_another_server(group: NodeId, site: Site, records: AncestryRecords) -> bool:
    node = site.graph.index.get(group)
    return node is not None and not records.above.keys().isdisjoint(site.graph.parents[node])


def _has_suspended(site: Site, name: NodeId) -> bool:
    node = site.graph.index.get(name)
    return node is not None and (node in site.graph.suspended_from or node in site.graph.suspended_into)
