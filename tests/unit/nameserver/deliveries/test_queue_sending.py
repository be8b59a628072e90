"""A queued message is passed on once it is durable that no other is before it."""

import asyncio
from contextlib import suppress
from types import SimpleNamespace

import pytest

from delivery.model.events import QueuedEnded
from delivery.origin.queue import Due
from namegraph import NodeId, Reason, Refusal, RefusedError, ServerId, Subnet
from nameserver.deliveries.message_wire import refused
from nameserver.deliveries.queue_sending import QueueSending
from shadowtree.v1 import delivery_pb2 as wire

HOME = ServerId("home.example")
GROUP = NodeId("club@home.example")
MESSAGE = wire.SendRequest.Message(targets=[wire.SendRequest.Target(name=GROUP)]).SerializeToString()


class Machine:
    """Has two messages in its queue."""

    def __init__(self):
        self.waiting = [Due(number, GROUP, MESSAGE, 0) for number in (1, 2)]
        self.durable = asyncio.Event()
        self.asked = asyncio.Event()
        self.ended = []
        self.failure = None

    def queued_subnets(self):
        return [Subnet("home.example")] if self.waiting else []

    def is_in_reach(self, _server):
        return True

    def due(self, _subnet, *, but=()):
        return next((each for each in self.waiting if each.addressed not in but), None)

    async def until_durable(self):
        self.asked.set()
        if self.failure is not None:
            raise self.failure
        await self.durable.wait()

    def notice(self, event):
        self.ended.append(event)
        self.waiting = [each for each in self.waiting if each.number != event.number]


class Calls:
    """An origin that accepts all it is sent, but what is to groups that are `full`."""

    def __init__(self):
        self.came = 0
        self.full = set()

    async def converse(self, _home, _method, requests, *, seconds):
        number = 0
        async for request in requests:
            for message in wire.SendRequest.FromString(request).messages:
                self.came += 1
                number += 1
                answer = wire.SendResponse.Answer(message=number, state=wire.SendResponse.STATE_ACCEPTED)
                if self.full.intersection(target.name for target in message.targets):
                    answer = refused(number, Refusal(Reason.BACKLOG_FULL, "one server is stuck"))
                yield wire.SendResponse(answers=[answer]).SerializeToString()


@pytest.fixture
async def scene():
    machine, calls = Machine(), Calls()
    routing = SimpleNamespace(known_home=lambda _subnet: HOME)
    sending = QueueSending(machine=machine, routing=routing, forwarder=calls, look_seconds=0.001)
    running = asyncio.create_task(sending.run())
    yield SimpleNamespace(machine=machine, calls=calls, running=running)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def until(is_so):
    async with asyncio.timeout(60):
        while not is_so():
            await asyncio.sleep(0)


async def test_nothing_is_passed_on_before_what_was_taken_is_durable(scene):
    async with asyncio.timeout(60):
        await scene.machine.asked.wait()
    assert scene.calls.came == 0
    scene.machine.durable.set()
    await until(lambda: scene.machine.ended == [QueuedEnded(1, None), QueuedEnded(2, None)])
    assert scene.calls.came == 2


async def test_a_database_that_fails_keeps_it_and_it_is_passed_on_once_that_is_over(scene):
    scene.machine.failure = RefusedError(Refusal(Reason.UNAVAILABLE, "the disk is full"))
    async with asyncio.timeout(60):
        await scene.machine.asked.wait()
    assert (scene.machine.ended, scene.running.done()) == ([], False)
    scene.machine.failure = None
    scene.machine.durable.set()
    await until(lambda: len(scene.machine.ended) == 2)


async def test_what_one_stuck_server_has_refused_waits_and_messages_to_other_groups_pass_it(scene):
    other = NodeId("crew@home.example")
    scene.machine.waiting.append(Due(3, other, b"", 0))
    scene.calls.full = {GROUP}
    scene.machine.durable.set()
    await until(lambda: scene.machine.ended == [QueuedEnded(3, None)])
    assert [each.number for each in scene.machine.waiting] == [1, 2]
    scene.calls.full = set()
    await until(lambda: scene.machine.ended[1:] == [QueuedEnded(1, None), QueuedEnded(2, None)])
