"""Request ids: a repeated request gets the first answer again, as long as it is remembered. Semantics 6."""

from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from namegraph.events import ImportCommand, UpdateCommand
from namegraph.model.names import NodeId, ServerId, parse_name
from namegraph.model.operations import ChildKind, CreateGroup, DeleteGroup, JoinArc, LeaveArc
from namegraph.model.outcomes import Committed, EffectKind, GraphEffect, ImportCounts
from namegraph.model.refusals import Reason, Refusal, RefusedError
from namegraph.model.rows import Records, RequestId
from namegraph.state.pending_requests import PendingRequest, PendingRequests
from namegraph.state.request_log import REQUEST_ID_LENGTH_LIMIT, RequestLog, decode_outcome, digest_of, encode_outcome
from namegraph.wire.message_parts import UpdateId
from tests.cores import CoreUnderTest

A, B = parse_name("a@x.example"), parse_name("b@x.example")

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
effects = st.builds(
    GraphEffect,
    st.sampled_from(EffectKind),
    st.lists(texts, max_size=3).map(tuple),
    st.lists(texts, max_size=2).map(tuple),
)
counts = st.builds(ImportCounts, *[st.integers(0, 10**9)] * 3)
outcomes = st.builds(Committed, texts, st.lists(effects, max_size=3).map(tuple), st.none() | counts) | st.builds(
    Refusal, st.sampled_from(Reason), texts, st.dictionaries(texts, texts, max_size=3)
)


@given(outcomes)
def test_an_outcome_reads_back_as_it_was_written(outcome):
    assert decode_outcome(encode_outcome(outcome)) == outcome


def update(*operations, request_id="r", ticket=1, deadline=None):
    return UpdateCommand(ticket, RequestId(request_id), operations, deadline)


def test_the_digest_is_that_of_the_operations_alone():
    first = digest_of(update(JoinArc(A, B)))
    assert digest_of(update(JoinArc(A, B), request_id="s", ticket=2, deadline=3.0)) == first


@pytest.mark.parametrize(
    "operations",
    [
        [],
        [JoinArc(A, B), JoinArc(A, B)],
        [JoinArc(B, A)],
        [JoinArc(A, B, ChildKind.GROUP)],
        [JoinArc(A, B, cost=1)],
        [LeaveArc(A, B)],
        [CreateGroup(A)],
        [DeleteGroup(A)],
        [DeleteGroup(A, force=True)],
    ],
)
def test_other_operations_have_another_digest(operations):
    assert digest_of(update(*operations)) != digest_of(update(JoinArc(A, B)))


@pytest.mark.parametrize(
    "columns",
    [
        {"names": [B, A]},
        {"parents": [1], "children": [0]},
        {"kinds": b"\2"},
        {"groups": [1]},
        {"parents": [], "children": [], "kinds": b""},
    ],
)
def test_another_import_has_another_digest(columns):
    whole = {"names": [A, B], "parents": [0], "children": [1], "kinds": b"\1", "groups": []}
    first = digest_of(ImportCommand(1, RequestId("r"), **whole))
    assert digest_of(ImportCommand(2, RequestId("s"), **whole, deadline=1.0)) == first
    assert digest_of(ImportCommand(1, RequestId("r"), **(whole | columns))) != first


def test_a_commit_is_answered_again_and_done_once():
    server = CoreUnderTest("x.example")
    first = server.ask(CreateGroup(A), request_id="r")
    revision = server.core.revision
    assert server.ask(CreateGroup(A), request_id="r") == first
    assert server.core.revision == revision


def test_a_refusal_is_answered_again_whatever_changed_since():
    server = CoreUnderTest("x.example")
    first = server.ask(JoinArc(A, B), request_id="r")
    assert first.reason is Reason.GROUP_NOT_FOUND
    server.create(A)
    assert server.ask(JoinArc(A, B), request_id="r") == first
    assert server.counts().arcs == 0


def test_a_request_id_used_for_another_update_is_refused_and_the_first_answer_stays():
    server = CoreUnderTest("x.example")
    first = server.ask(CreateGroup(A), request_id="r")
    refusal = server.ask(CreateGroup(B), request_id="r")
    assert (refusal.reason, dict(refusal.facts)) == (Reason.INVALID_REQUEST, {"request_id": "r"})
    assert server.bring([(A, B, 1)], request_id="r").reason is Reason.INVALID_REQUEST
    assert server.ask(CreateGroup(A), request_id="r") == first


@pytest.mark.parametrize("request_id", ["", "r" * (REQUEST_ID_LENGTH_LIMIT + 1)])
def test_a_request_id_of_no_or_too_many_characters_is_refused_and_nothing_is_remembered(request_id):
    server = CoreUnderTest("x.example")
    effects = server.core.step(update(CreateGroup(A), request_id=request_id), 0.0)
    assert effects.replies[0].outcome.reason is Reason.INVALID_REQUEST
    assert effects.records.is_empty()
    assert not server.core.graph.ids


def test_the_longest_request_id_is_accepted():
    CoreUnderTest("x.example").ask(CreateGroup(A), request_id="r" * REQUEST_ID_LENGTH_LIMIT)


def test_an_update_that_comes_too_late_is_refused_and_may_be_tried_again_under_the_same_id():
    server = CoreUnderTest("x.example")
    late = server.ask(CreateGroup(A), request_id="r", now=2.0, deadline=1.0)
    assert late.reason is Reason.DEADLINE_EXCEEDED
    assert isinstance(server.ask(CreateGroup(A), request_id="r", now=1.0, deadline=1.0), Committed)
    assert isinstance(server.ask(CreateGroup(A), request_id="r", now=9.0, deadline=1.0), Committed), "the first answer"


