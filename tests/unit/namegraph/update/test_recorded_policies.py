"""A policy that an update sets is an event of the audit log, in the transaction of the update."""

from namegraph import NodeId, decode_facts
from namegraph.model.operations import CreateGroup, SetPolicy
from namegraph.model.outcomes import Committed
from namegraph.model.policies import Preset
from tests.cores import CoreUnderTest
from tests.rights_scene import policy

G = NodeId("g@a.example")


def test_a_policy_that_is_set_is_noted_once_with_its_subjects():
    server = CoreUnderTest("a.example")
    server.ask(CreateGroup(G))
    for _ in range(2):
        assert isinstance(server.ask(SetPolicy(G, policy(G, Preset.HIDDEN, manage=["ann@a.example"]))), Committed)
    assert [row.kind for row in server.records.changes] == ["update", "policy_set"]
    noted = server.records.changes[-1]
    facts = decode_facts(noted.changes)
    assert (facts["group"], facts["preset"], facts["manage"]) == (G, "hidden", "ann@a.example")
    assert noted.decision == "allowed"


def test_a_policy_that_is_refused_leaves_no_row():
    server = CoreUnderTest("a.example")
    server.ask(SetPolicy(G, policy(G)))
    assert server.records.changes == []
