"""Wait of a batch for more records that could become durable with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from nameserver.driver.group_commit import Batch

GATHER_SECONDS = 0.002
"""Wait of a flush for the next request of a caller that was just answered: about the time of one flush."""

GATHER_ROUNDS_LIMIT = 10
"""Most waits in a row, as long as each brings a caller. A caller waits at most 20 ms for others."""

RECEIPTS_SECONDS = 0.02
"""Wait of receipts for other records to become durable with.

No caller waits for receipts.

It is much shorter than a delay that senders of many posts or letters would notice. It is long enough that a message or
an update does not wait for the receipts of the one before it.
"""


class Gathering:
    """Wait for callers that were just answered, who tend to ask again at once. Receipts wait for any other record."""

    def __init__(self, has_open: Callable[[], bool]) -> None:
        """`has_open`: returns True if messages wait for the next parcel."""
        self._has_open = has_open
        self._expected_replies = 0
        self._is_enough = asyncio.Event()
        self._holds_receipts = False
        """True if the waiting batch holds only receipts."""
        self._ends = False

    async def gather(self, batch: Batch) -> None:
        """Wait for callers that are likely to come back, as long as they keep coming and no other server waits."""
        if self._can_wait(batch):
            self._holds_receipts = True
            await self._wait(RECEIPTS_SECONDS)
            self._holds_receipts = False
        for _ in range(GATHER_ROUNDS_LIMIT):
            came_so_far = len(batch.replies)
            if came_so_far >= self._expected_replies or batch.concerns_peers() or self._ends:
                return
            await self._wait(GATHER_SECONDS)
            if len(batch.replies) == came_so_far:
                return

    def came(self, batch: Batch) -> None:
        """Note an addition to a batch. The addition may end the wait."""
        if self._can_wait(batch):
            return
        if len(batch.replies) >= self._expected_replies or batch.concerns_peers() or self._holds_receipts:
            self.hurry()

    def hurry(self) -> None:
        """End the wait of the batch that is being gathered."""
        self._is_enough.set()

    def expect(self, replies: int) -> None:
        """Expect this number of callers, which are answered now or wait already."""
        self._expected_replies = replies

    def end(self) -> None:
        """End all waits from now on."""
        self._ends = True
        self.hurry()

    def _can_wait(self, batch: Batch) -> bool:
        return batch.can_wait and not self._has_open()

    async def _wait(self, seconds: float) -> None:
        """Wait for some seconds, or until `hurry` is called."""
        if self._ends:
            return
        self._is_enough.clear()
        end_of_wait = asyncio.get_running_loop().call_later(seconds, self.hurry)
        await self._is_enough.wait()
        end_of_wait.cancel()
