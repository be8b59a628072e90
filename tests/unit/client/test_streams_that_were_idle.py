"""A server ends an idle stream. A client that checks many pairs slowly does not notice."""

import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from grpc_status import rpc_status

import shadowtree.aio
from namegraph import Reason, Refusal
from nameserver.wire.status_mapping import as_status
from shadowtree import Client, DeadlineExceeded
from shadowtree.client.bulk_check import BATCH_PAIRS
from shadowtree.v1.name_service_pb2 import CheckBulkRequest, CheckBulkResponse

METHOD = "/shadowtree.v1.NameService/CheckBulk"
PAIRS = [(f"g{number}@x.y", "a@x.y") for number in range(3 * BATCH_PAIRS)]


class ImpatientServer(grpc.GenericRpcHandler):
    """Answers yes to every pair, and ends each of the first streams after one answer."""

    def __init__(self, *, streams_ended, facts):
        self.left = streams_ended
        self.facts = facts
        self.revisions = []
        self.has_ended = threading.Event()

    def service(self, details):
        assert details.method == METHOD
        return grpc.stream_stream_rpc_method_handler(
            self.check, CheckBulkRequest.FromString, CheckBulkResponse.SerializeToString
        )

    def check(self, requests, context):
        is_impatient, self.left = self.left > 0, self.left - 1
        for number, request in enumerate(requests):
            if number == 0:
                self.revisions.append(request.at_least_revision)
            yield CheckBulkResponse(answers=b"\x01" * len(request.groups), revision="r")
            if is_impatient:
                self.has_ended.set()
                refusal = Refusal(Reason.DEADLINE_EXCEEDED, "nothing came on this stream", self.facts)
                context.abort_with_status(rpc_status.to_status(as_status(refusal)))

    def pairs(self):
        """Yield the first batch, and the others after a stream was ended."""
        yield from PAIRS[:BATCH_PAIRS]
        self.has_ended.wait()
        yield from PAIRS[BATCH_PAIRS:]


@pytest.fixture
def serve():
    servers = []

    def serve_one(**settings):
        handler = ImpatientServer(**settings)
        server = grpc.server(ThreadPoolExecutor(4), handlers=(handler,))
        servers.append(server)
        address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        return handler, address

    yield serve_one
    for server in servers:
        server.stop(None).wait()


IDLE = {"idle_seconds": "30"}


def test_every_pair_is_answered_once_over_as_many_streams_as_it_takes(serve):
    handler, address = serve(streams_ended=2, facts=IDLE)
    with Client(address) as names:
        checks = list(names.check_many(handler.pairs(), at_least_revision="r1"))
    assert [(check.group, check.is_member) for check in checks] == [(group, True) for group, _ in PAIRS]
    assert handler.revisions == ["r1"] * 3


async def test_so_it_is_with_the_asynchronous_client(serve):
    _, address = serve(streams_ended=1, facts=IDLE)
    async with shadowtree.aio.Client(address) as names:
        checks = [check async for check in names.check_many(PAIRS)]
    assert [check.group for check in checks] == [group for group, _ in PAIRS]


def test_another_end_is_an_error(serve):
    handler, address = serve(streams_ended=1, facts={})
    with Client(address) as names, pytest.raises(DeadlineExceeded):
        list(names.check_many(handler.pairs()))
