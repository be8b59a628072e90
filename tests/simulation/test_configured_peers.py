"""The table of peers follows a configuration that is read again while servers run."""

import pytest

from namegraph.events import AddPeer, ConfigurePeer, RemovePeer
from namegraph.model.names import NodeId, Subnet
from namegraph.model.operations import JoinArc
from namegraph.model.outcomes import Committed
from namegraph.model.refusals import Reason
from tests.simulation.scene import A, B, C, G, Scene

NEW, KIM = Subnet("new.example"), NodeId("kim@new.example")
MOVED = "b.example:7499"


@pytest.fixture
def scene():
    return Scene()


def addresses(scene):
    return dict(scene.core(A).peer_addresses)


def test_an_address_of_the_configuration_is_followed_where_the_server_has_moved(scene):
    before = addresses(scene)
    assert isinstance(scene.command(A, ConfigurePeer, Subnet(B), MOVED), Committed)
    assert addresses(scene) == {**before, Subnet(B): MOVED}
    # An operator cannot say otherwise, and learns where to change it.
    refusal = scene.command(A, AddPeer, Subnet(B), "b.example:1")
    assert MOVED in refusal.message
    assert "SIGHUP" in refusal.message


def test_a_subnet_that_is_new_in_the_configuration_is_expected(scene):
    assert isinstance(scene.command(A, ConfigurePeer, NEW, "new.example:1"), Committed)
    assert addresses(scene)[NEW] == "new.example:1"
    assert scene.refused(A, JoinArc(G[A], KIM)) is Reason.UNAVAILABLE


def test_a_new_subnet_of_which_something_is_in_use_is_refused_and_named(scene):
    scene.done(A, JoinArc(G[A], KIM))
    before = addresses(scene)
    refusal = scene.command(A, ConfigurePeer, NEW, "new.example:1")
    assert refusal.reason is Reason.NAME_IN_USE
    assert KIM in refusal.message
    assert addresses(scene) == before


def test_own_subnets_cannot_become_those_of_a_peer(scene):
    assert scene.command(A, ConfigurePeer, Subnet(A), "a.example:1").reason is Reason.INVALID_REQUEST


def test_a_subnet_that_the_configuration_names_no_longer_has_no_owner(scene):
    assert isinstance(scene.command(A, ConfigurePeer, Subnet(C), None), Committed)
    assert Subnet(C) not in addresses(scene)
    assert scene.core(A).owner_of(Subnet(C)) is None


def test_a_subnet_in_use_that_the_configuration_names_no_longer_stays_until_an_operator_removes_it(scene):
    scene.done(A, JoinArc(G[A], G[C]))
    before = addresses(scene)
    refusal = scene.command(A, ConfigurePeer, Subnet(C), None)
    assert refusal.reason is Reason.NAME_IN_USE
    assert before[Subnet(C)] in refusal.message
    assert addresses(scene) == before
    # It is no longer for the configuration to say.
    assert scene.command(A, RemovePeer, Subnet(C)).reason is Reason.NAME_IN_USE
    assert isinstance(scene.command(A, AddPeer, Subnet(C), "c.example:1"), Committed)


def test_a_subnet_that_an_operator_added_as_well_stays_as_he_said(scene):
    before = addresses(scene)
    assert isinstance(scene.command(A, AddPeer, Subnet(C), before[Subnet(C)]), Committed)
    refusal = scene.command(A, ConfigurePeer, Subnet(C), None)
    assert f"shadowtree peers remove {C}" in refusal.message
    assert addresses(scene) == before


def test_what_the_configuration_did_not_name_is_left_alone(scene):
    before = addresses(scene)
    assert isinstance(scene.command(A, ConfigurePeer, NEW, None), Committed)
    assert addresses(scene) == before
