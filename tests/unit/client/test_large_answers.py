"""Resolutions and memberships in one message where they are small, by a stream where they are not."""

import pytest

import shadowtree
from shadowtree.client import calls
from shadowtree.client.large_answers import QUESTIONS_REMEMBERED, LargeAnswers
from tests.fakes.awaited_client import AwaitedClient
from tests.fakes.name_service import FakeGraph, serve_fake

G, M = "g@x.example", "m@x.example"
OTHERS = [f"m{number}@x.example" for number in range(5)]


@pytest.fixture(params=[shadowtree.Client, AwaitedClient], ids=["sync", "async"])
def make_client(request):
    return request.param


@pytest.fixture
def graph():
    return FakeGraph(groups={G, "h@x.example"}, arcs={(G, member): 1 for member in (M, *OTHERS)})


@pytest.fixture
def names(make_client, graph):
    with serve_fake(graph) as address, make_client(address) as client:
        yield client


def ask(names):
    return names.resolve(G, True), names.memberships(M), names.resolve([G, "h@x.example"])


def test_a_small_answer_is_that_of_the_stream(names, graph):
    at_once = ask(names)
    assert graph.calls == ["ResolveAtOnce", "ListMembershipsAtOnce", "ResolveAtOnce"]
    graph.at_once_limit = 0
    assert ask(names) == at_once
    assert at_once[0].processes == tuple(sorted((M, *OTHERS)))
    assert at_once[1].groups == (G,)


def test_a_question_with_a_large_answer_is_not_asked_twice_again(names, graph):
    graph.at_once_limit = 3
    first = names.resolve(G)
    assert (names.resolve(G), names.resolve(G)) == (first, first)
    assert graph.calls == ["ResolveAtOnce"]
    names.resolve("h@x.example")
    assert graph.calls == ["ResolveAtOnce"] * 2


def test_a_server_of_before_is_asked_for_a_stream(names, graph):
    graph.is_of_before = True
    first = ask(names)
    assert ask(names) == first
    assert graph.calls == ["ResolveAtOnce", "ListMembershipsAtOnce"]
    graph.is_of_before = False
    assert ask(names) == first


def test_an_error_is_that_of_the_stream(names, graph):
    found = []
    for is_of_before in (False, True):
        graph.is_of_before = is_of_before
        with pytest.raises(shadowtree.GroupNotFound) as raised:
            names.resolve("none@x.example")
        found.append((raised.value.message, raised.value.facts))
    assert found[0] == found[1]


def test_few_questions_are_remembered():
    large = LargeAnswers()
    several = [calls.memberships(f"m{number}@x.example", direct=False, at_least_revision=None) for number in range(300)]
    for call in several:
        large.add(call)
    assert [large.has(call) for call in several].count(True) == QUESTIONS_REMEMBERED
    assert large.has(several[-1])
