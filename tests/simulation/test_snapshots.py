"""Snapshots that are read while updates over several servers are under way."""

import random

import pytest

from delivery.server import Server
from namegraph.snapshot import reader as snapshot_module
from shadowtree.client.snapshots.tables import SnapshotCollector
from simulation.run import run_seed
from tests.snapshots import chunks_of, tables_of


class Reader:
    """Reads one core a piece at a time. Compares with a reading at rest, made when it began."""

    def __init__(self, core):
        self._expected = tables_of(core)
        self._chunks = chunks_of(core)
        self._collector = SnapshotCollector()
        self.read_some()

    def read_some(self):
        """Read a chunk; return whether it was the last."""
        chunk = next(self._chunks)
        self._collector.add(chunk)
        if not chunk.HasField("end"):
            return False
        self._chunks.close()
        found = self._collector.finish()
        manifest, tables = self._expected
        assert found.manifest == manifest
        for name, rows in tables.items():
            assert found.tables[name].to_pylist() == rows, name
        return True


@pytest.mark.parametrize(("seed", "faults"), [(seed, seed % 2 == 1) for seed in range(12)])
def test_a_snapshot_read_between_steps_is_the_state_at_which_it_began(monkeypatch, seed, faults):
    monkeypatch.setattr(snapshot_module, "PIECE_ROWS", 4)
    chance = random.Random(seed)
    step, readers, finished = Server.step, {}, []

    def step_and_read(core, event, now):
        effects = step(core, event, now)
        reader = readers.setdefault(core.server, None)
        if reader is not None and reader[0] is core:
            if chance.random() < 0.5 and reader[1].read_some():
                finished.append(core.server)
                readers[core.server] = None
        elif chance.random() < 0.2:
            readers[core.server] = (core, Reader(core))
        return effects

    monkeypatch.setattr(Server, "step", step_and_read)
    run_seed(seed, servers=3, updates=40, faults=faults)
    assert len(finished) > 3
