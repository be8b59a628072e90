"""A server that answers without end is refused by a limit, and its stream is ended."""

import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

import shadowtree
from shadowtree.client import answer_limits
from shadowtree.client.answers import MembershipsCollector, Pages, ResolutionCollector, Unreachable
from shadowtree.client.snapshots import tables
from shadowtree.client.snapshots.tables import SnapshotCollector
from shadowtree.errors import ServerFault
from shadowtree.v1 import admin_pb2, name_service_pb2
from tests.fakes.awaited_client import AwaitedClient

NAMES = ["a@b.example", "c@b.example"]
STEP = name_service_pb2.ResolveChunk.WalkStep
HIDDEN = name_service_pb2.ResolveChunk.HiddenGroup


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ResolutionCollector("g@b.example"), name_service_pb2.ResolveChunk(processes=NAMES)),
        (lambda: ResolutionCollector("g@b.example"), name_service_pb2.ResolveChunk(groups=NAMES)),
        (lambda: ResolutionCollector("g@b.example"), name_service_pb2.ResolveChunk(unreachable=NAMES)),
        (lambda: ResolutionCollector("g@b.example"), name_service_pb2.ResolveChunk(elsewhere=NAMES)),
        (lambda: ResolutionCollector("g@b.example"), name_service_pb2.ResolveChunk(walk=[STEP(kind=1, state=1)] * 2)),
        (lambda: ResolutionCollector("g@b.example"), name_service_pb2.ResolveChunk(hidden=[HIDDEN()] * 2)),
        (lambda: MembershipsCollector("a@b.example"), name_service_pb2.ListMembershipsChunk(groups=NAMES)),
        (lambda: MembershipsCollector("a@b.example"), name_service_pb2.ListMembershipsChunk(unreachable=NAMES)),
        (Pages, name_service_pb2.ListGroupsResponse(groups=NAMES)),
        (Unreachable, name_service_pb2.ExportChunk(unreachable=NAMES)),
    ],
)
def test_no_answer_has_more_names_than_the_limit(monkeypatch, make, message):
    monkeypatch.setattr(answer_limits, "NAMES_LIMIT", 5)
    collector = make()
    collector.add(message)
    collector.add(message)
    with pytest.raises(ServerFault, match="more than 5 names in one answer"):
        collector.add(message)


def test_no_answer_has_more_bytes_than_the_limit(monkeypatch):
    monkeypatch.setattr(answer_limits, "ANSWER_BYTES_LIMIT", 10 * 1024**2)
    collector = MembershipsCollector("a@b.example")
    message = name_service_pb2.ListMembershipsChunk(groups=["g" * 1024**2])
    for _ in range(9):
        collector.add(message)
    with pytest.raises(ServerFault, match="more than 10 MiB in one answer"):
        collector.add(message)


LARGE = admin_pb2.SnapshotChunk
CHUNKS = [
    LARGE(nodes=LARGE.Nodes(servers=["s" * 1000] * 10)),
    LARGE(pieces=[LARGE(nodes=LARGE.Nodes(servers=["s"] * 100)).SerializeToString()]),
    LARGE(log=[LARGE.LogEntry(targets=[""] * 100)]),
    LARGE(mailboxes=[LARGE.Mailbox()] * 100),
    LARGE(virtual_nodes=[LARGE.VirtualNode()] * 100),
    LARGE(under_way=[LARGE.UnderWay()] * 100),
]


@pytest.mark.parametrize("chunk", CHUNKS)
def test_a_snapshot_is_counted_with_its_rows_and_the_names_in_lists(monkeypatch, chunk):
    """Each chunk here takes some ten thousand bytes of memory."""
    monkeypatch.setattr(tables, "SNAPSHOT_BYTES_LIMIT", 100_000)
    collector = SnapshotCollector()
    for _ in range(4):
        collector.add(chunk)
    rest = [chunk] * 11
    with pytest.raises(ServerFault, match="a snapshot of more than"):
        deque(map(collector.add, rest))


class Endless(grpc.GenericRpcHandler):
    """Answers every stream without end; knows no call that answers at once."""

    def __init__(self):
        self.ended = threading.Event()

    def service(self, details):
        """Find out how to answer a call."""
        if details.method.endswith("AtOnce"):
            return None
        kind = "ListMembershipsChunk" if details.method.endswith("Memberships") else "ResolveChunk"
        field = "groups" if kind == "ListMembershipsChunk" else "processes"
        message = getattr(name_service_pb2, kind)(**{field: [f"{'n' * 200}{at}@b.example" for at in range(500)]})
        return grpc.unary_stream_rpc_method_handler(lambda _, context: self._answers(message, context))

    def _answers(self, message, context):
        encoded = message.SerializeToString()
        context.add_callback(self.ended.set)
        while context.is_active():
            yield encoded


@pytest.mark.parametrize("make_client", [shadowtree.Client, AwaitedClient], ids=["sync", "async"])
@pytest.mark.parametrize("verb", ["resolve", "memberships"])
def test_a_client_ends_the_stream_of_an_endless_answer(monkeypatch, make_client, verb):
    monkeypatch.setattr(answer_limits, "NAMES_LIMIT", 5_000)
    endless = Endless()
    server = grpc.server(ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((endless,))
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        with make_client(address) as names:
            with pytest.raises(ServerFault, match="more than 5,000 names"):
                getattr(names, verb)("g@b.example")
            assert endless.ended.wait(20)
    finally:
        server.stop(0).wait()
