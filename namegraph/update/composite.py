"""Composite commands: commands that stand for operations which the coordinating server finds.

The commands are `LeaveEverywhere`, `RenameGroups` and `TakeOver`.

    command --> expand: the operations on the graph as it is --> an update like any other
                  ^                                                |
                  '--- at its turn the graph calls for others -----'

At the turn of the update, no other update of the same nodes is under way. The coordinator compares then: if the
graph now calls for other operations, the update begins again with these. No composite command travels.

The coordinator knows all arcs of a command. The coordinator of a rename or a takeover is the home of the group. The
coordinator of a leave is the home of the member, or the home of the subnet whose groups the member leaves. A
foreign process lives at each of its parents' homes. The shell asks other servers for its groups there, and passes
them as `elsewhere`.

Source: docs/protocol-updates.md, "Renaming, leaving everywhere".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from typing import assert_never

from namegraph.model.names import NodeId, ServerId, subnet_of
from namegraph.model.operations import (
    ChildKind,
    Composite,
    CreateGroup,
    DeleteGroup,
    JoinArc,
    LeaveArc,
    LeaveEverywhere,
    Operation,
    RenameGroups,
    TakeOver,
)
from namegraph.model.refusals import Reason, refuse
from namegraph.model.rows import NodeIndex, NodeKind
from namegraph.state.context import ServerContext
from namegraph.state.uncertainty import Uncertainty
from namegraph.update.admission import in_groups, no_group_here

LEAVES_LIMIT = 100_000
"""Groups that one member leaves in one update: the limit of operations of a client's update."""

LEFT_BYTES_LIMIT = 8 * 1024 * 1024
"""Bytes of the names of these groups. The answer, which is kept for its request id, lists all of them."""


def expand(context: ServerContext, command: Composite, elsewhere: Iterable[NodeId] = ()) -> tuple[Operation, ...]:
    """Return the operations that a command stands for now. Raises `RefusedError` if it cannot be done."""
    match command:
        case LeaveEverywhere():
            return _leaves(context, command, elsewhere)
        case RenameGroups(renames):
            return _renaming(context, dict(renames))
        case TakeOver():
            return _taking_over(context, command)
        case _:
            assert_never(command)


def home_of_composite(context: ServerContext, command: Composite) -> ServerId:
    """Return the server that coordinates a command."""
    match command:
        case LeaveEverywhere(member, subnet):
            owner = None if subnet is None else context.table.owner_of(subnet)
            return context.home_of(member) if owner is None else owner
        case RenameGroups(renames):
            return context.home_of(renames[0][0])
        case TakeOver(group):
            return context.home_of(group)
        case _:
            assert_never(command)


def names_in_composite(command: Composite | None) -> tuple[NodeId, ...]:
    """Return the nodes whose arcs a command may change. Empty if there is no command."""
    match command:
        case None:
            return ()
        case LeaveEverywhere(member):
            return (member,)
        case RenameGroups(renames):
            return tuple(old for old, _ in renames)
        case TakeOver(group):
            return (group,)


def unchanged_of(command: Composite | None, unchanged: tuple[int, ...]) -> tuple[int, ...]:
    """Return the places, in the client's request, of operations that were not needed.

    `unchanged`: the places of the expanded operations.
    """
    if command is None:
        return unchanged
    return (1,) if isinstance(command, TakeOver) and unchanged else ()


def left_groups(command: Composite | None, operations: Iterable[Operation]) -> tuple[NodeId, ...]:
    """Return the groups that a member leaves by these operations, sorted. Empty for other commands."""
    if not isinstance(command, LeaveEverywhere):
        return ()
    return tuple(sorted(operation.parent for operation in operations if isinstance(operation, LeaveArc)))


def renames_in(command: Composite | None, operations: Iterable[Operation]) -> tuple[tuple[NodeId, NodeId], ...]:
    """Return the old and the new name of each group that these operations rename."""
    if not isinstance(command, RenameGroups):
        return ()
    deleted = {operation.group for operation in operations if isinstance(operation, DeleteGroup)}
    return tuple((old, new) for old, new in command.renames if old in deleted)


def _leaves(context: ServerContext, command: LeaveEverywhere, elsewhere: Iterable[NodeId]) -> tuple[Operation, ...]:
    member, subnet = command.member, command.subnet
    away = Uncertainty(context).into(member, of_own_groups=subnet is not None)
    if away:
        raise refuse(
            Reason.UNAVAILABLE,
            f"cannot tell which groups {member} is in: out of reach: {', '.join(away)}; nothing was done",
            member=member,
            unreachable="\n".join(away),
        )
    graph = context.graph
    node = graph.index.get(member)
    parents: set[NodeId] = set()
    if node is not None:
        parents.update(graph.ids[parent] for parent in (*graph.parents[node], *context.suspended_parents(node)))
    if subnet is not None:
        parents = {parent for parent in parents if subnet_of(parent) == subnet}
    elif context.table.home_of(member) is None:
        parents = {parent for parent in parents if context.home_of(parent) == context.server}
    others = set(elsewhere) - parents
    names_bytes = sum(map(len, parents)) + sum(map(len, others))
    if len(parents) + len(others) > LEAVES_LIMIT or names_bytes > LEFT_BYTES_LIMIT:
        raise refuse(
            Reason.LIMIT_EXCEEDED,
            f"{member} is in {len(parents) + len(others)} groups, and one update leaves at most {LEAVES_LIMIT} with "
            f"{LEFT_BYTES_LIMIT} bytes of names: name a subnet",
            limit=str(LEAVES_LIMIT),
            field="subnet",
        )
    # The member may have left a group elsewhere after the shell asked for its groups.
    return tuple(LeaveArc(parent, member, if_needed=parent in others) for parent in sorted(parents | others))


