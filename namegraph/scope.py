"""Whether an update concerns this server alone, and what it asks of several.

An update concerns one server if everything it affects lives there, no arc enters what it affects from another server
(so that no stored record changes), and no entry here affects the same nodes. Such an update is done in one step.

Source: protocol.md section 5.
"""

from __future__ import annotations

from collections.abc import Iterable

from namegraph.ancestry_records import AncestryRecords
from namegraph.events import ChildKind, CreateGroup, DeleteGroup, ImportCommand, JoinArc, LeaveArc, Operation
from namegraph.messages import ArcId, ArcWish
from namegraph.names import NodeId
from namegraph.ordering import Entries
from namegraph.records import NodeKind
from namegraph.refusals import Reason, RefusedError, refuse
from namegraph.site import Site

_KINDS = {ChildKind.AUTO: None, ChildKind.GROUP: NodeKind.GROUP, ChildKind.PROCESS: NodeKind.PROCESS}


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
            case JoinArc(parent, child) | LeaveArc(parent, child):
                tails.append(parent)
                heads.append(child)
                if site.home_below(parent=parent, child=child) != site.server:
                    return False
    return _all_is_here(site, records, entries, tails=tails, heads=heads)


def import_concerns_one_server(site: Site, records: AncestryRecords, entries: Entries, command: ImportCommand) -> bool:
    """As `concerns_one_server`, for a whole graph."""
    return _all_is_here(site, records, entries, tails=(), heads=command.names)


def wishes_of(operations: tuple[Operation, ...]) -> tuple[ArcWish, ...]:
    """What the operations of an update over several servers ask for; raises `RefusedError` for what is not built."""
    wishes: dict[ArcId, ArcWish] = {}
    for operation in operations:
        match operation:
            case JoinArc(parent, child, kind, cost):
                wish = ArcWish(True, ArcId(parent, child), _KINDS[kind], cost)
            case LeaveArc(parent, child, kind):
                wish = ArcWish(False, ArcId(parent, child), _KINDS[kind], 0)
            case CreateGroup(group) | DeleteGroup(group):
                raise _not_built(f"{group} cannot be created or deleted in an update that concerns other servers, now")
        if parent == child:
            raise refuse(
                Reason.SELF_ARC,
                f"{parent} cannot be made an immediate member of itself",
                group=parent,
                member=child,
            )
        if wish.arc in wishes:
            raise _not_built(f"{child} is joined to or taken from {parent} twice in an update of several servers")
        wishes[wish.arc] = wish
    return tuple(wishes.values())


def not_for_this_server(site: Site, node: NodeId) -> RefusedError:
    """The refusal of an update whose first arc has its parent elsewhere."""
    home = site.home_of(node)
    return refuse(
        Reason.UNAVAILABLE,
        f"{node} is owned by the server {home}; ask it",
        group=node,
        server=home,
    )


def import_not_for_this_server() -> RefusedError:
    """The refusal of an import that concerns other servers."""
    return _not_built("an import concerns other servers, or meets an update under way")


def _not_built(what: str) -> RefusedError:
    return refuse(Reason.UNAVAILABLE, f"{what}; nothing was done")


def _all_is_here(
    site: Site, records: AncestryRecords, entries: Entries, *, tails: Iterable[NodeId], heads: Iterable[NodeId]
) -> bool:
    names = [*tails, *heads]
    if any(site.home_of(name) != site.server for name in names):
        return False
    if not (records.above or records.leaving or entries.by_update):
        return True
    graph = site.graph
    numbers = [number for name in heads if (number := graph.index.get(name)) is not None]
    affected = graph.descendants(numbers)
    assert affected is not None
    if not affected.isdisjoint(records.leaving):
        return False
    if not all(records.above.keys().isdisjoint(graph.parents[node]) for node in affected):
        return False
    return not (entries.by_update and entries.affects([*names, *(graph.ids[node] for node in affected)]))
