"""Wherever groups live, the same members get a message: after each step of each experiment, one to every group.

The expected states of the experiments give the members of each group. Each group has a member of its own, at its
server, with or without a mailbox.
"""

import pytest

from namegraph import Lane, PeerMessage
from tests.conformance.experiments import EXPERIMENTS, groups_of
from tests.placements import PLACEMENTS
from tests.unit.delivery.servers import Servers


def server_of(name):
    return name.partition("@")[2]


class Experiment:
    """One experiment in one placement."""

    def __init__(self, experiment, placement, without_mailbox=frozenset()):
        """`without_mailbox`: servers whose members have none."""
        self.groups = groups_of(experiment)
        self.ids = placement.place(self.groups)
        self.servers = Servers(*placement.subnets(self.groups))
        self.servers.create(*self.ids.values())
        self.members = {name: f"member-of-{self.ids[name]}" for name in self.groups}
        for name, member in self.members.items():
            self.servers.join(self.ids[name], member)
        self.listening = {name: one for name, one in self.members.items() if server_of(one) not in without_mailbox}
        for member in self.listening.values():
            self.servers.listen(member)
        self._posted = []
        step = self.servers.step
        self.servers.step = lambda server, event: self._posted.append(event) or step(server, event)

    def carry_out(self, step):
        change = self.servers.join if step["op"] == "join" else self.servers.leave
        change(self.ids[step["parent"]], self.ids[step["child"]])

    def send(self, name, payload):
        """Send a message to a group; returns who got it, and what servers have posted to each other with it."""
        self._posted.clear()
        before = self.servers.log_ends()
        self.servers.send(self.ids[name], payload=payload)
        copies = [event for event in self._posted if isinstance(event, PeerMessage) and event.lane is Lane.POST]
        copies = [event for event in copies if payload in event.encoded]
        times = {
            other: self.servers.log_of(member, after=before).count(payload) for other, member in self.listening.items()
        }
        return {other: count for other, count in times.items() if count}, copies


@pytest.mark.parametrize("placement", PLACEMENTS, ids=str)
@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment["experiment"])
def test_after_every_step_every_member_below_gets_a_message_once_and_each_server_one_copy(experiment, placement):
    run = Experiment(experiment, placement)
    before = {name: set() for name in run.groups}
    for step in experiment["steps"]:
        run.carry_out(step)
        for name in run.groups:
            home, below = server_of(run.ids[name]), {name, *step["reaches"].get(name, ())}
            servers = {server_of(run.ids[other]) for other in below} - {home}
            place = f"to {name} after step {step['step']}"
            got, copies = run.send(name, f"<{place}, first>".encode())
            assert got == dict.fromkeys(below, 1), place
            # Of a server that is below no more, the origin learns by this message.
            assert len(servers) <= len(copies) <= len(servers | before[name]), place
            got, copies = run.send(name, f"<{place}, second>".encode())
            assert got == dict.fromkeys(below, 1), place
            assert len(copies) == len(servers), place
            before[name] = servers


@pytest.mark.parametrize("placement", PLACEMENTS, ids=str)
@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment["experiment"])
def test_a_server_without_a_mailbox_below_gets_no_copy_and_all_others_get_one(experiment, placement):
    ids = placement.place(groups_of(experiment))
    run = Experiment(experiment, placement, without_mailbox={*sorted(set(map(server_of, ids.values())))[::2]})
    for step in experiment["steps"]:
        run.carry_out(step)
        for name in run.groups:
            below = {name, *step["reaches"].get(name, ())} & run.listening.keys()
            servers = {server_of(run.ids[other]) for other in below} - {server_of(run.ids[name])}
            place = f"to {name} after step {step['step']}"
            got, _ = run.send(name, f"<{place}, first>".encode())
            assert got == dict.fromkeys(below, 1), place
            # Who had nobody for the first one is sent the second without its messages.
            got, copies = run.send(name, f"<{place}, second>".encode())
            assert got == dict.fromkeys(below, 1), place
            assert len(copies) == len(servers), place
