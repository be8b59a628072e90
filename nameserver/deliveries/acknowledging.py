"""What endpoints acknowledge: gathered, so that one step takes what many of them say, and made durable in groups.

    endpoint --take--> newest position of each --a moment--> one step --durable--> the next one

Nobody waits for it but an endpoint that leaves. What a crash leaves out comes again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from delivery.mailboxes.subscription_read import Standing
from delivery.model.events import Acknowledge, AcknowledgeAll
from delivery.model.words import Kept, Position
from namegraph import RefusedError
from nameserver.deliveries.endpoints import Endpoint
from nameserver.deliveries.machine import DeliveryMachine

GATHER_SECONDS: Final = 0.02
"""How long the first of them waits for others: all who get a message acknowledge it at about the same time."""


class Acknowledgements:
    """Of all endpoints of this server."""

    def __init__(self, machine: DeliveryMachine) -> None:
        self._machine = machine
        self._taken: dict[Acknowledging, None] = {}
        """Who has something to say."""
        self._task: asyncio.Task[None] | None = None

    def take(self, acknowledging: Acknowledging) -> None:
        """An endpoint has something to say, soon."""
        self._taken[acknowledging] = None
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    def say(self) -> None:
        """Have one step take all that there is."""
        taken, self._taken = self._taken, {}
        if taken:
            self._machine.notice(AcknowledgeAll(tuple(each.say() for each in taken)))

    async def _run(self) -> None:
        while self._taken:
            await asyncio.sleep(GATHER_SECONDS)
            self.say()
            # A database that fails is told to who waits for it.
            with suppress(RefusedError):
                await self._machine.until_durable()


class Acknowledging:
    """What one endpoint acknowledges."""

    def __init__(
        self,
        together: Acknowledgements,
        machine: DeliveryMachine,
        endpoint: Endpoint,
        standings: Mapping[Kept, Standing],
    ) -> None:
        self._together = together
        self._machine = machine
        self._endpoint = endpoint
        self._standings = standings
        self._through: dict[Kept, Position] = {}
        """What is to be said next."""
        self._has_taken = False

    def take(self, kept: Kept, through: Position) -> None:
        """All through a position is handled."""
        standing = self._standings[kept]
        standing.acknowledge(through)
        if (passed := standing.passed()) is not None:
            standing.acknowledge(passed)
            through = passed
        self._through[kept] = max(through, self._through.get(kept, through))
        self._has_taken = True
        self._together.take(self)

    def pass_over(self, kept: Kept) -> None:
        """So are entries that were not for the endpoint, where they are many."""
        passed = self._standings[kept].passed()
        if passed is not None:
            self.take(kept, passed)

    async def finish(self) -> None:
        """Return once all that was taken is durable; raises `RefusedError` where it cannot be."""
        self.end()
        if self._has_taken:
            await self._machine.until_durable()

    def end(self) -> None:
        """What was taken becomes durable, and nobody waits for that any more."""
        if self._through:
            self._together.say()

    def say(self) -> Acknowledge:
        """What was taken since this was last asked."""
        told, self._through = self._through, {}
        number, name = self._endpoint.key
        through = told.get(Kept.DURABLE, self._standings[Kept.DURABLE].acknowledged)
        return Acknowledge(number, name, self._endpoint.epoch, through, told.get(Kept.MEMORY))
