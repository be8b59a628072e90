"""Requests to join: each waits for owners, the accepted person joins, and every person is told the outcome.

    written -> held -> admitting -> told    or    held -> told

A decision is durable before the person joins, and the join before the person is told. A kill repeats a join, which
changes nothing, and loses none.
"""

from __future__ import annotations

from dataclasses import replace

from mailing.rules.active_messages import ActiveMessage
from mailing.rules.events import Admitted, Effect, HandOver, NotAdmitted, NoteWritten, Now, Save, Spooled, TellSafe
from mailing.rules.in_progress import InProgress
from mailing.rules.joining import UNDECIDED, answer_to, is_outdated
from mailing.rules.retries import delay_s
from mailing.rules.spooled import Chunk, Standing
from shadowtree.vocabulary import GroupId


class Admissions:
    """All requests in progress."""

    def __init__(self, in_progress: InProgress) -> None:
        self._in_progress = in_progress

    def began(self, event: NoteWritten) -> list[Effect]:
        """Start a request to join, and note it for the owners of the list."""
        self._in_progress.open(Spooled(event.message, ()))
        self._in_progress.notes.add(event.message)
        return [Save(event.message, content=event.content), TellSafe(event.transaction)]

    def decided(
        self, work: ActiveMessage, new: Standing, why: str, now: Now, group: GroupId | None = None
    ) -> list[Effect]:
        """Apply a decision to an undecided request. `group`: list whose owner decides, None for all lists."""
        if not work.set_standing(Standing.HELD, new, why, group=group):
            return []
        if new is not Standing.GOES:
            return self._told(work, now)
        return [Save(work.message), *work.admit()]

    def admitted(self, work: ActiveMessage, event: Admitted | NotAdmitted, now: Now) -> list[Effect]:
        """Process the result of an attempt to make the person join."""
        if not work.is_admitting:
            return []
        work.is_admitting = False
        if work.message.is_dropped:
            return self._in_progress.saved_then(work, [], now)
        if isinstance(event, Admitted):
            return self._told(work, now)
        if event.is_lasting:
            work.set_standing(Standing.GOES, Standing.DROPPED, event.why)
            return self._told(work, now)
        attempts = work.message.attempts + 1
        work.message = replace(work.message, attempts=attempts, missing=event.why)
        work.admit_at = now.ticks + delay_s(attempts)
        return [Save(work.message)]

    def due(self, work: ActiveMessage, now: Now) -> list[Effect]:
        """Retry a join, or stop waiting for owners."""
        if is_outdated(work.message, now.date):
            return self.decided(work, Standing.DROPPED, UNDECIDED, now)
        return work.admit() if work.admit_at is not None and work.admit_at <= now.ticks else []

    def _told(self, work: ActiveMessage, now: Now) -> list[Effect]:
        work.message = replace(work.message, missing="")
        wish = work.message.wish
        assert wish is not None, "somebody asked"
        person = wish.person
        chunk = Chunk(work.message.id, 0, 0, (person,), (0,), is_international=not person.isascii())
        work.take([chunk])
        return [Save(work.message, (chunk,), answer_to(work.message, now.date)), HandOver(work.message, chunk)]
