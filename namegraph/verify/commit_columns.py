"""The columns of an outcome, prepared for comparison: names as numbers, and homes of nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from namegraph.model.names import NodeId
from namegraph.model.rows import NodeKind
from namegraph.state.context import ServerContext
from namegraph.wire.arc_sets import arcs_in_columns, records_in_columns
from namegraph.wire.columns import PRESENT, Numbers, place_array, places_in, state_array
from namegraph.wire.message_parts import ArcColumns, RecordColumns
from namegraph.wire.update_messages import UpdateOutcome

UNNAMED = 2**32 - 1
"""Number of a name that no arc of the outcome has, larger than any real number of a name."""


@dataclass(frozen=True, slots=True)
class CommitColumns:
    """One server's share of an outcome."""

    share: UpdateOutcome
    arcs: ArcColumns
    """The arcs of the share, however few they are."""
    relay: RecordColumns
    """The relayed records of the share, however few they are."""
    numbers: Mapping[NodeId, int]
    """Number of each end of an arc."""
    keys: Numbers
    """One number for each arc, made of the numbers of its ends."""
    joined: Numbers
    """For each arc, True if it is present afterwards."""
    joined_keys: Numbers
    """Keys of the arcs that are present afterwards, sorted."""
    is_ours: Numbers
    """For each end, True if this server is its home."""
    is_theirs: Numbers
    """For each end, True if another server is its home."""
    relayed: Mapping[NodeId, None]
    """Nodes whose records are relayed."""
    relay_places: Numbers
    """Numbers, among the ends of arcs, of the names in relayed records."""
    is_ours_relayed: Numbers
    """For each name in relayed records, True if it lives here: as an owned node, or as a foreign process."""
    is_consistent: bool
    """True if no name, arc or record comes twice."""


def read_said(share: UpdateOutcome, context: ServerContext) -> CommitColumns:
    """Prepare an outcome for comparison."""
    arcs, relay = arcs_in_columns(share.arcs), records_in_columns(share.relay)
    server = context.server
    # These are loops, not calls of `map`: other threads can run between two steps of a loop.
    numbers = {name: number for number, name in enumerate(arcs.names)}
    keys = arc_keys(place_array(arcs.parents), place_array(arcs.children))
    relayed = {relay.names[place]: None for place in places_in(relay.nodes)}
    joined = state_array(arcs.present) == PRESENT
    homes = context.table.homes_of(arcs.names)
    in_order = np.sort(keys)
    return CommitColumns(
        share,
        arcs,
        relay,
        numbers,
        keys,
        joined,
        in_order if joined.all() else np.sort(keys[joined]),
        np.array([home == server for home in homes], bool),
        np.array([home not in (server, None) for home in homes], bool),
        relayed,
        places_among(numbers, relay.names),
        np.array(are_here(relay.names, context), bool),
        len(numbers) == len(arcs.names)
        and len(relayed) == len(relay.nodes) // 4
        and not (in_order[1:] == in_order[:-1]).any(),
    )


def are_here(names: Sequence[NodeId], context: ServerContext) -> list[bool]:
    """Return, for each name, True if this server is its home, or knows it as a foreign process."""
    homes = context.table.homes_of(names)
    return [
        home == context.server or (home is None and _is_process(name, context))
        for name, home in zip(names, homes, strict=True)
    ]


def _is_process(name: NodeId, context: ServerContext) -> bool:
    node = context.graph.index.get(name)
    return node is not None and context.graph.kind(node) is NodeKind.PROCESS


def places_among(numbers: Mapping[NodeId, int], names: Sequence[NodeId]) -> Numbers:
    """Return the numbers of these names among the ends of arcs."""
    return np.fromiter((numbers.get(name, UNNAMED) for name in names), np.uint32, len(names))


def arc_keys(parents: Numbers, children: Numbers) -> Numbers:
    """Return one number for each arc."""
    return parents.astype(np.uint64) << np.uint64(32) | children


def are_among(keys: Numbers, in_order: Numbers) -> Numbers:
    """Return, for each key, True if it is among the sorted keys."""
    if not len(in_order):
        return np.zeros(len(keys), bool)
    places = np.minimum(np.searchsorted(in_order, keys), len(in_order) - 1)
    found: Numbers = in_order[places] == keys
    return found


def are_same_rows(some: Sequence[Numbers], others: Sequence[Numbers]) -> bool:
    """Return True if two tables have the same rows in any order. The first column tells rows apart."""
    if len(some[0]) != len(others[0]):
        return False
    if not np.array_equal(some[0], others[0]):
        order, other_order = np.argsort(some[0]), np.argsort(others[0])
        some, others = [column[order] for column in some], [column[other_order] for column in others]
    return all(np.array_equal(column, other) for column, other in zip(some, others, strict=True))
