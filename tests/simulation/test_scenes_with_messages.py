"""The scenes in trouble, with messages: sent, listened for and queued while servers are apart, at rest or not.

Servers stay apart over many bursts of messages, often such that not all reach one another. Some go on from an older
copy of their disk, or from an empty one. In the end all are together, and the whole history of messages is judged.
"""

import random

import pytest

from namegraph.model.names import NodeId
from namegraph.model.operations import ChildKind, JoinArc
from simulation.cluster.disk import Disk
from simulation.oracle.serial_model import TrueGraph
from simulation.workload.clients import Population, is_foreign
from simulation.workload.deliveries import Deliveries
from tests.simulation.test_scenes_at_random import home_of
from tests.simulation.test_scenes_in_trouble import SceneInTrouble

SHARED_SHARE = 0.5
"""Share of scenes in which foreign processes are below one group at each server."""

EMPTY_SHARE = 0.15
"""Share of failed disks without a copy."""


class SceneWithMessages(SceneInTrouble):
    def __init__(self, seed):
        super().__init__(seed)
        population = Population(list(self.groups), list(self.people), list(self.missing), [], [], alone_share=1.0)
        self.deliveries = Deliveries(self.cluster, population, random.Random(f"messages of {seed}"))
        # Those who have mailboxes, at one server or, if no server owns them, at several.
        self.people = population.processes
        self.names = [*self.groups, *self.missing, *self.people]

    def happenings(self):
        return super().happenings() | {self.messages: 6, self.messages_amid: 6}

    def live(self):
        if self.chance.random() < SHARED_SHARE:
            self.share_foreigners()
        super().live()

    def share_foreigners(self):
        """Let whom no server owns be below one group by way of a group of each server: homes must agree who serves."""
        top, *below = self.chance.sample([NodeId(f"g@{server}") for server in self.servers], len(self.servers))
        for person in self.people:
            if is_foreign(person):
                for group in (top, *below):
                    self.ask(home_of(group), JoinArc(group, person, ChildKind.PROCESS, if_needed=True))
        for group in below:
            self.ask(home_of(group), JoinArc(top, group, ChildKind.GROUP))

    def messages(self):
        self.deliveries.submit_burst()
        self.cluster.run()

    def messages_amid(self):
        """Send messages that are under way when another event happens."""
        self.deliveries.submit_burst()
        self.take(self.chance.randrange(80))
        others = (self.change_links, self.change_links_amid, self.crash, self.crash_amid, self.join, self.leave)
        self.chance.choice(others)()

    def judge(self):
        self.leave_what_is_rejected()
        self.cluster.learn_unknown()
        self.cluster.run()
        self.check(*self.arcs())
        self.deliveries.check(TrueGraph(dict.fromkeys(self.arcs(), 0)))


class SceneOnOldDisks(SceneWithMessages):
    """A scene in which at most all servers but one go back, each once. The certainty of arcs is not judged here."""

    def __init__(self, seed):
        super().__init__(seed)
        self.copies = {}

    def happenings(self):
        return super().happenings() | {self.copy: 2, self.go_back: 1, self.go_back_amid: 1}

    def copy(self):
        server = self.chance.choice(self.servers)
        self.copies[server] = self.cluster.copy_of_disk(server)

    def go_back(self):
        server, gone_back = self.chance.choice(self.servers), self.cluster.on_old_disks
        if server in gone_back or len(gone_back) == len(self.servers) - 1:
            return
        is_empty = server not in self.copies or self.chance.random() < EMPTY_SHARE
        disk = Disk(server) if is_empty else self.copies[server]
        self.cluster.crash(server, down_for=self.chance.choice([0.1, 1.0, 10.0]), disk=disk)
        self.take(self.chance.randrange(80))

    def go_back_amid(self):
        self.deliveries.submit_burst()
        self.take(self.chance.randrange(80))
        self.go_back()

    def certain_and_wrong(self):
        self.cluster.run()
        self.cluster.run()
        return []


@pytest.mark.parametrize("kind", [SceneWithMessages, SceneOnOldDisks])
@pytest.mark.parametrize("seed", range(40))
def test_messages_come_once_and_in_sequence_however_servers_part(kind, seed):
    scene = kind(seed)
    scene.live()
    scene.judge()
