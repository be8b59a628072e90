"""Servers that judge their callers, without trouble: commands of callers in, outcomes out."""

from itertools import count
from random import Random

from namegraph.events import ImportCommand, SetDetails, UpdateCommand
from namegraph.model.names import NodeId, ServerId, Subnet, subnet_of
from namegraph.model.operations import JoinArc, LeaveArc, SetPolicy
from namegraph.model.outcomes import Committed
from namegraph.model.policies import People, Preset, Privilege, ServerPolicy
from namegraph.model.rows import RequestId
from namegraph.rights.callers import CallerFacts
from namegraph.rights.presets import changed_policy, preset_policy
from namegraph.rights.principals import OPERATOR
from simulation.cluster.cluster import Cluster
from simulation.cluster.networks import RandomNetwork

A, B, C = (ServerId(f"{name}.example") for name in "abc")


class RightsScene:
    """Three servers. People of a subnet create groups there. Groups are made open, if nothing else is said."""

    def __init__(self, servers=(A, B, C), *, preset=Preset.OPEN, people=People.OPEN, protected=None):
        self.cluster = Cluster([Subnet(server) for server in servers], RandomNetwork(Random(1)))
        self._tickets = count(1_000)
        for server in servers if protected is None else protected:
            policy = ServerPolicy(default_preset=preset, create=(f"subnet:{server}",), people=people)
            self.cluster.protect(server, policy)

    def core(self, server):
        return self.cluster.servers[server]

    def begin(self, caller, *operations, at=None, composite=None, groups=(), request_id=None, elsewhere=()):
        """Let a caller ask; return the ticket."""
        ticket = next(self._tickets)
        facts = CallerFacts(caller, tuple(groups))
        request = RequestId(request_id or f"r{ticket}")
        if at is None:
            first = operations[0]
            at = ServerId(subnet_of(first.parent if isinstance(first, JoinArc | LeaveArc) else first.group))
        self.cluster.submit(
            at,
            UpdateCommand(ticket, request, operations, composite=composite, caller=facts, elsewhere=tuple(elsewhere)),
        )
        return ticket

    def ask(self, caller, *operations, **more):
        """Return the outcome of what a caller asks for."""
        ticket = self.begin(caller, *operations, **more)
        self.cluster.run()
        return self.cluster.answers[ticket]

    def done(self, *operations, caller=OPERATOR, **more):
        """Carry out an update."""
        outcome = self.ask(caller, *operations, **more)
        assert isinstance(outcome, Committed), outcome
        return outcome

    def refused(self, caller, *operations, **more):
        """Return the refusal of what a caller asks for."""
        outcome = self.ask(caller, *operations, **more)
        assert not isinstance(outcome, Committed), outcome
        return outcome

    def set_policy(self, group, preset=Preset.OPEN, **changes):
        """Let an operator set a policy."""
        self.done(SetPolicy(NodeId(group), policy(group, preset, **changes), without_admin=True))

    def describe(self, caller, group, text="robots"):
        """Let a caller set the description of a group."""
        ticket = next(self._tickets)
        changes = {NodeId(group): {"description": text}}
        command = SetDetails(ticket, RequestId(f"r{ticket}"), changes, caller=CallerFacts(caller))
        self.cluster.submit(ServerId(subnet_of(group)), command)
        self.cluster.run()
        return self.cluster.answers[ticket]

    def bring(self, caller, server, *arcs, groups=(), kind=1):
        """Let a caller import arcs to groups (kind 1) or processes (2)."""
        ticket = next(self._tickets)
        names = list(dict.fromkeys([*(end for arc in arcs for end in arc), *groups]))
        parents, children = ([names.index(arc[end]) for arc in arcs] for end in (0, 1))
        columns = (
            list(map(NodeId, names)),
            parents,
            children,
            bytes([kind] * len(arcs)),
            list(map(names.index, groups)),
        )
        command = ImportCommand(ticket, RequestId(f"r{ticket}"), *columns, caller=CallerFacts(caller))
        self.cluster.submit(server, command)
        self.cluster.run()
        return self.cluster.answers[ticket]

    def has_arc(self, parent, child):
        """Return True if the home of the parent has an arc."""
        graph = self.core(ServerId(subnet_of(parent))).graph
        index = graph.index
        return parent in index and child in index and graph.arc(index[parent], index[child]) is not None

    def policy_of(self, group):
        return self.core(ServerId(subnet_of(group))).policy_of(group)


def policy(group, preset=Preset.OPEN, **changes):
    """Return a policy of a group: a preset with some privileges changed, each given as texts."""
    found = preset_policy(preset, subnet=subnet_of(group), makers=[OPERATOR])
    return changed_policy(found, {Privilege(name): texts for name, texts in changes.items()})
