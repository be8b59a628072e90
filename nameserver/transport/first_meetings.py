"""First meetings after a start: questions wait until the servers met before are heard, but not for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from namegraph import ServerId
from nameserver.detector.liveness_table import LivenessTable
from nameserver.transport.ports import SeenView
from nameserver.transport.session_runner import SessionRunner

MEETING_SECONDS = 1.0
"""Wait of questions after the start until other servers are heard. Running servers dial at once."""

CONFIRMING_SECONDS = 4.0
"""Further wait for a server with an open session that has not confirmed that it hears this server."""


class FirstMeetings:
    """State of the first meetings: each server was heard since the start, or is not waited for."""

    def __init__(self, reads: SeenView, watches: LivenessTable, sessions: Mapping[ServerId, SessionRunner]) -> None:
        """`reads`: the state that readers see. A server that is in a later view than that one has left it."""
        self._reads, self._watches, self._sessions = reads, watches, sessions
        self._are_over = asyncio.Event()
        if not reads.servers_met:
            self._are_over.set()

    def unheard(self) -> list[ServerId]:
        """Return the servers of the view that may have lost this server by now, sorted.

        If no server was ever lost, all servers count as the view.
        """
        reads = self._reads
        return [
            server
            for server in reads.servers_met
            if (not reads.members or server in reads.members) and self._watches.may_have_parted(server, reads.view)
        ]

    @property
    def are_over(self) -> bool:
        """True if no question waits for the first meetings."""
        return self._are_over.is_set()

    def look(self) -> None:
        """Let waiting questions go on once no server is waited for any more."""
        if not self._are_over.is_set() and not self._awaited():
            self._are_over.set()

    async def until_over(self) -> None:
        """Wait for a moment after the start. The wait is longer if a connected server is not heard yet."""
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
