"""Places for streams of messages: no network takes all of them, and idle ones give way to others."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from namegraph import Reason, RefusedError
from nameserver.calls import stream_places
from nameserver.calls.stream_places import (
    IDLE_SECONDS,
    STREAMS_LIMIT,
    STREAMS_OF_NETWORK_LIMIT,
    STREAMS_OF_THIS_MACHINE_LIMIT,
    STREAMS_PASSED_ON_LIMIT,
    USED_SECONDS,
    StreamPlaces,
)
from tests.callers import caller, calling

HERE = "ipv4:127.0.0.1:40000"


class Call:
    """A call as gRPC shows it to a handler."""

    def __init__(self, peer):
        self._peer = peer

    def peer(self):
        return self._peer


class Hall:
    """Places under a clock that is set by hand, and streams that leave when they are told to."""

    def __init__(self, leaving):
        self.now, self.lines, self.told, self._leaving = 0.0, [], [], leaving
        self.places = StreamPlaces(clock=lambda: self.now, report=self.lines.append)

    async def open(self, peer=HERE, count=1, **more):
        """Return the place of the last of `count` streams. Raises if a stream finds no place."""
        return [await self._open(peer, more) for _ in range(count)][-1]

    async def _open(self, peer, more):
        async with AsyncExitStack() as stack:
            with calling(caller(peer, **more)):
                place = await stack.enter_async_context(self.places.one(said(), Call(peer)))
            place.close = (await self._leaving.enter_async_context(stack.pop_all())).aclose
            place.end = lambda why: self.told.append((place, why.refusal))
            return place

    async def refusal(self, peer=HERE, **more):
        with pytest.raises(RefusedError) as caught:
            await self.open(peer, **more)
        return caught.value.refusal


async def said():
    yield b"the first message"


@pytest.fixture
async def hall():
    async with AsyncExitStack() as leaving:
        yield Hall(leaving)


@pytest.mark.parametrize(
    ("peer", "more", "limit"),
    [
        ("ipv4:192.0.2.{}:4000", {}, STREAMS_OF_NETWORK_LIMIT),
        ("ipv6:[2001:db8::{}]:4000", {}, STREAMS_OF_NETWORK_LIMIT),
        ("ipv4:127.0.0.{}:4000", {}, STREAMS_OF_THIS_MACHINE_LIMIT),
        ("ipv4:192.0.2.{}:4000", {"via": "b.x"}, STREAMS_PASSED_ON_LIMIT),
    ],
)
async def test_no_network_takes_all_places(hall, peer, more, limit):
    for number in range(limit):
        await hall.open(peer.format(number % 200 + 1), **more)
    refusal = await hall.refusal(peer.format(201), **more)
    assert (refusal.reason, refusal.facts["limit"]) == (Reason.LIMIT_EXCEEDED, str(limit))
    await hall.open("ipv4:198.51.100.1:4000", count=STREAMS_OF_NETWORK_LIMIT)
    assert len(hall.places) == limit + STREAMS_OF_NETWORK_LIMIT
    assert hall.places.refused == 1
    assert len(hall.lines) == 1


async def test_an_idle_stream_gives_way_to_others_and_is_told_so(hall):
    first, *_ = [await hall.open() for _ in range(STREAMS_OF_THIS_MACHINE_LIMIT)]
    hall.now = IDLE_SECONDS - 1
    assert (await hall.refusal()).facts["idle_seconds"] == "60"
    hall.now += 1
    await hall.open()
    ((ended, why),) = hall.told
    assert ended is first
    # The client takes this fact for leave to open another stream.
    assert (why.reason, why.facts["idle_seconds"]) == (Reason.DEADLINE_EXCEEDED, "60")
    assert len(hall.places) == STREAMS_OF_THIS_MACHINE_LIMIT
    await first.close()
    assert len(hall.places) == STREAMS_OF_THIS_MACHINE_LIMIT
    assert (hall.places.ended, hall.places.refused) == (1, 1)


async def test_where_nobody_waits_an_idle_stream_stays(hall):
    await hall.open(count=STREAMS_OF_THIS_MACHINE_LIMIT)
    hall.now = 100 * IDLE_SECONDS
    await hall.open("ipv4:192.0.2.1:4000")
    assert not hall.told


async def test_a_stream_in_use_stays_while_another_one_is_idle(hall):
    streams = [await hall.open() for _ in range(STREAMS_OF_THIS_MACHINE_LIMIT)]
    hall.now = IDLE_SECONDS
    for place in streams[:-1]:
        place.used()
    await hall.open()
    assert [place for place, _ in hall.told] == streams[-1:]


async def test_the_connection_with_most_streams_gives_way_first(hall):
    honest = await hall.open("ipv4:127.0.0.1:40001")
    await hall.open("ipv4:127.0.0.1:40002", count=STREAMS_OF_THIS_MACHINE_LIMIT - 1)
    hall.now = IDLE_SECONDS
    for _ in range(1_000):
        await hall.open("ipv4:127.0.0.1:40002")
    assert len(hall.told) == 1_000
    assert honest not in [place for place, _ in hall.told]


async def test_streams_that_are_kept_in_use_do_not_hold_their_places_for_good(hall):
    streams = [await hall.open("ipv4:127.0.0.1:40002") for _ in range(STREAMS_OF_THIS_MACHINE_LIMIT)]
    while hall.now < USED_SECONDS:
        await hall.refusal("ipv4:127.0.0.1:40003")
        hall.now += IDLE_SECONDS / 2
        for place in streams:
            place.used()
    newcomer = await hall.open("ipv4:127.0.0.1:40003")
    for _ in range(100):
        await hall.open("ipv4:127.0.0.1:40002")
    assert newcomer not in [place for place, _ in hall.told]
    # Operators are told once a minute.
    assert len(hall.lines) == USED_SECONDS / stream_places.REPORT_SECONDS + 1


async def test_a_full_server_has_the_most_crowded_network_give_way(hall):
    await hall.open(count=STREAMS_OF_THIS_MACHINE_LIMIT)
    for number in range((STREAMS_LIMIT - STREAMS_OF_THIS_MACHINE_LIMIT) // 100):
        await hall.open(f"ipv4:192.0.{number}.1:4000", count=100)
    assert len(hall.places) == STREAMS_LIMIT
    assert (await hall.refusal("ipv4:198.51.100.1:4000")).facts["limit"] == str(STREAMS_LIMIT)
    hall.now = IDLE_SECONDS
    await hall.open("ipv4:198.51.100.1:4000", count=50)
    assert {place.network for place, _ in hall.told} == {stream_places.THIS_MACHINE}
    assert len(hall.places) == STREAMS_LIMIT


async def test_a_stream_that_does_not_end_when_it_is_told_is_ended(monkeypatch):
    monkeypatch.setattr(stream_places, "GRACE_SECONDS", 0.01)
    monkeypatch.setattr(stream_places, "STREAMS_OF_THIS_MACHINE_LIMIT", 1)
    now = 0.0
    places = StreamPlaces(clock=lambda: now)

    async def deaf():
        async with places.one(said(), Call(HERE)):
            await asyncio.get_running_loop().create_future()

    with calling():
        task = asyncio.ensure_future(deaf())
        await asyncio.sleep(0)
        now = IDLE_SECONDS
        async with places.one(said(), Call(HERE)):
            async with asyncio.timeout(10):
                await asyncio.wait((task,))
            assert task.cancelled()
            assert len(places) == 1
