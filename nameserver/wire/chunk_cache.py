"""Long lists as serialized chunks, made once for each plan or resolution and kept within a budget of memory."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Protocol, TypeVar

CHUNK_ITEMS = 16_384
"""Names of one message: about 400 kB of usual names. 2,000 are four times slower to stream, 40,000 no faster."""

CHUNK_STEPS = 2_048
"""Steps of a walk of one message. Making the message takes some 3 ms."""

CHUNK_BYTES_LIMIT = 1024 * 1024
"""Bytes of one chunk. gRPC clients refuse messages above 4 MiB by default, and names may be long."""

CACHE_BYTES_LIMIT = 64 * 1024 * 1024
"""Bytes of all kept chunks: two answers of a million members."""

Item = TypeVar("Item")


class Encodable(Protocol):
    """Holder of lists that has room for their serialized forms."""

    @property
    def encoded(self) -> dict[str, tuple[bytes, ...]]:
        """Serialized chunks of each list, by name."""


def chunks_of(
    items: Iterable[Item], encode: Callable[[Sequence[Item]], bytes], count: int = CHUNK_ITEMS
) -> Iterator[bytes]:
    """Serialize the items, `count` at a time, or fewer if a message would get too large."""
    iterator = iter(items)
    while part := list(islice(iterator, count)):
        yield from _fitting(part, encode)


def _fitting(items: Sequence[Item], encode: Callable[[Sequence[Item]], bytes]) -> Iterator[bytes]:
    chunk = encode(items)
    if len(chunk) <= CHUNK_BYTES_LIMIT or len(items) == 1:
        yield chunk
        return
    middle = len(items) // 2
    yield from _fitting(items[:middle], encode)
    yield from _fitting(items[middle:], encode)


class ChunkCache:
    """Cache of the chunks of plans that were sent lately. They go with their plan, or when the budget is used up."""

    def __init__(self, bytes_limit: int = CACHE_BYTES_LIMIT) -> None:
        self._bytes_limit = bytes_limit
        self._kept_bytes = 0
        self._kept: OrderedDict[int, tuple[weakref.ref[Encodable], int]] = OrderedDict()
        """Plans by their identity, the oldest first."""

    def chunks(
        self, plan: Encodable, name: str, items: Sequence[Item], encode: Callable[[Sequence[Item]], bytes]
    ) -> Iterable[bytes]:
        """Return the chunks of one list of a plan, from the cache or into it."""
        kept = plan.encoded.get(name)
        if kept is not None:
            self._kept.move_to_end(id(plan))
            return kept
        return self._make(plan, name, items, encode)

    def _make(
        self, plan: Encodable, name: str, items: Sequence[Item], encode: Callable[[Sequence[Item]], bytes]
    ) -> Iterator[bytes]:
        made = []
        for chunk in chunks_of(items, encode):
            made.append(chunk)
            yield chunk
        if name not in plan.encoded:
            self._keep(plan, name, tuple(made))

    def _keep(self, plan: Encodable, name: str, made: tuple[bytes, ...]) -> None:
        size = sum(map(len, made))
        if size > self._bytes_limit:
            return
        key = id(plan)
        _, before = self._kept.pop(key, (None, 0))
        plan.encoded[name] = made
        self._kept[key] = weakref.ref(plan, lambda _: self._forget(key)), before + size
        self._kept_bytes += size
        while self._kept_bytes > self._bytes_limit:
            oldest_key, (oldest, _) = next(iter(self._kept.items()))
            oldest_plan = oldest()
            if oldest_plan is not None:
                oldest_plan.encoded.clear()
            self._forget(oldest_key)

    def _forget(self, key: int) -> None:
        _, size = self._kept.pop(key, (None, 0))
        self._kept_bytes -= size
