"""Acknowledgements of endpoints: gathered, so that one step takes those of many endpoints, and made durable in groups.

    endpoint --take--> newest position of each --a moment--> one step --durable--> the next one

No caller waits for an acknowledgement, except an endpoint that leaves. A message whose acknowledgement a crash loses
comes again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from delivery.mailboxes.subscription_read import EndpointPosition
from delivery.model.events import Acknowledge, AcknowledgeAll
from delivery.model.words import Kept, Position
from namegraph import RefusedError
from nameserver.deliveries.endpoints import Endpoint
from nameserver.deliveries.machine import DeliveryMachine

GATHER_SECONDS: Final = 0.02
"""Wait of the first acknowledgement for others. All receivers of a message acknowledge it at about the same time."""


class Acknowledgements:
    """Acknowledgements of all endpoints of this server."""

    def __init__(self, machine: DeliveryMachine) -> None:
        self._machine = machine
        self._taken: dict[Acknowledging, None] = {}
        """Endpoints with a pending acknowledgement."""
        self._task: asyncio.Task[None] | None = None

    def take(self, acknowledging: Acknowledging) -> None:
        """Note that an endpoint has an acknowledgement, to be taken soon."""
        self._taken[acknowledging] = None
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    def say(self) -> None:
        """Take all pending acknowledgements in one step."""
        taken, self._taken = self._taken, {}
        if taken:
            self._machine.notice(AcknowledgeAll(tuple(each.say() for each in taken)))

    async def _run(self) -> None:
        while self._taken:
            await asyncio.sleep(GATHER_SECONDS)
            self.say()
            # The callers that wait for the database hear of its failure themselves.
            with suppress(RefusedError):
                await self._machine.until_durable()


class Acknowledging:
    """Acknowledgements of one endpoint."""

    def __init__(
        self,
        together: Acknowledgements,
        machine: DeliveryMachine,
        endpoint: Endpoint,
        standings: Mapping[Kept, EndpointPosition],
    ) -> None:
        self._together = together
        self._machine = machine
        self._endpoint = endpoint
        self._standings = standings
        self._through: dict[Kept, Position] = {}
        """Positions of the next acknowledgement."""
        self._has_taken = False

    def take(self, kept: Kept, through: Position) -> None:
        """Acknowledge all entries through a position."""
        standing = self._standings[kept]
        standing.acknowledge(through)
        if (passed := standing.passed()) is not None:
            standing.acknowledge(passed)
            through = passed
        self._through[kept] = max(through, self._through.get(kept, through))
        self._has_taken = True
        self._together.take(self)

    def pass_over(self, kept: Kept) -> None:
        """Acknowledge entries that were not for the endpoint, if they are many."""
        passed = self._standings[kept].passed()
        if passed is not None:
            self.take(kept, passed)

    async def finish(self) -> None:
        """Return once all acknowledgements are durable. Raises `RefusedError` if they cannot be."""
        self.end()
        if self._has_taken:
            await self._machine.until_durable()

    def end(self) -> None:
        """Let the acknowledgements become durable. No caller waits for them any more."""
        if self._through:
            self._together.say()

    def say(self) -> Acknowledge:
        """Return the acknowledgement since the last call."""
        told, self._through = self._through, {}
        number, name = self._endpoint.key
        through = told.get(Kept.DURABLE, self._standings[Kept.DURABLE].acknowledged)
        return Acknowledge(number, name, self._endpoint.epoch, through, told.get(Kept.MEMORY))
