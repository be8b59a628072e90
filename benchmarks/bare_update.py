"""The hops and flushes of an update over two servers, and nothing else: what a join costs without the name servers.

    caller --> first: commit --> second: commit --> first: commit --> second: commit --> first --> caller

Two processes with gRPC as the name servers use it, and the same database, written in a thread of its own.
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

METHOD = "/benchmark.BareUpdate/Update"
LETTERS = "/benchmark.BareUpdate/Letters"

ORDER, READY, COMMIT, DONE = (b"x" * size for size in (134, 139, 266, 28))
"""As large as what two name servers send one another for a join."""

ROWS = 8
"""Of a commit: a join's commits have 5 to 16."""
ROW_BYTES = 100
KEYS_IN_TURN = 20
"""Rows are written over earlier ones, so that the tables stay as small as those of servers, which delete them."""


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


async def _serve(directory: Path, other: str) -> None:
    writer = _Writer(directory)
    # The first one has a stream to the other; the second calls nobody.
    call = grpc.aio.insecure_channel(other).stream_stream(LETTERS)() if other else None

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

    handlers = {
        "Update": grpc.unary_unary_rpc_method_handler(update),
        "Letters": grpc.stream_stream_rpc_method_handler(letters),
    }
    await serve_bare("benchmark.BareUpdate", handlers, "bare update")


@contextmanager
def bare_update() -> Iterator[Callable[[], object]]:
    """A call that makes one bare update, and returns once all of it is written."""
    with (
        tempfile.TemporaryDirectory() as there,
        tempfile.TemporaryDirectory() as here,
        _server(there) as second,
        _server(here, second.address) as first,
        grpc.insecure_channel(first.address) as channel,
    ):
        update = channel.unary_unary(METHOD)
        yield lambda: update(b"x" * 60)


@contextmanager
def _server(directory: str, other: str = "") -> Iterator[ServerProcess]:
    with running(
        [sys.executable, "-m", "benchmarks.bare_update", directory, other], r"bare update on (\S+)$"
    ) as server:
        yield server


if __name__ == "__main__":
    sys.exit(asyncio.run(_serve(Path(sys.argv[1]), sys.argv[2])))
