"""Real commits with a mutation, each well formed on its own. The server goes on, whatever it believes.

A refused commit leaves no trace. A mutation that this server cannot detect (about nodes of other homes) may be
believed. Then the server still restarts from its durable state, and goes on.
"""

import random

from msgspec import structs

from namegraph.events import PeerMessage
from namegraph.model.operations import ChildKind, CreateGroup, DeleteGroup, JoinArc, LeaveArc
from namegraph.model.rows import NodeKind
from namegraph.wire.arc_sets import arcs_of, each_arc, each_record, records_of
from namegraph.wire.codec import decode_in_view, decode_outcome, encode, encode_outcome
from namegraph.wire.message_parts import AncestryRecord, ArcId, GroupChange, InArc, KnownArc, Vnid
from namegraph.wire.older_forms import outcome_in_columns
from namegraph.wire.update_messages import Commit
from tests.hostile_scene import GROUPS, HERE, OTHER, PEOPLE, THIRD, Scene
from tests.seeds import seeds

SEEDS = 100
UPDATES = 12
PARTS_OF_CHANNELS = ("inbox", "outbox", "sent", "unmet")
NODES = GROUPS + PEOPLE
ANSWERING = [node for node in NODES if not node.endswith(THIRD)]
"""Nodes of servers that answer."""


class Mutating(Scene):
    """Updates of both servers, of which commits to here come once more before, changed."""

    def __init__(self, seed, *, lies):
        super().__init__(seed)
        self.liar = random.Random(f"lies of {seed}")
        self.lies, self.refused, self.believed = lies, 0, 0

    def talk(self):
        for _ in range(UPDATES):
            for _ in range(self.chance.randint(1, 3)):
                self.act_quietly()
            for _ in range(self.chance.randint(0, 30)):
                self.deliver_next()
        while any(self.pending.values()):
            self.deliver_next()

    def act_quietly(self):
        """Make an update without losing a server."""
        chance, server = self.chance, self.chance.choice([HERE, OTHER])
        group, other = chance.choice([group for group in GROUPS if group.endswith(server)]), chance.choice(ANSWERING)
        kind = ChildKind.PROCESS if other in PEOPLE else ChildKind.GROUP
        roll = chance.random()
        if roll < 0.1:
            self.ask(server, chance.choice([CreateGroup(group), DeleteGroup(group, force=True)]))
        elif roll < 0.4:
            self.ask(server, LeaveArc(group, other, if_needed=chance.random() < 0.5))
        else:
            third = chance.choice([node for node in ANSWERING if node in GROUPS and node not in (group, other)])
            self.ask(
                server,
                JoinArc(group, other, chance.choice([kind, ChildKind.AUTO]), if_needed=chance.random() < 0.5),
                *([JoinArc(third, group, if_needed=True)] if roll < 0.6 else []),
            )

    def deliver_next(self):
        channels = [channel for channel in sorted(self.pending) if self.pending[channel]]
        if not channels:
            return
        sender, receiver = self.chance.choice(channels)
        encoded = self.pending[sender, receiver].pop(0)
        view, message = decode_in_view(encoded)
        if receiver == HERE and isinstance(message, Commit) and self.lies:
            for _ in range(3):
                lie = self.changed(message)
                if lie != message and self.is_believed(encode(lie, view)):
                    return
        self.receive(receiver, sender, encoded)

    def is_believed(self, encoded):
        core = self.cores[HERE]
        before, faults = self.state(), core.channels.faults.total()
        number = core.channels.handled_through(OTHER) + 1
        effects = self.step(HERE, PeerMessage(OTHER, number, encoded))
        if core.channels.faults.total() == faults:
            self.believed += 1
            self.restart(HERE)
            return True
        self.refused += 1
        assert not (effects.records.nodes or effects.records.arcs or effects.replies or effects.messages)
        assert self.state() == before
        return False

    def state(self):
        found = self.disks[HERE].read()
        found.protocol[:] = sorted(row for row in found.protocol if row.part not in PARTS_OF_CHANNELS)
        return found

    def changed(self, commit):
        outcome = decode_outcome(commit.outcome)
        for _ in range(self.liar.choice([1, 1, 2])):
            lie = self.liar.choice([self.arcs, self.arcs, self.groups, self.renamed, self.relay, self.rest])
            outcome = lie(outcome)
        if self.liar.random() < 0.3:
            outcome = outcome_in_columns(outcome)
        return structs.replace(commit, outcome=encode_outcome(outcome))

    def arcs(self, outcome):
        liar, found = self.liar, list(each_arc(outcome.arcs))
        roll = liar.random()
        if found and roll < 0.3:
            found.pop(liar.randrange(len(found)))
        elif found and roll < 0.7:
            place = liar.randrange(len(found))
            found[place] = found[place]._replace(**self.of_arc())
        else:
            arc = ArcId(liar.choice(NODES), liar.choice(NODES))
            found.append(KnownArc(arc, True, NodeKind.GROUP, 0, 1)._replace(**self.of_arc()))
        return structs.replace(outcome, arcs=arcs_of(found))

    def of_arc(self):
        liar = self.liar
        return liar.choice(
            [
                {"is_present": liar.choice([True, False, None])},
                {"kind": liar.choice([NodeKind.GROUP, NodeKind.PROCESS])},
                {"cost": liar.randrange(3)},
                {"version": liar.randrange(4)},
            ]
        )

    def groups(self, outcome):
        liar, found = self.liar, list(outcome.groups)
        if found and liar.random() < 0.5:
            found.pop(liar.randrange(len(found)))
        else:
            found.append(GroupChange(liar.choice(NODES), liar.random() < 0.5))
        return structs.replace(outcome, groups=tuple(found))

    def renamed(self, outcome):
        liar, found = self.liar, dict(outcome.renamed)
        if found and liar.random() < 0.4:
            found.pop(liar.choice(sorted(found)))
        else:
            inside = liar.sample(GROUPS, liar.choice([1, 2, 2, 3]))
            vnid = None if liar.random() < 0.4 else Vnid(min(inside), outcome.final)
            found.update(dict.fromkeys(inside, vnid))
        return structs.replace(outcome, renamed=tuple(sorted(found.items())))

    def relay(self, outcome):
        liar, found = self.liar, list(each_record(outcome.relay))
        if found and liar.random() < 0.3:
            found.pop(liar.randrange(len(found)))
        else:
            node = liar.choice(NODES)
            tails = liar.sample(NODES, liar.randrange(3))
            in_arcs = tuple(InArc(tail, 0, 1, outcome.final.counter) for tail in tails if tail != node)
            found = [record for record in found if record.node != node]
            found.append(AncestryRecord(node, in_arcs, None, outcome.final))
        return structs.replace(outcome, relay=records_of(found))

    def rest(self, outcome):
        liar = self.liar
        return liar.choice(
            [
                lambda: structs.replace(outcome, bases=outcome.bases[1:]),
                lambda: structs.replace(outcome, bases=(*outcome.bases, (liar.choice(NODES), outcome.final))),
                lambda: structs.replace(outcome, final=outcome.final._replace(counter=outcome.final.counter + 1)),
            ]
        )()


def test_a_server_goes_on_whatever_commits_say():
    refused = 0
    for seed in seeds(SEEDS):
        scene = Mutating(seed, lies=True)
        scene.talk()
        scene.restart(HERE)
        refused += scene.refused
    assert refused > len(seeds(SEEDS))
