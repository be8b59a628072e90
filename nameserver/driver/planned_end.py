"""The planned end of a server: its request by a signal or an operator, and the wait for the work under way."""

from __future__ import annotations

import asyncio


class PlannedEnd:
    """The planned end, begun once by a signal or by an operator's call."""

    def __init__(self, restart_grace_seconds: float) -> None:
        """`restart_grace_seconds`: time that peers are to wait for the server. The beginning caller may change it."""
        self.restart_grace_seconds = restart_grace_seconds
        self.asked_by: dict[str, object] = {}
        """Fields of the log that tell who began the end."""
        self._begun = asyncio.Event()
        self._finished: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def begin(self, asked_by: object, user: object = None) -> None:
        """Begin the end of the server.

        `asked_by`: a signal, or the address of an operator, whose `user` may be known.
        """
        if not self._begun.is_set():
            self.asked_by = {"asked_by": asked_by} if user is None else {"asked_by": asked_by, "user": user}
        self._begun.set()

    async def until_begun(self) -> None:
        """Wait until the end is begun."""
        await self._begun.wait()

    def finished(self, *, is_all: bool) -> None:
        """Note that no work is under way any more, or, if not `is_all`, that the time for it is over."""
        self._finished.set_result(is_all)

    async def until_finished(self) -> bool:
        """Wait until no work is under way, or the time for it is over. Return True if none is under way."""
        return await asyncio.shield(self._finished)
