"""Nodes that became controlled or released by an update over several servers, and the report to its caller."""

from unittest.mock import patch

import pytest

from namegraph.events import ImportCommand, PeerMessage, UpdateCommand
from namegraph.model.names import NodeId, ServerId
from namegraph.model.operations import ChildKind, JoinArc
from namegraph.model.outcomes import Committed, EffectKind
from namegraph.model.rows import RequestId
from namegraph.wire.codec import encode
from namegraph.wire.message_parts import UpdateId
from namegraph.wire.update_messages import Done
from simulation.oracle.violation import InvariantViolatedError
from simulation.run import SeedRun
from tests.universe import Universe

TOP, LEFT, RIGHT, SINK, OTHER = "top@a", "left@b", "right@c", "sink@d", "other@d"
SEED_THAT_CONTROLS = 2
"""Any in which something becomes controlled over servers."""
GUEST = "guest@nobody.example"


@pytest.fixture
def diamond():
    """Return all of a diamond except the arc to its right side. A group of the sink's own server is below the sink."""
    universe = Universe("a", "b", "c", "d")
    universe.create(TOP, LEFT, RIGHT, SINK, OTHER)
    for parent, child in ((TOP, LEFT), (LEFT, SINK), (RIGHT, SINK), (LEFT, OTHER), (SINK, OTHER)):
        universe.join(parent, child)
    return universe


def join(parent, child):
    return JoinArc(NodeId(parent), NodeId(child))


def told(outcome):
    return [(effect.kind, effect.groups, effect.servers) for effect in outcome.effects]


def test_the_sink_is_reported_though_its_home_has_no_end_of_the_arc(diamond):
    assert told(diamond.join(TOP, RIGHT)) == [(EffectKind.CONTROLLED, (SINK,), ("d",))]
    assert told(diamond.leave(TOP, RIGHT)) == [(EffectKind.RELEASED, (SINK,), ("d",))]


def test_sinks_on_several_servers_are_united(diamond):
    diamond.join(LEFT, "ann@b", ChildKind.PROCESS)
    diamond.join(RIGHT, "ann@b", ChildKind.PROCESS)
    assert told(diamond.join(TOP, RIGHT)) == [(EffectKind.CONTROLLED, ("ann@b", SINK), ("b", "d"))]


def test_a_foreign_process_is_a_sink_of_the_servers_where_it_was_joined(diamond):
    diamond.create("another@b")
    for parent in (LEFT, "another@b", RIGHT):
        diamond.join(parent, GUEST)
    assert told(diamond.join(TOP, "another@b")) == [(EffectKind.CONTROLLED, (GUEST,), ("b",))]


def test_beyond_the_limit_only_the_children_of_the_updates_arcs_are_compared(diamond):
    with patch("namegraph.update.participant.AFFECTED_COMPARED_LIMIT", 1):
        assert told(diamond.join(TOP, RIGHT)) == []
        assert told(diamond.join(TOP, SINK)) == []
        assert told(diamond.leave(RIGHT, SINK)) == []
        diamond.leave(TOP, SINK)
        assert told(diamond.join(TOP, SINK)) == [(EffectKind.CONTROLLED, (SINK,), ("d",))]


def test_a_repeated_request_is_told_the_same_also_after_a_restart(diamond):
    ticket = diamond.submit(join(TOP, RIGHT), request_id="r")
    diamond.cluster.run()
    first = diamond.cluster.answers[ticket]
    assert told(first) == [(EffectKind.CONTROLLED, (SINK,), ("d",))]
    assert diamond.ask(join(TOP, RIGHT), request_id="r") == first
    diamond.restart()
    assert diamond.ask(join(TOP, RIGHT), request_id="r") == first


def test_an_import_reports_none_of_it(diamond):
    names = [NodeId(TOP), NodeId(RIGHT)]
    command = ImportCommand(-1, RequestId("import"), names, [0], [1], bytes([1]), [])
    diamond.cluster.submit(ServerId("a"), command)
    diamond.cluster.run()
    outcome = diamond.cluster.answers[-1]
    assert isinstance(outcome, Committed)
    assert outcome.effects == ()
    assert told(diamond.leave(TOP, RIGHT)) == [(EffectKind.RELEASED, (SINK,), ("d",))]


def test_for_a_caller_who_does_not_ask_it_is_neither_computed_nor_told(diamond):
    command = UpdateCommand(-1, RequestId("quietly"), (join(TOP, RIGHT),))
    diamond.cluster.submit(ServerId("a"), command)
    with patch("namegraph.update.participant.controlled_among", side_effect=AssertionError("nobody wants to know")):
        diamond.cluster.run()
    assert told(diamond.cluster.answers[-1]) == []


def test_a_server_may_not_say_it_of_a_node_of_another(diamond):
    core = diamond.servers[ServerId("a")]
    letter = Done(UpdateId(ServerId("a"), 1), controlled=(NodeId(RIGHT),))
    number = core.channels.handled_through(ServerId("b")) + 1
    core.step(PeerMessage(ServerId("b"), number, encode(letter)), 0.0)
    assert core.channels.faults[ServerId("b"), "speaks for a node it does not own"] == 1


def test_the_simulator_notices_what_is_not_told():
    run = SeedRun(SEED_THAT_CONTROLS)
    with (
        patch("namegraph.update.coordinator.united_reports", lambda _: ()),
        pytest.raises(InvariantViolatedError, match="was told"),
    ):
        run.run()
