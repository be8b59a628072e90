"""Checks that one client makes at once: few calls carry them; answers, errors and deadlines are each its own."""

import asyncio
import socket
import threading
import time

import pytest

import shadowtree
from shadowtree.client import calls
from shadowtree.client.calls import as_kept
from shadowtree.client.checks_together import PAIRS_AT_ONCE, ChecksOfTasks, ChecksOfThreads
from shadowtree.v1 import name_service_pb2
from tests.fakes.awaited_client import AwaitedClient, at_once
from tests.fakes.call_relay import Holding, unknown
from tests.server_in_thread import ServerInThread, two_servers

G, H = "g@x.example", "h@x.example"
ABOVE, AWAY = "above@x.example", "away@y.example"
MEMBERS = [f"m{number}@x.example" for number in range(60)]
ARCS = {(H if number % 2 else G, member): "process" for number, member in enumerate(MEMBERS)}
PAIRS = [(G, member) for member in MEMBERS]


@pytest.fixture(params=[shadowtree.Client, AwaitedClient], ids=["sync", "async"])
def make_client(request):
    return request.param


@pytest.fixture
def server():
    with ServerInThread("x.example") as found:
        found.fill(arcs=ARCS)
        # The server works out the ancestors of imported members when they are asked for. CheckKnown waits for none.
        with shadowtree.Client(found.address) as names:
            assert sum(check.is_member for check in names.check_many(PAIRS)) == len(PAIRS) / 2
        yield found


@pytest.fixture
def names(make_client, server):
    with make_client(server.relay.address) as client:
        yield client


def pairs_together(server):
    """Return the number of pairs of each CheckKnown."""
    return [len(request.groups) for request in server.relay.requests("CheckKnown")]


def test_each_check_has_its_own_answer(names):
    found = at_once(names, "check", PAIRS)
    assert [(each.group, each.member, each.is_member) for each in found] == [
        (G, member, number % 2 == 0) for number, member in enumerate(MEMBERS)
    ]
    assert all(each.revision for each in found)


def test_tasks_that_check_at_once_share_calls(server):
    async def check_all():
        async with shadowtree.aio.Client(server.relay.address) as names:
            return await asyncio.gather(*(names.check(*pair) for pair in PAIRS))

    asyncio.run(check_all())
    assert sorted(server.relay.names) == ["Check", "Check", "CheckKnown"]
    assert pairs_together(server) == [len(PAIRS) - 2]


def test_two_tasks_that_check_at_once_each_make_their_own_calls(server):
    async def check_some(names, pairs):
        for pair in pairs:
            await names.check(*pair)

    async def check_all():
        async with shadowtree.aio.Client(server.relay.address) as names:
            await asyncio.gather(check_some(names, PAIRS[:20]), check_some(names, PAIRS[20:40]))

    asyncio.run(check_all())
    assert server.relay.names == ["Check"] * 40


def test_a_check_alone_is_one_call_as_ever(names, server):
    for pair in PAIRS[:3]:
        names.check(*pair)
    assert server.relay.names == ["Check"] * 3


@pytest.fixture
def names_beside_one_away(make_client):
    """The group above has one of y.example, whose server is away."""
    with two_servers("x.example", "y.example") as (server, away):
        server.fill(arcs=ARCS)
        with make_client(server.relay.address) as names:
            names.create_group(ABOVE)
            names.create_group(AWAY)
            names.join(ABOVE, AWAY)
            away.end()
            yield names


def test_an_error_is_that_of_its_own_pair(names_beside_one_away):
    names = names_beside_one_away
    wrong = [("none@x.example", MEMBERS[0]), (ABOVE, "somebody@z.example"), ("no name", MEMBERS[0])]
    alone = [at_once(names, "check", [pair])[0] for pair in wrong]
    found = at_once(names, "check", [pair for each in wrong for pair in (PAIRS[0], each, PAIRS[1])])
    assert [type(each) for each in alone] == [
        shadowtree.GroupNotFound,
        shadowtree.Unavailable,
        shadowtree.InvalidName,
    ]
    assert [(type(each), each.message, each.facts) for each in found[1::3]] == [
        (type(each), each.message, each.facts) for each in alone
    ]
    assert all(each.is_member for each in found[::3])
    assert not any(each.is_member for each in found[2::3])


