"""Three servers, or as many as a test wants, that part, meet and come to rest after each thing that happens."""

import random

from namegraph.events import ImportCommand, RemovePeer, RetirePeer, UpdateCommand
from namegraph.model.names import NodeId, ServerId, Subnet
from namegraph.model.operations import ChildKind, CreateGroup, JoinArc
from namegraph.model.outcomes import Committed
from namegraph.model.rows import RequestId
from namegraph.model.slices import at_once
from namegraph.wire.update_messages import Commit
from simulation.checks.cluster_invariants import check_all, check_quiet
from simulation.cluster.cluster import WORLD, Cluster
from simulation.cluster.connections import BreakingConnections
from simulation.cluster.networks import Channel, Errand, RandomNetwork
from simulation.oracle.serial_model import TrueGraph

A, B, C = (ServerId(f"{name}.example") for name in "abc")
G = {server: NodeId(f"g@{server}") for server in (A, B, C)}
H = {server: NodeId(f"h@{server}") for server in (A, B, C)}


class Scene:
    """Servers with two groups each, three if nothing else is said, that come to rest after each thing that happens."""

    def __init__(self, servers=(A, B, C), *, is_configured=True, forgets_at_once=False, absence_limit=None, seed=1):
        chance = random.Random(seed)
        self.network = RandomNetwork(chance, is_wild=False)
        self.cluster = Cluster(
            [Subnet(server) for server in servers],
            self.network,
            crashes=chance,
            is_configured=is_configured,
            forgets_at_once=forgets_at_once,
            absence_limit=absence_limit,
        )
        self.commands = {}
        for server in servers:
            self.done(server, *(CreateGroup(NodeId(f"{name}@{server}")) for name in "gh"))
        self.links = BreakingConnections(self.cluster, self.network, chance)
        self.cluster.connections = self.links

    def begin(self, server, *operations):
        ticket = len(self.commands)
        self.commands[ticket] = UpdateCommand(ticket, RequestId(f"r{ticket}"), operations)
        self.cluster.submit(server, self.commands[ticket])
        return ticket

    def ask(self, server, *operations):
        ticket = self.begin(server, *operations)
        self.cluster.run()
        return self.cluster.answers[ticket]

    def done(self, server, *operations):
        answer = self.ask(server, *operations)
        assert isinstance(answer, Committed), answer
        return answer

    def refused(self, server, *operations):
        return self.ask(server, *operations).reason

    def part(self, some, others):
        self._each(self.links.cut, some, others)

    def meet(self, some, others):
        self._each(self.links.mend, some, others)

    def part_until(self, is_so, some, others):
        """Part servers, and go on until a message was sent."""
        self._begin(self.links.cut, some, others)
        self.go_on_until(is_so)

    def go_on_until(self, is_so):
        """Go on until a message was sent."""
        while not any(is_so(sent) for sent in self.cluster.sent):
            self.cluster.take(self.network.next())

    def meet_until(self, is_so, some, others):
        self._begin(self.links.mend, some, others)
        while not is_so():
            self.cluster.take(self.network.next())

    def meet_in_one_view(self, some, others):
        """Let servers meet until they are in one view, which is not healed yet."""
        everybody = {*some, *others}
        self.meet_until(lambda: all(self.members(server) == everybody for server in everybody), some, others)

    def after_meeting(self, steps, some, others):
        """Let servers meet, and this much happen."""
        self._begin(self.links.mend, some, others)
        self.take(steps)

    def take(self, steps):
        """Let this much happen, or as much as there is."""
        for _ in range(steps):
            arrival = self.network.next()
            if arrival is not None:
                self.cluster.take(arrival)

    def command(self, server, kind, *of):
        """Let an operator ask for something."""
        ticket = FIRST_READ + len(self.cluster.answers)
        self.cluster.submit(server, kind(ticket, *of))
        self.cluster.run()
        return self.cluster.answers.pop(ticket)

    def retire(self, server, gone):
        """Retire the server of a subnet for good; returns the refusal to remove it, if there is one."""
        subnet = Subnet(gone)
        while at_once(self.core(server).suspended_with_subnet(subnet)):
            assert isinstance(self.command(server, RetirePeer, subnet), Committed)
        self.command(server, RetirePeer, subnet)
        removed = self.command(server, RemovePeer, subnet)
        return None if isinstance(removed, Committed) else removed

    def bring(self, server, *arcs):
        """Import arcs between groups."""
        names = list(dict.fromkeys(end for arc in arcs for end in arc))
        parents, children = ([names.index(arc[end]) for arc in arcs] for end in (0, 1))
        ticket = len(self.commands)
        command = ImportCommand(ticket, RequestId(f"r{ticket}"), names, parents, children, bytes([1] * len(arcs)), [])
        self.commands[ticket] = command
        self.cluster.submit(server, command)
        self.cluster.run()
        return self.cluster.answers[ticket]

    def _begin(self, change, some, others):
        channels = [c for one in some for other in others for c in (Channel(one, other), Channel(other, one))]
        self.cluster.send_errand(WORLD, Errand(lambda: change(channels)), delay=0.0)

    def _each(self, change, some, others):
        self._begin(change, some, others)
        self.cluster.run()
        # Letters under way may have brought more.
        self.cluster.run()

    def core(self, server):
        return self.cluster.servers[server]

    def members(self, server):
        return set(self.core(server).members)

    def states(self, server, node):
        """Return the states of the arcs that leave a group, as its home has them, by child."""
        graph = self.core(server).graph
        return {graph.ids[child]: graph.arc_state(arc) for child, arc in graph.arcs_from(graph.index[node])}

    def suspended(self, server):
        return {tuple(arc) for arc, _ in self.core(server).suspended_arcs()}

    def loops(self, server):
        graph = self.core(server).graph
        return {frozenset(graph.ids[node] for node in found.components) for found in graph.virtual_nodes.values()}

    def check(self, *arcs):
        """Require that all is at rest, and that exactly these arcs exist."""
        check_quiet(self.cluster.servers, self.commands, self.cluster.answers)
        check_all(self.cluster.servers, TrueGraph(dict.fromkeys(arcs, 0)))
        assert not any(core.graph.suspended for core in self.cluster.servers.values())


