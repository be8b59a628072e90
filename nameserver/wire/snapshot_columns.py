"""Rows of a snapshot as messages in columns. Columns take a fraction of the time and room of a message for each row."""

from __future__ import annotations

from collections.abc import Sequence

from pyroaring import BitMap

from namegraph import (
    AncestorSetRow,
    ArcRow,
    ArcState,
    Closing,
    NodeRow,
    Piece,
    Priority,
    ServerId,
    UpdateRow,
    VirtualNodeRow,
)
from nameserver.wire.conversion import detailed_group, group_policy
from shadowtree.v1 import admin_pb2 as messages

OWNED, HELD = 1, 2
PRESENT, SUSPENDED, TRUTH, RECORD = 1, 2, 4, 8

_STATES = {None: 0, ArcState.NORMAL: 1, ArcState.SHADOW: 2, ArcState.FADE: 3, ArcState.SUSPENDED: 4}


def encode_piece(piece: Piece) -> bytes:
    """Return one chunk."""
    return messages.SnapshotChunk(
        nodes=_nodes(piece.nodes) if piece.nodes else None,
        arcs=_arcs(piece.arcs) if piece.arcs else None,
        virtual_nodes=map(_virtual_node, piece.virtual_nodes),
        ancestor_sets=_ancestor_sets(piece.ancestor_sets) if piece.ancestor_sets else None,
        under_way=map(_under_way, piece.updates),
        details=[detailed_group(row.group, row.details) for row in piece.details],
        policies=[group_policy(row.group, row.policy) for row in piece.policies],
    ).SerializeToString()


def encode_together(pieces: Sequence[bytes]) -> bytes:
    """Return one chunk of several."""
    return messages.SnapshotChunk(pieces=pieces).SerializeToString()


def encode_end(closing: Closing, *, revision: str, database_failure: str, cut: str = "") -> bytes:
    """Return the last chunk."""
    end = messages.SnapshotChunk.End(
        server=closing.server,
        subnets=closing.subnets,
        revision=revision if closing.counter else "",
        counter=closing.counter,
        peers=[messages.SnapshotChunk.Peer(server=server, subnets=subnets) for server, subnets in closing.peers],
        database_failure=database_failure,
        has_ancestor_sets=closing.has_ancestor_sets,
        cut=cut,
    )
    return messages.SnapshotChunk(end=end).SerializeToString()


def _nodes(rows: Sequence[NodeRow]) -> messages.SnapshotChunk.Nodes:
    numbers, ids, kinds, homes, owned, held, versions, virtual_nodes, representatives = zip(*rows, strict=True)
    servers: dict[ServerId | None, int] = {None: 0}

    def place(server: ServerId | None) -> int:
        return servers.setdefault(server, len(servers))

    return messages.SnapshotChunk.Nodes(
        numbers=numbers,
        ids=ids,
        kinds=bytes(kinds),
        homes=list(map(place, homes)),
        places=bytes(OWNED * one + HELD * other for one, other in zip(owned, held, strict=True)),
        version_counters=[0 if version is None else version.counter for version in versions],
        version_servers=[0 if version is None else place(version.server) for version in versions],
        virtual_nodes=[0 if number is None else number + 1 for number in virtual_nodes],
        representatives=representatives,
        servers=[server for server in servers if server is not None],
    )


def _arcs(rows: Sequence[ArcRow]) -> messages.SnapshotChunk.Arcs:
    parents, children, costs, versions, writers, present, suspended, states, truth, record = zip(*rows, strict=True)
    flags = [
        PRESENT * is_present + SUSPENDED * is_suspended + TRUTH * is_truth + RECORD * is_record
        for is_present, is_suspended, is_truth, is_record in zip(present, suspended, truth, record, strict=True)
    ]
    return messages.SnapshotChunk.Arcs(
        parents=parents,
        children=children,
        costs=costs,
        versions=versions,
        writers=writers,
        flags=bytes(flags),
        states=bytes(map(_STATES.__getitem__, states)),
    )


def _virtual_node(row: VirtualNodeRow) -> messages.SnapshotChunk.VirtualNode:
    return messages.SnapshotChunk.VirtualNode(
        number=row.number + 1, vnid=row.vnid, smallest=row.smallest, components=row.components
    )


def _ancestor_sets(rows: Sequence[AncestorSetRow]) -> messages.SnapshotChunk.AncestorSets:
    return messages.SnapshotChunk.AncestorSets(
        representatives=[row.representative for row in rows],
        sets=[_serialized(row.ancestors) for row in rows],
        sizes=[len(row.ancestors) for row in rows],
    )


def _serialized(ancestors: BitMap) -> bytes:
    smallest = ancestors.copy()
    smallest.run_optimize()
    return smallest.serialize()


def _under_way(row: UpdateRow) -> messages.SnapshotChunk.UnderWay:
    counter, server = _none_is_zero(row.final)
    return messages.SnapshotChunk.UnderWay(
        update=row.update,
        coordinator=row.coordinator,
        is_coordinator=row.is_coordinator,
        state=row.state,
        priority_counter=counter,
        priority_server=server,
        waits_for=row.waits_for,
    )


def _none_is_zero(priority: Priority | None) -> tuple[int, str]:
    return (0, "") if priority is None else priority
