"""At a cut the states of all servers fit together, whatever is under way before and after it."""

import copy
import random

import pytest

from delivery.server import Server
from namegraph.core import ServerCore
from namegraph.events import CutCommand
from namegraph.model.names import ServerId, Subnet
from namegraph.model.outcomes import Committed
from simulation.checks.cluster_invariants import check_all
from simulation.cluster.cluster import Cluster
from simulation.oracle.serial_model import TrueGraph
from simulation.run import SeedRun

CUT_TICKETS = 900_000_000
"""Beyond those of the simulator's own commands."""

CUTS = 8
"""Limit on the cuts of one run. Without it each cut would bring others, since a cut is many steps."""


def arcs_of(cores):
    """Return all arcs with their costs, as the homes of their parents have them."""
    found = {}
    for core in cores:
        graph = core.graph
        for parent, arcs in enumerate(graph.children):
            if core.owns(parent):
                found |= {(graph.ids[parent], graph.ids[child]): arc.cost for child, arc in arcs.items()}
    return found


@pytest.fixture
def taken(monkeypatch):
    """Copies of the servers as they were at each cut, by its name."""
    found, step = {}, Server.step

    def step_and_copy(core, event, now):
        effects = step(core, event, now)
        for cut in effects.cuts:
            # A server that crashes before that is durable takes it again.
            found.setdefault(cut.name, {})[core.server] = copy.deepcopy(core)
        return effects

    monkeypatch.setattr(Server, "step", step_and_copy)
    return found


@pytest.mark.parametrize(("seed", "servers", "faults"), [(seed, 2 + seed % 4, seed % 3 == 2) for seed in range(12)])
def test_at_a_cut_every_invariant_holds_though_updates_are_under_way(taken, monkeypatch, seed, servers, faults):
    chance = random.Random(f"cuts of {seed}")
    asked = []
    take = Cluster.take

    def take_and_cut(cluster, arrival):
        if len(asked) < CUTS and chance.random() < 0.02 and not cluster.down:
            ticket = CUT_TICKETS + len(asked)
            deadline = cluster.now + 500.0 if faults else None
            asked.append(ticket)
            server = chance.choice(sorted(cluster.servers))
            cluster.network.put(server, CutCommand(ticket, f"cut {ticket}", deadline), delay=0.0)
        take(cluster, arrival)

    monkeypatch.setattr(Cluster, "take", take_and_cut)
    run = SeedRun(seed, servers=servers, updates=60, faults=faults)
    run.run()
    whole = [cores for cores in taken.values() if len(cores) == servers]
    if not faults and not run.restarts():
        assert len(whole) == len(asked) == CUTS
    for cores in whole:
        check_all(cores, TrueGraph(arcs_of(cores.values())))


def test_a_cut_of_one_server_needs_nobody():
    core = ServerCore(server=ServerId("a.x"), subnets=[Subnet("a.x")])
    effects = core.step(CutCommand(1, "mine"), 0.0)
    assert [cut.name for cut in effects.cuts] == ["mine"]
    (reply,) = effects.replies
    assert isinstance(reply.outcome, Committed)
    assert core.is_idle()
