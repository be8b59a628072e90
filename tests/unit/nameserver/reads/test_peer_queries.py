"""The originators that must not cross many arcs are told of one state, and other callers are served meanwhile."""

import asyncio

import pytest

from namegraph.committed_state import CommittedState
from nameserver.reads.peer_queries import PeerQuestionCalls
from shadowtree.v1 import peer_pb2 as messages
from tests.cores import CoreUnderTest

TOP, LEFT, RIGHT = "top@x.example", "left@x.example", "right@x.example"
LOW = [f"low{number}@x.example" for number in range(5)]
REQUEST = messages.DescribeArcsRequest(parents=[RIGHT] * len(LOW), children=LOW)


@pytest.fixture
def server():
    """Below the top, both sides lead to all that is low: the right one is blocked for the top."""
    server = CoreUnderTest("x.example")
    server.create(TOP, LEFT, RIGHT, *LOW)
    for side in (LEFT, RIGHT):
        server.join(TOP, side)
        for low in LOW:
            server.join(side, low)
    return server


async def described(server, between):
    """Return the answer, and the number of turns of other tasks. At each they do `between`."""
    calls = PeerQuestionCalls(
        core=CommittedState(server.core), checks=None, whole_groups=None, parts=None, run_loop=None, judging=None
    )
    answer = asyncio.ensure_future(calls.describe_arcs(REQUEST, None))
    turns = 0
    await asyncio.sleep(0)
    while not answer.done():
        turns += 1
        between()
        await asyncio.sleep(0)
    return [list(record.names) for record in answer.result().records], turns


async def test_others_are_served_between_two_arcs(server):
    told, turns = await described(server, lambda: None)
    assert told == [[TOP]] * len(LOW)
    assert turns >= len(LOW) - 1


@pytest.mark.parametrize("moves", [1, 2, 3, 1000])
async def test_all_arcs_are_of_one_state_however_often_it_changes(server, moves):
    left = iter(range(moves))

    def move():
        number = next(left, None)
        if number is not None:
            (server.leave if number % 2 == 0 else server.join)(TOP, LEFT)

    told, _ = await described(server, move)
    assert told == [[TOP]] * len(LOW), "the state in which the answer was begun"
    assert server.core.graph.children.former is None