def test_checks_that_are_to_reflect_different_revisions_do_not_share_a_call(server):
    async def check_all():
        async with shadowtree.aio.Client(server.relay.address) as names:
            revisions = [None, *[(await names.create_group(f"i{number}@x.example")).revision for number in range(2)]]
            return await asyncio.gather(
                *(names.check(*pair, at_least_revision=revision) for pair in PAIRS[:5] for revision in revisions)
            )

    assert len(asyncio.run(check_all())) == 15
    assert sorted(pairs_together(server)) == [4, 4, 5]


def test_a_server_of_before_is_asked_one_check_at_a_time(names, server):
    server.relay.set(unknown, "CheckKnown")
    for _ in range(2):
        found = at_once(names, "check", PAIRS)
        assert [each.is_member for each in found] == [number % 2 == 0 for number in range(len(MEMBERS))]
    # Those that were waiting when the server said so were told, too; later ones do not ask.
    assert 1 <= server.relay.counts["CheckKnown"] <= len(PAIRS)
    assert server.relay.counts["Check"] == 2 * len(PAIRS)
    before = len(server.relay.calls)
    at_once(names, "check", PAIRS)
    assert set(server.relay.names[before:]) == {"Check"}


def test_a_check_ends_at_its_own_deadline(make_client):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        with make_client(address, timeout=20) as names:
            begun = time.monotonic()
            found = at_once(names, "check", PAIRS[:6], timeout=0.3)
            assert time.monotonic() - begun < 10
    assert {type(each) for each in found} == {shadowtree.DeadlineExceeded}


async def test_a_short_deadline_ends_no_other_check(server):
    """Two checks are alone, the third carries the others: the fourth waits for it."""
    async with shadowtree.aio.Client(server.relay.address) as names:
        await names.check(*PAIRS[0])
        held = Holding()
        server.relay.set(held, "CheckKnown")
        checks = [
            asyncio.ensure_future(names.check(*PAIRS[number], timeout=0.05 if number == 2 else None))
            for number in range(6)
        ]
        with pytest.raises(shadowtree.DeadlineExceeded):
            await checks[2]
        held.let_go()
        found = await asyncio.gather(*checks, return_exceptions=True)
    assert [each.is_member for each in (*found[:2], *found[3:])] == [True, False, False, True, False]


async def test_checks_with_deadlines_in_any_order_each_end_at_their_own(server):
    ended = []

    async def check(names, number, seconds):
        with pytest.raises(shadowtree.DeadlineExceeded):
            await names.check(*PAIRS[number], timeout=seconds)
        ended.append(seconds)

    async with shadowtree.aio.Client(server.relay.address) as names:
        await names.check(*PAIRS[0])
        held = Holding()
        server.relay.set(held, "CheckKnown")
        # Two are asked alone; the others share a call, which lasts as long as the first of them may.
        alone = asyncio.gather(*(names.check(*pair) for pair in PAIRS[:2]))
        await asyncio.sleep(0)
        waits = (0.7, 0.4, 0.1, 0.2)
        await asyncio.gather(*(check(names, number, seconds) for number, seconds in enumerate(waits)))
        held.let_go()
        assert [each.is_member for each in await alone] == [True, False]
    assert ended == sorted(waits)


async def test_a_cancelled_check_ends_no_other_one(server):
    async with shadowtree.aio.Client(server.relay.address) as names:
        checks = [asyncio.ensure_future(names.check(*pair)) for pair in PAIRS[:6]]
        await asyncio.sleep(0)
        checks[1].cancel()
        found = await asyncio.gather(*checks, return_exceptions=True)
    assert isinstance(found[1], asyncio.CancelledError)
    assert [each.is_member for each in (found[0], *found[2:])] == [True, True, False, True, False]


