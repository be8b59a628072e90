"""Slow senders of mail hold up no other sender, and take no more than the listener's limits."""

import asyncio
from collections import Counter

import pytest

from mailing.rules.intake import Recipient, RecipientReply
from mailing.shell import lmtp
from mailing.shell.log import Repeated

START = b"LHLO x\r\nMAIL FROM:<ann@x.example>\r\nRCPT TO:<all@x.example>\r\nDATA\r\n"
LARGE = b"y" * 99 + b"\r\n"


class Intake:
    """Takes all there is."""

    bytes_limit = 1_000_000

    def __init__(self):
        self.taken = []

    async def recipient(self, sender, address):
        return Recipient(address, self.bytes_limit)

    async def message(self, sender, recipients, content):
        self.taken.append(len(content))
        return [RecipientReply("250 2.0.0", "safe")]


class Told(Repeated):
    def __init__(self):
        super().__init__()
        self.events = Counter()

    def tell(self, event, message):
        self.events[event, message.rpartition(": ")[2]] += 1


class Port:
    def __init__(self):
        self.intake, self.told = Intake(), Told()
        self.listener = lmtp.LmtpListener(self.intake, "gate.example", self.told)
        self._writers = []

    async def begin(self):
        self._number = await self.listener.listen("127.0.0.1", 0)
        return self

    async def open(self, data):
        reader, writer = await asyncio.open_connection("127.0.0.1", self._number)
        writer.write(data)
        self._writers.append(writer)
        return reader, writer

    async def is_sent(self, body=b"Subject: x\r\n"):
        """Send a message and return whether it was taken."""
        reader, _ = await self.open(START + body + b".\r\nQUIT\r\n")
        async with asyncio.timeout(20):
            return b"250 2.0.0 safe" in await reader.read()

    async def end(self):
        for writer in self._writers:
            writer.close()
        await self.listener.end(0)


@pytest.fixture
async def port():
    found = await Port().begin()
    yield found
    await found.end()


async def until_data(reader):
    async with asyncio.timeout(20):
        await reader.readuntil(b"354 ")


async def test_senders_who_trickle_hold_up_nobody(port):
    for _ in range(60):
        reader, writer = await port.open(START)
        await until_data(reader)
        writer.write(b"X: y\r\n")
    assert await port.is_sent()
    assert not port.told.events


async def test_a_large_message_that_is_slow_gives_its_place_to_one_that_waits(port, monkeypatch):
    monkeypatch.setattr(lmtp, "SMALL_BYTES", 1_000)
    monkeypatch.setattr(lmtp, "LARGE_AT_ONCE", 3)
    monkeypatch.setattr(lmtp, "PATIENCE_SECONDS", 0.1)
    readers = []
    for _ in range(8):
        reader, writer = await port.open(START)
        await until_data(reader)
        writer.write(LARGE * 20)
        readers.append(reader)
    assert await port.is_sent(LARGE * 200)
    assert port.intake.taken == [len(LARGE) * 200]
    async with asyncio.timeout(20):
        assert b"421 4.3.2" in await readers[0].read()


async def test_large_messages_hold_no_more_than_their_places(port, monkeypatch):
    """Other senders wait with what fits one read."""
    monkeypatch.setattr(lmtp, "SMALL_BYTES", 1_000)
    monkeypatch.setattr(lmtp, "LARGE_AT_ONCE", 2)
    writers = []
    for _ in range(6):
        reader, writer = await port.open(START)
        await until_data(reader)
        writer.write(LARGE * 5_000)
        writers.append(writer)
    sessions = tuple(port.listener._open.values())
    async with asyncio.timeout(20):
        while sum(each._reader.held_bytes > lmtp.BYTES_PER_READ + 1_000 for each in sessions) < 2:
            await asyncio.sleep(0.01)
    for _ in range(20):
        await asyncio.sleep(0)
    held = sorted(each._reader.held_bytes for each in sessions)
    assert max(held[:4]) <= lmtp.BYTES_PER_READ + 1_000
    for writer in writers:
        writer.write(b".\r\n")
    async with asyncio.timeout(20):
        while len(port.intake.taken) < 6:
            await asyncio.sleep(0.01)


async def test_a_message_ends_in_its_time_or_its_connection_does(port, monkeypatch):
    monkeypatch.setattr(lmtp, "MESSAGE_SECONDS", 0.1)
    reader, _ = await port.open(START)
    async with asyncio.timeout(20):
        assert (await reader.read()).endswith(b"421 4.3.2 the message took too long\r\n")
    assert port.told.events == {("connection_closed", "a message took more than 0 seconds"): 1}


async def test_one_connection_too_many_ends_the_one_that_brought_nothing_longest(port, monkeypatch):
    monkeypatch.setattr(lmtp, "CONNECTIONS_LIMIT", 5)
    readers = []
    for _ in range(12):
        reader, _ = await port.open(b"")
        await reader.readline()
        readers.append(reader)
    assert len(port.listener._open) == 5
    async with asyncio.timeout(20):
        assert b"421 4.3.2" in await readers[0].read()
    assert await port.is_sent()


async def test_a_message_that_is_being_decided_is_not_broken_off(port, monkeypatch):
    monkeypatch.setattr(lmtp, "CONNECTIONS_LIMIT", 2)
    decided = asyncio.Event()

    async def message(sender, recipients, content):
        await decided.wait()
        return [RecipientReply("250 2.0.0", "safe")]

    monkeypatch.setattr(port.intake, "message", message)
    sending = [asyncio.create_task(port.is_sent()) for _ in range(2)]
    async with asyncio.timeout(20):
        while not all(each.is_deciding for each in port.listener._open.values()) or len(port.listener._open) < 2:
            await asyncio.sleep(0.01)
    reader, _ = await port.open(b"")
    async with asyncio.timeout(20):
        assert await reader.read() == b"421 4.3.2 too many connections\r\n"
    decided.set()
    assert await asyncio.gather(*sending) == [True, True]
