"""Checkpoints are made of durable rows, signed if there is a key, and told once they are durable themselves."""

import asyncio

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from namegraph import Checkpoint, ServerId
from nameserver.driver import checkpoint_keeper
from nameserver.driver.checkpoint_keeper import CHECKPOINT_ROWS, CheckpointKeeper
from shadowtree.client.audit_log import is_genuine
from shadowtree.results import AuditCheckpoint

SERVER = ServerId("a.example")


class FakeLoop:
    """A run loop with a database that may be slow."""

    def __init__(self):
        self.audit_head = (0, b"")
        self.taken = []
        self.is_durable = asyncio.Event()
        self.is_durable.set()

    async def between_steps(self):
        pass

    def take(self, event):
        self.taken.append(event)

    async def until_durable(self):
        await self.is_durable.wait()


class FakeKept:
    newest = None


class Signer:
    def __init__(self):
        self._key = Ed25519PrivateKey.generate()
        self.public_key = self._key.public_key().public_bytes_raw()

    def sign(self, data):
        return self._key.sign(data)


@pytest.fixture
async def keeping(monkeypatch):
    """Start keepers, which end with the test."""
    monkeypatch.setattr(checkpoint_keeper, "SHORTEST_SECONDS", 0.001)
    tasks = []

    def start(kept=FakeKept, signer=None):
        loop, told = FakeLoop(), []
        keeper = CheckpointKeeper(
            server=SERVER,
            kept=kept,
            run_loop=loop,
            tell=told.append,
            now_ms=lambda: 10_000,
            keep_ms=1_000,
            signer=signer,
        )
        tasks.append(asyncio.ensure_future(keeper.keep_forever()))
        return loop, keeper, told

    yield start
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def until(holds):
    async with asyncio.timeout(5):
        while not holds():
            await asyncio.sleep(0.001)


async def test_a_checkpoint_is_made_once_there_are_so_many_rows_and_names_the_one_before(keeping):
    loop, keeper, told = keeping()
    loop.audit_head = (CHECKPOINT_ROWS - 1, b"a" * 32)
    keeper.committed(0.1)
    await asyncio.sleep(0.02)
    assert told == []
    for number in (CHECKPOINT_ROWS, 2 * CHECKPOINT_ROWS + 7):
        loop.audit_head = (number, b"b" * 32)
        keeper.committed(0.1)
        await until(lambda number=number: told and told[-1].sequence == number)
    assert [(each.sequence, each.before, each.at) for each in told] == [(1_000, 0, 10_000), (2_007, 1_000, 10_000)]
    assert [(event.checkpoint, event.forget_before) for event in loop.taken] == [(each, 9_000) for each in told]


async def test_a_checkpoint_is_made_after_an_hour_only_if_there_are_new_rows(keeping, monkeypatch):
    monkeypatch.setattr(checkpoint_keeper, "CHECKPOINT_SECONDS", 0.005)
    loop, _, told = keeping()
    await asyncio.sleep(0.05)
    assert loop.taken == []
    loop.audit_head = (3, b"a" * 32)
    await until(lambda: told)
    await asyncio.sleep(0.05)
    assert [each.sequence for each in told] == [3]


async def test_a_checkpoint_is_told_only_once_it_is_durable(keeping):
    loop, keeper, told = keeping()
    loop.is_durable.clear()
    loop.audit_head = (CHECKPOINT_ROWS, b"a" * 32)
    keeper.committed(0.1)
    await until(lambda: loop.taken)
    await asyncio.sleep(0.02)
    assert told == []
    loop.is_durable.set()
    await until(lambda: told)


async def test_the_newest_checkpoint_is_told_after_a_start(keeping):
    class Kept:
        newest = Checkpoint(SERVER, 500, b"a" * 32, 1)

    loop, keeper, told = keeping(Kept)
    await until(lambda: told == [Kept.newest])
    loop.audit_head = (CHECKPOINT_ROWS, b"b" * 32)
    keeper.committed(0.1)
    await asyncio.sleep(0.02)
    assert loop.taken == []


async def test_a_signature_is_that_of_the_key_over_all_of_the_checkpoint(keeping):
    loop, keeper, told = keeping(signer=Signer())
    loop.audit_head = (CHECKPOINT_ROWS, b"a" * 32)
    keeper.committed(0.1)
    await until(lambda: told)
    server, sequence, digest, at, before, key, signature = (
        getattr(told[0], name) for name in told[0].__struct_fields__
    )
    right = AuditCheckpoint(server, sequence, digest.hex(), at, before, key.hex(), signature.hex(), "b.example")
    assert is_genuine(right)
    for name, other in (
        ("sequence", 1),
        ("hash", "00" * 32),
        ("at", 2),
        ("before", 1),
        ("key", "00" * 32),
        ("hash", "x"),
    ):
        values = {field: getattr(right, field) for field in right.__slots__}
        assert not is_genuine(AuditCheckpoint(**{**values, name: other}))
