"""A stream of messages to their home, beside what gRPC does with it."""

import asyncio
from contextlib import aclosing

import pytest

from namegraph import Reason, Refusal, RefusedError, ServerId
from nameserver.deliveries.send_lanes import HomeLane
from shadowtree.v1 import delivery_pb2 as wire

HOME = ServerId("home.example")
UNREACHABLE = RefusedError(Refusal(Reason.UNAVAILABLE, "it was lost"))


class Calls:
    """Reads requests in a task of its own, as gRPC does, and ends the stream after the first one."""

    def __init__(self, ends_with):
        self.ends_with = ends_with
        self.reading = None
        self.requests = []

    async def converse(self, home, method, requests, *, seconds):
        first = asyncio.Event()

        async def read():
            async with aclosing(requests):
                async for request in requests:
                    self.requests.append(request)
                    first.set()

        self.reading = asyncio.create_task(read())
        await first.wait()
        if self.ends_with is not None:
            raise self.ends_with
        for answer in ():
            yield answer


@pytest.mark.parametrize("ends_with", [UNREACHABLE, None])
async def test_nothing_waits_for_more_to_say_once_the_stream_has_ended(ends_with):
    calls = Calls(ends_with)
    lane = HomeLane(calls, HOME, seconds=None)
    message = wire.SendRequest.Message(payload=b"hello")
    answer = await lane.say(message, on_settled=lambda _: None, on_unsettled=lambda: None)
    assert answer.HasField("refused")
    assert lane.is_over
    async with asyncio.timeout(60):
        await calls.reading
    assert len(calls.requests) == 1
