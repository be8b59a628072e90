"""Expiry of parcels for servers that were removed for good, or that waited too long.

    RemovePeer, or a start --> servers that are not known --> slices: parcel after parcel, then the rest of the lane
    time goes, log too large -> the oldest parcels are kept too long -'
    too much waits for a server -> it is posted no more --------------'
                                                                      '--> dead letter; the parcel may be settled

Writing all waiting parcels at once could take seconds. Each step gives up a slice, and asks for another step.

See docs/protocol-messages.md, "Messages and servers that part".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from delivery.model.agenda import Agenda, Work
from delivery.model.reach import Reach
from delivery.model.uptime import Uptime
from delivery.origin.dead_letters import DeadLetterStore, DeadReason
from delivery.origin.origin import MessageOrigin
from delivery.origin.queue import OriginQueue
from delivery.wire.post_lanes import Post
from namegraph import ServerId

BACKLOG_SECONDS_LIMIT = 7 * 24 * 3600.0
"""Running time for which a parcel waits for servers."""

OVERRUN_SECONDS = 60.0
"""A parcel that has waited for servers no longer than this stays in a log that is too large."""

SLICE_PARCELS = 200
"""Parcels checked in one step: some milliseconds."""


@dataclass(slots=True)
class _Left:
    """Remaining work for a removed server."""

    positions: deque[int]
    blanked_through: int = 0
    """Number of the last post that was checked in the lane to the server."""


class BacklogExpiry:
    """Parcels to be given up, and progress of that work."""

    def __init__(
        self,
        origin: MessageOrigin,
        post: Post,
        dead_letters: DeadLetterStore,
        queue: OriginQueue,
        running: Uptime,
        agenda: Agenda,
    ) -> None:
        self._origin, self._post, self._dead_letters, self._queue = origin, post, dead_letters, queue
        self._running, self._agenda = running, agenda
        self._left: dict[ServerId, _Left] = {}
        self._has_looked = False
        """True if `look` was called since this server started."""
        self._has_homeless = False
        """True if messages whose home was removed may be queued."""
        self._limit_seconds = BACKLOG_SECONDS_LIMIT
        self.slice_parcels = SLICE_PARCELS
        agenda.mark(Work.EXPIRY)

    @property
    def limit_seconds(self) -> float:
        """Running time for which a parcel or a queued message waits, in seconds."""
        return self._limit_seconds

    @limit_seconds.setter
    def limit_seconds(self, seconds: float) -> None:
        self._limit_seconds = seconds
        self._agenda.mark(Work.EXPIRY)

    def look(self, reach: Reach) -> None:
        """Find the servers that are not known any more: they are removed for good, and no parcel waits for them."""
        self._look(reach)
        self._agenda.mark_at_once(Work.EXPIRY)

    def _look(self, reach: Reach) -> None:
        self._has_looked = self._has_homeless = True
        awaited = {*self._origin.parcels.posted_to(), *self._post.receivers(), *self._dead_letters.replayed_to()}
        for server in sorted(awaited):
            if server not in self._left and not reach.is_known(server):
                self._dead_letters.begin_again(server)
                self._origin.removed(server)
                self._left[server] = _Left(deque(self._origin.parcels.unsettled))

    def advance(self, reach: Reach, *, overrun: Collection[int] = ()) -> Iterator[int]:
        """Give up a slice. Yield each parcel that may be settled by that, at once.

        `overrun`: positions of entries for which the log has no room.
        """
        if not self._has_looked:
            # Servers may have been removed before this server started.
            self._look(reach)
        at = self._running.seconds
        budget = self.slice_parcels
        budget = self._give_up_queued(at, reach, budget)
        for position, receiver, encoded, _ in self._origin.posting.take_not_posted():
            self._dead_letters.add(position, encoded, receiver, DeadReason.EXPIRED)
        for server, left in list(self._left.items()):
            if reach.is_known(server):
                # The server is back: it gets the parcels that were not given up yet.
                del self._left[server]
                continue
            while left.positions and budget:
                budget -= 1
                position = left.positions.popleft()
                self._origin.parcels.forget_remembering(position, server)
                if self._origin.parcels.waits_for(position, server):
                    self._give_up(position, server, DeadReason.SERVER_REMOVED)
                    yield position
            if not left.positions and budget:
                through = self._post.blank_inline(server, after=left.blanked_through, at_most=budget)
                if through is None:
                    del self._left[server]
                else:
                    left.blanked_through, budget = through, 0
        expired = self._origin.backlog.accepted_before(at - self._limit_seconds, at_most=budget)
        if not expired and overrun:
            expired = self.overrun(overrun, at_most=budget)
        for position in expired:
            for server in self._origin.parcels.expire(position):
                self._give_up(position, server, DeadReason.EXPIRED)
            yield position
        self._mark_next(has_expired=bool(expired))

    def _mark_next(self, *, has_expired: bool) -> None:
        """Mark the work that `advance` has left."""
        if self._left or has_expired or self._has_homeless:
            self._agenda.mark_at_once(Work.EXPIRY)
        if self._queue:
            # The deadlines of queued messages are not in order.
            self._agenda.mark(Work.EXPIRY)
        oldest = self._origin.backlog.oldest_accepted_at
        if oldest is not None:
            self._agenda.mark_from(Work.EXPIRY, oldest + self._limit_seconds)

    def overrun(self, positions: Collection[int], *, at_most: int = 1) -> list[int]:
        """Return at most `at_most` parcels that give way at once, among those for which the log has no room."""
        before = self._running.seconds - OVERRUN_SECONDS
        return self._origin.backlog.accepted_before(before, at_most=at_most, among=positions)

    def _give_up_queued(self, at: float, reach: Reach, budget: int) -> int:
        """Give up queued messages in the same way. Return the rest of the budget."""
        if self._has_homeless:
            homeless = list(self._queue.homeless(reach, at_most=budget))
            self._has_homeless = len(homeless) == budget
            budget -= len(homeless)
            for number, message in homeless:
                self._dead_letters.add_queued(number, message, DeadReason.SERVER_REMOVED)
        for number, message in self._queue.expired(at, self._limit_seconds, at_most=budget):
            budget -= 1
            self._dead_letters.add_queued(number, message, DeadReason.EXPIRED)
        return budget

    def _give_up(self, position: int, server: ServerId, reason: DeadReason) -> None:
        undelivered = self._origin.parcels.give_up(position, server)
        if undelivered is not None:
            encoded, is_remembered = undelivered
            self._dead_letters.add(position, encoded, server, reason, is_remembered=is_remembered)
        self._post.blank(server, position)
