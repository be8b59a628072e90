"""Checks of the ancestry in a `Commit`: records of this server's nodes, its groups in other records, and loops.

    a relayed record of an own node    equals the record held here, or that with the arcs of this outcome
    an arc that leaves an own group    is there, or joined by this outcome
    a loop with an own group           has arcs into and out of that group afterwards

A record or an arc may also be ahead because of another update for which this server is ready. The outcome of that
update is on the way.

Source: docs/protocol-updates.md, "Ancestry records" and "What a wrong peer can do".
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from itertools import accumulate, compress

import numpy as np

from namegraph.graph.name_graph import NameGraph
from namegraph.model.names import NodeId
from namegraph.model.priorities import Priority
from namegraph.model.rows import NodeIndex
from namegraph.replication.ancestry_store import AncestryStore
from namegraph.state.context import ServerContext
from namegraph.update.import_plan import creates
from namegraph.update.order_queue import Entries
from namegraph.verify.commit_columns import UNNAMED, CommitColumns, arc_keys, are_among, are_here, are_same_rows
from namegraph.wire.arc_sets import each_record, numbered_arcs
from namegraph.wire.columns import PRESENT, Numbers, number_array, place_array, places_in, rows_of
from namegraph.wire.message_parts import Ancestry, Vnid
from namegraph.wire.update_messages import UpdateOutcome

_Arc = tuple[int, int, int]
"""Cost, version, writer."""


def are_records_agreed(
    said: CommitColumns,
    groups: Mapping[NodeId, bool],
    *,
    context: ServerContext,
    records: AncestryStore,
    entries: Entries,
) -> bool:
    """Return True if the relayed records agree with this server's nodes and arcs.

    `groups`: groups that the update creates or deletes here.
    """
    relay, is_ours = said.relay, said.is_ours_relayed
    if not is_ours.any():
        return True
    nodes, parents = place_array(relay.nodes), place_array(relay.parents)
    heads = np.repeat(np.arange(len(nodes)), place_array(relay.degrees))
    is_own = is_ours[nodes]
    leaving = np.flatnonzero(is_ours[parents] & ~is_own[heads])
    return _are_there(said, parents[leaving], nodes[heads[leaving]], context, entries) and _OwnRecords(
        said, groups, context, records, entries
    ).are_agreed(np.flatnonzero(is_own).tolist(), heads)


def _are_there(said: CommitColumns, parents: Numbers, nodes: Numbers, context: ServerContext, entries: Entries) -> bool:
    """Return True if these arcs from groups of this server are present, on the way, or left by a later update.

    An update that affects none of the same nodes of this server may be done here before an earlier one.
    """
    if not len(parents):
        return True
    names, graph, places = said.relay.names, context.graph, said.relay_places
    final = said.share.final
    is_brought = are_among(arc_keys(places[parents], places[nodes]), said.joined_keys)
    rest = np.flatnonzero(~is_brought)
    if not len(rest):
        return True
    coming = {arc for entry in entries.ready.values() for arc in entry.joins}
    for parent_place, node_place in zip(parents[rest].tolist(), nodes[rest].tolist(), strict=True):
        parent, node = graph.index.get(names[parent_place]), graph.index.get(names[node_place])
        is_there = parent is not None and node is not None and node in graph.children[parent]
        tombstone = graph.tombstones.get((parent, node)) if parent is not None and node is not None else None
        is_there = is_there or (tombstone is not None and tombstone.writer >= final.counter)
        if not is_there and (names[parent_place], names[node_place]) not in coming:
            return False
    return True


def are_held_here(ancestry: Ancestry, *, context: ServerContext, records: AncestryStore, entries: Entries) -> bool:
    """Return True if records of this server's nodes, as another server holds them, are right.

    Each record must equal the own one, be older, or be on the way.
    """
    graph, home_of = context.graph, context.table.home_of
    for record in each_record(ancestry):
        if home_of(record.node) != context.server:
            continue
        node = graph.index.get(record.node)
        held = None if node is None else records.version_of(node)
        if node is not None and record.version == held:
            in_arcs = {arc.parent: (arc.cost, arc.version, arc.writer) for arc in record.in_arcs}
            if record.vnid != records.vnid_of(node) or in_arcs != _held(graph, node):
                return False
        elif (held is None or record.version > held) and not _is_ahead(record.version, entries):
            return False
    return True


class _OwnRecords:
    """The records of this server's own nodes, as an outcome relays them."""

    def __init__(
        self,
        said: CommitColumns,
        groups: Mapping[NodeId, bool],
        context: ServerContext,
        records: AncestryStore,
        entries: Entries,
    ) -> None:
        self._said = said
        self._share = said.share
        self._relay = said.relay
        self._groups = groups
        self._context = context
        self._graph = context.graph
        self._records = records
        self._entries = entries
        self._vnids = dict(said.share.renamed)
        self._ends = [0, *accumulate(places_in(said.relay.degrees))]

    def are_agreed(self, places: list[int], heads: Numbers) -> bool:
        """Return True if these records are right.

        `places`: places of these records among all. `heads`: for each in-arc, the place of its record.
        """
        graph, relay, final, groups = self._graph, self._relay, self._share.final, self._groups
        nodes, vnids, versions = places_in(relay.nodes), places_in(relay.vnid_numbers), places_in(relay.version_numbers)
        all_vnids, renamed = (None, *relay.vnids), self._vnids
        new: list[int] = []
        changed: list[int] = []
        for place in places:
            name, vnid, version = relay.names[nodes[place]], all_vnids[vnids[place]], relay.priorities[versions[place]]
            node = graph.index.get(name)
            held = None if node is None else self._records.version_of(node)
            if held is not None and version < held:
                continue  # It is ignored, like any older record.
            is_group = groups[name] if name in groups else graph.group(name) is not None
            if not (is_group or (version != final and self._is_created_ahead(name, version))):
                return False
            if version == final:
                before = None if node is None else self._records.vnid_of(node)
                if vnid != renamed.get(name, before):
                    return False
                (new if node is None or not graph.parents[node] else changed).append(place)
            elif node is not None and version == held:
                if vnid != self._records.vnid_of(node) or self._in_arcs(place) != _held(self._graph, node):
                    return False
            elif not _is_ahead(version, self._entries):
                return False
        return self._are_as_brought(new, heads) and self._follow(changed)

    def _is_created_ahead(self, group: NodeId, version: Priority) -> bool:
        """Return True if an update for which this server is ready creates the group at this version."""
        ahead = (entry for entry in self._entries.ready.values() if entry.final == version)
        return any(creates(self._entries.updates[entry.update_id], group) for entry in ahead)

    def _are_as_brought(self, places: list[int], heads: Numbers) -> bool:
        """Return True if records of nodes without in-arcs so far hold exactly the arcs of this outcome, as whole
        columns."""
        if not places:
            return True
        relay, columns = self._relay, self._said.arcs
        among = self._said.relay_places
        nodes = among[place_array(relay.nodes)]
        is_chosen = np.zeros(len(nodes), bool)
        is_chosen[places] = True
        is_theirs = is_chosen[heads]
        if not (number_array(relay.writers)[is_theirs] == self._share.final.counter).all():
            return False
        is_among = np.zeros(len(columns.names), bool)
        is_among[nodes[is_chosen & (nodes != UNNAMED)]] = True
        joined = self._said.joined & is_among[place_array(columns.children)]
        return are_same_rows(
            (
                arc_keys(among[place_array(relay.parents)], nodes[heads])[is_theirs],
                number_array(relay.costs)[is_theirs],
                number_array(relay.versions)[is_theirs],
            ),
            (
                self._said.keys[joined],
                number_array(columns.costs)[joined],
                number_array(columns.versions)[joined],
            ),
        )

    def _follow(self, places: list[int]) -> bool:
        """Return True if records equal those that are held here, with the arcs of this outcome."""
        relay, index = self._relay, self._graph.index
        nodes = places_in(relay.nodes)
        names = {relay.names[nodes[place]]: place for place in places}
        expected = {name: _held(self._graph, index[name]) for name in names}
        columns = self._said.arcs
        for parent, child, state, _, cost, version in rows_of(columns) if names else ():
            in_arcs = expected.get(columns.names[child])
            if in_arcs is None:
                continue
            if state == PRESENT:
                in_arcs[columns.names[parent]] = (cost, version, self._share.final.counter)
            else:
                in_arcs.pop(columns.names[parent], None)
        return all(self._in_arcs(place) == expected[name] for name, place in names.items())

    def _in_arcs(self, place: int) -> dict[NodeId, _Arc]:
        """Return the in-arcs of one relayed record."""
        relay, where = self._relay, slice(*self._ends[place : place + 2])
        columns = (relay.costs, relay.versions, relay.writers)
        tails = place_array(relay.parents)[where].tolist()
        numbers = zip(*(number_array(column)[where].tolist() for column in columns), strict=True)
        return {relay.names[tail]: arc for tail, arc in zip(tails, numbers, strict=True)}


