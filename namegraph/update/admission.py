"""Admission of an update: from the client's operations to the net change of the external group view, or to a refusal.

Operations are read one after another, each as if the earlier ones were done. One atomic update may therefore join
and leave, create and delete in any order that would also work step by step. The graph is not changed here.

Each server judges its own nodes. The home of a group judges if the group exists, and the home of an arc's parent if
the arc is there. The home of the child judges if the child is a group or a process. In an update over several
servers, each server sees the operations that concern its own nodes. Its judgements need no other operations.

Source: docs/protocol-updates.md, "An update, from command to answer" and "What each server judges".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Protocol, assert_never

import numpy as np

from namegraph.events import ImportCommand
from namegraph.graph.delta import GraphDelta
from namegraph.model.names import NodeId, ServerId, subnet_of
from namegraph.model.operations import ChildKind, CreateGroup, DeleteGroup, JoinArc, LeaveArc, Operation, SetPolicy
from namegraph.model.refusals import Reason, RefusedError, refuse
from namegraph.model.rows import ArcKey, ArcRecord, NodeIndex, NodeKind
from namegraph.rights.presets import require_admin, require_valid
from namegraph.rights.subjects import InvalidPolicyError, base_of
from namegraph.state.context import ServerContext
from namegraph.state.uncertainty import Uncertainty
from namegraph.update.arc_authority import OTHERS_IN, End, authority_over
from namegraph.wire.columns import state_array

NEIGHBOURS_NAMED_LIMIT = 20
"""Most parents, and most children, that a refused deletion names."""


class JudgeOfOperations(Protocol):
    """The judge of the caller of one update."""

    def require(self, operation: Operation) -> None:
        """Raise `RefusedError` if the caller may not do an operation. Operations come in their order."""


class MustLeaveError(Exception):
    """A group to be deleted with force has arcs that the update does not leave yet."""

    def __init__(self, group: NodeId, arcs: list[tuple[NodeId, NodeId]]) -> None:
        super().__init__(group)
        self.arcs = arcs
        """(parent, child), sorted."""


class OperationCollector:
    """Reads the operations of one update over an unchanged graph."""

    def __init__(
        self,
        context: ServerContext,
        *,
        is_whole: bool = True,
        is_of_client: bool = True,
        rights: JudgeOfOperations | None = None,
    ) -> None:
        """`is_whole`: this server owns all nodes of the update. `is_of_client`: a client asked for the update.

        `rights`: judges the caller of the update. None if the caller may do everything.
        """
        self._rights = rights
        self._context = context
        self._uncertainty = Uncertainty(context)
        self._is_of_client = is_of_client
        self._graph = context.graph
        self._is_whole = is_whole
        self._kinds: dict[NodeIndex, NodeKind] = {}
        self._arcs: dict[ArcKey, int | None] = {}
        """Arcs that this update touched so far, with their cost. None for arcs that it leaves."""
        self._joined_again: set[ArcKey] = set()
        """Arcs that this update left and then joined again."""
        self._parent_counts: Counter[NodeIndex] = Counter()
        """Change of each node's number of parents by the operations read so far."""
        self._already_there = 0
        self._unchanged: dict[int, None] = {}
        self.number = 0
        """Place of the operation that is being read, or that was refused."""

    def collect(self, operations: Iterable[tuple[int, Operation]], *, size: int) -> GraphDelta:
        """Return the net change, or raise `RefusedError` naming the operation that cannot be done.

        `operations` come with their place in an update of `size` operations. Raises `MustLeaveError` if the update
        is not whole and a deletion with force needs more leaves.
        """
        if not operations:
            raise refuse(Reason.INVALID_REQUEST, "the update holds no operation")
        for number, operation in operations:
            self.number = number
            try:
                if self._rights is not None:
                    self._rights.require(operation)
                self._read(operation)
            except RefusedError as error:
                if size == 1:
                    raise
                raise numbered(error, number, size=size) from None
        return self._net_change()

    def kind_of(self, node: NodeIndex) -> NodeKind:
        """Return the kind of a node after the operations that were read."""
        found = self._kinds.get(node)
        return self._graph.kind(node) if found is None else found

    def _read(self, operation: Operation) -> None:
        match operation:
            case CreateGroup():
                self._create(operation)
            case DeleteGroup(group, force):
                self._delete(group, force=force)
            case JoinArc():
                self._join(operation)
            case LeaveArc():
                self._leave(operation)
            case SetPolicy():
                self._set_policy(operation)
            case _:
                assert_never(operation)

    def _create(self, create: CreateGroup) -> None:
        group = create.group
        if self._context.table.home_of(group) is None:
            raise unknown_subnet(group, self._context.server)
        node = self._graph.intern(group)
        match self.kind_of(node):
            case NodeKind.GROUP:
                if not create.if_needed:
                    raise refuse(Reason.GROUP_EXISTS, f"the group {group} exists already", group=group)
                self._note_unchanged()
            case NodeKind.PROCESS:
                raise name_in_use(group, self._context, node)
            case NodeKind.ABSENT:
                self._kinds[node] = NodeKind.GROUP

    def _set_policy(self, operation: SetPolicy) -> None:
        """Require that a group may have a policy. Policies are no part of the graph."""
        group = operation.group
        self._require_group(group)
        base = base_of(group)
        if base is not None:
            raise refuse(
                Reason.INVALID_REQUEST,
                f"{group} has no policy of its own: the one of {base[0]} counts for it; set that one",
                field="group",
            )
        try:
            require_valid(operation.policy)
            if not operation.without_admin:
                require_admin(operation.policy, group)
        except InvalidPolicyError as error:
            raise refuse(Reason.INVALID_REQUEST, str(error), field=error.field) from None

    def _delete(self, group: NodeId, *, force: bool) -> None:
        node = self._require_group(group)
        parents = list(self._parents(node))
        children = list(self._children(node))
        if (parents or children) and not force:
            raise refuse(
                Reason.GROUP_IN_USE,
                f"the group {group} is in use: {self._in_words(parents, 'parent', 'parents')}, "
                f"{self._in_words(children, 'member', 'members')}; leave them first, or delete with `force`",
                group=group,
                parents="\n".join(self._named(parents)),
                children="\n".join(self._named(children)),
            )
        arcs = [(parent, node) for parent in parents] + [(node, child) for child in children]
        if arcs and not self._is_whole:
            ids = self._graph.ids
            raise MustLeaveError(group, sorted((ids[parent], ids[child]) for parent, child in arcs))
        for arc in arcs:
            self._remove(arc)
        self._kinds[node] = NodeKind.ABSENT

    def _join(self, join: JoinArc) -> None:
        parent = self._require_parent(join.parent, join.child)
        says = None if self._is_whole else authority_over(self._context, join)
        owns_parent, owns_child = says is None or says.is_judged_here, says is None or says.is_child_here
        if says is not None and says.acts_for_parent_home and self.kind_of(parent) is NodeKind.PROCESS:
            # A join would turn the process into a group here, also as a member of the groups that contain it.
            raise refuse(
                Reason.GROUP_NOT_FOUND,
                f"there is no group {join.parent}: as far as the server {self._context.server} knows, it is a process",
                group=join.parent,
                server=self._context.server,
            )
        if owns_child and join.kind is ChildKind.GROUP:
            self._require_group(join.child)
        child = self._graph.intern(join.child)
        kind = self.kind_of(child)
        if owns_child and join.kind is ChildKind.PROCESS and kind is NodeKind.GROUP:
            raise refuse(
                Reason.WRONG_KIND,
                f"{join.child} is a group; join it as one",
                group=join.parent,
                member=join.child,
            )
        if owns_child and join.kind is ChildKind.AUTO and kind is NodeKind.ABSENT:
            self._require_no_old_name(join.child)
        arc = (parent, child)
        if self._arcs.get(arc, 0) is None:
            self._joined_again.add(arc)
        if self._is_present(arc) and not self._is_rejected(arc):
            self._require_settled(join, arc)
            self._require_certainty(join)
            if join.if_needed:
                self._already_there += owns_parent
                if owns_parent:
                    self._note_unchanged()
                return
            if owns_parent:
                raise refuse(
                    Reason.ALREADY_MEMBER,
                    f"{join.child} is an immediate member of {join.parent} already",
                    group=join.parent,
                    member=join.child,
                )
        self._arcs[arc] = join.cost
        self._parent_counts[child] += 1
        if owns_child and kind is NodeKind.ABSENT:
            may_be_group = self._uncertainty.refusal_of_group(join.child)
            if may_be_group is not None:
                raise may_be_group
            self._kinds[child] = NodeKind.PROCESS

    def _require_no_old_name(self, name: NodeId) -> None:
        """Refuse to take the old name of a group for a process, unless the client says that it is one."""
        renamed_to = self._context.renames.newest(name)
        if renamed_to is not None:
            raise group_not_found(name, self._context.server, known_subnet=True, renamed_to=renamed_to)

    def _require_certainty(self, operation: JoinArc | LeaveArc) -> None:
        """Refuse to say that there is nothing to do, if the opposite may have been done and is not known here."""
        if self._is_of_client:
            is_missing = isinstance(operation, LeaveArc)
            refusal = self._uncertainty.refusal_of_arc(operation.parent, operation.child, is_missing=is_missing)
            if refusal is not None:
                raise refusal

    def _require_settled(self, join: JoinArc, arc: ArcKey) -> None:
        """Refuse to say "already there" of a suspended arc while the child's home may still report that it was left."""
        context = self._context
        if arc in self._arcs or arc not in self._graph.suspended or context.is_healed:
            return
        says = authority_over(context, join)
        if says.child_at in OTHERS_IN and self.kind_of(arc[1]) is NodeKind.GROUP:
            raise refuse(
                Reason.UNAVAILABLE,
                f"whether {join.child} is in {join.parent} is being settled with the server {says.below}; "
                "nothing was done",
                group=join.parent,
                member=join.child,
            )

    def _leave(self, leave: LeaveArc) -> None:
        self._require_judge(leave)
        if leave.is_unconfirmed:
            parent = self._graph.intern(leave.parent)
        else:
            parent = self._require_parent(leave.parent, leave.child)
        child = self._graph.index.get(leave.child)
        if child is not None and self._is_present((parent, child)) and self._fits(child, leave):
            self._remove((parent, child))
            return
        self._require_certainty(leave)
        is_judged_here = self._is_whole or authority_over(self._context, leave).is_judged_here
        if is_judged_here and not leave.if_needed:
            as_what = "" if leave.kind is ChildKind.AUTO else f" as a {leave.kind.name.lower()}"
            raise refuse(
                Reason.NOT_A_MEMBER,
                f"{leave.child} is no immediate member of {leave.parent}{as_what}",
                group=leave.parent,
                member=leave.child,
            )
        if is_judged_here:
            self._note_unchanged()

    def _note_unchanged(self) -> None:
        self._unchanged[self.number] = None

    def _require_judge(self, leave: LeaveArc) -> None:
        """Refuse a leave of an arc with one end out of reach, unless the rules let this server leave it."""
        if self._is_whole:
            return
        says = authority_over(self._context, leave)
        if (leave.is_unconfirmed and not says.is_child_here) or says.may_leave:
            return
        if leave.is_unconfirmed:
            raise refuse(
                Reason.UNAVAILABLE,
                f"the server {says.above} is joining {leave.child} to {leave.parent} just now; nothing was done",
                group=leave.parent,
                member=leave.child,
            )
        raise self._context.out_of_reach(says.above if says.rule.asked is End.CHILD else says.below)

    def _require_parent(self, parent: NodeId, child: NodeId) -> NodeIndex:
        if parent == child:
            raise self_arc(parent)
        if self._is_whole or self._context.home_of(parent) == self._context.server:
            return self._require_group(parent)
        return self._graph.intern(parent)

    def _require_group(self, group: NodeId) -> NodeIndex:
        node = self._graph.index.get(group)
        if node is None or self.kind_of(node) is not NodeKind.GROUP:
            raise no_group_here(group, self._uncertainty)
        return node

    def _remove(self, arc: ArcKey) -> None:
        child = arc[1]
        self._arcs[arc] = None
        self._parent_counts[child] -= 1
        suspended = self._graph.suspended_into.get(child, ())
        parents_left = len(self._graph.parents[child]) + len(suspended) + self._parent_counts[child]
        if parents_left == 0 and self.kind_of(child) is NodeKind.PROCESS:
            self._kinds[child] = NodeKind.ABSENT

    def _fits(self, child: NodeIndex, leave: LeaveArc) -> bool:
        kind = self.kind_of(child)
        # The kind of a child that this very update joined, and that another server owns, is known there.
        return leave.kind is ChildKind.AUTO or kind is NodeKind.ABSENT or leave.kind.value == kind

    def _is_present(self, arc: ArcKey) -> bool:
        if arc in self._arcs:
            return self._arcs[arc] is not None
        return self._known(arc) is not None

    def _is_rejected(self, arc: ArcKey) -> bool:
        """Return True if an arc is rejected and untouched by this update. A join tries it again."""
        suspended = self._graph.suspended
        return arc in suspended and arc not in self._arcs and self._context.is_rejected(suspended[arc])

    def _known(self, arc: ArcKey) -> ArcRecord | None:
        """Return the arc as it was before this update, suspended or not."""
        return self._graph.arc(*arc) or self._graph.suspended.get(arc)

    def _children(self, node: NodeIndex) -> Iterator[NodeIndex]:
        known = [*self._graph.children[node], *self._graph.suspended_from.get(node, ())]
        yield from (child for child in known if self._arcs.get((node, child), 0) is not None)
        yield from (
            child
            for (parent, child), cost in self._arcs.items()
            if parent == node and cost is not None and self._known((parent, child)) is None
        )

    def _parents(self, node: NodeIndex) -> Iterator[NodeIndex]:
        known = [*self._graph.parents[node], *self._graph.suspended_into.get(node, ())]
        yield from (parent for parent in known if self._arcs.get((parent, node), 0) is not None)
        yield from (
            parent
            for (parent, child), cost in self._arcs.items()
            if child == node and cost is not None and self._known((parent, child)) is None
        )

    def _named(self, nodes: list[NodeIndex]) -> list[NodeId]:
        return sorted(self._graph.ids[node] for node in nodes)[:NEIGHBOURS_NAMED_LIMIT]

    def _in_words(self, nodes: list[NodeIndex], one: str, many: str) -> str:
        if not nodes:
            return f"no {many}"
        named = self._named(nodes)
        more = "" if len(nodes) == len(named) else f" and {len(nodes) - len(named)} more"
        return f"{one if len(nodes) == 1 else many} {', '.join(named)}{more}"

    def _net_change(self) -> GraphDelta:
        changes = GraphDelta(
            kinds={node: kind for node, kind in self._kinds.items() if kind is not self._graph.kind(node)},
            already_there=self._already_there,
            unchanged=tuple(self._unchanged),
        )
        for (parent, child), cost in self._arcs.items():
            old = self._known((parent, child))
            # The child's kind and the cost are part of an arc. Left and joined with another kind or cost, it is another
            # arc. The kind of a child elsewhere is not known here.
            is_known = self._is_whole or self._context.owns(child) or (parent, child) not in self._joined_again
            stays = old is not None and cost == old.cost and child not in changes.kinds and is_known
            # A rejected arc is there only for its makers. Joined again, it is another arc.
            stays = stays and not (old is not None and old.suspended and self._context.is_rejected(old))
            if old is not None and not stays:
                changes.removed.append((parent, child))
            if cost is not None and not stays:
                changes.added.append((parent, child, cost))
        return changes


