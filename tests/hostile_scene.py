"""Two servers with an attacker between them who changes, drops and forges letters, and a third server that lies."""

import random

from namegraph.core import ServerCore
from namegraph.events import PeerLost, PeerMessage, PeerMet, ReadCommand, Tick, UpdateCommand
from namegraph.model.names import NodeId, ServerId, Subnet
from namegraph.model.operations import ChildKind, CreateGroup, DeleteGroup, JoinArc, LeaveArc
from namegraph.model.peer_faults import PeerFault
from namegraph.model.policies import Preset, Principal, ServerPolicy
from namegraph.model.rows import RequestId
from namegraph.rights.callers import CallerFacts
from namegraph.rights.principals import OPERATOR
from namegraph.wire.codec import decode_in_view, encode
from namegraph.wire.update_messages import Commit, Final, Order, Ready, Vote
from namegraph.wire.view_messages import Install, Propose
from simulation.cluster.disk import Disk
from tests.letters_at_random import Letters

HERE, OTHER, THIRD = SERVERS = [ServerId(f"{name}.x") for name in "bac"]
GROUPS = [NodeId(f"{name}@{server}") for server in SERVERS for name in "gh"]
PEOPLE = [NodeId("p@a.x"), NodeId("q@b.x"), NodeId("f@nobody.example")]
LIKELY = [Order, Final, Commit, Vote, Ready, Propose, Install]
"""Messages that lead on to others."""
STEPS = 60
NUMBERS_STORED_BELOW = 2**63


PROTECTED_SHARE = 0.5
"""Share of scenes in which the servers judge callers."""


