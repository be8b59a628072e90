"""The hops and flushes of an update and of a message over two servers alone: the lower bound of their cost.

    update     caller --> first: commit --> second: commit --> first: commit --> second: commit --> first --> caller
    message    sender --> first: commit --> second: commit --> listener

Two processes use gRPC as the name servers do, and the same database, written in a thread of its own. A message that is
kept in memory is committed by neither process.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc

from benchmarks.echo import serve_bare
from benchmarks.servers import ServerProcess, running
from namegraph import ServerId
from namegraph.model.rows import ProtocolRow, Records
from storage.open import open_store

SERVICE = "benchmark.Bare"
UPDATE, LETTERS, SEND, POSTS, LISTEN = (
    f"/{SERVICE}/{name}" for name in ("Update", "Letters", "Send", "Posts", "Listen")
)

ORDER, READY, COMMIT, DONE = (b"x" * size for size in (134, 139, 266, 28))
"""Letters as large as those that two name servers exchange for a join."""

ROWS = 8
"""Rows of a commit. A commit of a join has 5 to 16 rows, a commit of a message 8."""
ROW_BYTES = 100
KEYS_IN_TURN = 20
"""Number of keys in turn. Rows overwrite earlier rows, so the tables stay as small as those of servers, which delete
rows.
"""

IN_MEMORY = b"m"
"""First byte of a message that is not committed."""


class _Writer:
    """A database, and the thread that writes it."""

    def __init__(self, directory: Path) -> None:
        self._store = open_store(f"sqlite:///{directory / 'bare.db'}", server=ServerId("bare.example"))
        self._thread = ThreadPoolExecutor(1)
        self._numbers = itertools.count(1)

    async def commit(self) -> None:
        number = next(self._numbers)
        rows = [
            ProtocolRow(f"part {part}", str(number % KEYS_IN_TURN), number.to_bytes(8) * (ROW_BYTES // 8))
            for part in range(ROWS)
        ]
        records = Records(counter=number, protocol=rows)
        await asyncio.get_running_loop().run_in_executor(self._thread, self._store.commit, records)

    async def commit_message(self, message: bytes) -> None:
        if not message.startswith(IN_MEMORY):
            await self.commit()


async def _serve(directory: Path, other: str) -> None:
    writer = _Writer(directory)
    arrived: asyncio.Queue[bytes] = asyncio.Queue()
    # The first server has streams to the second. The second server calls no server.
    channel = grpc.aio.insecure_channel(other)
    call = channel.stream_stream(LETTERS)() if other else None
    posting = channel.stream_unary(POSTS)() if other else None

    async def update(_request: bytes, _context: object) -> bytes:
        assert call is not None, "asked of the first"
        for letter in (ORDER, COMMIT):
            await writer.commit()
            await call.write(letter)
            answer: bytes = await call.read()
        return answer

    async def letters(requests: AsyncIterator[bytes], _context: object) -> AsyncIterator[bytes]:
        async for letter in requests:
            await writer.commit()
            yield READY if letter == ORDER else DONE

    async def send(message: bytes, _context: object) -> bytes:
        assert posting is not None, "asked of the first"
        await writer.commit_message(message)
        await posting.write(message)
        return DONE

    async def posts(requests: AsyncIterator[bytes], _context: object) -> bytes:
        async for message in requests:
            await writer.commit_message(message)
            arrived.put_nowait(message)
        return DONE

    async def listen(_request: bytes, _context: object) -> AsyncIterator[bytes]:
        while True:
            yield await arrived.get()

    handlers = {
        "Update": grpc.unary_unary_rpc_method_handler(update),
        "Letters": grpc.stream_stream_rpc_method_handler(letters),
        "Send": grpc.unary_unary_rpc_method_handler(send),
        "Posts": grpc.stream_unary_rpc_method_handler(posts),
        "Listen": grpc.unary_stream_rpc_method_handler(listen),
    }
    await serve_bare(SERVICE, handlers, "bare server")


@contextmanager
def bare_update() -> Iterator[Callable[[], object]]:
    """Yield a call that makes one bare update, and returns once all of it is written."""
    with _two_servers() as (first, _):
        update = first.unary_unary(UPDATE)
        yield lambda: update(b"x" * 60)


@contextmanager
def bare_message(payload: bytes, *, is_durable: bool) -> Iterator[Callable[[], object]]:
    """Yield a call that sends one bare message, and returns once a listener at the other server has it."""
    message = payload if is_durable else IN_MEMORY + payload
    with _two_servers() as (first, second):
        send, messages = first.unary_unary(SEND), second.unary_stream(LISTEN)(b"")

        def arrive() -> None:
            send(message)
            next(messages)

        yield arrive


@contextmanager
def _two_servers() -> Iterator[tuple[grpc.Channel, grpc.Channel]]:
    with (
        tempfile.TemporaryDirectory() as there,
        tempfile.TemporaryDirectory() as here,
        _server(there) as second,
        _server(here, second.address) as first,
        grpc.insecure_channel(first.address) as to_first,
        grpc.insecure_channel(second.address) as to_second,
    ):
        yield to_first, to_second


@contextmanager
def _server(directory: str, other: str = "") -> Iterator[ServerProcess]:
    with running(
        [sys.executable, "-m", "benchmarks.bare_servers", directory, other], r"bare server on (\S+)$"
    ) as server:
        yield server


if __name__ == "__main__":
    sys.exit(asyncio.run(_serve(Path(sys.argv[1]), sys.argv[2])))
