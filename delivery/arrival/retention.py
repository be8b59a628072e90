"""Retention of log entries: kept for all readers, within limits of size and age.

    all have read it        --> cut, from the beginning on
    kept for too long       --> its oldest segment is cut
    too large               --> the oldest entries of one writer go (`holders.py`), once they are settled

See docs/protocol-messages.md, "Log, audiences, mailboxes".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from delivery.log.log import Log
from delivery.log.segments import ForAudience, united
from delivery.mailboxes.audiences import Audiences
from delivery.mailboxes.gateways import Gateways
from delivery.mailboxes.listeners import Listeners
from delivery.mailboxes.mailboxes import Mailboxes
from delivery.model.reach import Reach
from delivery.model.uptime import Uptime
from delivery.origin.dead_letters import DeadLetterStore, LossReason

SEGMENTS_AT_ONCE = 10
"""Most segments whose entries may go in one step. The next step goes on."""


class Retention:
    """Cuts the log at the end of a step."""

    def __init__(
        self,
        log: Log,
        audiences: Audiences,
        mailboxes: Mailboxes,
        listeners: Listeners,
        gateways: Gateways,
        dead_letters: DeadLetterStore,
        running: Uptime,
        in_memory: Audiences,
        *,
        is_needed: Callable[[int], bool],
    ) -> None:
        """Wire the parts.

        `in_memory`: audiences of messages in no log. `is_needed`: true of an entry still to be posted.
        """
        self._is_needed = is_needed
        self.on_overrun: Callable[[str, int], None] = lambda _source, _messages: None
        """Callback for entries that went for lack of room.

        It gets their source, empty if not known, and the number of messages lost with them, counted for each mailbox.
        """
        self._in_memory = in_memory
        self._log, self._audiences, self._dead_letters, self._running = log, audiences, dead_letters, running
        self._mailboxes, self._listeners, self._gateways = mailboxes, listeners, gateways
        self._started_at = log.last

    def cut(self, posted_from: int | None, audiences: Callable[[], Collection[int]]) -> None:
        """Cut the entries that no reader needs, and those beyond the limits.

        `posted_from`: position of the oldest entry still to be posted to other servers. `audiences`: returns the
        numbers of audiences to which anything besides entries refers.
        """
        log, before = self._log, self._log.cut
        if log.is_empty:
            return
        needed = (self._mailboxes.needed_from(), self._listeners.needed_from(), posted_from)
        log.cut_through(min((entry for entry in needed if entry is not None), default=log.last + 1) - 1)
        if log.is_too_large:
            self._make_room()
        if self.is_too_old(posted_from):
            self._count_lost(LossReason.KEPT_TOO_LONG, log.oldest_for())
            log.cut_through(log.oldest_through or 0, at_least=1)
        log.cut_holes()
        if log.last > log.cut:
            self._running.write()
        if log.cut != before:
            self._audiences.forget_unused(cut=log.cut, started_at=self._started_at, needed=audiences())
            self._gateways.look_again()
        log.mark_next_retention()

    def forget_recipients(self, reach: Reach) -> None:
        """Forget some recipients of gateways that no audience needs."""
        self._gateways.forget(reach.lives_here, lambda: self._audiences.everybody() | self._in_memory.everybody())

    def _make_room(self) -> None:
        log = self._log
        for _ in range(SEGMENTS_AT_ONCE):
            going = log.next_to_go() if log.is_too_large else None
            if going is None or any(map(self._is_needed, going.positions())):
                return
            lost = self._count_lost(LossReason.OVERRUN, united(going.shares))
            self.on_overrun(log.source_of(going), lost)
            log.drop(going)
            log.cut_holes()

    def _count_lost(self, reason: LossReason, going: Mapping[int, ForAudience]) -> int:
        """Count the messages that go before mailboxes have read them. `going`: messages by number of their audience."""
        lost = 0
        for number, found in going.items():
            readers = self._audiences.readers(self._audiences.bitmap(number))
            behind = self._mailboxes.behind(readers, found.last)
            lost += found.messages * behind
        self._dead_letters.lost(reason, lost)
        return lost

    def waits_for_room(self) -> list[int]:
        """Return the positions of parcels that are still to be posted and for which the log has no room, sorted."""
        going = self._log.next_to_go()
        return [] if going is None else sorted(filter(self._is_needed, going.positions()))

    def makes_room(self, waiting: Collection[int]) -> bool:
        """True if the next step makes room in a log that is too large. `waiting`: the result of `waits_for_room`."""
        return not waiting and self._log.next_to_go() is not None

    def is_too_old(self, posted_from: int | None) -> bool:
        """True if the oldest segment was kept for too long, and all its parcels are posted."""
        through = self._log.oldest_through
        if through is None or (posted_from is not None and posted_from <= through):
            return False
        return self._log.is_too_old(self._running.seconds)
