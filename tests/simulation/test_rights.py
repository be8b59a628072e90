"""Rights in the race: callers join and leave while policies and memberships change, at three servers at once.

A second judge reads the run afterwards. The policy of a group counts as of the update's place in the order. A
membership that gives a right counts if it may have held while the update was under way: its own updates are ordered
with one another, and those that were answered before the update was asked for are sure to count.
"""

from collections import Counter
from random import Random

import pytest

from namegraph.events import UpdateCommand
from namegraph.model.names import NodeId, ServerId, Subnet, subnet_of
from namegraph.model.operations import ChildKind, CreateGroup, JoinArc, LeaveArc, SetPolicy
from namegraph.model.outcomes import Committed
from namegraph.model.policies import People, Preset, ServerPolicy
from namegraph.model.refusals import Reason
from namegraph.model.rows import RequestId
from namegraph.rights.callers import CallerFacts
from namegraph.rights.principals import OPERATOR
from simulation.checks.cluster_invariants import check_all, check_quiet
from simulation.cluster.cluster import Cluster
from simulation.cluster.networks import RandomNetwork
from simulation.oracle.serial_model import TrueGraph
from tests.rights_scene import A, B, C, policy

SERVERS = (A, B, C)
PEOPLE = [f"{name}@{server}" for server in SERVERS for name in ("ann", "bob")]
TARGETS = [NodeId(f"{name}@{server}") for server in SERVERS for name in ("p", "q")]
MANAGERS = {server: NodeId(f"m@{server}") for server in SERVERS}
INSIDE = MANAGERS[A], MANAGERS[B]
"""The managers of the first server are managers at the second one, too."""
COMMANDS = 60
SEEDS = 60


