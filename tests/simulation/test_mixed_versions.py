"""Servers of this version and of the version before work together, while they are upgraded one after another.

An older server is played by one of this version that meets all others in the older version. Its letters are those of
an older server; letters to it are read as an older server reads them.
"""

import random

import msgspec
import pytest
from msgspec import structs

from namegraph.model.names import NodeId
from namegraph.model.operations import ChildKind, JoinArc, LeaveArc
from namegraph.model.outcomes import Committed
from namegraph.model.protocol_versions import LISTS_VERSION
from namegraph.wire.arc_sets import FEW
from namegraph.wire.codec import decode_outcome, encode
from namegraph.wire.inflation import inflated
from namegraph.wire.message_parts import ArcColumns, ArcList, RecordColumns, RecordList
from namegraph.wire.update_messages import Commit, Ready, UpdateOutcome
from simulation.cluster.cluster import WORLD
from simulation.cluster.networks import Errand
from simulation.run import SeedRun
from tests.simulation.scene import RING, A, B, C, G, H, Scene

OLDER = LISTS_VERSION - 1
ANN = NodeId(f"ann@{B}")


def as_it_was(kind, **older):
    """Return a type of messages as the older version had it: with these types of fields."""
    fields = [
        (each.name, older.get(each.name, each.type), *([] if each.required else [each.default]))
        for each in structs.fields(kind)
    ]
    return msgspec.defstruct(kind.__name__, fields, frozen=True, array_like=True, tag=kind.__struct_config__.tag)


OLDER_READY = msgspec.msgpack.Decoder(as_it_was(Ready, arcs=ArcColumns, ancestry=RecordColumns))
OLDER_OUTCOME = msgspec.msgpack.Decoder(as_it_was(UpdateOutcome, arcs=ArcColumns, relay=RecordColumns))


class MixedScene(Scene):
    """Three servers, of which some are of the older version."""

    def __init__(self, *older):
        super().__init__()
        for server in older:
            self.cluster.speaks[server] = OLDER
        for server in older:
            self.cluster.restart(server)
        self.cluster.run()
        self.cluster.sent.clear()

    def upgrade(self, server):
        """Restart a server with the program of this version."""
        del self.cluster.speaks[server]
        self.cluster.restart(server)
        self.cluster.run()

    def sent(self, kind):
        return [sent for sent in self.cluster.sent if isinstance(sent.message, kind)]

    def require_readable(self):
        """Require that older servers can read all `Ready` and all outcomes that were sent to them."""
        for sent in self.sent(Ready):
            if sent.receiver in self.cluster.speaks:
                assert OLDER_READY.decode(encode(sent.message)) is not None
        for sent in self.sent(Commit):
            if sent.receiver in self.cluster.speaks:
                assert OLDER_OUTCOME.decode(inflated(sent.message.outcome)) is not None

    def forms(self):
        """Return the types of arcs and records that were sent since the last call, by sender and receiver."""
        found = {}
        for sent in (*self.sent(Ready), *self.sent(Commit)):
            message = sent.message
            if isinstance(message, Commit):
                outcome = decode_outcome(message.outcome)
                kinds = {type(outcome.arcs), type(outcome.relay)}
            else:
                kinds = {type(message.arcs), type(message.ancestry)}
            found.setdefault((sent.sender, sent.receiver), set()).update(kinds)
        self.cluster.sent.clear()
        return found


LISTS, COLUMNS = {ArcList, RecordList}, {ArcColumns, RecordColumns}


def test_the_older_types_are_those_that_do_not_read_lists():
    scene = MixedScene()
    scene.done(A, JoinArc(G[A], G[B]))
    listed = scene.sent(Ready)[0].message
    with pytest.raises(msgspec.ValidationError):
        OLDER_READY.decode(encode(listed))


def test_servers_of_this_version_list_few_arcs():
    scene = MixedScene()
    scene.done(A, JoinArc(G[A], G[B]))
    assert scene.forms() == {(A, B): LISTS, (B, A): LISTS}


def test_an_older_participant_gets_columns_and_so_does_everybody_who_shares_the_outcome():
    scene = MixedScene(B)
    scene.done(A, JoinArc(G[A], G[B]), JoinArc(G[A], G[C]))
    scene.require_readable()
    # The outcome is encoded once for all.
    assert scene.forms() == {(A, B): COLUMNS, (B, A): COLUMNS, (A, C): COLUMNS, (C, A): LISTS}
    scene.done(A, JoinArc(H[A], H[C]))
    assert scene.forms() == {(A, C): LISTS, (C, A): LISTS}
    scene.check((G[A], G[B]), (G[A], G[C]), (H[A], H[C]))


