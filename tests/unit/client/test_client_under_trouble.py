"""The clients when answers are lost, servers are gone, and parts of the graph are out of reach."""

import asyncio
import itertools
import math
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import grpc
import pytest

import shadowtree
from shadowtree.cli.support.free_ports import unused_ports
from shadowtree.client import retry
from tests.fakes.awaited_client import AwaitedClient
from tests.fakes.call_relay import losing_answers
from tests.server_in_thread import ServerInThread, two_servers

A, AWAY, ANN, BOB = "a@x.example", "b@y.example", "ann@z", "bob@z"


@pytest.fixture(params=[shadowtree.Client, AwaitedClient], ids=["sync", "async"])
def make_client(request):
    return request.param


@pytest.fixture
def server():
    """The server of x.example: ann is in the only group."""
    with ServerInThread("x.example") as found:
        found.fill(arcs={(A, ANN): "process"})
        yield found


@pytest.fixture
def names(make_client, server):
    with make_client(server.relay.address) as client:
        yield client


@pytest.fixture
def names_beside_one_away(make_client):
    """Ann and bob are in the group, and a group of y.example, whose server is away."""
    with two_servers("x.example", "y.example") as (server, away):
        with shadowtree.Client(server.address) as names:
            for group in (A, AWAY):
                names.create_group(group)
            for member in (AWAY, ANN, BOB):
                names.join(A, member)
        away.end()
        with make_client(server.address) as names:
            yield names


@pytest.fixture
def closed_port():
    """An address without a listener, kept for this test."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{holder.getsockname()[1]}"


@pytest.fixture
def silent_server():
    """An address that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def test_a_write_whose_answer_was_lost_is_sent_again_and_done_once(names, server):
    server.relay.set(losing_answers, "CreateGroup", times=1)
    change = names.create_group("b@x.example")
    assert server.relay.names == ["CreateGroup"] * 2
    assert len({request.request_id for request in server.relay.requests("CreateGroup")}) == 1
    # The repetition was no update of its own.
    assert names.status().revision == change.revision


def test_a_write_whose_answers_stay_lost_has_an_unknown_outcome_and_can_be_repeated(names, server):
    server.relay.set(losing_answers, "CreateGroup")
    with pytest.raises(shadowtree.OutcomeUnknown) as caught:
        names.create_group("b@x.example", timeout=0.3)
    server.relay.clear()
    done = names.create_group("b@x.example", request_id=caught.value.facts["request_id"])
    assert names.status().revision == done.revision


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
                cleanup.enter_context(ServerInThread("x.example", listen=address))
            failures.append(failure)
            return pause_after(self, failure, now)

        monkeypatch.setattr(retry.Attempts, "pause_after", start_then_pause)
        with make_client(address) as names:
            assert names.status(timeout=30).server == "x.example"
        assert failures


def test_a_deadline_is_kept_and_says_so(make_client, silent_server):
    with make_client(silent_server) as names:
        for ask in (
            lambda: names.resolve("a@x", timeout=0.1),
            lambda: names.check("a@x", "b@x", timeout=0.1),
            lambda: list(names.check_many([("a@x", "b@x")], timeout=0.1)),
            lambda: list(names.export(timeout=0.1)),
            lambda: list(names.processes("a@x", timeout=0.1)),
            lambda: names.groups(timeout=0.1),
            lambda: names.import_arcs([], timeout=0.1),
        ):
            with pytest.raises(shadowtree.DeadlineExceeded):
                ask()


def test_an_attempt_to_connect_to_a_server_that_hangs_ends_before_the_time_of_the_call(make_client, silent_server):
    with make_client(silent_server) as client, pytest.raises(shadowtree.ServerUnreachable) as refused:
        client.create_group("a@x.example", timeout=6)
    assert "does not answer an attempt to connect" in str(refused.value)
    assert "SETTINGS" not in str(refused.value)


def test_the_time_of_an_iterator_is_that_of_all_its_steps(names):
    checks = names.check_many(((A, BOB) for _ in itertools.count()), timeout=0.3)
    with pytest.raises(shadowtree.DeadlineExceeded):
        for _ in checks:
            pass


@pytest.mark.parametrize("timeout", ["5", math.nan, [1]])
def test_a_timeout_that_is_no_time_is_refused(names, timeout):
    with pytest.raises(shadowtree.InvalidRequest, match="timeout is a number of seconds"):
        names.status(timeout=timeout)