def collect_import(context: ServerContext, command: ImportCommand) -> GraphDelta:
    """Return the net change of a whole imported graph, or raise `RefusedError`."""
    graph, subnets, server = context.graph, context.table, context.server
    names, kinds = command.names, command.kinds
    if not (len(command.parents) == len(command.children) == len(kinds)):
        raise refuse(Reason.INVALID_REQUEST, "the import's columns are not of one length")
    wanted = kinds_wanted(command)
    known = graph.index
    existing = graph.kinds
    for position, kind in enumerate(wanted):
        name = names[position]
        if kind == NodeKind.GROUP:
            if subnets.home_of(name) is None:
                raise unknown_subnet(name, server)
            node = known.get(name)
            if node is not None and existing[node] == NodeKind.PROCESS:
                raise name_in_use(name, context, node)
        elif kind == NodeKind.PROCESS:
            node = known.get(name)
            if node is not None and existing[node] == NodeKind.GROUP:
                raise refuse(Reason.WRONG_KIND, f"{name} is a group; it cannot be imported as a process", member=name)
    changes = GraphDelta()
    nodes = graph.intern_all(names)
    for position, kind in enumerate(wanted):
        node = nodes[position]
        if kind != NodeKind.ABSENT and existing[node] == NodeKind.ABSENT:
            changes.kinds[node] = NodeKind.GROUP if kind == NodeKind.GROUP else NodeKind.PROCESS
            changes.groups_created += kind == NodeKind.GROUP
    numbers = np.array(nodes, np.uint64)
    parents, children = (np.asarray(column, np.uint32) for column in (command.parents, command.children))
    ends = numbers[parents] << np.uint64(32) | numbers[children]
    ends = ends[np.sort(np.unique(ends, return_index=True)[1])]  # Repeated arcs are left out, and the order stays.
    arcs = zip((ends >> np.uint64(32)).tolist(), (ends & np.uint64(0xFFFFFFFF)).tolist(), repeat(0))
    before = {parent: known_arcs for parent in nodes if (known_arcs := graph.children[parent])}
    changes.added = [arc for arc in arcs if arc[1] not in before.get(arc[0], ())] if before else list(arcs)
    changes.already_there = len(command.kinds) - len(changes.added)
    return changes


