"""Operations of an import: half a million of them, made one by one from columns when needed.

Groups come first, then arcs. Each has its place in the whole, from 1. A server is sent the operations that concern
it in columns too (`OperationColumns`).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np

from namegraph.events import ImportCommand
from namegraph.model.names import NodeId, ServerId
from namegraph.model.operations import ChildKind, CreateGroup, DeleteGroup, JoinArc, Operation
from namegraph.model.rows import NodeKind
from namegraph.state.context import ServerContext
from namegraph.update.admission import kinds_wanted, unknown_subnet
from namegraph.wire.columns import column_of, places_in, renumbered, state_array
from namegraph.wire.message_parts import OperationColumns, Step, Update

Nodes = dict[NodeId, None]


class ImportOperations:
    """The operations of one import, and the servers that they concern."""

    def __init__(self, context: ServerContext, command: ImportCommand) -> None:
        """Raises `RefusedError` if the import contradicts itself, or has a group that could have no home."""
        self._context = context
        self._names = command.names
        self._groups = array("I", (place for place, kind in enumerate(kinds_wanted(command)) if kind == NodeKind.GROUP))
        self._parents, self._children = array("I", command.parents), array("I", command.children)
        self._kinds = command.kinds
        self._homes = self._find_homes()
        """Home of each name. None for a foreign process, which lives where its parents do."""
        for place in self._groups:
            if self._homes[place] is None:
                raise unknown_subnet(self._names[place], context.server)

    def __len__(self) -> int:
        return len(self._groups) + len(self._parents)

    def __iter__(self) -> Iterator[tuple[int, Operation]]:
        arcs = zip(self._parents, self._children, self._kinds, strict=True)
        return enumerate(chain(_creates(self._names, self._groups), _joins(self._names, arcs)), start=1)

    def ends(self) -> dict[ServerId, tuple[Nodes, Nodes]]:
        """Return, by server, the groups to be created and parents homed there, and the children homed there.

        Called when the import begins. If it waited for a view, the owners of subnets may have changed.
        """
        self._homes = self._find_homes()
        for place in self._groups:
            # A group without an owner is refused at this server, as in any update.
            self._homes[place] = self._homes[place] or self._context.server
        found: dict[ServerId, tuple[Nodes, Nodes]] = {}
        names, homes = self._names, self._homes
        for place in self._groups:
            found.setdefault(self._home(place), ({}, {}))[0][names[place]] = None
        for place in np.unique(self._children).tolist():
            if homes[place] is not None:
                found.setdefault(self._home(place), ({}, {}))[1][names[place]] = None
        is_foreign = np.array([home is None for home in homes], bool)
        for arc in np.flatnonzero(is_foreign[np.asarray(self._children)]).tolist():
            found[self._home(self._parents[arc])][1][names[self._children[arc]]] = None
        return found

    def concerning(self, server: ServerId) -> OperationColumns:
        """Return the operations that concern a node of a server."""
        is_there = np.array([home == server for home in self._homes], bool)
        all_groups, all_parents, all_children = map(np.asarray, (self._groups, self._parents, self._children))
        groups = np.flatnonzero(is_there[all_groups]).astype(np.uint32)
        arcs = np.flatnonzero(is_there[all_parents] | is_there[all_children]).astype(np.uint32)
        names, (created, parents, children) = renumbered(
            self._names, all_groups[groups], all_parents[arcs], all_children[arcs]
        )
        return OperationColumns(
            names,
            column_of(groups + np.uint32(1)),
            column_of(created),
            column_of(arcs + np.uint32(len(self._groups) + 1)),
            column_of(parents),
            column_of(children),
            state_array(self._kinds)[arcs].tobytes(),
        )

    def _find_homes(self) -> list[ServerId | None]:
        home_of = self._context.table.home_of
        return [home_of(name) for name in self._names]

    def _home(self, place: int) -> ServerId:
        home = self._homes[place]
        assert home is not None, "groups have a home"
        return home


def steps_in(update: Update) -> Iterable[tuple[int, Step]]:
    """Return the operations of an update that concern the server it was sent to, each with its place in the whole."""
    return operations_in(update) if update.brought is not None else update.operations


def operations_in(update: Update) -> Iterable[tuple[int, Operation]]:
    """Return those operations of `steps_in` that a client asked for."""
    columns = update.brought
    if columns is None:
        return [(number, step) for number, step in update.operations if isinstance(step, Operation)]
    names = columns.names
    creates = _creates(names, places_in(columns.groups))
    arcs = zip(places_in(columns.parents), places_in(columns.children), columns.kinds, strict=True)
    return chain(
        zip(places_in(columns.group_places), creates, strict=True),
        zip(places_in(columns.arc_places), _joins(names, arcs), strict=True),
    )


def groups_wanted(update: Update) -> dict[NodeId, bool]:
    """Return the groups that an update asks to be present (True), or absent (False)."""
    columns = update.brought
    if columns is not None:
        return dict.fromkeys((columns.names[place] for place in places_in(columns.groups)), True)
    steps = [step for _, step in update.operations if isinstance(step, CreateGroup | DeleteGroup)]
    return {step.group: isinstance(step, CreateGroup) for step in steps}


def creates(update: Update, group: NodeId) -> bool:
    """Return True if an update asks for a group to be present."""
    return groups_wanted(update).get(group, False)


def _creates(names: Sequence[NodeId], groups: Iterable[int]) -> Iterator[CreateGroup]:
    return (CreateGroup(names[group], if_needed=True) for group in groups)


def _joins(names: Sequence[NodeId], arcs: Iterable[tuple[int, int, int]]) -> Iterator[JoinArc]:
    kinds = {kind.value: kind for kind in ChildKind}
    return (JoinArc(names[parent], names[child], kinds[kind], 0, True) for parent, child, kind in arcs)
