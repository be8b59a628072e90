"""Many checks over one stream: batches, the window, and answers matched to pairs."""

import itertools

import pytest

from shadowtree.client.bulk_check import BATCH_PAIRS, WINDOW_BATCHES, BulkCheck
from shadowtree.errors import ServerFault
from shadowtree.results import Check
from shadowtree.v1 import name_service_pb2


def response(answers, **fields):
    return name_service_pb2.CheckBulkResponse(answers=bytes(answers), revision="r", **fields)


def pairs(count):
    return [(f"g{number}@x", f"m{number}@x") for number in range(count)]


def test_pairs_are_taken_no_further_than_the_window():
    taken = itertools.count()
    bulk = BulkCheck(((f"g{next(taken)}@x", "m@x") for _ in itertools.count()), None)
    assert len(list(bulk.next_requests())) == WINDOW_BATCHES
    assert next(taken) == WINDOW_BATCHES * BATCH_PAIRS
    assert list(bulk.next_requests()) == []
    bulk.read(response([1] * BATCH_PAIRS))
    assert len(list(bulk.next_requests())) == 1
    assert not bulk.is_sent


@pytest.mark.parametrize("count", [0, 1, BATCH_PAIRS - 1, BATCH_PAIRS, BATCH_PAIRS + 1, 3 * BATCH_PAIRS])
def test_every_pair_is_asked_once_in_order(count):
    bulk = BulkCheck(pairs(count), None)
    asked, answered = [], []
    while not bulk.is_finished:
        for request in bulk.next_requests():
            asked += zip(request.groups, request.members, strict=True)
            assert len(request.groups) > 0
        if not bulk.is_finished:
            answered += bulk.read(response([1] * min(BATCH_PAIRS, count - len(answered))))
    bulk.end_of_stream()
    assert asked == pairs(count)
    assert [(check.group, check.member) for check in answered] == pairs(count)


def test_only_the_first_request_asks_for_a_revision():
    bulk = BulkCheck(pairs(2 * BATCH_PAIRS), "r7")
    assert [request.at_least_revision for request in bulk.next_requests()] == ["r7", ""]


def test_answers_are_checks_like_any_other_and_a_byte_that_is_unknown_is_no_answer():
    bulk = BulkCheck(pairs(4), None)
    list(bulk.next_requests())
    assert list(bulk.read(response([2, 1, 0, 3], unreachable=["z@y", "a@y"]))) == [
        Check("g0@x", "m0@x", False, (), (), "r"),
        Check("g1@x", "m1@x", True, (), (), "r"),
        Check("g2@x", "m2@x", None, (), ("a@y", "z@y"), "r"),
        Check("g3@x", "m3@x", None, (), ("a@y", "z@y"), "r"),
    ]


def test_too_few_answers_are_given_out_and_must_be_followed_by_an_error():
    bulk = BulkCheck(pairs(3), None)
    list(bulk.next_requests())
    assert len(list(bulk.read(response([1, 1])))) == 2
    with pytest.raises(ServerFault):
        bulk.end_of_stream()


def test_answers_that_were_not_asked_for_are_a_fault():
    bulk = BulkCheck(pairs(3), None)
    with pytest.raises(ServerFault):
        bulk.read(response([1]))
    list(bulk.next_requests())
    with pytest.raises(ServerFault):
        bulk.read(response([1] * 4))
