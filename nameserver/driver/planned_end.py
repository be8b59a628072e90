"""The planned end of a server: who asks for it, and who waits until nothing is under way."""

from __future__ import annotations

import asyncio


class PlannedEnd:
    """Begun once, by a signal or by an operator's call."""

    def __init__(self, restart_grace_seconds: float) -> None:
        """`restart_grace_seconds`: for how long peers are to wait for the server; whoever begins it may change that."""
        self.restart_grace_seconds = restart_grace_seconds
        self.asked_by: dict[str, object] = {}
        """Fields of the log: who began it."""
        self._begun = asyncio.Event()
        self._finished: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def begin(self, asked_by: object, user: object = None) -> None:
        """Let the server end. `asked_by`: a signal, or the address of an operator, whose `user` may be known."""
        if not self._begun.is_set():
            self.asked_by = {"asked_by": asked_by} if user is None else {"asked_by": asked_by, "user": user}
        self._begun.set()

    async def until_begun(self) -> None:
        """Wait until somebody lets the server end."""
        await self._begun.wait()

    def finished(self, *, is_all: bool) -> None:
        """Nothing more is under way; or, if not `is_all`, the time for that is over."""
        self._finished.set_result(is_all)

    async def until_finished(self) -> bool:
        """Wait until nothing more is under way, or the time for that is over; returns whether nothing is."""
        return await asyncio.shield(self._finished)
