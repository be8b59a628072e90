"""What the clients do when answers are lost, servers are gone, and parts of the graph are out of reach."""

import socket
from contextlib import ExitStack

import grpc
import pytest

import shadowtree
from shadowtree.cli.support.free_ports import unused_ports
from shadowtree.client import retry
from tests.fakes.awaited_client import AwaitedClient
from tests.fakes.name_service import FakeGraph, serve_fake


@pytest.fixture(params=[shadowtree.Client, AwaitedClient], ids=["sync", "async"])
def make_client(request):
    return request.param


@pytest.fixture
def graph():
    return FakeGraph()


@pytest.fixture
def names(make_client, graph):
    with serve_fake(graph) as address, make_client(address) as client:
        yield client


@pytest.fixture
def closed_port():
    """An address where nobody listens, kept for this test."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{holder.getsockname()[1]}"


@pytest.fixture
def silent_server():
    """An address that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def test_a_write_whose_answer_was_lost_is_sent_again_and_done_once(names, graph):
    graph.drop_answers = 1
    change = names.create_group("a@x.example")
    assert change.revision == "fake.1"
    assert graph.calls == ["CreateGroupRequest"] * 2
    assert graph.revision == 1


def test_a_write_whose_answers_stay_lost_has_an_unknown_outcome_and_can_be_repeated(names, graph):
    graph.drop_answers = 1_000
    with pytest.raises(shadowtree.OutcomeUnknown) as caught:
        names.create_group("a@x.example", timeout=0.3)
    graph.drop_answers = 0
    assert names.create_group("a@x.example", request_id=caught.value.facts["request_id"]).revision == "fake.1"


def test_a_server_that_is_not_there_is_unavailable(make_client, closed_port):
    with make_client(closed_port) as names:
        for ask in (
            names.status,
            lambda: names.join("a@x", "b@x"),
            lambda: names.resolve("a@x"),
            lambda: list(names.check_many([("a@x", "b@x")])),
            lambda: list(names.export()),
        ):
            with pytest.raises(shadowtree.Unavailable, match=f"cannot reach the name server at {closed_port}"):
                ask()


def test_a_call_is_answered_by_a_server_that_comes_up_while_the_time_lasts(make_client, monkeypatch):
    """The server starts after the first attempt has failed."""
    address = f"127.0.0.1:{unused_ports(1)[0]}"
    pause_after = retry.Attempts.pause_after
    failures = []

    with ExitStack() as cleanup:

        def start_then_pause(self, failure, now):
            if not failures:
                cleanup.enter_context(serve_fake(FakeGraph(), address=address))
            failures.append(failure)
            return pause_after(self, failure, now)

        monkeypatch.setattr(retry.Attempts, "pause_after", start_then_pause)
        with make_client(address) as names:
            assert names.status(timeout=30).server == "fake"
        assert failures


def test_a_deadline_is_kept_and_says_so(make_client, silent_server):
    with make_client(silent_server) as names:
        for ask in (
            lambda: names.resolve("a@x", timeout=0.1),
            lambda: names.check("a@x", "b@x", timeout=0.1),
            lambda: list(names.check_many([("a@x", "b@x")], timeout=0.1)),
        ):
            with pytest.raises(shadowtree.DeadlineExceeded):
                ask()


def test_a_deadline_of_the_client_holds_for_calls_without_one(make_client, silent_server):
    with make_client(silent_server, timeout=0.1) as names, pytest.raises(shadowtree.DeadlineExceeded):
        names.status()


def test_a_write_past_its_deadline_may_be_done_and_says_so(make_client, silent_server):
    with make_client(silent_server) as names, pytest.raises(shadowtree.DeadlineExceeded) as caught:
        names.join("a@x", "b@x", timeout=0.1, request_id="mine")
    assert isinstance(caught.value, shadowtree.OutcomeUnknown)
    assert caught.value.facts["request_id"] == "mine"


def test_an_answer_names_what_was_out_of_reach(names, graph):
    graph.groups = {"a@x.example", "b@y.example"}
    graph.arcs = {("a@x.example", "b@y.example"): 1, ("a@x.example", "ann@z"): 2}
    graph.unreachable = {"b@y.example"}
    found = names.resolve("a@x.example")
    assert (found.processes, found.unreachable, found.is_complete) == (("ann@z",), ("b@y.example",), False)
    assert names.memberships("ann@z").unreachable == ("b@y.example",)


def test_a_no_that_could_be_a_yes_is_unavailable_and_names_why(names, graph):
    graph.groups = {"a@x.example", "b@y.example"}
    graph.arcs = {("a@x.example", "b@y.example"): 1, ("a@x.example", "ann@z"): 2}
    graph.unreachable = {"b@y.example"}
    assert names.check("a@x.example", "ann@z")
    with pytest.raises(shadowtree.Unavailable) as caught:
        names.check("a@x.example", "bob@z")
    assert caught.value.unreachable == ("b@y.example",)

    ann, bob = names.check_many([("a@x.example", "ann@z"), ("a@x.example", "bob@z")])
    assert (ann.is_member, ann.unreachable) == (True, ())
    assert (bob.is_member, bob.unreachable) == (None, ("b@y.example",))
    with pytest.raises(shadowtree.Unavailable):
        bool(bob)


@pytest.mark.parametrize("address", ["", "localhost", ":7400", "host:", "host:port", "host:70000", "http://host:1"])
def test_an_address_that_is_none_is_refused(address):
    with pytest.raises(shadowtree.InvalidRequest, match="HOST:PORT"):
        shadowtree.Client(address)


def test_a_stream_that_ends_before_all_checks_are_answered_is_a_fault(make_client):
    def no_answers(requests, context):
        yield from ()

    handlers = grpc.method_handlers_generic_handler(
        "shadowtree.v1.NameService", {"CheckBulk": grpc.stream_stream_rpc_method_handler(no_answers)}
    )
    with (
        serve_fake(FakeGraph(), instead=handlers) as address,
        make_client(address) as names,
        # gRPC may find a fault of its own where the stream ends while requests are still being written.
        pytest.raises(shadowtree.ServerFault, match=r"before all checks were answered|Internal error"),
    ):
        list(names.check_many([("a@x", "b@x")]))
