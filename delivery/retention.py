"""How long the log keeps an entry: until all have read it to whom it goes, or there is no room or no time for it.

Source: delivery.md sections 9 and 11.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from delivery.audiences import Audiences
from delivery.dead_letters import DeadLetters, LossReason
from delivery.gateways import Gateways
from delivery.listeners import Listeners
from delivery.log import Log
from delivery.mailboxes import Mailboxes
from delivery.reach import Reach
from delivery.running_time import RunningTime


class Retention:
    """Cuts the log at the end of a step."""

    def __init__(
        self,
        log: Log,
        audiences: Audiences,
        mailboxes: Mailboxes,
        listeners: Listeners,
        gateways: Gateways,
        dead_letters: DeadLetters,
        running: RunningTime,
        in_memory: Audiences,
    ) -> None:
        """`in_memory`: the audiences of what is in no log."""
        self._in_memory = in_memory
        self._log, self._audiences, self._dead_letters, self._running = log, audiences, dead_letters, running
        self._mailboxes, self._listeners, self._gateways = mailboxes, listeners, gateways
        self._started_at = log.last

    def cut(self, posted_from: int | None, audiences: Callable[[], Collection[int]], reach: Reach) -> None:
        """Forget what nobody needs any more, and what there is no room for.

        `posted_from`: the oldest entry that is still to be posted to other servers. `audiences`: gives the
        numbers of those that something else than entries refers to.
        """
        if self._log.last > self._log.cut:
            self._cut(posted_from, audiences)
        self._gateways.forget(reach.lives_here, lambda: self._audiences.everybody() | self._in_memory.everybody())

    def _cut(self, posted_from: int | None, audiences: Callable[[], Collection[int]]) -> None:
        log, before = self._log, self._log.cut
        needed = (self._mailboxes.needed_from(), self._listeners.needed_from(), posted_from)
        log.cut_through(min((entry for entry in needed if entry is not None), default=log.last + 1) - 1)
        reason, through = self.overrun_by(posted_from), log.oldest_through
        if reason is not None and through is not None:
            for number, found in log.oldest_for().items():
                readers = self._audiences.readers(self._audiences.bitmap(number))
                behind = self._mailboxes.behind(readers, found.last)
                self._dead_letters.lost(reason, found.messages * behind)
            log.cut_through(through, at_least=1)
        if log.last > log.cut:
            self._running.write()
        if log.cut != before:
            self._audiences.forget_unused(cut=log.cut, started_at=self._started_at, needed=audiences())
            self._gateways.look_again()

    def overrun_by(self, posted_from: int | None) -> LossReason | None:
        """Why the oldest segment of the log is to go, whoever has not read it; None: it is not."""
        through = self._log.oldest_through
        if through is None or (posted_from is not None and posted_from <= through):
            return None
        if self._log.is_too_large:
            return LossReason.OVERRUN
        return LossReason.KEPT_TOO_LONG if self._log.is_too_old(self._running.seconds) else None