@pytest.mark.parametrize("older", [(), (B,)], ids=["of one version", "of two versions"])
def test_many_arcs_are_in_columns_whatever_servers_speak(older):
    scene = MixedScene(*older)
    arcs = [(G[A], NodeId(f"g{number}@{B}")) for number in range(FEW)]
    assert isinstance(scene.bring(A, *arcs), Committed)
    scene.require_readable()
    forms = scene.forms()
    assert ArcColumns in forms[A, B]
    # A participant finds an import in columns, here of no arc, and may list the records above it.
    assert forms[B, A] == {ArcColumns, RecordColumns if older else RecordList}
    scene.check(*arcs)


def test_an_older_coordinator_is_answered_in_columns():
    scene = MixedScene(B)
    scene.done(B, JoinArc(G[B], G[A]), JoinArc(G[B], ANN, ChildKind.PROCESS))
    scene.require_readable()
    assert scene.forms() == {(A, B): COLUMNS, (B, A): COLUMNS}
    scene.check((G[B], G[A]), (G[B], ANN))


@pytest.mark.parametrize("order", [(A, B, C), (C, B, A), (B, A, C)])
def test_a_federation_is_upgraded_one_server_after_another(order):
    scene = MixedScene(A, B, C)
    for first, server in zip((0, 1, 2, 0), (*order, None), strict=True):
        ring = RING[first:] + RING[:first]
        scene.done((A, B, C)[first], *(JoinArc(*arc) for arc in ring))
        scene.done(A, JoinArc(G[A], H[B]), JoinArc(H[B], H[C]), JoinArc(G[C], ANN, ChildKind.PROCESS))
        scene.check(*ring, (G[A], H[B]), (H[B], H[C]), (G[C], ANN))
        scene.done((A, B, C)[first], *(LeaveArc(*arc) for arc in ring[:2]))
        scene.done(B, LeaveArc(H[B], H[C]), LeaveArc(*ring[2]))
        scene.require_readable()
        scene.done(C, LeaveArc(G[C], ANN), LeaveArc(G[A], H[B]))
        scene.check()
        assert not any(core.channels.faults for core in scene.cluster.servers.values())
        if server is not None:
            scene.upgrade(server)
    scene.cluster.sent.clear()
    scene.done(A, JoinArc(G[A], G[B]), JoinArc(G[A], G[C]))
    assert set().union(*scene.forms().values()) == LISTS


def test_an_outcome_that_was_decided_before_an_upgrade_is_done_after_it():
    scene = MixedScene(B)
    scene.begin(A, JoinArc(G[A], G[B]), JoinArc(G[A], H[C]))
    scene.go_on_until(lambda sent: isinstance(sent.message, Commit) and sent.receiver == B)
    assert not scene.core(B).graph.children[scene.core(B).graph.index[G[B]]]
    scene.upgrade(B)
    scene.check((G[A], G[B]), (G[A], H[C]))


def test_a_participant_that_is_ready_in_the_older_version_is_decided_with_after_its_upgrade():
    scene = MixedScene(B)
    scene.begin(A, JoinArc(G[A], G[B]))
    scene.go_on_until(lambda sent: isinstance(sent.message, Ready) and sent.sender == B)
    scene.upgrade(B)
    assert {type(sent.message.arcs) for sent in scene.sent(Ready)} == {ArcColumns}
    assert {type(decode_outcome(sent.message.outcome).arcs) for sent in scene.sent(Commit)} == {ArcList}
    scene.check((G[A], G[B]))


def test_an_outcome_in_either_form_is_finished_in_a_view_without_its_coordinator():
    for older in ((), (B,)):
        scene = MixedScene(*older)
        scene.begin(A, JoinArc(G[A], G[B]), JoinArc(G[A], G[C]))
        scene.go_on_until(lambda sent: isinstance(sent.message, Commit) and sent.receiver == C)
        scene.part([A], [B, C])
        scene.meet([A], [B, C])
        scene.check((G[A], G[B]), (G[A], G[C]))


@pytest.mark.parametrize("faults", [False, True], ids=["plain", "faults"])
@pytest.mark.parametrize("seed", range(4))
def test_random_histories_in_which_a_server_is_upgraded_end_as_all_others(seed, faults):
    run = SeedRun(seed, servers=3, updates=8, faults=faults)
    cluster, chance = run._cluster, random.Random(f"upgrade of {seed}")
    server = chance.choice(list(cluster.servers))
    cluster.speaks[server] = OLDER
    cluster.restart(server)

    def upgrade():
        del cluster.speaks[server]
        cluster.crash(server, down_for=0.5) if faults else cluster.restart(server)

    cluster.send_errand(WORLD, Errand(upgrade), delay=chance.uniform(1.0, 20.0))
    run.run()
    assert server not in cluster.speaks
