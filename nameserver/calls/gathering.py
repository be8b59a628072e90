"""Batches that come in chunks: gathered as bytes, few at a time, until each is whole.

    a stream comes -> a place of its caller -> a place of the server -> chunks are read and counted
                      none is free: the stream waits, unread            too many bytes: LIMIT_EXCEEDED
                      too many wait: LIMIT_EXCEEDED                     too slow: DEADLINE_EXCEEDED
                   -> the batch is whole: its places are free, and it is worked on like any large request

gRPC holds some of a waiting stream, up to all of it on a fast connection, so the number of waiting streams is limited
too. A whole batch has no place any more: no server waits for another server here while it has a place itself.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Protocol

from namegraph import Reason, refuse
from nameserver.access.caller import current_caller
from nameserver.calls.adapters import Context
from nameserver.config.addresses import counted_as

BATCH_BYTES_LIMIT: Final = 8 * 1024 * 1024
"""Bytes of all chunks of one batch: room for the largest atomic update (APPLY_OPERATIONS_LIMIT).

Servers of the previous version take a batch as one message of at most as many bytes.
"""

BATCHES_OF_CALLER_LIMIT: Final = 2
"""Batches of one caller that are gathered at once. Further ones wait, so a slow caller delays itself alone."""

BATCHES_LIMIT: Final = 8
"""Batches of all callers that are gathered at once: 64 MiB, half of the bytes of all requests."""

STREAMS_OF_CALLER_LIMIT: Final = 16
"""Batches of one caller that are gathered, or wait to be."""

STREAMS_LIMIT: Final = 32
"""Batches of all callers that are gathered, or wait to be. gRPC and the server hold at most 256 MiB of them."""

HEARD_OUT_LIMIT: Final = 20
"""Refused streams whose first chunk is awaited at once.

A stream that is refused before its first chunk looks broken to its client.
"""

GATHERING_SECONDS: Final = 120.0
"""Longest time that one batch may take: 8 MiB at 0.6 Mbit/s."""


class CountsBytes(Protocol):
    """Counter of the bytes of the requests under way."""

    def add(self, size: int) -> None:
        """Count more bytes. Raises `RefusedError` if there are too many already."""

    def remove(self, size: int) -> None:
        """Count fewer bytes."""


class CallBatch:
    """One batch, as far as it has come."""

    def __init__(self, counts: CountsBytes) -> None:
        self.chunks: list[bytes] = []
        self.size = 0
        self._counts = counts

    def add(self, chunk: bytes) -> None:
        """Keep the next chunk. Raises `RefusedError` if the batch gets too large."""
        if self.size + len(chunk) > BATCH_BYTES_LIMIT:
            raise refuse(
                Reason.LIMIT_EXCEEDED,
                f"all chunks of one batch have at most {BATCH_BYTES_LIMIT} bytes; split the batch",
                limit=str(BATCH_BYTES_LIMIT),
            )
        self._counts.add(len(chunk))
        self.size += len(chunk)
        self.chunks.append(chunk)

    def give_back(self) -> None:
        """Stop counting the bytes of this batch."""
        self._counts.remove(self.size)


class BatchGathering:
    """Gathering of the batches of one service."""

    def __init__(self, counts: CountsBytes) -> None:
        self._counts = counts
        self._of_all = asyncio.Semaphore(BATCHES_LIMIT)
        self._of_caller: dict[str, asyncio.Semaphore] = {}
        self._streams: Counter[str] = Counter()
        """Number of streams by caller, those that wait for a place included."""
        self._heard_out = 0

    async def whole(self, chunks: AsyncIterator[bytes], context: Context) -> CallBatch:
        """Read a stream to its end.

        Raises `RefusedError` if it is too large or too slow.

        The bytes of the returned batch are not counted any more.
        """
        batch, caller = CallBatch(self._counts), _caller_of(context)
        if self._streams[caller] >= STREAMS_OF_CALLER_LIMIT or self._streams.total() >= STREAMS_LIMIT:
            await self._hear_out(chunks)
            raise refuse(
                Reason.LIMIT_EXCEEDED,
                f"{STREAMS_OF_CALLER_LIMIT} batches of one caller, or {STREAMS_LIMIT} of all, are being sent already; "
                "try again in a moment",
                limit=str(STREAMS_OF_CALLER_LIMIT),
            )
        async with self._place(caller):
            try:
                async with asyncio.timeout(GATHERING_SECONDS):
                    async for chunk in chunks:
                        batch.add(chunk)
            except TimeoutError:
                raise refuse(
                    Reason.DEADLINE_EXCEEDED,
                    f"a batch has to be sent within {GATHERING_SECONDS:g} seconds; nothing was done",
                ) from None
            finally:
                batch.give_back()
        return batch

    async def _hear_out(self, chunks: AsyncIterator[bytes]) -> None:
        """Wait for the first chunk of a refused stream."""
        if self._heard_out < HEARD_OUT_LIMIT:
            self._heard_out += 1
            try:
                await anext(chunks, None)
            finally:
                self._heard_out -= 1

    @asynccontextmanager
    async def _place(self, caller: str) -> AsyncIterator[None]:
        own = self._of_caller.setdefault(caller, asyncio.Semaphore(BATCHES_OF_CALLER_LIMIT))
        self._streams[caller] += 1
        try:
            async with own, self._of_all:
                yield
        finally:
            self._streams[caller] -= 1
            if not self._streams[caller]:
                del self._streams[caller], self._of_caller[caller]


def _caller_of(context: Context) -> str:
    caller = counted_as(context.peer() or "")
    return f"{caller}, passed on" if current_caller().is_forwarded else caller