def test_values_of_a_wrong_type_are_errors_of_the_family(names):
    for ask in (
        lambda: names.resolve(5),
        lambda: names.check("a@x", None),
        lambda: names.join(["a@x"], "b@x"),
        lambda: list(names.check_many([1])),
        lambda: names.join("a@x", "b@x", kind="person"),
    ):
        with pytest.raises(shadowtree.InvalidRequest):
            ask()


def test_processes_come_one_by_one_and_end_with_an_error_where_some_are_missing(names, names_beside_one_away):
    assert list(names.processes(A)) == [ANN]
    told = names_beside_one_away.processes(A)
    assert [next(told), next(told)] == [ANN, BOB]
    with pytest.raises(shadowtree.Unavailable) as caught:
        next(told)
    assert caught.value.unreachable == (AWAY,)


def verbs(names):
    """Return a call of every kind: one answer, a stream put together, iterators, a write, an import."""
    return [
        names.status,
        names.groups,
        lambda: names.resolve("a@x.example"),
        lambda: list(names.check_many([("a@x.example", "b@x")])),
        lambda: list(names.export()),
        lambda: list(names.processes("a@x.example")),
        lambda: names.create_group("new@x.example"),
        lambda: names.import_arcs([]),
    ]


def test_after_close_every_call_says_so(server):
    names = shadowtree.Client(server.address)
    names.status()
    names.close()
    names.close()
    for ask in verbs(names):
        with pytest.raises(shadowtree.ClientClosed):
            ask()


async def test_after_close_every_awaited_call_says_so(server):
    names = shadowtree.aio.Client(server.address)
    await names.status()
    await names.close()
    await names.close()
    for ask in verbs(names)[:3]:
        with pytest.raises(shadowtree.ClientClosed):
            await ask()
    for stream in (names.check_many([(A, BOB)]), names.export(), names.processes(A)):
        with pytest.raises(shadowtree.ClientClosed):
            await anext(stream)


def accepted(listener):
    """Wait until a client calls."""
    connection, _ = listener.accept()
    return connection


def test_calls_under_way_when_the_client_is_closed_end_in_errors_of_the_family():
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(2) as workers:
        names = shadowtree.Client(f"127.0.0.1:{listener.getsockname()[1]}")
        asked = workers.submit(names.status), workers.submit(names.join, "a@x", "b@x")
        with accepted(listener):
            names.close()
            assert isinstance(asked[0].exception(30), shadowtree.ClientClosed)
            assert isinstance(asked[1].exception(30), shadowtree.OutcomeUnknown | shadowtree.ClientClosed)


async def test_awaited_calls_under_way_when_the_client_is_closed_end_in_errors_of_the_family():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        names = shadowtree.aio.Client(f"127.0.0.1:{listener.getsockname()[1]}")
        asked = [
            asyncio.ensure_future(call)
            for call in (names.status(), names.join("a@x", "b@x"), anext(names.export()), names.resolve("a@x"))
        ]
        with await asyncio.to_thread(accepted, listener):
            await names.close()
            found = await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), 30)
    assert [type(error) for error in found] == [
        shadowtree.ClientClosed,
        shadowtree.OutcomeUnknown,
        shadowtree.ClientClosed,
        shadowtree.ClientClosed,
    ]


async def test_a_task_that_is_cancelled_is_cancelled(silent_server):
    async with shadowtree.aio.Client(silent_server) as names:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(names.status(), 0.1)