def test_checks_of_a_server_that_is_gone_fail_as_one_alone_does(make_client):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        with make_client(f"127.0.0.1:{holder.getsockname()[1]}", patience=0) as names:
            found = at_once(names, "check", PAIRS[:6])
    assert {type(each) for each in found} == {shadowtree.ServerUnreachable}


async def test_checks_under_way_when_the_client_is_closed_say_so():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        names = shadowtree.aio.Client(f"127.0.0.1:{listener.getsockname()[1]}", timeout=20)
        checks = [asyncio.ensure_future(names.check(*pair)) for pair in PAIRS[:6]]
        await asyncio.sleep(0)
        await names.close()
        found = await asyncio.gather(*checks, return_exceptions=True)
    assert {type(each) for each in found} == {shadowtree.ClientClosed}


def test_many_threads_that_never_pause_all_get_their_answers(server):
    found = {}

    def check_some(first):
        for pair in PAIRS[first::8] * 5:
            found[pair] = found.get(pair, 0) + names.check(*pair).is_member

    with shadowtree.Client(server.relay.address, timeout=30) as names:
        threads = [threading.Thread(target=check_some, args=(first,)) for first in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == {(G, member): 5 * (number % 2 == 0) for number, member in enumerate(MEMBERS)}
    assert set(server.relay.names) == {"Check", "CheckKnown"}


class Held:
    """A call of CheckKnown that is under way until it is let go; the threads that are to wait have come by then."""

    def __init__(self):
        self.sizes = []
        self.let_go = threading.Event()

    def __call__(self, request, seconds):
        self.sizes.append(len(request.groups))
        assert self.let_go.wait(20)
        return name_service_pb2.CheckKnownResponse(answers=bytes([1]) * len(request.groups), revision="r")


def test_threads_that_come_while_calls_are_under_way_travel_together():
    send, found = Held(), []
    checks = ChecksOfThreads(send)

    def check():
        found.append(checks.answer(G, MEMBERS[0], "", None))

    threads = [threading.Thread(target=check) for _ in range(PAIRS_AT_ONCE + 12)]
    for thread in threads:
        thread.start()
    while len(checks._pending) < PAIRS_AT_ONCE + 10:
        time.sleep(0.001)
    send.let_go.set()
    for thread in threads:
        thread.join()
    assert sorted(send.sizes) == [1, 1, 10, PAIRS_AT_ONCE]
    assert len(found) == len(threads)
    assert all(each.is_member for each in found)


def test_a_call_that_breaks_leaves_each_thread_to_ask_alone():
    checks, found = ChecksOfThreads(lambda request, seconds: None), []
    threads = [threading.Thread(target=lambda: found.append(checks.answer(G, MEMBERS[0], "", None))) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [None] * 20


async def test_a_cancelled_check_is_forgotten_once_its_call_is_answered_and_leaves_others_their_answers():
    let_go = asyncio.Event()

    async def send(request, seconds):
        await let_go.wait()
        return name_service_pb2.CheckKnownResponse(answers=bytes([1]) * len(request.groups), revision="r")

    checks = ChecksOfTasks(send)
    cancelled, other = (checks.answer(G, member, "", 60) for member in MEMBERS[:2])
    cancelled.cancel()
    assert len(checks._waiting) == 2
    let_go.set()
    assert (await other).is_member
    assert not checks._waiting


@pytest.mark.parametrize("name", [f"ann@{'x' * 500}", "no name", "Ann@X.example"])
def test_a_name_is_kept_alike_whether_it_is_remembered_or_not(name):
    assert as_kept(name) == as_kept(name) == calls._as_kept.__wrapped__(name)


def test_names_that_are_long_are_not_remembered():
    calls._as_kept.cache_clear()
    as_kept("x" * (calls.NAME_REMEMBERED_LIMIT + 1))
    assert calls._as_kept.cache_info().currsize == 0
