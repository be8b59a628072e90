"""Findings of one server about a regular import whose turn has come, computed on whole columns at once.

An import brings half a million arcs, nearly all of them new, between groups that it creates itself. Arcs that are
known here already are looked at one by one. If anything is irregular, this module returns None. Then the operations
are read one after another (`admission`), which finds the first operation that cannot be done, and the reason.

Source: docs/protocol-updates.md, "What each server judges".
"""

from __future__ import annotations

from itertools import compress

import numpy as np

from namegraph.graph.name_graph import NameGraph
from namegraph.model.operations import ChildKind
from namegraph.model.rows import NodeIndex, NodeKind
from namegraph.replication.ancestry_store import AncestryStore
from namegraph.state.context import NEVER, ServerContext
from namegraph.state.uncertainty import Uncertainty
from namegraph.wire.columns import PRESENT, Numbers, column_of, place_array, renumbered, state_array
from namegraph.wire.message_parts import ArcColumns, ArcId, ChildTruth, GroupChange, OperationColumns

BroughtFindings = tuple[tuple[GroupChange, ...], ArcColumns, tuple[ChildTruth, ...], int]
"""Groups, arcs, children, and number of arcs that are there already, as in `Findings`."""


def prepare_import(context: ServerContext, records: AncestryStore, columns: OperationColumns) -> BroughtFindings | None:
    """Return the findings about an import. None if it must be read one operation after another."""
    graph, names = context.graph, columns.names
    homes = context.table.homes_of(names)
    are_in_view = all(context.is_in_view(home) for home in dict.fromkeys(homes) if home is not None)
    if not (are_in_view and Uncertainty(context).is_graph_all):
        return None
    numbers = [graph.index.get(name) for name in names]
    groups, parents, children = map(place_array, (columns.groups, columns.parents, columns.children))
    kinds = state_array(columns.kinds)
    has_home = np.array([home is not None for home in homes], bool)
    is_owned = np.array([home is None or home == context.server for home in homes], bool)
    # A foreign process lives where its parent does.
    owns_parent, owns_child = is_owned[parents], np.where(has_home[children], is_owned[children], is_owned[parents])
    before = np.array([NodeKind.ABSENT if node is None else graph.kinds[node] for node in numbers], np.uint8)
    is_group = before == NodeKind.GROUP
    is_group[groups] = True
    as_group, as_process = kinds == ChildKind.GROUP.value, kinds == ChildKind.PROCESS.value
    is_right = (
        has_home[groups].all()
        and (before[groups] != NodeKind.PROCESS).all()
        and (parents != children).all()
        and (as_group | as_process).all()
        and is_group[parents][owns_parent].all()
        and (is_group[children] == as_group)[owns_child].all()
    )
    if not is_right:
        return None
    is_new = _are_new(graph, parents, children, numbers)
    is_created = np.zeros(len(names), bool)
    is_created[groups] = True
    is_created &= is_owned & (before == NodeKind.ABSENT)
    kind_after = [NodeKind.GROUP if found else NodeKind.PROCESS for found in is_group]
    versions = [NEVER if node is None else records.version_of(node) for node in numbers]
    return (
        tuple(GroupChange(name, is_present=True) for name in compress(names, is_created)),
        _joined(context, columns, is_new & owns_parent),
        tuple(
            ChildTruth(names[child], kind_after[child], versions[child])
            for child in np.unique(children[owns_child]).tolist()
        ),
        int(np.count_nonzero(owns_parent & ~is_new)),
    )


def _are_new(graph: NameGraph, parents: Numbers, children: Numbers, numbers: list[NodeIndex | None]) -> Numbers:
    """Return, for each arc, True if it is neither present nor a repetition of an earlier arc."""
    is_new = np.zeros(len(parents), bool)
    _, first_places = np.unique(parents.astype(np.uint64) << np.uint64(32) | children, return_index=True)
    is_new[first_places] = True
    is_known = np.array([node is not None for node in numbers], bool)
    for arc in np.flatnonzero(is_new & is_known[parents] & is_known[children]).tolist():
        parent, child = numbers[parents[arc]], numbers[children[arc]]
        assert parent is not None
        assert child is not None
        is_new[arc] = graph.arc(parent, child) is None
    return is_new


def _joined(context: ServerContext, columns: OperationColumns, chosen: Numbers) -> ArcColumns:
    """Return some of the arcs, each with the version after the one at which it was left."""
    parents, children = place_array(columns.parents)[chosen], place_array(columns.children)[chosen]
    versions = np.ones(len(parents), np.uint64)
    if context.graph.tombstones or context.forgotten:
        names = columns.names
        for arc, (parent, child) in enumerate(zip(parents.tolist(), children.tolist(), strict=True)):
            versions[arc] = context.version_before(ArcId(names[parent], names[child])) + 1
    names, (new_parents, new_children) = renumbered(columns.names, parents, children)
    count = len(parents)
    return ArcColumns(
        names,
        column_of(new_parents),
        column_of(new_children),
        bytes([PRESENT]) * count,
        bytes([NodeKind.ABSENT]) * count,
        bytes(8 * count),
        column_of(versions),
    )
