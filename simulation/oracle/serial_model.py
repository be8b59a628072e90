"""The brute-force model: the committed updates one after another, by final priority, on one plain set of arcs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import rustworkx

from namegraph import (
    Committed,
    CreateGroup,
    DeleteGroup,
    JoinArc,
    LeaveArc,
    LeaveEverywhere,
    NodeId,
    Operation,
    Outcome,
    Priority,
    RenameGroups,
    SetPolicy,
    TakeOver,
    UpdateCommand,
    subnet_of,
)
from simulation.oracle.violation import InvariantViolatedError

ArcName = tuple[NodeId, NodeId]


class TrueGraph:
    """The true arcs with their costs, and facts derived from them."""

    def __init__(self, arcs: Mapping[ArcName, int]) -> None:
        self.arcs = dict(arcs)
        self.children: dict[NodeId, list[NodeId]] = {}
        self.parents: dict[NodeId, list[NodeId]] = {}
        graph: rustworkx.PyDiGraph[NodeId, None] = rustworkx.PyDiGraph()
        nodes = sorted({node for arc in self.arcs for node in arc})
        place = {node: graph.add_node(node) for node in nodes}
        for parent, child in sorted(self.arcs):
            self.children.setdefault(parent, []).append(child)
            self.parents.setdefault(child, []).append(parent)
            graph.add_edge(place[parent], place[child], None)
        self._loop_of: dict[NodeId, frozenset[NodeId]] = {}
        for component in rustworkx.strongly_connected_components(graph):
            inside = frozenset(graph[number] for number in component)
            self._loop_of.update(dict.fromkeys(inside, inside))

    def loop_of(self, node: NodeId) -> frozenset[NodeId]:
        """Return the nodes of a node's derived node."""
        return self._loop_of.get(node, frozenset([node]))

    def above(self, nodes: Iterable[NodeId]) -> set[NodeId]:
        """Return the nodes and their ancestors."""
        return _closure(self.parents, nodes)

    def below(self, nodes: Iterable[NodeId]) -> set[NodeId]:
        """Return the nodes and their descendants."""
        return _closure(self.children, nodes)

    def blocked(self) -> dict[ArcName, set[NodeId]]:
        """Return the originators that must not cross each normal arc (docs/protocol-updates.md, "Every duplicate is
        blocked in advance").

        Every normal arc is a key of the result.
        """
        entering: dict[frozenset[NodeId], list[tuple[int, NodeId, NodeId]]] = {}
        for (parent, child), cost in self.arcs.items():
            sink = self.loop_of(child)
            if parent not in sink:
                entering.setdefault(sink, []).append((cost, parent, child))
        found = {}
        for arcs in entering.values():
            reached: set[NodeId] = set()
            for _, parent, child in sorted(arcs):
                above = self.above([parent])
                found[parent, child] = above & reached
                reached |= above
        return found


@dataclass(slots=True)
class TrueState:
    """The state after some committed updates."""

    groups: set[NodeId]
    arcs: dict[ArcName, int]
    """Costs by arc."""
    renamed: dict[NodeId, NodeId] = field(default_factory=dict)
    """Present names of renamed groups, by their old names."""

    def after(self, operations: Iterable[Operation]) -> TrueState | None:
        """Return the state after an update. None if the update must be refused."""
        state = self._copy()
        is_possible = all(state._do(operation) for operation in operations)
        return state if is_possible else None

    def after_command(self, command: UpdateCommand) -> TrueState | None:
        """Return the state after a command. None if the command must be refused."""
        match command.composite:
            case None:
                return self.after(command.operations)
            case LeaveEverywhere(member, subnet):
                leaves = [arc for arc in self.arcs if arc[1] == member and subnet in (None, subnet_of(arc[0]))]
                return self.after(LeaveArc(*arc) for arc in leaves)
            case TakeOver(group, if_needed):
                return self._taken_over(group, if_needed=if_needed)
            case RenameGroups(renames):
                return self._renamed(renames)

    def _taken_over(self, group: NodeId, *, if_needed: bool) -> TrueState | None:
        state = self._copy()
        if group in state.groups:
            return state if if_needed else None
        state.groups.add(group)
        state.renamed.pop(group, None)
        return state

    def _renamed(self, renames: Sequence[tuple[NodeId, NodeId]]) -> TrueState | None:
        names = {old: new for old, new in renames if old in self.groups}
        if renames[0][0] not in names or any(new in self.groups or self._arcs_of(new) for new in names.values()):
            return None
        state = self._copy()
        state.groups = {names.get(group, group) for group in self.groups}
        state.arcs = {
            (names.get(parent, parent), names.get(child, child)): self.arcs[parent, child]
            for parent, child in self.arcs
        }
        for old, new in names.items():
            state.renamed.pop(new, None)
            state.renamed = {name: new if to == old else to for name, to in state.renamed.items()} | {old: new}
        return state

    def _copy(self) -> TrueState:
        return TrueState(set(self.groups), dict(self.arcs), dict(self.renamed))

    def carried_out(self, operations: Iterable[Operation]) -> TrueState:
        """Return the state after an update that was done, whatever the state before it."""
        state = self._copy()
        carry_out(state.arcs, operations)
        for operation in operations:
            if isinstance(operation, CreateGroup):
                state.groups.add(operation.group)
            elif isinstance(operation, DeleteGroup):
                state.groups.discard(operation.group)
        return state

    def _do(self, operation: Operation) -> bool:
        match operation:
            case SetPolicy(group):
                return group in self.groups
            case CreateGroup(group, if_needed):
                if group in self.groups:
                    return if_needed
                self.groups.add(group)
                self.renamed.pop(group, None)
                return not self._arcs_of(group)
            case DeleteGroup(group, force):
                arcs = self._arcs_of(group)
                if group not in self.groups or (arcs and not force):
                    return False
                self.groups.discard(group)
                self.renamed = {name: to for name, to in self.renamed.items() if to != group}
                for arc in arcs:
                    del self.arcs[arc]
                return True
            case JoinArc(parent, child):
                if parent not in self.groups or (parent, child) in self.arcs:
                    return parent in self.groups and operation.if_needed
                if child in self.renamed and child not in self.groups and not self._arcs_of(child):
                    return False
                self.arcs[parent, child] = operation.cost
                return True
            case LeaveArc(parent, child):
                if (parent, child) not in self.arcs:
                    return parent in self.groups and operation.if_needed
                del self.arcs[parent, child]
                return True

    def _arcs_of(self, node: NodeId) -> list[ArcName]:
        return [arc for arc in self.arcs if node in arc]