def test_making_a_client_opens_nothing(make_client, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError

    monkeypatch.setattr(grpc, "insecure_channel", refuse)
    monkeypatch.setattr(grpc.aio, "insecure_channel", refuse)
    shadowtree.Client("127.0.0.1:1").close()
    shadowtree.aio.Client("127.0.0.1:1")


def test_an_awaited_client_serves_one_event_loop_after_the_other_and_several_at_once(server):
    async def ask():
        first, second = await asyncio.gather(names.status(), names.resolve(A))
        return first.server, second.processes

    async def ask_and_close():
        answer = await ask()
        await names.close()
        return answer

    with ThreadPoolExecutor(4) as workers:
        names = shadowtree.aio.Client(server.address)
        answers = [asyncio.run(ask()) for _ in range(3)]
        answers += workers.map(lambda _: asyncio.run(ask()), range(8))
        answers.append(asyncio.run(ask_and_close()))
    assert answers == [("x.example", (ANN,))] * 12


async def test_pairs_to_check_may_be_awaited_too(server):
    async def pairs():
        for number in range(7_000):
            yield A, ANN if number % 2 else BOB

    async with shadowtree.aio.Client(server.address) as names:
        answers = [check.is_member async for check in names.check_many(pairs())]
    assert answers == [bool(number % 2) for number in range(7_000)]


def test_the_next_address_is_asked_where_one_cannot_be_reached(make_client, closed_port, server):
    for number in range(len(verbs(shadowtree.Client()))):
        with make_client(f"{closed_port}, {server.address}") as names:
            verbs(names)[number]()
    with make_client([closed_port, server.address]) as names:
        assert names.status().server == "x.example"


def test_a_client_goes_on_with_another_server_when_its_own_is_gone(make_client, server):
    """Also in the midst of many checks: those without an answer are asked again, and answered once each, in order."""
    pairs = [(A, ANN if number % 2 else BOB) for number in range(50_000)]
    with (
        ServerInThread("x.example", name="other.example") as other,
        make_client([server.address, other.address]) as names,
    ):
        other.fill(arcs=server.arcs)
        checks = names.check_many(iter(pairs))
        answers = [next(checks)]
        server.kill()
        answers += checks
        assert names.status().server == "other.example"
    assert [(check.group, check.member) for check in answers] == pairs
    assert [check.is_member for check in answers] == [bool(number % 2) for number in range(50_000)]


def test_whoever_waits_is_told_why(make_client, closed_port):
    told = []
    with make_client(closed_port, patience=0.3, on_wait=told.append) as names, pytest.raises(shadowtree.Unavailable):
        names.status()
    assert len(told) > 1
    assert all(isinstance(error, shadowtree.ServerUnreachable) for error in told)


def test_a_deadline_of_the_client_holds_for_calls_without_one(make_client, silent_server):
    with make_client(silent_server, timeout=0.1) as names, pytest.raises(shadowtree.DeadlineExceeded):
        names.status()


def test_a_write_past_its_deadline_may_be_done_and_says_so(make_client, silent_server):
    with make_client(silent_server) as names, pytest.raises(shadowtree.DeadlineExceeded) as caught:
        names.join("a@x", "b@x", timeout=0.1, request_id="mine")
    assert isinstance(caught.value, shadowtree.OutcomeUnknown)
    assert caught.value.facts["request_id"] == "mine"


def test_an_answer_names_what_was_out_of_reach(names_beside_one_away):
    found = names_beside_one_away.resolve(A)
    assert (found.processes, found.unreachable, found.is_complete) == ((ANN, BOB), (AWAY,), False)
    assert names_beside_one_away.memberships(ANN).unreachable == ("y.example",)


def test_a_no_that_could_be_a_yes_is_unavailable_and_names_why(names_beside_one_away):
    names = names_beside_one_away
    assert names.check(A, ANN)
    with pytest.raises(shadowtree.Unavailable) as caught:
        names.check(A, "eve@z")
    assert caught.value.unreachable == ("y.example",)

    ann, eve = names.check_many([(A, ANN), (A, "eve@z")])
    assert (ann.is_member, ann.unreachable) == (True, ())
    assert (eve.is_member, eve.unreachable) == (None, ("y.example",))
    with pytest.raises(shadowtree.Unavailable):
        bool(eve)


@pytest.mark.parametrize(
    "address",
    ["", "localhost", ":7400", "host:", "host:port", "host:70000", "http://host:1", "h:1,", [], ["h:1", 2], 7],
)
def test_an_address_that_is_none_is_refused(make_client, address):
    with pytest.raises(shadowtree.InvalidRequest, match="HOST:PORT"):
        make_client(address)


def test_a_stream_that_ends_before_all_checks_are_answered_is_a_fault(names, server):
    async def ending(_call):
        """End the stream without an answer."""

    server.relay.set(ending, "CheckBulk")
    # gRPC may find a fault of its own where the stream ends while requests are still being written.
    with pytest.raises(shadowtree.ServerFault, match=r"before all checks were answered|Internal error"):
        list(names.check_many([("a@x", "b@x")]))
