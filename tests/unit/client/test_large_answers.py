"""Resolutions and memberships in one message where they are small, by a stream where they are not."""

import pytest

import shadowtree
from nameserver.calls import adapters
from shadowtree.client import calls
from shadowtree.client.large_answers import QUESTIONS_REMEMBERED, LargeAnswers
from tests.fakes.awaited_client import AwaitedClient
from tests.fakes.call_relay import unknown
from tests.server_in_thread import ServerInThread

G, H, M = "g@x.example", "h@x.example", "m@x.example"
AT_ONCE = ("ResolveAtOnce", "ListMembershipsAtOnce")
OTHERS = [f"m{number}@x.example" for number in range(5)]


@pytest.fixture(params=[shadowtree.Client, AwaitedClient], ids=["sync", "async"])
def make_client(request):
    return request.param


@pytest.fixture
def server():
    with ServerInThread("x.example") as found:
        found.fill(H, arcs={(G, member): "process" for member in (M, *OTHERS)})
        yield found


@pytest.fixture
def names(make_client, server):
    with make_client(server.relay.address) as client:
        yield client


def ask(names):
    return names.resolve(G, True), names.memberships(M), names.resolve([G, H])


def test_a_small_answer_is_that_of_the_stream(names, server, monkeypatch):
    at_once = ask(names)
    assert server.relay.names == ["ResolveAtOnce", "ListMembershipsAtOnce", "ResolveAtOnce"]
    monkeypatch.setattr(adapters, "GATHERED_BYTES_LIMIT", 0)
    assert ask(names) == at_once
    assert server.relay.counts["Resolve"] == 2
    assert at_once[0].processes == tuple(sorted((M, *OTHERS)))
    assert at_once[1].groups == (G,)


def test_a_question_with_a_large_answer_is_not_asked_twice_again(names, server, monkeypatch):
    monkeypatch.setattr(adapters, "GATHERED_BYTES_LIMIT", len(M) * 3)
    first = names.resolve(G)
    assert (names.resolve(G), names.resolve(G)) == (first, first)
    assert server.relay.names == ["ResolveAtOnce", *["Resolve"] * 3]
    names.resolve(H)
    assert server.relay.counts["ResolveAtOnce"] == 2


def test_a_server_of_before_is_asked_for_a_stream(names, server):
    server.relay.set(unknown, *AT_ONCE)
    first = ask(names)
    assert ask(names) == first
    assert [name for name in server.relay.names if name in AT_ONCE] == ["ResolveAtOnce", "ListMembershipsAtOnce"]
    server.relay.clear()
    assert ask(names) == first


def test_an_error_is_that_of_the_stream(names, server):
    found = []
    for is_of_before in (False, True):
        if is_of_before:
            server.relay.set(unknown, *AT_ONCE)
        with pytest.raises(shadowtree.GroupNotFound) as raised:
            names.resolve("none@x.example")
        found.append((raised.value.message, raised.value.facts))
    assert found[0] == found[1]
    assert server.relay.names == ["ResolveAtOnce", "ResolveAtOnce", "Resolve"]


def test_few_questions_are_remembered():
    large = LargeAnswers()
    several = [calls.memberships(f"m{number}@x.example", direct=False, at_least_revision=None) for number in range(300)]
    for call in several:
        large.add(call)
    assert [large.has(call) for call in several].count(True) == QUESTIONS_REMEMBERED
    assert large.has(several[-1])
