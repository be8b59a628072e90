"""Snapshots of cores that are driven by hand or by the simulator, through the messages that a server would send."""

from namegraph import CommittedState
from nameserver.wire.snapshot_columns import encode_end, encode_piece
from shadowtree.client.snapshots.files import write_snapshot
from shadowtree.client.snapshots.tables import SnapshotCollector
from shadowtree.v1 import admin_pb2


def chunks_of(core, *, between=lambda: None):
    """Return all chunks of a core's snapshot. `between`: called after each piece; steps may be taken."""
    with CommittedState(core).kept() as state:
        snapshot = state.snapshot()
        for piece in snapshot.pieces():
            yield _message(encode_piece(piece))
            between()
        yield _message(encode_end(snapshot.closing(), revision=state.revision, database_failure=""))


def tables_of(core, **settings):
    """Return the manifest and the tables, each as a list of rows by column name."""
    collector = SnapshotCollector()
    for chunk in chunks_of(core, **settings):
        collector.add(chunk)
    found = collector.finish()
    return found.manifest, {name: table.to_pylist() for name, table in found.tables.items()}


def write(cores, folder):
    """Write the snapshots of several cores into one folder."""
    return [write_snapshot(chunks_of(core), folder) for core in cores]


def _message(encoded):
    return admin_pb2.SnapshotChunk.FromString(encoded)
