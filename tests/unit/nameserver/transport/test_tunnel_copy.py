"""Bytes through a tunnel: all of them, in order, no more at once than fits, and no longer than they move."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nameserver.transport import tunnel_copy
from nameserver.transport.tunnel_copy import ByteBudget, copy_both_ways
from nameserver.wire.tunnel_pieces import PIECE_BYTES_LIMIT
from tests.fakes.tunnel_streams import PieceStream, connection

PATIENCE_SECONDS = 20


class Copying:
    """A tunnel between a stream and a connection, of which a test plays the other ends."""

    def __init__(self, stream, ends):
        (reader, writer), (self.reader, self.writer) = ends
        self.stream = stream
        self.until = asyncio.get_running_loop().create_future()
        self._near = writer
        self.task = asyncio.ensure_future(copy_both_ways(stream, reader, writer, until=self.until))

    async def close(self):
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        for writer in (self.writer, self._near):
            writer.transport.abort()

    async def end(self):
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self.task


@pytest.fixture
async def copying():
    tunnel = Copying(PieceStream(), await connection())
    yield tunnel
    await tunnel.close()


@given(st.lists(st.tuples(st.booleans(), st.binary(max_size=500)), max_size=60))
async def test_all_bytes_come_out_in_order_either_way_however_they_are_cut(given_bytes):
    tunnel = Copying(PieceStream(), await connection())
    outward = b"".join(data for is_outward, data in given_bytes if is_outward)
    homeward = b"".join(data for is_outward, data in given_bytes if not is_outward)
    for is_outward, data in given_bytes:
        if is_outward:
            tunnel.writer.write(data)
        else:
            tunnel.stream.give(data)
    came = b""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(came) < len(outward):
            came += await tunnel.stream.taken()
        assert came == outward
        assert await tunnel.reader.readexactly(len(homeward)) == homeward
    await tunnel.close()


async def test_much_is_cut_into_pieces(copying):
    much = bytes(range(256)) * (10 * PIECE_BYTES_LIMIT // 256)
    copying.writer.write(much)
    pieces = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        while sum(map(len, pieces)) < len(much):
            pieces.append(await copying.stream.taken())
    assert b"".join(pieces) == much
    assert max(map(len, pieces)) <= PIECE_BYTES_LIMIT


async def test_a_stream_that_takes_nothing_lets_the_connection_fill_up_and_no_more_is_read():
    tunnel = Copying(PieceStream(room=1), await connection())
    sent, draining = 0, asyncio.ensure_future(asyncio.sleep(0))
    while (await asyncio.wait((draining,), timeout=0.2))[0]:
        tunnel.writer.write(bytes(PIECE_BYTES_LIMIT))
        sent += PIECE_BYTES_LIMIT
        draining = asyncio.ensure_future(tunnel.writer.drain())
    draining.cancel()
    # One piece is under way, two are in the reader, and the rest in the kernel and in the writer of this test.
    assert tunnel.stream.untaken == 1
    assert sent < 1024 * 1024
    await tunnel.close()


async def test_a_connection_that_takes_nothing_lets_the_stream_wait(copying):
    for _ in range(100):
        copying.stream.give(bytes(PIECE_BYTES_LIMIT))
    left = None
    while left != (left := copying.stream._came.qsize()):
        await asyncio.sleep(0.1)
    assert left > 80
    async with asyncio.timeout(PATIENCE_SECONDS):
        await copying.reader.readexactly(100 * PIECE_BYTES_LIMIT)


async def test_a_tunnel_ends_with_its_connection_after_what_was_sent(copying):
    copying.writer.write(b"last")
    copying.writer.close()
    assert await copying.end() == "the connection was closed"
    assert await copying.stream.taken() == b"last"


async def test_a_tunnel_ends_with_its_stream_after_what_was_sent(copying):
    copying.stream.give(b"last")
    copying.stream.give_encoded(None)
    assert await copying.end() == "the stream was ended"
    assert await copying.reader.readexactly(4) == b"last"


async def test_a_tunnel_ends_with_a_call_that_breaks(copying):
    copying.stream.break_off()
    assert await copying.end() == "the call was ended"


async def test_a_tunnel_ends_when_it_is_told_to(copying):
    copying.until.set_result("c.x is not connected")
    assert await copying.end() == "c.x is not connected"


@pytest.mark.parametrize(
    ("encoded", "why"),
    [
        (b"\xff" * 100, "bytes came that are no piece of a tunnel"),
        (
            b"\x0a\x81\x80\x04" + bytes(PIECE_BYTES_LIMIT + 1),
            f"a piece of more than {PIECE_BYTES_LIMIT} bytes came",
        ),
    ],
    ids=["garbage", "too large"],
)
async def test_what_is_no_piece_ends_the_tunnel(copying, encoded, why):
    copying.stream.give_encoded(encoded)
    assert await copying.end() == why


async def test_a_tunnel_through_which_nothing_comes_ends(monkeypatch):
    monkeypatch.setattr(tunnel_copy, "IDLE_SECONDS", 0.3)
    monkeypatch.setattr(tunnel_copy, "LOOK_SECONDS", 0.05)
    tunnel = Copying(PieceStream(), await connection())
    for _ in range(10):
        await asyncio.sleep(0.1)
        tunnel.stream.give(b"x")
    assert not tunnel.task.done()
    assert await tunnel.end() == "nothing has come for 0.3 seconds"
    await tunnel.close()


@pytest.mark.parametrize("is_stream", [True, False])
async def test_an_end_that_never_reads_ends_the_tunnel_though_the_other_way_is_busy(monkeypatch, is_stream):
    monkeypatch.setattr(tunnel_copy, "STALLED_SECONDS", 0.3)
    monkeypatch.setattr(tunnel_copy, "LOOK_SECONDS", 0.05)
    tunnel = Copying(PieceStream(room=1 if is_stream else 1_000_000), await connection())
    for _ in range(50):
        tunnel.writer.write(bytes(PIECE_BYTES_LIMIT))
        tunnel.stream.give(bytes(PIECE_BYTES_LIMIT))
    reading = asyncio.ensure_future(tunnel.reader.read(-1)) if is_stream else None
    assert await tunnel.end() == "an end has taken nothing for 0.3 seconds"
    if reading is not None:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    await tunnel.close()


# -- the budget


def test_a_budget_lets_a_burst_pass_and_then_so_many_bytes_a_second():
    now = [100.0]
    budget = ByteBudget(bytes_per_second=1_000, burst_bytes=500, clock=lambda: now[0])
    assert budget.spend(500) == 0
    assert budget.spend(100) == pytest.approx(0.1)
    assert budget.spend(100) == pytest.approx(0.2)
    now[0] += 0.2
    assert budget.spend(1_000) == pytest.approx(1.0)
    now[0] += 1_000
    assert budget.spend(500) == 0
    assert budget.spend(1) == pytest.approx(0.001)


@given(st.lists(st.tuples(st.integers(1, 5_000), st.floats(0, 3)), max_size=50))
def test_who_waits_as_told_never_passes_more_than_the_rate_and_one_burst(spent):
    now, passed = [0.0], 0
    budget = ByteBudget(bytes_per_second=1_000, burst_bytes=500, clock=lambda: now[0])
    for count, rest in spent:
        now[0] += budget.spend(count)
        passed += count
        assert passed <= 500 + 1_000 * now[0] + 1e-6 * passed
        now[0] += rest
