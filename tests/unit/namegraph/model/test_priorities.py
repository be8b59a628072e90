"""Priorities order updates; as revisions they travel to clients and come back, perhaps damaged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from namegraph.model.names import ServerId
from namegraph.model.priorities import Priority, parse_revision, revision_of
from namegraph.model.refusals import Reason, RefusedError
from namegraph.update.causal_reads import Wait
from tests.cores import CoreUnderTest


def test_priorities_are_ordered_by_counter_and_then_by_server():
    assert (
        Priority(1, ServerId("z"))
        < Priority(2, ServerId("a"))
        < Priority(2, ServerId("b"))
        < Priority(10, ServerId("a"))
    )


SERVER_NAME = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,250}[a-z0-9])?", fullmatch=True).map(ServerId)


@given(st.integers(0, 2**63 - 1), SERVER_NAME, SERVER_NAME)
def test_a_revision_reads_back_as_the_priority_and_the_coordinator_that_wrote_it(counter, coordinator, voter):
    revision = parse_revision(revision_of(Priority(counter, voter), coordinator=coordinator))
    assert (revision.final, revision.server) == (Priority(counter, voter), coordinator)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "@",
        "1",
        "1@",
        "@x",
        "-1@x",
        "+1@x",
        " 1@x",
        "1.0@x",
        "1@x/",
        "1@/x",
        "٣@x",
        "²@x",
        "1" * 20 + "@x",
        "9" * 9999,
    ],
)
def test_what_is_no_revision_is_refused_in_a_short_message(text):
    with pytest.raises(ValueError, match="is no revision") as caught:
        parse_revision(text)
    assert len(str(caught.value)) < 200


@given(st.text())
def test_any_text_is_a_revision_or_a_value_error(text):
    try:
        revision = parse_revision(text)
    except ValueError:
        return
    assert revision.counter >= 0


def required(core, revision):
    try:
        return core.waits_for(revision)
    except RefusedError as error:
        return error.refusal.reason


def test_a_server_reflects_its_own_revisions_and_none_that_it_has_not_seen():
    server = CoreUnderTest("x.example")
    first = server.core.revision
    (made,) = server.create("g@x.example")
    assert required(server.core, first) is Wait.REFLECTED
    assert required(server.core, made.revision) is Wait.REFLECTED
    assert made.revision == server.core.revision
    assert required(server.core, "2@x.example") is Reason.UNAVAILABLE
    assert required(server.core, "1@y.example") is Reason.UNAVAILABLE
    assert required(server.core, "nonsense") is Reason.INVALID_REQUEST


def test_a_refused_update_makes_no_revision():
    server = CoreUnderTest("x.example")
    before = server.core.revision
    server.ask()
    assert server.core.revision == before
