"""After a start: the servers that were met before are to be heard before questions are answered, if not for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from namegraph import ServerId
from nameserver.detector.liveness_table import LivenessTable
from nameserver.transport.ports import PeerCore
from nameserver.transport.session_runner import SessionRunner

MEETING_SECONDS = 1.0
"""For how long questions wait after the start until other servers are heard; these dial at once if they are there."""

CONFIRMING_SECONDS = 4.0
"""How long they wait further where a session is open and the other server has not confirmed that it hears this one."""


class FirstMeetings:
    """Whether each of those servers was heard since, or is not waited for."""

    def __init__(self, core: PeerCore, watches: LivenessTable, sessions: Mapping[ServerId, SessionRunner]) -> None:
        self._core, self._watches, self._sessions = core, watches, sessions
        self._are_over = asyncio.Event()
        if not core.servers_met:
            self._are_over.set()

    def unheard(self) -> list[ServerId]:
        """The servers of the view (or all, if none was ever lost) that may have lost this one by now; sorted."""
        core = self._core
        return [
            server
            for server in core.servers_met
            if (not core.members or server in core.members) and self._watches.may_have_parted(server, core.view)
        ]

    @property
    def are_over(self) -> bool:
        """Whether no question waits for them."""
        return self._are_over.is_set()

    def look(self) -> None:
        """Let those who wait go on once nobody is waited for any more."""
        if not self._are_over.is_set() and not self._awaited():
            self._are_over.set()

    async def until_over(self) -> None:
        """Wait for a moment after the start, longer where a server is there that is not heard yet."""
        if self._are_over.is_set():
            return
        for seconds in (MEETING_SECONDS, CONFIRMING_SECONDS):
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._are_over.wait()
            if self._sessions.keys().isdisjoint(self._awaited()):
                break
        self._are_over.set()

    def _awaited(self) -> list[ServerId]:
        return [server for server in self.unheard() if not self._watches.of(server).is_gone]
