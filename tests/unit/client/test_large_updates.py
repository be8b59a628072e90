"""An update that is larger than one message goes in chunks, to a server that takes these."""

import pytest

import shadowtree
from shadowtree.client import calls, large_updates
from shadowtree.client.large_updates import chunks_of
from tests.fakes.awaited_client import AwaitedClient
from tests.fakes.name_service import FakeGraph, serve_fake

G = "g@x.example"
LONG = "m" * 240
CHUNK_BYTES = 10_000
SMALL_COUNT, LARGE_COUNT = 30, 90


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Make chunks small, since the fake takes its time over many operations."""
    monkeypatch.setattr(large_updates, "CHUNK_BYTES", CHUNK_BYTES)


def joins(count):
    return [shadowtree.Join(G, f"{LONG}{number}@x.example", "process") for number in range(count)]


def request_of(operations):
    return calls.apply(operations, effects=True, request_id="mine").request


def test_chunks_have_all_operations_in_order_and_the_first_one_the_rest():
    request = request_of(joins(LARGE_COUNT))
    chunks = chunks_of(request)
    assert [operation for chunk in chunks for operation in chunk.operations] == list(request.operations)
    assert {chunk.ByteSize() <= CHUNK_BYTES + 100 for chunk in chunks} == {True}
    assert len(chunks) == 3
    first, *others = chunks
    assert (first.request_id, first.report_control, first.operation_count) == ("mine", True, LARGE_COUNT)
    assert not any(chunk.request_id or chunk.report_control or chunk.operation_count for chunk in others)


@pytest.mark.parametrize("count", [0, 1, SMALL_COUNT])
def test_an_update_that_fits_one_message_has_no_chunks(count):
    assert chunks_of(request_of(joins(count))) == []


def test_an_operation_of_any_size_has_a_chunk_of_its_own():
    sizes = [len(chunk.operations) for chunk in chunks_of(request_of([shadowtree.Join(G, "m" * 3 * CHUNK_BYTES)] * 2))]
    assert sizes == [1, 1]


@pytest.fixture(params=[shadowtree.Client, AwaitedClient], ids=["sync", "async"])
def names(request):
    graph = FakeGraph(groups={G})
    with serve_fake(graph) as address, request.param(address) as client:
        client.graph = graph
        yield client


def test_a_small_update_goes_in_one_message_and_a_large_one_in_chunks(names):
    names.apply(joins(SMALL_COUNT))
    assert names.graph.calls == ["ApplyUpdatesRequest"]
    done = names.apply([shadowtree.Leave(G, join.member) for join in joins(SMALL_COUNT)] + joins(LARGE_COUNT))
    assert names.graph.calls == ["ApplyUpdatesRequest", "ApplyInChunks", "ApplyUpdatesRequest"]
    assert max(names.graph.chunk_bytes) <= CHUNK_BYTES + 100
    assert done.revision
    assert len(names.graph.arcs) == LARGE_COUNT


def test_a_large_update_is_repeated_with_its_request_id_until_it_is_answered(names):
    names.graph.drop_answers = 1
    done = names.apply(joins(LARGE_COUNT))
    assert names.graph.calls.count("ApplyInChunks") == 2
    assert (len(names.graph.arcs), names.graph.revision) == (LARGE_COUNT, 1)
    assert done.revision


def test_a_server_of_the_version_before_is_sent_one_message_until_it_is_upgraded(names):
    names.graph.is_of_before = True
    names.apply(joins(LARGE_COUNT))
    assert names.graph.calls == ["ApplyInChunks", "ApplyUpdatesRequest"]
    names.graph.is_of_before = False
    names.apply([shadowtree.Leave(G, join.member) for join in joins(LARGE_COUNT)])
    assert names.graph.chunk_bytes
    assert not names.graph.arcs
