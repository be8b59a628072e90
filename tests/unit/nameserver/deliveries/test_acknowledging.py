"""Acknowledgements of many endpoints, gathered over a real core: one step takes them together."""

import asyncio

import pytest

from delivery.mailboxes.subscription_read import EndpointPosition
from delivery.model.events import AcknowledgeAll
from delivery.model.words import Kept, Position
from namegraph import NodeId, Reason, RefusedError, refuse
from nameserver.deliveries.acknowledging import Acknowledgements, Acknowledging
from nameserver.deliveries.endpoints import Endpoint


class Machine:
    """Takes events, and makes them durable when it is told to."""

    def __init__(self):
        self.noticed = []
        self.durable = asyncio.Event()
        self.durable.set()
        self.failure = None

    def notice(self, event):
        self.noticed.append(event)

    async def until_durable(self):
        await self.durable.wait()
        if self.failure is not None:
            raise RefusedError(self.failure)


@pytest.fixture
def machine():
    return Machine()


@pytest.fixture
def together(machine):
    return Acknowledgements(machine)


def endpoint(together, machine, number):
    standings = {kept: EndpointPosition(Position(0, -1)) for kept in Kept}
    return Acknowledging(together, machine, Endpoint(NodeId(f"p{number}@a.x"), (number, "desk"), 7), standings)


def said(event):
    assert isinstance(event, AcknowledgeAll)
    return [(each.mailbox, each.through, each.in_memory) for each in event.acknowledged]


async def until(is_so):
    async with asyncio.timeout(10):
        while not is_so():
            await asyncio.sleep(0.001)


async def test_one_step_takes_the_newest_of_each(together, machine):
    first, second = endpoint(together, machine, 1), endpoint(together, machine, 2)
    first.take(Kept.DURABLE, Position(1, 0))
    second.take(Kept.MEMORY, Position(5, 0))
    first.take(Kept.DURABLE, Position(3, 0))
    first.take(Kept.DURABLE, Position(2, 0))
    await until(lambda: machine.noticed)
    assert [said(event) for event in machine.noticed] == [
        [(1, Position(3, 0), None), (2, Position(0, -1), Position(5, 0))]
    ]


async def test_the_next_ones_go_when_the_last_are_durable(together, machine):
    machine.durable.clear()
    first, second = endpoint(together, machine, 1), endpoint(together, machine, 2)
    first.take(Kept.DURABLE, Position(1, 0))
    await until(lambda: machine.noticed)
    first.take(Kept.DURABLE, Position(2, 0))
    second.take(Kept.DURABLE, Position(1, 0))
    await asyncio.sleep(0)
    assert len(machine.noticed) == 1
    machine.durable.set()
    await until(lambda: len(machine.noticed) == 2)
    assert said(machine.noticed[1]) == [(1, Position(2, 0), None), (2, Position(1, 0), None)]


async def test_who_leaves_says_at_once_what_it_has_and_waits_until_that_is_durable(together, machine):
    leaving = endpoint(together, machine, 1)
    leaving.take(Kept.DURABLE, Position(1, 0))
    machine.durable.clear()
    left = asyncio.create_task(leaving.finish())
    await asyncio.sleep(0)
    assert said(machine.noticed[0]) == [(1, Position(1, 0), None)]
    assert not left.done()
    machine.durable.set()
    await left


async def test_a_database_that_fails_is_told_to_who_leaves_and_the_rest_goes_on(together, machine):
    leaving, staying = endpoint(together, machine, 1), endpoint(together, machine, 2)
    machine.failure = refuse(Reason.UNAVAILABLE, "the database cannot be written").refusal
    leaving.take(Kept.DURABLE, Position(1, 0))
    with pytest.raises(RefusedError):
        await leaving.finish()
    staying.take(Kept.DURABLE, Position(1, 0))
    await until(lambda: len(machine.noticed) == 2)
    assert said(machine.noticed[1]) == [(2, Position(1, 0), None)]


async def test_who_has_acknowledged_nothing_leaves_without_waiting(together, machine):
    machine.failure = refuse(Reason.UNAVAILABLE, "the database cannot be written").refusal
    await endpoint(together, machine, 1).finish()
    assert machine.noticed == []
