"""Random scenes in which servers also crash, restart, and stay away until others forget without them.

Links between any two servers fail, so that often not all reach one another. Every running server answers all the same,
and none gives a wrong answer as certain.
"""

import pytest

from namegraph.events import Tick
from namegraph.model.names import ServerId
from namegraph.model.operations import JoinArc, LeaveArc
from namegraph.state.known_arcs import known_arc
from namegraph.wire.message_parts import ArcId
from tests.simulation.test_scenes_at_random import SERVERS, RandomScene, home_of

FOUR_SERVERS = (*SERVERS, ServerId("d.example"))
OVERDUE_SECONDS = 100.0

FOUND_STUCK = (205, 235, 477, 484, 507, 551, 591, 683, 711)
"""Seeds in which a server waited for a view that never came."""


class SceneInTrouble(RandomScene):
    def __init__(self, seed):
        self.servers = FOUR_SERVERS if seed % 2 else SERVERS
        limit = None if seed % 3 == 0 else OVERDUE_SECONDS
        super().__init__(seed, forgets_at_once=True, absence_limit=limit)

    def happenings(self):
        """Return the kinds of events with their weights."""
        return {
            self.change_links: 3,
            self.change_links_amid: 3,
            self.join: 10,
            self.leave: 4,
            self.create_or_delete: 3,
            self.crash: 1,
            self.crash_amid: 2,
            self.let_time_pass: 2,
        }

    def live(self):
        """Live, and require at each rest that every server answers, and gives no wrong answer as certain."""
        happens = self.happenings()
        for _ in range(self.chance.randrange(5, 40)):
            self.chance.choices([*happens], weights=happens.values())[0]()
            assert not self.certain_and_wrong()
        for pair in sorted(self.apart):
            self.meet(*([one] for one in pair))
            assert not self.certain_and_wrong()

    def crash(self, down_for=1.0):
        self.cluster.crash(self.chance.choice(self.servers), down_for=down_for)
        self.cluster.run()
        self.cluster.run()

    def crash_amid(self):
        arc = self.arc()
        if arc[0] in self.groups:
            self.begin(home_of(arc[0]), self.chance.choice((JoinArc, LeaveArc))(*arc, if_needed=True))
            self.take(self.chance.randrange(12))
            self.crash(down_for=self.chance.choice([0.1, 1.0, 10.0]))

    def let_time_pass(self):
        """Let time pass. Time counts in steps, and the steps of an idle server are told to it."""
        for _ in range(12):
            for server in self.servers:
                self.network.put(server, Tick(), delay=OVERDUE_SECONDS / 10)
            self.cluster.run()

    def is_left_below(self, context, arc):
        """True also for arcs that the child's home has left and forgotten, since the parent's home is away for too
        long.
        """
        name = ArcId(context.graph.ids[arc.parent], context.graph.ids[arc.child])
        home = context.home_of(name.child)
        if home in self.servers and name not in context.unconfirmed_below:
            there = self.core(home)._context
            is_forgotten = there.forgotten.was_left(context.server, arc.writer)
            if known_arc(there, name) is None and is_forgotten and not there.is_in_doubt(name, writer=arc.writer):
                return True
        return super().is_left_below(context, arc)


@pytest.mark.parametrize("seed", [*range(60), *FOUND_STUCK])
def test_whoever_is_there_answers_and_is_not_certain_of_what_is_not_so(seed):
    scene = SceneInTrouble(seed)
    scene.live()
    scene.leave_what_is_rejected()
    scene.cluster.learn_unknown()
    scene.check(*scene.arcs())
