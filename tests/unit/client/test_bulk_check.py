"""Many checks over one stream: batches, the window, and answers matched to pairs."""

import itertools

import pytest

from shadowtree.client.bulk_check import BATCH_PAIRS, WINDOW_BATCHES, BulkCheck, awaited_batches, batches
from shadowtree.errors import InvalidRequest, ServerFault
from shadowtree.results import Check
from shadowtree.v1 import name_service_pb2


def response(answers, **fields):
    return name_service_pb2.CheckBulkResponse(answers=bytes(answers), revision="r", **fields)


def pairs(count):
    return [(f"g{number}@x", f"m{number}@x") for number in range(count)]


def ask_what_has_room(bulk, coming):
    """Give the requests that may be sent now."""
    requests = []
    while bulk.has_room:
        requests += bulk.ask(next(coming))
    return requests


def test_pairs_are_taken_no_further_than_the_window():
    taken = itertools.count()
    bulk, coming = BulkCheck(None), batches((f"g{next(taken)}@x", "m@x") for _ in itertools.count())
    assert len(ask_what_has_room(bulk, coming)) == WINDOW_BATCHES
    assert next(taken) == WINDOW_BATCHES * BATCH_PAIRS
    assert ask_what_has_room(bulk, coming) == []
    bulk.read(response([1] * BATCH_PAIRS))
    assert len(ask_what_has_room(bulk, coming)) == 1
    assert not bulk.is_sent


@pytest.mark.parametrize("count", [0, 1, BATCH_PAIRS - 1, BATCH_PAIRS, BATCH_PAIRS + 1, 3 * BATCH_PAIRS])
def test_every_pair_is_asked_once_in_order(count):
    bulk, coming = BulkCheck(None), batches(pairs(count))
    asked, answered = [], []
    while not bulk.is_finished:
        for request in ask_what_has_room(bulk, coming):
            asked += zip(request.groups, request.members, strict=True)
            assert len(request.groups) > 0
        if not bulk.is_finished:
            answered += bulk.read(response([1] * min(BATCH_PAIRS, count - len(answered))))
    bulk.end_of_stream()
    assert asked == pairs(count)
    assert [(check.group, check.member) for check in answered] == pairs(count)


def test_only_the_first_request_asks_for_a_revision():
    requests = ask_what_has_room(BulkCheck("r7"), batches(pairs(2 * BATCH_PAIRS)))
    assert [request.at_least_revision for request in requests] == ["r7", ""]


def test_what_was_not_answered_is_asked_again_over_a_new_stream():
    bulk, coming = BulkCheck("r7"), batches(pairs(3 * BATCH_PAIRS))
    asked = ask_what_has_room(bulk, coming)
    bulk.read(response([1] * BATCH_PAIRS))
    again = list(bulk.begin_stream())
    assert [list(request.groups) for request in again] == [list(request.groups) for request in asked[1:]]
    assert [request.at_least_revision for request in again] == ["r7", ""]


def test_answers_that_were_cut_short_are_not_asked_again():
    """The server found a pair that it does not answer."""
    bulk = BulkCheck(None)
    ask_what_has_room(bulk, batches(pairs(3)))
    list(bulk.read(response([1, 1])))
    with pytest.raises(ServerFault):
        list(bulk.begin_stream())


@pytest.mark.parametrize("count", [0, 1, BATCH_PAIRS - 1, BATCH_PAIRS, BATCH_PAIRS + 1])
async def test_pairs_that_are_awaited_come_in_the_same_batches(count):
    async def coming():
        for pair in pairs(count):
            yield pair

    assert [batch async for batch in awaited_batches(coming())] == list(batches(pairs(count)))


@pytest.mark.parametrize("wrong", [[1], ["ab", "abc"], [("g@x",)], [("g@x", 7)], [(b"g@x", "m@x", "n@x")]])
def test_what_are_no_pairs_is_refused(wrong):
    with pytest.raises(InvalidRequest, match="pairs of a group and a member"):
        list(BulkCheck(None).ask(wrong))


def test_answers_are_checks_like_any_other_and_a_byte_that_is_unknown_is_no_answer():
    bulk = BulkCheck(None)
    coming = batches(pairs(4))
    ask_what_has_room(bulk, coming)
    assert list(bulk.read(response([2, 1, 0, 3], unreachable=["z@y", "a@y"]))) == [
        Check("g0@x", "m0@x", False, (), (), "r"),
        Check("g1@x", "m1@x", True, (), (), "r"),
        Check("g2@x", "m2@x", None, (), ("a@y", "z@y"), "r"),
        Check("g3@x", "m3@x", None, (), ("a@y", "z@y"), "r"),
    ]


def test_too_few_answers_are_given_out_and_must_be_followed_by_an_error():
    bulk = BulkCheck(None)
    coming = batches(pairs(3))
    ask_what_has_room(bulk, coming)
    assert len(list(bulk.read(response([1, 1])))) == 2
    with pytest.raises(ServerFault):
        bulk.end_of_stream()


def test_answers_that_were_not_asked_for_are_a_fault():
    bulk = BulkCheck(None)
    coming = batches(pairs(3))
    with pytest.raises(ServerFault):
        bulk.read(response([1]))
    ask_what_has_room(bulk, coming)
    with pytest.raises(ServerFault):
        bulk.read(response([1] * 4))
