"""Random scenes: servers part and meet while arcs are joined, also offline, and left at either end.

In the end whatever is still suspended is rejected, and can be left where it is shown; then all invariants hold.
"""

import random

import pytest

from namegraph.model.names import NodeId, ServerId
from namegraph.model.operations import ChildKind, CreateGroup, DeleteGroup, JoinArc, LeaveArc
from tests.simulation.scene import A, B, C, G, H, Scene

SERVERS = (A, B, C)
GROUPS = [*G.values(), *H.values()]
MISSING = [NodeId(f"missing@{server}") for server in SERVERS]
PEOPLE = [*(NodeId(f"ann@{server}") for server in SERVERS), NodeId("ann@elsewhere.example")]


def home_of(name):
    return ServerId(name.partition("@")[2])


class RandomScene(Scene):
    def __init__(self, seed):
        super().__init__()
        self.chance = random.Random(seed)
        self.apart = set()

    def live(self):
        for _ in range(self.chance.randrange(5, 30)):
            happens = (self.change_links, self.join, self.leave, self.create_or_delete)
            self.chance.choices(happens, weights=(3, 12, 3, 2))[0]()
        for pair in sorted(self.apart):
            self.meet(*([one] for one in pair))

    def change_links(self):
        pair = tuple(sorted(self.chance.sample(SERVERS, 2)))
        if self.apart and self.chance.random() < 0.4:
            pair = self.chance.choice(sorted(self.apart))
        change = self.meet if pair in self.apart else self.part
        self.apart ^= {pair}
        change(*([one] for one in pair))

    def join(self):
        parent, child = self.arc()
        kind = ChildKind.PROCESS if child in PEOPLE else ChildKind.GROUP
        self.ask(self.end_of(parent, child), JoinArc(parent, child, kind, offline=self.chance.random() < 0.8))

    def leave(self):
        arc = self.arc()
        self.ask(self.end_of(*arc), LeaveArc(*arc))

    def create_or_delete(self):
        group = self.chance.choice(GROUPS + MISSING)
        self.ask(home_of(group), self.chance.choice((CreateGroup(group), DeleteGroup(group, force=True))))

    def arc(self):
        parent = self.chance.choice(GROUPS + MISSING)
        return parent, self.chance.choice([name for name in GROUPS + MISSING + PEOPLE if name != parent])

    def end_of(self, parent, child):
        ends = [home_of(parent), home_of(child)]
        return self.chance.choice([server for server in ends if server in SERVERS])

    def leave_what_is_rejected(self):
        for server in SERVERS:
            for arc, why in self.core(server).suspended_arcs():
                assert why.startswith("rejected: ")
                self.done(server, LeaveArc(*arc))

    def arcs(self):
        """All arcs, as the homes of their parents have them."""
        for server in SERVERS:
            graph = self.core(server).graph
            for node, children in enumerate(graph.children):
                if home_of(graph.ids[node]) == server:
                    yield from ((graph.ids[node], graph.ids[child]) for child in children)


@pytest.mark.parametrize("seed", range(50))
def test_whatever_is_joined_while_apart_is_joined_or_rejected_in_the_end(seed):
    scene = RandomScene(seed)
    scene.live()
    if seed % 3 == 0:
        scene.cluster.restart_all()
        scene.cluster.run()
    scene.leave_what_is_rejected()
    scene.check(*scene.arcs())
    for server in SERVERS:
        core = scene.core(server)
        assert not core.channels.faults
        assert not any(core._context.is_unconfirmed(parent, child) for parent in MISSING for child in GROUPS + PEOPLE)
