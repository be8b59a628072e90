"""Atomic updates that are larger than one message, over two name servers as processes."""

import grpc
import pytest

import shadowtree
from shadowtree import Join, Leave
from shadowtree.client import calls
from shadowtree.client.large_updates import METHOD, chunks_of
from shadowtree.v1.name_service_pb2_grpc import NameServiceStub

GROUP = "staff@b.x"
OPERATIONS = 100_000
MEBIBYTE = 1024 * 1024


@pytest.fixture
def servers(start_several):
    return start_several([["a.x"], ["b.x"]])


def member(number):
    return f"{'m' * 20}{number:03d}@b.x"


def comings_and_goings():
    """Return as many operations as an update may have. Ten members come and go, and the last one stays."""
    several = [
        (Join, Leave)[number % 2](GROUP, member(number // 2 % 10), "process") for number in range(OPERATIONS - 1)
    ]
    return [*several, Join(GROUP, "last@b.x", "process")]


def test_an_update_of_the_largest_size_is_done_whole_or_not_at_all_through_any_server(servers):
    away, home = servers.clients
    home.create_group(GROUP)
    operations = comings_and_goings()
    request = calls.apply(operations, effects=False, request_id="large").request
    assert request.ByteSize() > 2 * MEBIBYTE

    # In one message it is refused, which says what to do.
    with grpc.insecure_channel(servers.address(0)) as channel, pytest.raises(grpc.RpcError) as caught:
        NameServiceStub(channel).ApplyUpdates(request, timeout=60)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert METHOD in caught.value.details()

    # A stream that stops halfway leaves nothing.
    with grpc.insecure_channel(servers.address(0)) as channel, pytest.raises(grpc.RpcError) as caught:
        NameServiceStub(channel).ApplyInChunks(iter(chunks_of(request)[:-1]), timeout=60)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert home.resolve(GROUP).processes == ()

    # A refusal names the operation of the whole update.
    wrong = [*operations[:90_000], Leave(GROUP, "nobody@b.x"), *operations[90_001:]]
    with pytest.raises(shadowtree.NotAMember) as refused:
        away.apply(wrong, timeout=120)
    assert refused.value.facts["operation"] == "90001"
    assert home.resolve(GROUP).processes == ()

    done = away.apply(operations, request_id="large", timeout=120)
    expected = ("last@b.x", member((OPERATIONS - 2) // 2 % 10))
    assert home.resolve(GROUP, at_least_revision=done.revision).processes == expected
    assert home.apply(operations, request_id="large", timeout=120) == done
