"""An update that is larger than one message goes in chunks, to a server that takes these."""

import pytest

import shadowtree
from shadowtree.client import calls, large_updates
from shadowtree.client.large_updates import chunks_of
from tests.fakes.awaited_client import AwaitedClient
from tests.fakes.call_relay import losing_answers, unknown
from tests.server_in_thread import ServerInThread

G = "g@x.example"
LONG = "m" * 240
CHUNK_BYTES = 10_000
SMALL_COUNT, LARGE_COUNT = 30, 90


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Make chunks small: few operations fill several."""
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


@pytest.fixture
def server():
    with ServerInThread("x.example") as found:
        found.fill(G)
        yield found


@pytest.fixture(params=[shadowtree.Client, AwaitedClient], ids=["sync", "async"])
def names(request, server):
    with request.param(server.relay.address) as client:
        yield client


def members(count):
    return {(G, join.member): "process" for join in joins(count)}


def test_a_small_update_goes_in_one_message_and_a_large_one_in_chunks(names, server):
    names.apply(joins(SMALL_COUNT))
    assert server.relay.names == ["ApplyUpdates"]
    done = names.apply([shadowtree.Leave(G, join.member) for join in joins(SMALL_COUNT)] + joins(LARGE_COUNT))
    assert server.relay.names == ["ApplyUpdates", "ApplyInChunks"]
    chunks = server.relay.requests("ApplyInChunks")
    assert len(chunks) > 1
    assert max(chunk.ByteSize() for chunk in chunks) <= CHUNK_BYTES + 100
    assert done.revision
    assert server.arcs == members(LARGE_COUNT)


def test_a_large_update_is_repeated_with_its_request_id_until_it_is_answered(names, server):
    server.relay.set(losing_answers, "ApplyInChunks", times=1)
    done = names.apply(joins(LARGE_COUNT))
    assert server.relay.names == ["ApplyInChunks"] * 2
    first, second = ([call.requests[0].request_id, len(call.requests)] for call in server.relay.calls)
    assert first == second
    assert server.arcs == members(LARGE_COUNT)
    # The repetition was no update of its own.
    assert names.resolve(G).revision == done.revision


def test_a_server_of_the_version_before_is_sent_one_message_until_it_is_upgraded(names, server):
    server.relay.set(unknown, "ApplyInChunks")
    names.apply(joins(LARGE_COUNT))
    assert server.relay.names == ["ApplyInChunks", "ApplyUpdates"]
    assert server.arcs == members(LARGE_COUNT)
    server.relay.clear()
    names.apply([shadowtree.Leave(G, join.member) for join in joins(LARGE_COUNT)])
    assert server.relay.names == ["ApplyInChunks"]
    assert server.arcs == {}
