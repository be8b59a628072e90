"""Each principal has request ids of its own: no other one uses them up, or repeats its requests."""

import pytest

from namegraph.events import UpdateCommand
from namegraph.model.changes import Origin
from namegraph.model.names import NodeId
from namegraph.model.operations import CreateGroup
from namegraph.model.outcomes import Committed
from namegraph.model.policies import People, Preset, ServerPolicy
from namegraph.model.refusals import Reason, Refusal
from namegraph.model.rows import RequestId
from namegraph.state.request_log import own_request_id
from tests.cores import CoreUnderTest

ANN, BOB = "ann@a.x", "bob@a.x"


def ask(core, principal, group, request_id="nightly"):
    command = UpdateCommand(0, RequestId(request_id), (CreateGroup(NodeId(group)),), origin=Origin(principal=principal))
    return core._step(command, 0.0)


@pytest.fixture
def core():
    found = CoreUnderTest("a.x")
    found.core.protect(ServerPolicy(operators=("anyone",), default_preset=Preset.OPEN, people=People.OPEN))
    return found


def test_a_server_that_judges_nobody_keeps_no_principals_apart():
    """A request that is repeated through another server comes as that of another principal."""
    core = CoreUnderTest("a.x")
    assert ask(core, ANN, "one@a.x") == ask(core, "guest@b.x", "one@a.x")


def test_two_principals_use_one_id_for_two_updates(core):
    assert isinstance(ask(core, ANN, "one@a.x"), Committed)
    assert isinstance(ask(core, BOB, "two@a.x"), Committed)
    first = ask(core, ANN, "one@a.x")
    assert isinstance(first, Committed)
    assert first.revision == "1@a.x"


def test_what_another_principal_repeats_is_a_request_of_its_own(core):
    ask(core, ANN, "one@a.x")
    found = ask(core, BOB, "one@a.x")
    assert isinstance(found, Refusal)
    assert found.reason is Reason.GROUP_EXISTS


@pytest.mark.parametrize("nobody", ["", "anonymous"])
def test_callers_that_prove_nothing_share_their_ids_and_use_up_no_others(core, nobody):
    assert isinstance(ask(core, nobody, "one@a.x"), Committed)
    found = ask(core, "", "two@a.x")
    assert isinstance(found, Refusal)
    assert found.facts["request_id"] == "nightly"
    assert isinstance(ask(core, ANN, "two@a.x"), Committed)


def test_a_refusal_tells_the_id_as_its_caller_wrote_it(core):
    ask(core, ANN, "one@a.x")
    found = ask(core, ANN, "two@a.x")
    assert found.reason is Reason.INVALID_REQUEST
    assert found.facts["request_id"] == "nightly"
    assert "'nightly'" in found.message


def test_no_caller_writes_the_id_of_another_one(core):
    found = ask(core, "", "one@a.x", own_request_id(RequestId("nightly"), ANN))
    assert isinstance(found, Refusal)
    assert found.reason is Reason.INVALID_REQUEST


def test_a_server_knows_whose_request_it_has_answered(core):
    ask(core, ANN, "one@a.x")
    assert core.core.has_answered("nightly", ANN)
    assert not core.core.has_answered("nightly", BOB)
    assert not core.core.has_answered("nightly")
