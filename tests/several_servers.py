"""Real cores of several servers at rest, and resolutions over them without a network."""

from random import Random

from namegraph.events import UpdateCommand
from namegraph.model.names import ServerId, Subnet, subnet_of
from namegraph.model.operations import CreateGroup, JoinArc, LeaveArc
from namegraph.model.outcomes import Committed
from namegraph.model.rows import RequestId
from namegraph.model.target_sets import named_in, only
from resolver.parts import Parts, ServerPart
from resolver.plans import PlanCache
from resolver.resolution import Ask, DistributedResolution, WalkAgain
from resolver.walk_memory import WalkMemory
from simulation.cluster.cluster import Cluster
from simulation.cluster.networks import RandomNetwork


class Servers:
    """A server for each subnet. Names are canonical ids."""

    def __init__(self, *subnets, groups=()):
        self.cluster = Cluster([Subnet(subnet) for subnet in subnets], RandomNetwork(Random(0)))
        self.parts = {
            server: Parts(core, PlanCache(core), start="first") for server, core in self.cluster.servers.items()
        }
        self.memories = {server: WalkMemory() for server in self.cluster.servers}
        for group in groups:
            self.do(CreateGroup(group))

    def core(self, name):
        """Return the core that is the home of a name."""
        return self.cluster.servers[ServerId(subnet_of(name))]

    def submit(self, *operations):
        """Let a client ask for one atomic update; return its ticket."""
        ticket = len(self.cluster.answers)
        first = operations[0]
        asked = first.parent if isinstance(first, JoinArc | LeaveArc) else first.group
        command = UpdateCommand(ticket, RequestId(f"r{ticket}"), operations)
        self.cluster.submit(ServerId(subnet_of(asked)), command)
        return ticket

    def do(self, *operations):
        """Carry out one atomic update."""
        ticket = self.submit(*operations)
        self.cluster.run()
        assert isinstance(self.cluster.answers[ticket], Committed), self.cluster.answers[ticket]

    def resolve(self, originator, *, with_steps=False):
        """Resolve at the home; return the resolution, its answer and all parts that were told."""
        home = self.core(originator)
        key = home.graph.representative(home.graph.index[originator])
        return self._resolve(home.server, only(originator), key, with_steps=with_steps)

    def resolve_set(self, targets, *, root=None):
        """Resolve a set at any server. The default is the home of the first target."""
        return self._resolve(root or self.core(targets[0].name).server, targets, targets)

    def _resolve(self, root, targets, key, *, with_steps=False):
        memory = self.memories[root]
        homes = {name: self.core(name).server for name in named_in(targets)}
        resolution = DistributedResolution(
            targets, root=root, homes=homes, remembered=memory.recall(key), with_steps=with_steps
        )
        told = []
        step = resolution.begin()
        pending = []
        while isinstance(step, Ask | WalkAgain):
            if isinstance(step, WalkAgain):
                assert not step.was_in_doubt, "nothing is under way"
                step = resolution.begin()
            pending += step.requests
            request = pending.pop()
            answer = self.parts[request.server].answer(request)
            told += [answer] if isinstance(answer, ServerPart) else []
            step = resolution.answer(request.server, answer)
        assert not pending
        if resolution.agreed() is not None:
            memory.keep(key, resolution.agreed())
        return resolution, step, told