class KnownDifferently(Protocol):
    """Arcs and groups that servers knew differently for a while. No serial run can judge an update of these."""

    def touches(self, operations: Sequence[Operation]) -> bool:
        """True if an update depends on arcs or groups that servers knew differently."""


Watch = Callable[[UpdateCommand, Outcome, TrueState, TrueState], None]


def run_serially(
    commands: Mapping[int, UpdateCommand],
    answers: Mapping[int, Outcome],
    places: Mapping[int, Priority],
    groups: Iterable[NodeId],
    watch: Watch | None = None,
    apart: KnownDifferently | None = None,
    arcs: Mapping[ArcName, int] | None = None,
) -> TrueState:
    """Return the state after all updates in the order of final priorities. Raises if an outcome differs from the
    answer.

    `groups`, `arcs`: the state at the start. A refusal without a place, such as a passed deadline, may stand anywhere.
    `watch`: called for each commit with the command, its outcome, and the states before and after.
    """
    state = TrueState(set(groups), dict(arcs or {}))
    for _, ticket, before, after in states(commands, answers, places, groups, apart, arcs):
        if watch is not None and isinstance(answers[ticket], Committed):
            watch(commands[ticket], answers[ticket], before, after)
        state = after
    for ticket, outcome in answers.items():
        is_nothing = ticket in commands and isinstance(commands[ticket].composite, LeaveEverywhere)
        if ticket in commands and ticket not in places and isinstance(outcome, Committed) and not is_nothing:
            raise InvariantViolatedError(f"I8: {commands[ticket]} was committed and has no place")
    return state


def states(
    commands: Mapping[int, UpdateCommand],
    answers: Mapping[int, Outcome],
    places: Mapping[int, Priority],
    groups: Iterable[NodeId],
    apart: KnownDifferently | None = None,
    arcs: Mapping[ArcName, int] | None = None,
) -> Iterator[tuple[Priority, int, TrueState, TrueState]]:
    """Yield updates in the order of final priorities: place, ticket, states before and after. Raises as
    `run_serially`.
    """
    state = TrueState(set(groups), dict(arcs or {}))
    # A server may refuse right after a commit of the same priority, so commits come first.
    in_order = sorted(
        (places[ticket], not isinstance(answers[ticket], Committed), ticket) for ticket in commands if ticket in places
    )
    for place, is_refused, ticket in in_order:
        operations = commands[ticket].operations
        after = state.after_command(commands[ticket])
        if (after is None) != is_refused and apart is not None and apart.touches(operations):
            after = None if is_refused else state.carried_out(operations)
        elif (after is None) != is_refused:
            possible = "impossible" if after is None else "possible"
            raise InvariantViolatedError(f"I8: {operations} at {place} are {possible}; {answers[ticket]}")
        yield place, ticket, state, after or state
        state = after or state


def carry_out_command(arcs: dict[ArcName, int], command: UpdateCommand) -> None:
    """Change the arcs as a committed command did, whatever its kind."""
    match command.composite:
        case None:
            carry_out(arcs, command.operations)
        case LeaveEverywhere(member, subnet):
            for arc in [arc for arc in arcs if arc[1] == member and subnet in (None, subnet_of(arc[0]))]:
                del arcs[arc]
        case RenameGroups(renames):
            _rename(arcs, dict(renames))
        case TakeOver():
            pass


def _rename(arcs: dict[ArcName, int], names: Mapping[NodeId, NodeId]) -> None:
    for (parent, child), cost in list(arcs.items()):
        del arcs[parent, child]
        arcs[names.get(parent, parent), names.get(child, child)] = cost


def carry_out(arcs: dict[ArcName, int], operations: Iterable[Operation]) -> None:
    """Change the arcs as the operations of a committed update did."""
    for operation in operations:
        match operation:
            case JoinArc(parent, child):
                arcs.setdefault((parent, child), operation.cost)
            case LeaveArc(parent, child):
                arcs.pop((parent, child), None)
            case DeleteGroup(group):
                for arc in [arc for arc in arcs if group in arc]:
                    del arcs[arc]
            case CreateGroup() | SetPolicy():
                pass


def _closure(neighbours: Mapping[NodeId, list[NodeId]], starts: Iterable[NodeId]) -> set[NodeId]:
    reached = set(starts)
    pending = list(reached)
    while pending:
        for node in neighbours.get(pending.pop(), ()):
            if node not in reached:
                reached.add(node)
                pending.append(node)
    return reached