FIRST_READ = 1_000
"""Lowest ticket of reads. Lower tickets are those of updates."""

RING = [(G[A], G[B]), (G[B], G[C]), (G[C], G[A])]
NOBODY = {server: NodeId(f"nobody@{server}") for server in (A, C)}


def rejected_where(arc, kind, *, at):
    """Return a scene with an arc that waited for its other end and was rejected. H[A] is above G[A], and H[B] below
    G[C].
    """
    scene = Scene()
    scene.done(A, JoinArc(H[A], G[A]))
    scene.done(C, JoinArc(G[C], H[B]))
    scene.part([A], [B, C])
    scene.arc, scene.at = arc, at
    scene.done(at, JoinArc(*arc, kind, offline=True))
    scene.meet([A], [B, C])
    return scene


TO_GROUP_AS_PROCESS = ((G[A], G[C]), ChildKind.PROCESS, A)
TO_NOBODY = ((G[A], NOBODY[C]), ChildKind.GROUP, A)
FROM_NOBODY = ((NOBODY[A], G[C]), ChildKind.AUTO, C)


def stop_before_the_commit(scene, coordinator, ready, *operations):
    """Let an update be decided, and stop before one server hears of that; returns its ticket."""
    cluster, ticket, before = scene.cluster, len(scene.commands), len(scene.cluster.sent)
    scene.commands[ticket] = UpdateCommand(ticket, RequestId(f"r{ticket}"), operations)
    cluster.submit(coordinator, scene.commands[ticket])
    while not any(isinstance(sent.message, Commit) and sent.receiver == ready for sent in cluster.sent[before:]):
        cluster.take(scene.network.next())
    return ticket


def cut_off_before_the_commit(scene, coordinator, cut_off, *operations):
    """Let an update be decided, and one server be cut off before it hears of that; returns what the caller was told."""
    ticket = stop_before_the_commit(scene, coordinator, cut_off, *operations)
    scene.part([cut_off], [server for server in (A, B, C) if server != cut_off])
    return scene.cluster.answers[ticket]