def _taking_over(context: ServerContext, command: TakeOver) -> tuple[Operation, ...]:
    group, graph = command.group, context.graph
    node = graph.index.get(group)
    create = CreateGroup(group, command.if_needed)
    if node is None or graph.kind(node) is not NodeKind.PROCESS:
        return (create,)
    away = Uncertainty(context).into(group)
    if away:
        raise refuse(
            Reason.UNAVAILABLE,
            f"{group} is a process {in_groups(context, node)}; it cannot become a group while a server is out of reach "
            f"that may have it in a group: {', '.join(away)}; nothing was done",
            group=group,
            unreachable="\n".join(away),
        )
    leaves: list[LeaveArc] = []
    joins: list[JoinArc] = []
    for parent, _ in _arcs_at(context, node):
        arc = graph.arc(parent, node)
        leaves.append(LeaveArc(graph.ids[parent], group, if_needed=arc is None))
        if arc is not None:
            joins.append(JoinArc(graph.ids[parent], group, ChildKind.GROUP, arc.cost))
    by_parent = attrgetter("parent")
    return (*sorted(leaves, key=by_parent), create, *sorted(joins, key=by_parent))


def _renaming(context: ServerContext, renames: Mapping[NodeId, NodeId]) -> tuple[Operation, ...]:
    graph, uncertainty = context.graph, Uncertainty(context)
    first = next(iter(renames))
    _require_possible(renames)
    nodes: dict[NodeId, NodeIndex] = {}
    for old in renames:
        node = graph.group(old)
        if node is not None:
            nodes[old] = node
        elif old == first:
            raise no_group_here(old, uncertainty)
    changed: dict[NodeId, NodeId] = {old: renames[old] for old in nodes}
    for old, node in nodes.items():
        _require_all_in_reach(context, uncertainty, old, node)
    creates = [CreateGroup(new) for new in changed.values()]
    leaves: dict[tuple[NodeId, NodeId], LeaveArc] = {}
    joins: dict[tuple[NodeId, NodeId], JoinArc] = {}
    for node in nodes.values():
        for parent, child in _arcs_at(context, node):
            ends = graph.ids[parent], graph.ids[child]
            arc = graph.arc(parent, child)
            # A rejected arc ends with the old name.
            leaves[ends] = LeaveArc(*ends, if_needed=arc is None)
            if arc is not None:
                kind = ChildKind.GROUP if graph.kind(child) is NodeKind.GROUP else ChildKind.PROCESS
                joins[ends] = JoinArc(changed.get(ends[0], ends[0]), changed.get(ends[1], ends[1]), kind, arc.cost)
    deletes = [DeleteGroup(old) for old in changed]
    return (*creates, *(leaves[ends] for ends in sorted(leaves)), *(joins[ends] for ends in sorted(joins)), *deletes)


def _require_possible(renames: Mapping[NodeId, NodeId]) -> None:
    for old, new in renames.items():
        if old == new:
            raise refuse(Reason.INVALID_REQUEST, f"{old} has this name already", field="new_name")
        if subnet_of(old) != subnet_of(new):
            raise refuse(
                Reason.INVALID_REQUEST,
                f"{old} cannot become {new}: a group stays in its subnet {subnet_of(old)}, whose server is its home; "
                f"create {new}, and join the members to it",
                field="new_name",
            )


def _require_all_in_reach(context: ServerContext, uncertainty: Uncertainty, old: NodeId, node: NodeIndex) -> None:
    """Raise `RefusedError` if a server out of reach may be the only one that knows an arc of the group."""
    graph = context.graph
    for parent, child in _arcs_at(context, node):
        suspended = graph.suspended.get((parent, child))
        if suspended is not None and not context.is_rejected(suspended):
            raise context.out_of_reach(context.home_of(graph.ids[child if parent == node else parent]))
    away = sorted({*uncertainty.into(old), *uncertainty.out_of(old)})
    if away:
        raise refuse(
            Reason.UNAVAILABLE,
            f"cannot tell all arcs of {old}: out of reach: {', '.join(away)}; nothing was done",
            group=old,
            unreachable="\n".join(away),
        )


def _arcs_at(context: ServerContext, node: NodeIndex) -> Iterator[tuple[NodeIndex, NodeIndex]]:
    """Yield parent and child of each arc of a group, suspended arcs included."""
    graph = context.graph
    for parent in (*graph.parents[node], *graph.suspended_into.get(node, ())):
        yield parent, node
    for child in (*graph.children[node], *graph.suspended_from.get(node, ())):
        yield node, child