class Scene:
    """Two cores, and what each has made durable."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.letters = Letters(self.chance, names=GROUPS + PEOPLE, servers=SERVERS)
        self.disks = {server: Disk(server) for server in (HERE, OTHER)}
        self.cores = {server: _started(server, self.disks[server]) for server in (HERE, OTHER)}
        self.pending = {(HERE, OTHER): [], (OTHER, HERE): []}
        self.tickets = 0
        self.policy = None
        if self.chance.random() < PROTECTED_SHARE:
            self.policy = ServerPolicy(default_preset=self.chance.choice(list(Preset)))
        for core in self.cores.values():
            core.protect(self.policy)
        for server in (HERE, OTHER):
            for other in SERVERS:
                if other != server:
                    self.step(server, PeerMet(other, (Subnet(other),)))
        for server in (HERE, OTHER):
            for group in GROUPS:
                if group.endswith(server):
                    self.ask(server, CreateGroup(group))

    def step(self, server, event):
        """Take one step, and make all its effects durable."""
        effects = self.cores[server].step(event, 0.0)
        for row in [*effects.records.nodes, *effects.records.arcs]:
            assert all(number < NUMBERS_STORED_BELOW for number in row if isinstance(number, int))
        assert (effects.records.counter or 0) < NUMBERS_STORED_BELOW
        self.disks[server].write(effects.records)
        for letter in effects.messages:
            if (server, letter.receiver) in self.pending:
                self.pending[server, letter.receiver].append(letter.encoded)
        return effects

    def ask(self, server, *operations):
        self.tickets += 1
        caller = CallerFacts(Principal(self.chance.choice([OPERATOR, OPERATOR, *PEOPLE])))
        self.step(server, UpdateCommand(self.tickets, RequestId(f"r{self.tickets}"), operations, caller=caller))

    def live(self):
        for _ in range(STEPS):
            self.chance.choice([self.deliver, self.deliver, self.deliver, self.lie, self.act, self.lie_as_third])()
            if self.chance.random() < 0.02:
                self.restart(HERE)

    def act(self):
        """Do something correct."""
        chance, server = self.chance, self.chance.choice([HERE, OTHER])
        own = [group for group in GROUPS if group.endswith(server)]
        group, child = chance.choice(own), chance.choice(GROUPS + PEOPLE)
        kind = ChildKind.PROCESS if child in PEOPLE else ChildKind.GROUP
        roll = chance.random()
        if roll < 0.5:
            self.ask(
                server,
                chance.choice([JoinArc(group, child, kind), JoinArc(group, child, kind), LeaveArc(group, child)]),
            )
        elif roll < 0.6:
            self.ask(server, chance.choice([CreateGroup(group), DeleteGroup(group, force=True)]))
        elif roll < 0.7:
            self.tickets += 1
            self.step(server, ReadCommand(self.tickets, group))
        elif roll < 0.8:
            other = chance.choice([other for other in SERVERS if other != server])
            self.step(server, PeerLost(other, "no connection"))
        else:
            other = chance.choice([other for other in SERVERS if other != server])
            self.step(server, PeerMet(other, (Subnet(other),)))

    def deliver(self):
        """Deliver the next letter, most often unchanged."""
        sender, receiver = self.chance.choice(list(self.pending))
        if not self.pending[sender, receiver]:
            return
        encoded = self.pending[sender, receiver].pop(0)
        roll = self.chance.random()
        if receiver == HERE and roll < 0.1:
            view, message = decode_in_view(encoded)
            encoded = _written(self.letters.mutant(message), view)
        elif receiver == HERE and roll < 0.15:
            return
        elif receiver == HERE and roll < 0.2:
            self.receive(receiver, sender, encoded)
        self.receive(receiver, sender, encoded)

    def deliver_all(self, changed=lambda message: message):
        """Everything, changed on its way to here."""
        while any(self.pending.values()):
            for (sender, receiver), letters in self.pending.items():
                if letters:
                    view, message = decode_in_view(letters.pop(0))
                    self.receive(receiver, sender, encode(changed(message) if receiver == HERE else message, view))

    def lie(self):
        self.receive(HERE, OTHER, self.nonsense())

    def lie_as_third(self):
        self.receive(HERE, THIRD, self.nonsense())

    def nonsense(self):
        chance = self.chance
        message = self.letters.message(chance.choice(LIKELY) if chance.random() < 0.5 else None)
        core = self.cores[HERE]
        view = core._context.view if chance.random() < 0.8 else self.letters.value(type(core._context.view))
        encoded = _written(message, view)
        if chance.random() < 0.05:
            place = chance.randrange(len(encoded) + 1)
            encoded = encoded[:place] + bytes([chance.randrange(256)]) + encoded[place + 1 :]
        return encoded

    def receive(self, receiver, sender, encoded):
        core = self.cores[receiver]
        refused, is_early_kept, under_way = _refused(core), bool(core._early._kept), core._coordinator.under_way()
        view = core.view
        number = core.channels.handled_through(sender) + 1
        effects = self.step(receiver, PeerMessage(sender, number, encoded))
        # A Ready that is refused ends its update, and others may go on. A view begins without a refused outcome.
        has_ended_one = core._coordinator.under_way() != under_way or core.view != view
        if _refused(core) > refused and not (is_early_kept or has_ended_one):
            assert not (effects.records.nodes or effects.records.arcs or effects.replies or effects.messages)

    def restart(self, server):
        """Go on from what is durable, as after a crash."""
        faults = self.cores[server].channels.faults
        self.cores[server] = _started(server, self.disks[server])
        self.cores[server].protect(self.policy)
        self.cores[server].channels.faults.update(faults)
        self.step(server, Tick())
        for other in SERVERS:
            if other != server:
                self.step(server, PeerMet(other, (Subnet(other),)))


def _started(server, disk):
    others = {Subnet(other): f"{other}:1" for other in SERVERS if other != server}
    return ServerCore.restore(disk.read(), subnets=[Subnet(server)], peers=others)


def _refused(core):
    """Return the number of letters that were refused whole."""
    return sum(count for (_, fault), count in core.channels.faults.items() if fault != PeerFault.UNSAID)


def _written(message, view):
    try:
        return encode(message, view)
    except OverflowError:  # numbers that no letter holds
        return b"\xc1"