class Race:
    """One run: commands of many callers, all under way together, and the judgement of what was done."""

    def __init__(self, seed):
        self.chance = Random(seed)
        self.cluster = Cluster([Subnet(server) for server in SERVERS], RandomNetwork(self.chance))
        self.commands: dict[int, tuple[ServerId, UpdateCommand]] = {}
        self.asked_after: dict[int, set[int]] = {}
        """Tickets that were answered before an update was asked for."""
        for server in SERVERS:
            self.cluster.protect(server, ServerPolicy(default_preset=Preset.OPEN, people=People.OPEN))
            made = [group for group in (*TARGETS, MANAGERS[server]) if subnet_of(group) == server]
            closed = [SetPolicy(group, managed_by(group, "nobody")) for group in made]
            self.ask(server, OPERATOR, *map(CreateGroup, made), *closed)
        self.cluster.run()
        self.ask(INSIDE[1].partition("@")[2], OPERATOR, JoinArc(INSIDE[1], INSIDE[0], ChildKind.GROUP))
        self.cluster.run()

    def ask(self, server, caller, *operations, groups=()):
        ticket = len(self.commands)
        facts = CallerFacts(caller, tuple(groups))
        command = UpdateCommand(ticket, RequestId(f"r{ticket}"), operations, caller=facts)
        self.commands[ticket] = ServerId(server), command
        self.asked_after[ticket] = set(self.cluster.answers)
        self.cluster.submit(ServerId(server), command)

    def run(self):
        for _ in range(COMMANDS):
            self.chance.choice(
                [self.change_policy, self.change_managers, self.change_managers, *[self.use_rights] * 4]
            )()
            for _ in range(self.chance.choice([0, 1, 3, 30])):
                arrival = self.cluster.network.next()
                if arrival is not None:
                    self.cluster.take(arrival)
        self.cluster.run()

    def change_policy(self):
        group = self.chance.choice(TARGETS)
        home = subnet_of(group)
        subject = self.chance.choice(["nobody", self.chance.choice(PEOPLE), MANAGERS[home], MANAGERS[home]])
        self.ask(home, OPERATOR, SetPolicy(group, managed_by(group, subject)))

    def change_managers(self):
        server = self.chance.choice(SERVERS)
        kind = self.chance.choice([JoinArc, LeaveArc])
        self.ask(server, OPERATOR, kind(MANAGERS[server], NodeId(self.chance.choice(PEOPLE)), if_needed=True))

    def use_rights(self):
        """Join or leave at one server, or at two in one update."""
        parents = self.chance.sample(TARGETS, self.chance.choice([1, 1, 2]))
        operations = []
        for parent in parents:
            kind = self.chance.choice([JoinArc, JoinArc, LeaveArc])
            operations.append(kind(parent, NodeId(self.chance.choice(PEOPLE)), if_needed=True))
        caller, first = self.chance.choice(PEOPLE), ServerId(subnet_of(parents[0]))
        home = ServerId(subnet_of(NodeId(caller)))
        # The server that is asked asks the caller's own server for its groups.
        told = () if home == first else self.cluster.servers[home].groups_told_of(NodeId(caller), first)
        self.ask(first, caller, *operations, groups=told)

    def check(self):
        """Judge each update that was done, in the order of all updates; return how many were done, and were refused."""
        places = self.cluster.places
        done = {
            ticket: places[ticket] for ticket, answer in self.cluster.answers.items() if isinstance(answer, Committed)
        }
        in_order = sorted(done, key=lambda ticket: (done[ticket], ticket))
        policies = {}
        for ticket in in_order:
            server, command = self.commands[ticket]
            for operation in command.operations:
                match operation:
                    case SetPolicy(group, new):
                        policies[group] = new
                    case JoinArc(parent) | LeaveArc(parent) if command.caller.principal != OPERATOR:
                        manage = policies[parent].manage
                        assert any(self.may_be(subject, ticket, server, parent, done) for subject in manage), (
                            f"{command} at {done[ticket]} was done, and {parent} was managed by {manage}"
                        )
        refused = Counter(
            answer.reason for answer in self.cluster.answers.values() if not isinstance(answer, Committed)
        )
        assert refused.keys() <= {Reason.PERMISSION_DENIED}, refused
        return len(done), refused[Reason.PERMISSION_DENIED]

    def may_be(self, subject, ticket, coordinator, parent, done):
        """Return True if the caller may have been one of a subject, for the home of a parent."""
        caller, judge = self.commands[ticket][1].caller.principal, ServerId(subnet_of(parent))
        if judge != coordinator and subnet_of(NodeId(caller)) != coordinator:
            return False  # A guest.
        if subject not in MANAGERS.values():
            return subject == caller
        ways = [(subject, NodeId(caller))]
        if subject == INSIDE[1]:
            ways.append((INSIDE[0], NodeId(caller)))
        return any(self.may_hold(arc, ticket, done) for arc in ways)

    def may_hold(self, arc, ticket, done):
        """Return True if an arc may have been there while an update was under way."""
        changes = [
            (done[other], isinstance(operation, JoinArc), other in self.asked_after[ticket])
            for other in done
            for operation in self.commands[other][1].operations
            if isinstance(operation, JoinArc | LeaveArc) and (operation.parent, operation.child) == arc
        ]
        sure = [(place, is_join) for place, is_join, was_answered in changes if was_answered]
        is_there = bool(sure) and max(sure)[1]
        return is_there or any(is_join for _, is_join, was_answered in changes if not was_answered)


@pytest.mark.parametrize("block", range(3))
def test_no_arc_is_made_that_the_policy_at_its_place_does_not_allow(block):
    tally = Counter()
    for seed in range(block * SEEDS // 3, (block + 1) * SEEDS // 3):
        race = Race(seed)
        race.run()
        tally["done"], tally["refused"] = (
            count + tally[name] for name, count in zip(("done", "refused"), race.check(), strict=True)
        )
        check_quiet(race.cluster.servers, race.commands, race.cluster.answers)
        check_all(race.cluster.servers, TrueGraph(arcs_of(race.cluster)))
    assert tally["done"] > 10 * SEEDS // 3, "nothing was done"
    assert tally["refused"] > 10 * SEEDS // 3, "nothing was refused"


def managed_by(group, subject):
    """Return a policy by which operators and this subject alone change the members."""
    return policy(group, Preset.PUBLIC, manage=[subject], optin=["nobody"], optout=["nobody"])


def arcs_of(cluster):
    """Return the arcs that the homes of their parents know, with their cost."""
    found = {}
    for core in cluster.servers.values():
        graph = core.graph
        for arc in graph.present_arcs():
            parent, child = graph.ids[arc.parent], graph.ids[arc.child]
            if core.home_of(parent) == core.server:
                found[parent, child] = arc.cost
    return found