def kinds_wanted(command: ImportCommand) -> bytes:
    """Return the kind of each name of an import. ABSENT if no row names it."""
    groups, parents, children = (
        np.asarray(column, np.uint32) for column in (command.groups, command.parents, command.children)
    )
    kinds = state_array(command.kinds)
    unknown = kinds[(kinds != NodeKind.GROUP) & (kinds != NodeKind.PROCESS)]
    if len(unknown):
        raise refuse(Reason.INVALID_REQUEST, f"the import holds a child of kind {unknown[0]}; only 1 and 2 are known")
    wanted = np.zeros(len(command.names), np.uint8)
    processes = children[kinds == NodeKind.PROCESS]
    try:
        for positions in (groups, parents, children[kinds == NodeKind.GROUP]):
            wanted[positions] = NodeKind.GROUP
        both = processes[wanted[processes] == NodeKind.GROUP]
        wanted[processes] = NodeKind.PROCESS
    except IndexError:
        raise refuse(Reason.INVALID_REQUEST, "the import's arcs number a name that it does not hold") from None
    if len(both):
        name = command.names[both[0]]
        raise refuse(Reason.WRONG_KIND, f"{name} comes both as a group and as a process in one import", member=name)
    to_itself = parents[parents == children]
    if len(to_itself):
        raise self_arc(command.names[to_itself[0]])
    return wanted.tobytes()


