"""The chunks of an atomic update: joined in order, or refused if the stream is not what the first one announces."""

import pytest

from namegraph.model.refusals import Reason, RefusedError
from nameserver.writes.update_chunks import APPLY_OPERATIONS_LIMIT, read_chunks
from shadowtree.v1.name_service_pb2 import ApplyUpdatesChunk, ApplyUpdatesRequest

Operation = ApplyUpdatesRequest.Operation


def operations(first, last):
    return [Operation(parent="g@b.c", child=f"m{number}@b.c", leave=number % 2 == 1) for number in range(first, last)]


def chunk(first, last, **fields):
    return ApplyUpdatesChunk(operations=operations(first, last), **fields)


async def read(*chunks):
    return await read_chunks([each.SerializeToString() for each in chunks])


async def refusal(*chunks):
    with pytest.raises(RefusedError) as caught:
        await read(*chunks)
    return caught.value.refusal


async def test_the_operations_of_all_chunks_are_those_of_one_update():
    encoded = [
        each.SerializeToString()
        for each in (chunk(0, 3, request_id="r", report_control=True, operation_count=6), chunk(3, 4), chunk(4, 6))
    ]
    update = await read_chunks(encoded)
    assert encoded == [], "the bytes are let go of"
    assert (update.request_id, update.report_control, update.first_parent) == ("r", True, "g@b.c")
    whole = ApplyUpdatesRequest(operations=operations(0, 6), request_id="r", report_control=True)
    assert ApplyUpdatesRequest.FromString(update.in_one_message()) == whole
    assert (await read_chunks(list(update.encoded()))).in_one_message() == update.in_one_message()
    assert [each for some in update.take_operations() for each in some] == operations(0, 6)


async def test_half_a_stream_is_no_update():
    found = await refusal(chunk(0, 3, operation_count=6), chunk(3, 5))
    assert (found.reason, found.facts["field"]) == (Reason.INVALID_REQUEST, "operation_count")
    assert "ended with 5 operations" in found.message


@pytest.mark.parametrize(
    ("chunks", "field"),
    [
        ([], "operation_count"),
        ([chunk(0, 2)], "operation_count"),
        ([chunk(0, 2, operation_count=1)], "operation_count"),
        ([chunk(0, 1, operation_count=2), chunk(1, 3)], "operation_count"),
        ([chunk(0, 1, operation_count=2), chunk(1, 1)], "operations"),
        ([chunk(0, 0, operation_count=2), chunk(0, 2)], "operations"),
        ([chunk(1, 2), chunk(0, 1, operation_count=2)], "request_id"),
        ([chunk(0, 1, operation_count=2, request_id="r"), chunk(1, 2, request_id="r")], "request_id"),
        ([chunk(0, 1, operation_count=2), chunk(1, 2, report_control=True)], "request_id"),
    ],
    ids=["none", "no count", "more", "more later", "empty", "empty first", "wrong order", "two ids", "late wish"],
)
async def test_a_stream_that_is_not_as_announced_is_refused(chunks, field):
    found = await refusal(*chunks)
    assert (found.reason, found.facts["field"]) == (Reason.INVALID_REQUEST, field)


async def test_more_operations_than_the_limit_are_refused_by_their_announcement():
    found = await refusal(chunk(0, 1, operation_count=APPLY_OPERATIONS_LIMIT + 1), chunk(1, 2))
    assert (found.reason, found.facts["limit"]) == (Reason.LIMIT_EXCEEDED, str(APPLY_OPERATIONS_LIMIT))


async def test_bytes_that_are_no_chunk_are_refused():
    with pytest.raises(RefusedError) as caught:
        await read_chunks([chunk(0, 1, operation_count=2).SerializeToString(), b"\xff"])
    assert caught.value.refusal.message.startswith("chunk 2 of the update: it is no message")