def test_answers_outlive_a_restart():
    server = CoreUnderTest("x.example")
    done = server.ask(CreateGroup(A), request_id="done")
    refused = server.ask(CreateGroup(A), request_id="refused")
    brought = server.bring([(A, B, 1)], request_id="brought")
    server.restart()
    assert server.ask(CreateGroup(A), request_id="done") == done
    assert server.ask(CreateGroup(A), request_id="refused") == refused
    assert server.bring([(A, B, 1)], request_id="brought") == brought
    server.ask(CreateGroup(B), request_id="later")
    assert [row.sequence for row in server.records.outcomes] == [0, 1, 2, 3]


def remember(memory, name, *, size=1):
    records = Records()
    memory.remember(RequestId(name), "digest", Committed("x" * size), records)
    return records


def known(memory, name):
    return memory.first_answer(RequestId(name), "digest") is not None


def test_beyond_the_limit_the_oldest_answers_are_forgotten_and_the_rows_say_so():
    with patch("namegraph.state.request_log.OUTCOMES_LIMIT", 3):
        memory = RequestLog()
        forgotten = [remember(memory, f"r{number}").forget_outcomes_through for number in range(5)]
    assert forgotten == [None, None, None, 0, 1]
    assert [known(memory, f"r{number}") for number in range(5)] == [False, False, True, True, True]


def test_beyond_the_size_limit_the_oldest_answers_are_forgotten_but_never_the_newest():
    with patch("namegraph.state.request_log.OUTCOMES_SIZE_LIMIT", 350):
        memory = RequestLog()
        remember(memory, "small")
        assert remember(memory, "large", size=200).forget_outcomes_through is None
        assert remember(memory, "other", size=200).forget_outcomes_through == 1
        assert remember(memory, "huge", size=1_000).forget_outcomes_through == 2
        assert known(memory, "huge")
        remember(memory, "small again")
        assert not known(memory, "huge")


def test_a_forgotten_request_id_is_a_new_request_and_what_is_stored_agrees():
    with patch("namegraph.state.request_log.OUTCOMES_LIMIT", 2):
        server = CoreUnderTest("x.example")
        server.ask(CreateGroup(A), request_id="r")
        server.ask(CreateGroup(B), request_id="s")
        server.ask(DeleteGroup(A), request_id="t")
        assert isinstance(server.ask(CreateGroup(A), request_id="r"), Committed)
        assert [row.request_id for row in server.stored().outcomes] == ["r", "t"]
        server.restart()
        assert server.ask(CreateGroup(B), request_id="s").reason is Reason.GROUP_EXISTS


def test_memory_read_back_in_any_order_forgets_in_the_order_of_decisions():
    memory = RequestLog()
    rows = [row for number in range(4) for row in remember(memory, f"r{number}").outcomes]
    with patch("namegraph.state.request_log.OUTCOMES_LIMIT", 4):
        again = RequestLog([rows[2], rows[0], rows[3], rows[1]])
        assert remember(again, "r4").forget_outcomes_through == 0
        assert [known(again, f"r{number}") for number in range(5)] == [False, True, True, True, True]


def test_another_digest_under_a_known_id_is_refused():
    memory = RequestLog()
    remember(memory, "r")
    with pytest.raises(RefusedError) as caught:
        memory.first_answer(RequestId("r"), "another digest")
    assert caught.value.refusal.reason is Reason.INVALID_REQUEST


def test_effects_survive_the_way_through_storage_with_their_types():
    effect = GraphEffect(EffectKind.FORMED, (NodeId("a@x"), NodeId("b@x")), (ServerId("x"),))
    (found,) = decode_outcome(encode_outcome(Committed("1@x", (effect,)))).effects
    assert found.kind is EffectKind.FORMED
    assert found == effect


def test_a_completed_outcome_keeps_its_place_among_the_oldest():
    memory = RequestLog()
    rows = [row for number in range(3) for row in remember(memory, f"r{number}").outcomes]
    effect = GraphEffect(EffectKind.CONTROLLED, (NodeId("a@x"),), (ServerId("x"),))
    records = Records()
    memory.complete(RequestId("r0"), Committed("1@x", (effect,)), records)
    (row,) = records.outcomes
    assert row._replace(outcome=rows[0].outcome) == rows[0]
    assert decode_outcome(row.outcome) == Committed("1@x", (effect,))
    assert memory.first_answer(row.request_id, row.digest) == Committed("1@x", (effect,))
    with patch("namegraph.state.request_log.OUTCOMES_LIMIT", 3):
        assert remember(memory, "r3").forget_outcomes_through == 0


def test_an_outcome_that_is_remembered_again_has_one_place():
    memory = RequestLog()
    remember(memory, "r")
    remember(memory, "r", size=2)
    remember(memory, "s")
    assert memory.first_answer(RequestId("r"), "digest") == Committed("xx")
    with patch("namegraph.state.request_log.OUTCOMES_LIMIT", 1):
        remember(memory, "t")
    assert [known(memory, name) for name in "rst"] == [False, False, True]


def test_an_outcome_that_is_forgotten_stays_so_when_more_of_it_is_known():
    records = Records()
    RequestLog().complete(RequestId("r"), Committed("1@x"), records)
    assert records.is_empty()


def test_an_update_whose_outcome_was_forgotten_over_a_restart_ends_without_a_reply():
    requests, update_id = PendingRequests(), UpdateId(ServerId("x"), 1)
    requests.begin(update_id, PendingRequest(RequestId("r"), "", []))
    requests.complete(update_id, ())
    assert requests.answer(update_id, is_confirmed=True) == []
