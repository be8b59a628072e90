"""Wherever groups live, a set of them has the same members: after each step of each experiment, with any exceptions.

The expected states of the experiments give the members of each group. Each group has a member of its own, at its
server. Every two groups that follow one another by name have a foreign guest in common.
"""

from itertools import cycle, islice, pairwise

import pytest

from namegraph.model.names import parse_name
from namegraph.model.operations import JoinArc, LeaveArc
from namegraph.model.target_sets import Target
from tests.conformance.experiments import EXPERIMENTS, groups_of
from tests.placements import FOREIGN, Placement
from tests.several_servers import Servers

PLACEMENTS = [*map(Placement, (1, 2, 3)), Placement(3, is_hashed=True)]


class Experiment:
    """One experiment in one placement."""

    def __init__(self, experiment, placement):
        self.groups = groups_of(experiment)
        self.ids = placement.place(self.groups)
        self.servers = Servers(*placement.subnets(self.groups), groups=self.ids.values())
        self.people = {name: {parse_name(f"member-of-{self.ids[name]}")} for name in self.groups}
        for one, other in pairwise(self.groups):
            guest = parse_name(f"guest-of-{one}@{FOREIGN}")
            self.people[one].add(guest)
            self.people[other].add(guest)
        for name, people in self.people.items():
            self.servers.do(*(JoinArc(self.ids[name], person) for person in sorted(people)))

    def carry_out(self, step):
        change = JoinArc if step["op"] == "join" else LeaveArc
        self.servers.do(change(self.ids[step["parent"]], self.ids[step["child"]]))

    def members(self, step, name):
        """Return the members of a group after a step."""
        below = {name, *step["reaches"].get(name, ())}
        on_loop = any(name in loop for loop in step["virtual_nodes"])
        people = set().union(*(self.people[other] for other in below))
        return people | {self.ids[other] for other in below if other != name or on_loop}

    def expected(self, step, targets):
        """Member -> place of its first target."""
        found = {}
        for place, (name, excluding) in enumerate(targets):
            excepted = set().union(*(self.members(step, other) for other in excluding))
            for member in self.members(step, name) - excepted:
                found.setdefault(member, place)
        return found


def sets_of(groups):
    """Sets of two to four groups in turn, with and without exceptions."""
    following = list(islice(cycle(groups), 2 * len(groups)))
    for place, name in enumerate(groups):
        second, third, fourth = following[place + 1 : place + 4] if len(groups) > 2 else [name] * 3
        yield [(name, []), (second, [])]
        yield [(name, [second]), (third, [])]
        yield [(name, [third, fourth]), (second, [name]), (fourth, [])]


@pytest.mark.parametrize("placement", PLACEMENTS, ids=str)
@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment["experiment"])
def test_after_every_step_every_set_has_whom_a_target_has_and_none_of_its_exceptions(experiment, placement):
    run = Experiment(experiment, placement)
    roots = cycle(sorted(run.servers.parts))
    for step in experiment["steps"]:
        run.carry_out(step)
        for targets in sets_of(run.groups):
            asked = tuple(
                Target(run.ids[name], tuple(sorted(run.ids[other] for other in excluding)))
                for name, excluding in targets
            )
            _, resolved, _ = run.servers.resolve_set(asked, root=next(roots))
            names = (*resolved.processes, *resolved.groups)
            got = dict(zip(names, (*resolved.process_firsts, *resolved.group_firsts), strict=True))
            assert got == run.expected(step, targets), f"{targets} after step {step['step']}"
