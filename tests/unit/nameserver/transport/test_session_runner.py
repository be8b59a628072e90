"""Output that waits for a stream of another server, and its order."""

import asyncio

import pytest

from namegraph import Lane
from nameserver.session.frames import DatagramFrame, Letters, Receipt, decode
from nameserver.session.heartbeats import Pulse
from nameserver.transport import session_runner
from nameserver.transport.session_runner import SessionRunner


class Stream:
    """Takes a frame when a test lets it."""

    def __init__(self):
        self.frames = []
        self.room = asyncio.Semaphore(0)

    async def read(self):
        await asyncio.Event().wait()

    async def write(self, data):
        await self.room.acquire()
        self.frames.append(decode(data))


class Session:
    """An open session. It has letters to send for ever, if so set."""

    def __init__(self, *, letters=False, takes_posts=True):
        self.number, self.ending, self.is_open_there = 3, None, True
        self.takes_posts, self._letters = takes_posts, letters
        self.state = session_runner.SessionState.OPEN

    def next_frame(self):
        return Letters(3, 1, (b"letter",), 0, 0, Lane.LETTERS) if self._letters else None


def runner_of(session):
    stream = Stream()
    found = SessionRunner(
        session, stream, None, heard=None, pulse=Pulse(1e9, 0.0), view=str, cannot_write=str, clock=lambda: 0.0
    )
    return found, stream


@pytest.fixture
async def tasks():
    begun = []
    yield lambda coroutine: begun.append(asyncio.ensure_future(coroutine))
    for task in begun:
        task.cancel()


async def let_leave(stream, count):
    for _ in range(count):
        stream.room.release()
    async with asyncio.timeout(10):
        while len(stream.frames) < count:
            await asyncio.sleep(0)


async def test_datagrams_and_others_take_turns(tasks, monkeypatch):
    monkeypatch.setattr(session_runner, "DATAGRAMS_FRAME_BYTES_LIMIT", 6)
    runner, stream = runner_of(Session(letters=True))
    for number in range(4):
        assert runner.send_datagram(b"one%d" % number)
    tasks(runner._write())
    await let_leave(stream, 9)
    assert [type(frame) for frame in stream.frames] == [DatagramFrame, Letters] * 4 + [Letters]


async def test_those_that_are_there_go_together(tasks):
    runner, stream = runner_of(Session())
    tasks(runner._write())
    for number in range(3):
        assert runner.send_datagram(b"%d" % number)
    await let_leave(stream, 1)
    assert stream.frames == [DatagramFrame(3, (b"0", b"1", b"2"))]


async def test_what_a_stream_does_not_take_in_time_is_dropped(tasks, monkeypatch):
    monkeypatch.setattr(session_runner, "DATAGRAMS_HELD_LIMIT", 2)
    monkeypatch.setattr(session_runner, "DATAGRAMS_HELD_BYTES_LIMIT", 10)
    runner, stream = runner_of(Session())
    assert [runner.send_datagram(b"%d" % number) for number in range(3)] == [True, True, False]
    tasks(runner._write())
    await let_leave(stream, 1)
    assert [runner.send_datagram(b"x" * size) for size in (11, 10, 1)] == [False, True, False]


async def test_a_server_that_does_not_know_of_them_is_sent_none():
    runner, _ = runner_of(Session(takes_posts=False))
    assert not runner.send_datagram(b"one")
    assert not isinstance(runner._next_frame(), DatagramFrame | Receipt)
