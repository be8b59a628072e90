"""Commits of updates over several servers change what they must and keep the rest. The kept state is right."""

import random

import pytest

from namegraph.events import UpdateCommand
from namegraph.graph.ancestor_sets import AncestorSets
from namegraph.model.names import NodeId, ServerId, Subnet, subnet_of
from namegraph.model.operations import CreateGroup, JoinArc, LeaveArc
from namegraph.model.outcomes import Committed
from namegraph.model.rows import NodeIndex, RequestId
from resolver.plans import PlanCache
from simulation.cluster.cluster import Cluster
from simulation.cluster.networks import RandomNetwork

SUBNETS = [Subnet(f"{name}.example") for name in "abc"]


class Servers:
    """Three servers, asked one update after another."""

    def __init__(self, *groups):
        self.cluster = Cluster(SUBNETS, RandomNetwork(random.Random(0)))
        for group in groups:
            self.ask(CreateGroup(group))

    def ask(self, *operations):
        ticket = len(self.cluster.answers)
        first = operations[0]
        asked = first.group if isinstance(first, CreateGroup) else first.parent
        self.cluster.submit(ServerId(subnet_of(asked)), UpdateCommand(ticket, RequestId(f"r{ticket}"), operations))
        self.cluster.run()
        return self.cluster.answers[ticket]

    def do(self, *operations):
        answer = self.ask(*operations)
        assert isinstance(answer, Committed), answer

    def cores(self):
        return list(self.cluster.servers.values())

    def core(self, name):
        return self.cluster.servers[ServerId(f"{name}.example")]


def group(name):
    return NodeId(f"{name}@{name[0]}.example")


def test_a_commit_keeps_the_ancestor_sets_and_plans_of_what_it_does_not_touch():
    servers = Servers(*map(group, ["a1", "a2", "b1", "b2", "c1", "c2"]))
    servers.do(JoinArc(group("a1"), group("b1")), JoinArc(group("b1"), group("c1")))
    servers.do(JoinArc(group("a2"), group("b2")))
    core = servers.core("b")
    plans = PlanCache(core)
    one, two = core.graph.index[group("b1")], core.graph.index[group("b2")]
    plan_of_one, plan_of_two = plans.plan(one), plans.plan(two)
    set_of_one, set_of_two = core.ancestors.of(one), core.ancestors.of(two)
    servers.do(JoinArc(group("b2"), group("c2")))
    servers.do(JoinArc(group("c1"), group("a2")))
    assert plans.plan(one) is not plan_of_one
    assert plans.plan(two) is not plan_of_two
    assert core.ancestors.of(one) is set_of_one
    assert core.ancestors.of(two) != set_of_two
    servers.do(LeaveArc(group("c1"), group("a2")))
    plan_of_one, set_of_one = plans.plan(one), core.ancestors.of(one)
    servers.do(LeaveArc(group("a2"), group("b2")))
    assert plans.plan(one) is plan_of_one
    assert core.ancestors.of(one) is set_of_one
    assert set(core.ancestors.of(two)) == {two}


@pytest.mark.parametrize("seed", range(12))
def test_what_random_commits_keep_is_what_would_be_computed_afresh(seed):
    chance = random.Random(seed)
    groups = [group(f"{name}{number}") for name in "abc" for number in range(chance.randint(1, 4))]
    servers = Servers(*groups)
    arcs = set()
    for _ in range(25):
        operations = {}
        for _ in range(chance.randint(1, 3)):
            if arcs and chance.random() < 0.4:
                arc = chance.choice(sorted(arcs))
                operations[arc] = LeaveArc(*arc)
            else:
                arc = tuple(chance.sample(groups, 2))
                if arc not in arcs:
                    operations[arc] = JoinArc(*arc, cost=chance.randint(0, 2))
        if not operations:
            continue
        servers.do(*operations.values())
        arcs ^= operations.keys()
        for core in servers.cores():
            assert_records_are_needed(core)
            assert_sets_are_right(core)
            for node in range(len(core.graph.ids)):
                if chance.random() < 0.5:
                    core.ancestors.of(NodeIndex(node))


def assert_records_are_needed(core):
    graph, above = core.graph, core.records.above
    entering = [node for node in above if any(core.owns(child) for child in graph.children[node])]
    assert above.keys() == {node for node in graph.ancestors(entering) if not core.owns(node)}


def assert_sets_are_right(core):
    afresh = AncestorSets(core.graph)
    for node in map(NodeIndex, range(len(core.graph.ids))):
        assert core.ancestors.of(node) == afresh.of(node), core.graph.ids[node]


def test_groups_are_created_and_joined_across_servers_in_one_update():
    servers = Servers(group("c1"))
    a, b, c = group("a1"), group("b1"), group("c1")
    servers.do(CreateGroup(a), CreateGroup(b), JoinArc(a, b), JoinArc(b, c))
    servers.do(LeaveArc(b, c), JoinArc(a, c))
    core = servers.core("c")
    assert {core.graph.ids[node] for node in core.ancestors.of(core.graph.index[c])} == {a, c}
    assert_records_are_needed(core)
