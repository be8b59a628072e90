"""The columns of an outcome, prepared for comparison: names as numbers, and which nodes live here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from namegraph.model.names import NodeId
from namegraph.model.rows import NodeKind
from namegraph.state.context import ServerContext
from namegraph.wire.columns import PRESENT, Numbers, place_array, places_in, state_array
from namegraph.wire.update_messages import UpdateOutcome

UNNAMED = 2**32 - 1
"""The number of a name that no arc of the outcome has: more than there are ever names."""


@dataclass(frozen=True, slots=True)
class CommitColumns:
    """One server's share of an outcome."""

    share: UpdateOutcome
    numbers: Mapping[NodeId, int]
    """Of the ends of arcs."""
    keys: Numbers
    """Of each arc one number, made of those of its ends."""
    joined: Numbers
    """Whether each arc is there afterwards."""
    joined_keys: Numbers
    """The keys of arcs that are there afterwards, sorted."""
    is_ours: Numbers
    """Of each end whether it is at home here."""
    is_theirs: Numbers
    """Of each end whether it is at home at another server."""
    relayed: Mapping[NodeId, None]
    """The nodes whose records are relayed."""
    relay_places: Numbers
    """What numbers the names in relayed records have among the ends of arcs."""
    is_ours_relayed: Numbers
    """Of each name in relayed records whether it is at home here, or a foreign process that lives here."""
    is_consistent: bool
    """Whether no name, arc or record comes twice."""


def read_said(share: UpdateOutcome, context: ServerContext) -> CommitColumns:
    """Prepare an outcome for comparison."""
    arcs, relay = share.arcs, share.relay
    server = context.server
    # Loops, and no calls of `map`: other threads run between two steps of a loop.
    numbers = {name: number for number, name in enumerate(arcs.names)}
    keys = arc_keys(place_array(arcs.parents), place_array(arcs.children))
    relayed = {relay.names[place]: None for place in places_in(relay.nodes)}
    joined = state_array(arcs.present) == PRESENT
    homes = context.table.homes_of(arcs.names)
    in_order = np.sort(keys)
    return CommitColumns(
        share,
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
    """Whether nodes are at home here, or are known here as foreign processes."""
    homes = context.table.homes_of(names)
    return [
        home == context.server or (home is None and _is_process(name, context))
        for name, home in zip(names, homes, strict=True)
    ]


def _is_process(name: NodeId, context: ServerContext) -> bool:
    node = context.graph.index.get(name)
    return node is not None and context.graph.kind(node) is NodeKind.PROCESS


def places_among(numbers: Mapping[NodeId, int], names: Sequence[NodeId]) -> Numbers:
    """The numbers of these names among the ends of arcs."""
    return np.fromiter((numbers.get(name, UNNAMED) for name in names), np.uint32, len(names))


def arc_keys(parents: Numbers, children: Numbers) -> Numbers:
    """One number for each arc."""
    return parents.astype(np.uint64) << np.uint64(32) | children


def are_among(keys: Numbers, in_order: Numbers) -> Numbers:
    """For each key, whether it is among the sorted keys."""
    if not len(in_order):
        return np.zeros(len(keys), bool)
    places = np.minimum(np.searchsorted(in_order, keys), len(in_order) - 1)
    found: Numbers = in_order[places] == keys
    return found


def are_same_rows(some: Sequence[Numbers], others: Sequence[Numbers]) -> bool:
    """Whether two tables have the same rows in any order; the first column tells rows apart."""
    if len(some[0]) != len(others[0]):
        return False
    if not np.array_equal(some[0], others[0]):
        order, other_order = np.argsort(some[0]), np.argsort(others[0])
        some, others = [column[order] for column in some], [column[other_order] for column in others]
    return all(np.array_equal(column, other) for column, other in zip(some, others, strict=True))