def no_group_here(group: NodeId, uncertainty: Uncertainty) -> RefusedError:
    """Return the refusal for a group that this server does not know. UNAVAILABLE if the group may exist all the
    same."""
    context = uncertainty.context
    is_known = context.table.home_of(group) is not None or context.table.is_expected(group)
    may_be_group = uncertainty.refusal_of_group(group)
    if may_be_group is not None:
        return may_be_group
    node = context.graph.index.get(group)
    is_process = node is not None and context.graph.kind(node) is NodeKind.PROCESS
    return group_not_found(
        group,
        context.server,
        known_subnet=is_known,
        is_process=is_process,
        renamed_to=context.renames.newest(group),
    )


def group_not_found(
    group: NodeId,
    server: ServerId,
    *,
    known_subnet: bool,
    is_process: bool = False,
    renamed_to: NodeId | None = None,
) -> RefusedError:
    """Return the refusal for a group that does not exist, naming the server asked.

    `is_process`: True if a process has this id. `renamed_to`: present name of the group.
    """
    if renamed_to is not None:
        return refuse(
            Reason.GROUP_NOT_FOUND,
            f"there is no group {group}: it was renamed to {renamed_to}",
            group=group,
            server=server,
            renamed_to=renamed_to,
        )
    if is_process:
        return refuse(
            Reason.GROUP_NOT_FOUND,
            f"there is no group {group}: {group} is a process, such as a person (asked the server {server})",
            group=group,
            kind="process",
            server=server,
        )
    if known_subnet:
        return refuse(
            Reason.GROUP_NOT_FOUND,
            f"there is no group {group} (asked the server {server})",
            group=group,
            server=server,
        )
    return refuse(
        Reason.GROUP_NOT_FOUND,
        f"there is no group {group}: the server {server} knows no server that owns the subnet {subnet_of(group)}",
        group=group,
        subnet=subnet_of(group),
        server=server,
    )


