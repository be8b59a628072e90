"""After every step a server remembers only what it has written: a crash between any two steps loses nothing."""

from collections import Counter
from unittest.mock import patch
from weakref import WeakKeyDictionary

import pytest

from delivery.server import Server
from namegraph.model.rows import Records
from namegraph.update.coordinator import COORDINATED
from simulation.checks.cluster_invariants import PASSING, check_settled
from simulation.cluster.disk import Disk
from simulation.oracle.violation import InvariantViolatedError
from simulation.run import run_seed
from tests.unit.delivery.servers import Servers


def rows_of(core, *, but=frozenset()):
    """Return the rows of all that a core holds in durable maps."""
    maps = core._context.durable.maps.values()
    rows = [each.row(key) for each in maps for key in each]
    return {(row.part, row.key): row.value for row in rows if (row.part, row.key) not in but}


def put_off(core):
    """Return the rows that wait for the next row that must be written."""
    rows = [each.row(key) for each in core._context.durable.maps.values() for key in each.changed]
    return {(row.part, row.key) for row in rows}


def of_undecided(core):
    """Return the rows of updates that are aborted when their coordinator restarts."""
    coordinated = core._context.durable.maps[COORDINATED]
    undecided = [coordinated.row(key) for key, running in coordinated.items() if not running.is_decided]
    return {(row.part, row.key) for row in undecided}


class Written:
    """A disk for each core that runs, on which every step is durable at once."""

    def __init__(self):
        self.disks = WeakKeyDictionary()
        self.rows_seen = Counter()
        self._step, self._restore = Server.step, Server.restore

    def restore(self, state, **names):
        """Restore a core, as a replacement for `patch`."""
        core = self._restore(state, **names)
        disk = self.disks[core] = Disk(core.server)
        disk.write(
            Records(
                nodes=list(state.nodes),
                arcs=list(state.arcs),
                virtual_nodes=list(state.virtual_nodes),
                outcomes=list(state.outcomes),
                protocol=list(state.protocol),
                counter=state.counter,
            )
        )
        return core

    def step(self, core, event, now):
        """Take a step of the core, and compare the rows that it must have written."""
        disk = self.disks.setdefault(core, Disk(core.server))
        effects = self._step(core, event, now)
        disk.write(effects.records)
        assert not core._context.durable.must_write
        again, waiting = self._restore(disk.read(), subnets=core.subnets), put_off(core)
        remembered = rows_of(again, but=waiting)
        assert remembered == rows_of(core, but=waiting | of_undecided(core)), event
        self.rows_seen.update(part for part, _ in remembered)
        return effects


@pytest.mark.parametrize("seed", [0, 11])
def test_a_core_restored_after_any_step_remembers_what_the_other_one_does(seed):
    written = Written()

    def step(core, event, now):
        return written.step(core, event, now)

    with (
        patch.object(Server, "step", step),
        patch.object(Server, "restore", written.restore),
    ):
        run_seed(seed, updates=12, faults=True, messages=True)
    assert len(written.rows_seen) > 10


@pytest.mark.parametrize("part", sorted(PASSING))
def test_what_is_under_way_for_ever_is_found(part):
    servers = Servers("a.x", "b.x").servers
    check_settled(servers)
    servers["a.x"].durable.maps[part]["left behind"] = None
    with pytest.raises(InvariantViolatedError, match=f"a.x still has rows of .*{part}"):
        check_settled(servers)
