"""Snapshots that are read while updates over several servers are under way."""

import random

import pytest

from delivery.server import Server
from namegraph.snapshot import reader as snapshot_module
from nameserver.wire.snapshot_columns import encode_end, encode_piece
from shadowtree.client.snapshots.tables import SnapshotCollector
from shadowtree.v1 import admin_pb2
from simulation.run import run_seed
from tests.snapshots import tables_of


class Reader:
    """Reads one core a piece at a time, and compares with a reading at rest whenever it has finished."""

    def __init__(self, core):
        self._core = core
        self._snapshot = core.snapshot()
        self._pieces = self._snapshot.read()
        self._collector = SnapshotCollector()

    def note(self, records):
        self._snapshot.note(records)

    def read_some(self):
        """Read a piece; return whether it was the last."""
        piece = next(self._pieces, None)
        if piece is not None:
            self._add(encode_piece(piece))
            return False
        for piece in self._snapshot.finish():
            self._add(encode_piece(piece))
        self._add(encode_end(self._snapshot.closing(), revision=self._core.revision, database_failure=""))
        found = self._collector.finish()
        tables = {name: table.to_pylist() for name, table in found.tables.items()}
        manifest, at_rest = tables_of(self._core)
        assert found.manifest == manifest
        for name, rows in tables.items():
            assert rows == at_rest[name], name
        return True

    def _add(self, encoded):
        self._collector.add(admin_pb2.SnapshotChunk.FromString(encoded))


@pytest.mark.parametrize(("seed", "faults"), [(seed, seed % 2 == 1) for seed in range(12)])
def test_a_snapshot_read_between_steps_is_the_state_of_its_last_step(monkeypatch, seed, faults):
    monkeypatch.setattr(snapshot_module, "PIECE_ROWS", 4)
    monkeypatch.setattr(snapshot_module, "REST_LIMIT", 3)
    chance = random.Random(seed)
    step, readers, finished = Server.step, {}, []

    def step_and_read(core, event, now):
        effects = step(core, event, now)
        reader = readers.setdefault(core.server, None)
        if reader is not None and reader[0] is core:
            reader[1].note(effects.records)
            if chance.random() < 0.5 and reader[1].read_some():
                finished.append(core.server)
                readers[core.server] = None
        elif chance.random() < 0.2:
            readers[core.server] = (core, Reader(core))
        return effects

    monkeypatch.setattr(Server, "step", step_and_read)
    run_seed(seed, servers=3, updates=40, faults=faults)
    assert len(finished) > 3