def _is_ahead(version: Priority, entries: Entries) -> bool:
    """Return True if a record is newer because of another update for which this server is ready."""
    return any(entry.final == version for entry in entries.ready.values())


def _held(graph: NameGraph, node: NodeIndex) -> dict[NodeId, _Arc]:
    """Return the in-arcs of a node that are known here."""
    return {graph.ids[arc.parent]: (arc.cost, arc.version, arc.writer) for arc in graph.parents[node].values()}


def are_loops_agreed(
    share: UpdateOutcome, groups: Mapping[NodeId, bool], *, context: ServerContext, records: AncestryStore
) -> bool:
    """Return True if each virtual node is possible, and passes through each of its components that lives here."""
    vnids = dict(share.renamed)
    if len(vnids) != len(share.renamed):
        return False
    inside: dict[Vnid, set[NodeId]] = {}
    for component, vnid in share.renamed:
        if vnid is not None:
            inside.setdefault(vnid, set()).add(component)
    for vnid, components in inside.items():
        if len(components) == 1 or vnid.smallest != min(components) or vnid.made_at != share.final:
            return False
    ours = list(compress(vnids, are_here(tuple(vnids), context)))
    if not ours:
        return True
    joined, left = _arcs_among(vnids, share)
    graph = context.graph
    for name in ours:
        node = graph.index.get(name)
        is_group = groups[name] if name in groups else graph.group(name) is not None
        made = vnids[name]
        if made is None:
            if node is None or (records.version_of(node) < share.final and node not in graph.virtual_node_of):
                return False
            continue
        if not is_group:
            return False
        if node is not None and records.version_of(node) > share.final:
            continue
        others = inside[made]
        above = set() if node is None else {graph.ids[parent] for parent in graph.parents[node]}
        below = set() if node is None else {graph.ids[child] for child in graph.children[node]}
        above = (above - left.above(name)) | joined.above(name)
        below = (below - left.below(name)) | joined.below(name)
        if above.isdisjoint(others) or below.isdisjoint(others):
            return False
    return True


class _Ends:
    """Arcs by either of their ends."""

    def __init__(self) -> None:
        self._parents: dict[NodeId, set[NodeId]] = {}
        self._children: dict[NodeId, set[NodeId]] = {}

    def add(self, parent: NodeId, child: NodeId) -> None:
        self._parents.setdefault(child, set()).add(parent)
        self._children.setdefault(parent, set()).add(child)

    def above(self, child: NodeId) -> set[NodeId]:
        return self._parents.get(child, set())

    def below(self, parent: NodeId) -> set[NodeId]:
        return self._children.get(parent, set())


def _arcs_among(nodes: Container[NodeId], share: UpdateOutcome) -> tuple[_Ends, _Ends]:
    """Return the arcs between these nodes that are present after an outcome, and those that are not."""
    joined, left = _Ends(), _Ends()
    names, rows = numbered_arcs(share.arcs)
    is_among = [name in nodes for name in names]
    for parent, child, state, *_ in rows:
        if is_among[parent] and is_among[child]:
            (joined if state == PRESENT else left).add(names[parent], names[child])
    return joined, left
