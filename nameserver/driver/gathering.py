"""How long a batch waits for more that could become durable with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from nameserver.driver.group_commit import Batch

GATHER_SECONDS = 0.002
"""How long a flush waits for the next of the callers that were just answered: about the time of one flush."""

GATHER_ROUNDS_LIMIT = 10
"""How often it waits again, as long as some do come: 20 ms for a caller who waits for others at the very worst."""

RECEIPTS_SECONDS = 0.02
"""How long receipts, for which nobody waits, wait for something to become durable with: much less than the senders of
many posts or letters would notice, and enough that a message or an update does not wait for the receipts of the one
before it."""


class Gathering:
    """Waits for the callers that were just answered, who tend to ask again at once; for receipts, for anything."""

    def __init__(self, has_open: Callable[[], bool]) -> None:
        """`has_open`: whether messages wait for the next parcel."""
        self._has_open = has_open
        self._expected_replies = 0
        self._is_enough = asyncio.Event()
        self._holds_receipts = False
        """Whether a batch waits that has nothing but these."""
        self._ends = False

    async def gather(self, batch: Batch) -> None:
        """Wait for the callers that are likely to come back, as long as they keep coming and no other server waits."""
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
        """Something was added to a batch: that may be enough."""
        if self._can_wait(batch):
            return
        if len(batch.replies) >= self._expected_replies or batch.concerns_peers() or self._holds_receipts:
            self.hurry()

    def hurry(self) -> None:
        """Let the batch that is gathered wait no longer."""
        self._is_enough.set()

    def expect(self, replies: int) -> None:
        """So many callers are answered now, or wait already."""
        self._expected_replies = replies

    def end(self) -> None:
        """Wait for nothing from now on."""
        self._ends = True
        self.hurry()

    def _can_wait(self, batch: Batch) -> bool:
        return batch.can_wait and not self._has_open()

    async def _wait(self, seconds: float) -> None:
        """Wait so long, or until more is not to be waited for."""
        if self._ends:
            return
        self._is_enough.clear()
        end_of_wait = asyncio.get_running_loop().call_later(seconds, self.hurry)
        await self._is_enough.wait()
        end_of_wait.cancel()
