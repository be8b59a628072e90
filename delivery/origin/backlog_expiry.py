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

from delivery.model.reach import Reach
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

    def __init__(self, origin: MessageOrigin, post: Post, dead_letters: DeadLetterStore, queue: OriginQueue) -> None:
        self._origin, self._post, self._dead_letters, self._queue = origin, post, dead_letters, queue
        self._left: dict[ServerId, _Left] = {}
        self._has_expired = False
        self._has_homeless = False
        """True if messages whose home was removed may be queued."""
        self.limit_seconds = BACKLOG_SECONDS_LIMIT
        self.slice_parcels = SLICE_PARCELS

    @property
    def has_more(self) -> bool:
        """True if the next step must continue."""
        return bool(self._left) or self._has_expired or self._has_homeless

    @property
    def may_have_some(self) -> bool:
        """True if `advance` may find a parcel or message to give up."""
        has_some = not self._origin.backlog.is_empty or self._origin.has_not_posted
        return self.has_more or has_some or bool(self._queue)

    def look(self, reach: Reach) -> None:
        """Find the servers that are not known any more: they are removed for good, and no parcel waits for them."""
        self._has_homeless = True
        awaited = {*self._origin.posted_to(), *self._post.receivers(), *self._dead_letters.replayed_to()}
        for server in sorted(awaited):
            if server not in self._left and not reach.is_known(server):
                self._dead_letters.begin_again(server)
                self._origin.removed(server)
                self._left[server] = _Left(deque(self._origin.unsettled))

    def advance(self, at: float, reach: Reach, *, overrun: Collection[int] = ()) -> Iterator[int]:
        """Give up a slice. Yield each parcel that may be settled by that, at once. `at`: the running time.

        `overrun`: positions of entries for which the log has no room.
        """
        budget = self.slice_parcels
        budget = self._give_up_queued(at, reach, budget)
        for position, receiver, encoded, _ in self._origin.take_not_posted():
            self._dead_letters.add(position, encoded, receiver, DeadReason.EXPIRED)
        for server, left in list(self._left.items()):
            if reach.is_known(server):
                # The server is back: it gets the parcels that were not given up yet.
                del self._left[server]
                continue
            while left.positions and budget:
                budget -= 1
                position = left.positions.popleft()
                self._origin.forget_remembering(position, server)
                if self._origin.waits_for(position, server):
                    self._give_up(position, server, DeadReason.SERVER_REMOVED)
                    yield position
            if not left.positions and budget:
                through = self._post.blank_inline(server, after=left.blanked_through, at_most=budget)
                if through is None:
                    del self._left[server]
                else:
                    left.blanked_through, budget = through, 0
        expired = self._origin.backlog.accepted_before(at - self.limit_seconds, at_most=budget)
        if not expired and overrun:
            expired = self.overrun(at, overrun, at_most=budget)
        self._has_expired = bool(expired)
        for position in expired:
            for server in self._origin.expire(position):
                self._give_up(position, server, DeadReason.EXPIRED)
            yield position

    def overrun(self, at: float, positions: Collection[int], *, at_most: int = 1) -> list[int]:
        """Return at most `at_most` parcels that give way at once, among those for which the log has no room."""
        return self._origin.backlog.accepted_before(at - OVERRUN_SECONDS, at_most=at_most, among=positions)

    def _give_up_queued(self, at: float, reach: Reach, budget: int) -> int:
        """Give up queued messages in the same way. Return the rest of the budget."""
        if self._has_homeless:
            homeless = list(self._queue.homeless(reach, at_most=budget))
            self._has_homeless = len(homeless) == budget
            budget -= len(homeless)
            for number, message in homeless:
                self._dead_letters.add_queued(number, message, DeadReason.SERVER_REMOVED)
        for number, message in self._queue.expired(at, self.limit_seconds, at_most=budget):
            budget -= 1
            self._dead_letters.add_queued(number, message, DeadReason.EXPIRED)
        return budget

    def _give_up(self, position: int, server: ServerId, reason: DeadReason) -> None:
        undelivered = self._origin.give_up(position, server)
        if undelivered is not None:
            encoded, is_remembered = undelivered
            self._dead_letters.add(position, encoded, server, reason, is_remembered=is_remembered)
        self._post.blank(server, position)