def unknown_subnet(group: NodeId, server: ServerId) -> RefusedError:
    """Return the refusal to create a group in a subnet that no known server owns."""
    subnet = subnet_of(group)
    return refuse(
        Reason.UNKNOWN_SUBNET,
        f"the group {group} cannot be created: the server {server} knows no server that owns the subnet {subnet}",
        group=group,
        subnet=subnet,
        server=server,
    )


def name_in_use(name: NodeId, context: ServerContext, node: NodeIndex) -> RefusedError:
    """Return the refusal to create a group with a process's id, naming the groups of the process, and their servers."""
    ids, graph = context.graph.ids, context.graph
    parents = sorted([ids[parent] for parent in (*graph.parents[node], *graph.suspended_into.get(node, ()))])
    servers = sorted({context.home_of(parent) for parent in parents})
    return refuse(
        Reason.NAME_IN_USE,
        f"{name} is a process that is in use ({in_groups(context, node)}); it cannot become a group, unless it is "
        "taken over or leaves them",
        group=name,
        parents="\n".join(parents[:NEIGHBOURS_NAMED_LIMIT]),
        servers="\n".join(servers[:NEIGHBOURS_NAMED_LIMIT]),
    )


def in_groups(context: ServerContext, node: NodeIndex) -> str:
    """Return, in words, the groups that have a process as a direct member, and their servers."""
    graph = context.graph
    parents = sorted([graph.ids[parent] for parent in (*graph.parents[node], *graph.suspended_into.get(node, ()))])
    named = parents[:NEIGHBOURS_NAMED_LIMIT]
    more = "" if len(parents) == len(named) else f" and {len(parents) - len(named)} more"
    servers = ", ".join(sorted({context.home_of(parent) for parent in named}))
    return f"in {', '.join(named)}{more}, of {servers}"


def numbered(error: RefusedError, number: int, *, size: int) -> RefusedError:
    """Return a refusal that names the place of its operation in an update of `size` operations."""
    if size == 1:
        return error
    refusal = error.refusal
    why = refusal.message.removesuffix("; nothing was done")
    return refuse(
        refusal.reason,
        f"operation {number} of {size}: {why}; nothing was done",
        **{**refusal.facts, "operation": str(number)},
    )


def self_arc(name: NodeId) -> RefusedError:
    """Return the refusal of an arc from a group to itself."""
    return refuse(Reason.SELF_ARC, f"{name} cannot be made an immediate member of itself", group=name, member=name)
