"""Messages that are kept in memory: all work of one server for groups with that policy. None of their state is a row.

    Send --> origin --at once, or soon--> parcel --+--> lanes in memory --> other servers
                                                   +--> ring, for the mailboxes here --> endpoints

The pipeline is that of durable messages, with maps that are not written, lanes in memory, and a ring in place of the
log. Servers below are found in the same way, and all members get the same sequence. A server that starts again has lost
the state. Peers notice the new start. They do not send it again any parcel that it had not confirmed: it may have
handed out that parcel.

A position in the ring is above all positions of earlier starts. An endpoint that was handed messages before a restart
is therefore known to be behind.

See docs/protocol-messages.md, "Kept in memory".
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import NamedTuple

from delivery.arrival.arrivals import Arrivals
from delivery.arrival.log_writer import LogWriter
from delivery.arrival.recent_downstream import RecentDownstream
from delivery.log.log import CUT_AT_LEAST, NOBODY_KNOWN, Log
from delivery.mailboxes.audiences import Audiences
from delivery.mailboxes.gateways import Gateways
from delivery.mailboxes.listeners import Listeners
from delivery.mailboxes.mailboxes import Mailboxes, SubscriptionKey
from delivery.model.agenda import Agenda, Work
from delivery.model.reach import Reach
from delivery.model.uptime import Uptime
from delivery.model.words import Kept, Position
from delivery.origin.admission import require_backlog
from delivery.origin.dead_letters import DeadLetterStore
from delivery.origin.origin import MessageOrigin
from delivery.origin.senders import Senders
from delivery.origin.servers_below import is_home
from delivery.origin.unsettled import ParcelKey
from delivery.spreading.parcel_pipeline import ParcelPipeline
from delivery.volatile.datagrams import PeerDatagram
from delivery.volatile.memory_lanes import Broken, MemoryLanes
from delivery.wire.post_lanes import Postage
from delivery.wire.posts import PARCEL_BYTES_LIMIT, Carried, Confirm, Lost, Parcel, encode
from namegraph import DurableState, LogRecord, PeerFault, Reason, ServerId, TargetSet, VolatileState, refuse

RING_BYTES_LIMIT = 64 * 1024 * 1024
"""Most bytes of parcels in the ring. The oldest go, read or not."""

STARTS_LIMIT = 10_000
"""Most target sets for which the start of the origin of the last parcel is remembered."""

SHARE_SECONDS = 0.0005
"""Pause after the last parcels, in seconds for each message in them, before the next parcels are made.

Messages that come meanwhile share the next parcels, which saves work at other servers. A sender that waits for each
answer is not delayed.
"""

SHARE_SECONDS_LIMIT = 0.002
"""Longest such pause, in seconds."""

POSITIONS_OF_START = 2**20
"""Positions reserved for one start: its first position is its number times this.

Start numbers rise by 2^16 in a millisecond (`nameserver/driver/start_number.py`), far faster than positions are used.
"""

ENDING = frozenset((Work.EXPIRY, Work.UPTIME, Work.RETENTION, Work.RELEASE, Work.ENTRIES, Work.FRAMES))
"""Work of `InMemory.end_step`."""


class Ring:
    """Newest entries by position: all entries behind the last dropped one."""

    def __init__(self) -> None:
        self.records: dict[int, LogRecord] = {}
        self.size = 0

    def add(self, record: LogRecord) -> None:
        """Append an entry."""
        self.records[record.position] = record
        self.size += len(record.encoded)

    def cut(self, through: int) -> None:
        """Drop the entries through a position."""
        while self.records and (oldest := next(iter(self.records))) <= through:
            self.size -= len(self.records.pop(oldest).encoded)

    def overrun(self, limit: int) -> int | None:
        """Return the position through which the ring must be cut to fit a limit. None if it fits."""
        size, through = self.size, None
        for position, record in self.records.items():
            if size <= limit:
                break
            size -= len(record.encoded)
            through = position
        return through


class MemoryCounts(NamedTuple):
    """Size of the state that a server keeps in memory."""

    entries: int
    """Number of entries of the ring."""
    bytes: int
    """Bytes of these entries."""
    parcels_unsettled: int
    """Number of unsettled parcels of this server."""
    parcels_lost: int
    """Number of parcels that were lost before they came here, since the start of this server."""


class MemoryArrivals(Arrivals):
    """Posts of other servers about messages that are kept in memory."""

    def __init__(
        self,
        state: DurableState,
        server: ServerId,
        post: Postage,
        writer: LogWriter,
        lost_ways: RecentDownstream,
        agenda: Agenda,
    ) -> None:
        super().__init__(state, server, post, writer, lost_ways, agenda)
        self._starts: dict[tuple[ServerId, TargetSet], int] = {}
        """Start of the origin that accepted the last parcel, by origin and target set."""
        self.parcels_lost = 0
        """Number of parcels that are known not to come, since this server started."""

    def log(self, sender: ServerId, parcel: Parcel, encoded: bytes, reach: Reach) -> Confirm | None:
        """Log a parcel as a durable one. If its origin has started again, log a loss for its recipients first."""
        before = self._starts.get((sender, parcel.targets))
        if before is not None and before < parcel.start:
            # The number of missing parcels of the earlier start is not known.
            self._append_lost(Lost(parcel.sequence, parcel.start, parcel.first_serial, parcel.targets, 1), reach)
        self._starts.pop((sender, parcel.targets), None)
        self._starts[sender, parcel.targets] = parcel.start
        if len(self._starts) > STARTS_LIMIT:
            del self._starts[next(iter(self._starts))]
        return super().log(sender, parcel, encoded, reach)

    def lose(self, sender: ServerId, lost: Lost, reach: Reach) -> Confirm | None:
        """Log a loss for the recipients of parcels that do not come, and name the downstream servers to the origin.

        Return the confirmation. None if the sender cannot be the origin.
        """
        if not is_home(sender, lost.targets, reach):
            self._post.faults[sender, PeerFault.NOT_ITS_TARGET] += 1
            return None
        self._append_lost(lost, reach)
        return self._confirm(sender, lost, 0, reach, has_left_out=False)

    def _append_lost(self, lost: Lost, reach: Reach) -> None:
        self.parcels_lost += lost.parcels
        audience = self._writer.audience(lost.targets, reach)
        if audience:
            self._writer.append(audience, encode(lost), lost.parcels, NOBODY_KNOWN)


class InMemory:
    """State and pipeline for messages kept in memory, as the module describes."""

    def __init__(
        self,
        server: ServerId,
        mailboxes: Mailboxes,
        listeners: Listeners,
        gateways: Gateways,
        running: Uptime,
        lost_ways: RecentDownstream,
        faults: Counter[tuple[ServerId, PeerFault]],
    ) -> None:
        """Build an empty state. `faults`: counter of peer faults."""
        self._mailboxes = mailboxes
        self._volatile = VolatileState()
        self.agenda = agenda = Agenda()
        self.lanes = MemoryLanes(faults, agenda)
        self.log = Log(self._volatile, agenda)
        self.ring = Ring()
        self.audiences = Audiences(self._volatile, mailboxes, listeners, gateways)
        self.origin = MessageOrigin(self._volatile, server, self.lanes, running, agenda, Kept.MEMORY)
        self.senders = Senders(self._volatile, begin_anywhere=True)
        self.writer = writer = LogWriter(self.log, self.audiences, running)
        self._running = running
        self.arrivals = MemoryArrivals(self._volatile, server, self.lanes, writer, lost_ways, agenda)
        self.spreading = ParcelPipeline(
            origin=self.origin,
            post=self.lanes,
            arrivals=self.arrivals,
            writer=writer,
            senders=self.senders,
            dead_letters=DeadLetterStore(self._volatile, agenda),
            running=running,
            agenda=agenda,
        )
        self.on_given_up: Callable[[list[str]], None] = lambda _ids: None
        """Callback for the ids of messages that may not reach members behind suspended arcs, or behind servers away."""
        self.ring_limit_bytes = RING_BYTES_LIMIT
        self._cursors: dict[SubscriptionKey, Position] = {}
        """Acknowledged position of each subscription of a mailbox that an endpoint has read since the start."""
        self._ephemeral: dict[int, Position] = {}
        """Acknowledged position of each ephemeral subscription, by ticket."""
        self._opened: dict[int, int] = {}
        """First entry that can be for a mailbox opened since this server started, by number of the mailbox."""
        self._close_at = 0.0
        """Time from which on parcels may be made of waiting messages, on the clock of steps."""
        self._acknowledged = 0
        """Number of acknowledgements since the last check for entries that no reader needs."""

    def begin_start(self, start: int) -> None:
        """Set the number of this start. The caller must call it before the first step."""
        self.lanes.start = self.origin.start = self.arrivals.foreign.start = start
        self.log.last = self.log.cut = start * POSITIONS_OF_START

    @property
    def counts(self) -> MemoryCounts:
        """Counts of the state. The property may be read while a step runs in another thread."""
        ring, arrivals = self.ring, self.arrivals
        return MemoryCounts(len(ring.records), ring.size, len(self.origin.parcels), arrivals.parcels_lost)

    # -- sending

    @property
    def backlog_limit_bytes(self) -> int:
        """Limit of the bytes that one receiver has not confirmed, and of the bytes that wait for no receiver."""
        return self.origin.backlogs.limit_bytes

    @backlog_limit_bytes.setter
    def backlog_limit_bytes(self, limit: int) -> None:
        self.origin.backlogs.limit_bytes = limit

    def require_room(self, targets: TargetSet, reach: Reach) -> None:
        """Raise `RefusedError` if too much waits for a receiver in reach. Parcels for servers away go to make room."""
        origin = self.origin
        if origin.backlogs.full or origin.parcels.backlog_bytes >= self.backlog_limit_bytes:
            # Parcels for a connected server stay: only messages that go there are refused.
            away = [server for server in origin.backlogs.receivers() if not reach.is_settled_with(server)]
            waiting_bytes = origin.parcels.unclaimed_bytes + sum(map(origin.backlogs.bytes_of, away))
            if waiting_bytes >= self.backlog_limit_bytes:
                self._give_up_for_servers_away(reach)
        require_backlog(origin, targets, reach)
        if origin.parcels.unclaimed_bytes >= self.backlog_limit_bytes or origin.open.is_full:
            raise refuse(Reason.BACKLOG_FULL, "too many messages are in memory here and on their way; try again later")

    def _give_up_for_servers_away(self, reach: Reach) -> None:
        """Give up the older half of the unsettled parcels for servers that are away, as far as they were not sent."""
        origin = self.origin
        oldest = origin.parcels.unsettled
        oldest = oldest[: len(oldest) // 2 + 1]
        given_up = set[int]()
        for server in origin.parcels.posted_to():
            if not reach.is_settled_with(server):
                given_up |= self._give_up(server, set(oldest))
        for position in oldest:
            if origin.parcels.is_kept(position):
                if position in given_up or origin.parcels.needs_round(position):
                    self.on_given_up(origin.messages.ids(position))
                if not origin.parcels.expire(position):
                    self.spreading.end_round(position, reach)
        origin.parcels.release()

    def _give_up(self, server: ServerId, positions: set[int]) -> set[int]:
        """Give up those of some parcels that were not sent to a server. Return their positions."""
        given_up = set[int]()
        waiting, keys = self.lanes.waiting(server), defaultdict[int, set[ParcelKey]](set)
        for position, key in self.origin.backlog.posted_to_server(server):
            if position in positions and (key in waiting or self.origin.backlog.is_lost(position, server)):
                self.origin.parcels.forgo(position, server)
                given_up.add(position)
                if key in waiting:
                    keys[key[0]].add(key)
        for sequence, some in keys.items():
            self.lanes.drop(server, some, self.origin.sequences.targets_of(sequence))
        return given_up

    def note_open(self) -> None:
        """Note that a message waits for a parcel, which steps make by themselves."""
        self.agenda.mark(Work.PARCELS)

    def make_parcels(self, reach: Reach) -> None:
        """Make parcels of waiting messages, if it is time or there are enough for a parcel."""
        waiting, now = self.origin.open, self._running.now
        if waiting and (now >= self._close_at or waiting.bytes >= PARCEL_BYTES_LIMIT):
            self._close_at = now + min(SHARE_SECONDS * waiting.count, SHARE_SECONDS_LIMIT)
            self.spreading.close()
        self.spreading.make_parcels(reach)
        if waiting:
            self.agenda.mark(Work.PARCELS)

    def next_deadline(self) -> float | None:
        """Return the time at which a step is needed. None if no step is needed."""
        of_lanes = self.lanes.next_deadline()
        if not self.origin.open:
            return of_lanes
        return self._close_at if of_lanes is None else min(self._close_at, of_lanes)

    # -- other servers

    def came(self, sender: ServerId, carried: Carried, reach: Reach, now: float) -> None:
        """Handle pieces of posts from another server."""
        whole, broken = self.lanes.came(sender, carried, now)
        if broken is not None:
            self._break(broken, reach)
        for post in whole:
            self.arrivals.keep(post)

    def _break(self, broken: Broken, reach: Reach) -> None:
        """Handle the restart of a server: it gets no parcel again that was sent to its earlier start."""
        server, origin = broken.server, self.origin
        self.spreading.begin_again(server)
        left, withdrawn, lost = list[int](), set[ParcelKey](), defaultdict[int, set[ParcelKey]](set)
        for position, key in origin.backlog.posted_to_server(server):
            if key in broken.waiting:
                if not origin.backlog.had_before(position, server):
                    continue
                withdrawn.add(key)
            elif origin.backlog.is_lost(position, server) and broken.is_to_be_told(key):
                continue
            left.append(position)
            if origin.parcels.lose(position, server):
                lost[key[0]].add(key)
        self.lanes.withdraw(server, withdrawn)
        for sequence, keys in lost.items():
            self.lanes.lose(server, keys, origin.sequences.targets_of(sequence))
        self.spreading.forget_claims(server, reach)
        for position in left:
            self.spreading.go_on(position, reach)

    def look_for_removed(self, reach: Reach) -> None:
        """Drop all parcels for servers that were removed for good, and all posts of theirs."""
        self.spreading.forget_removed(reach)
        for server in self.origin.parcels.posted_to():
            if not reach.is_known(server):
                self.origin.removed(server)
                left = [position for position, _ in self.origin.backlog.posted_to_server(server)]
                for position in left:
                    self.origin.parcels.forgo(position, server)
                for position in left:
                    self.spreading.go_on(position, reach)
                self.lanes.forget(server)

    # -- endpoints

    def begin(self, key: SubscriptionKey, *, is_new: bool, sought: Position | None) -> Position:
        """Begin to read the ring behind the acknowledged position of a subscription. Return the position.

        `is_new`: True if the endpoint gets no earlier entries. `sought`: position through which it has handled
        messages.
        """
        oldest = Position.before(max(self.log.cut + 1, self._opened.get(key[0], 0)))
        cursor = self._cursors.get(key, self.log.end() if is_new else oldest)
        if sought is not None and cursor < sought <= self.log.end():
            cursor = sought
        self._cursors[key] = cursor
        return cursor

    def begin_ephemeral(self, ticket: int) -> Position:
        """Begin an ephemeral subscription with the next entry. Return its position."""
        self._ephemeral[ticket] = self.log.end()
        return self.log.end()

    def acknowledge(self, key: SubscriptionKey, epoch: int, through: Position) -> None:
        """Acknowledge through a position for the endpoint of an epoch.

        The epoch of an ephemeral subscription is its ticket.
        """
        cursor = self._mailboxes.cursor(key)
        self._acknowledged += 1
        if self._acknowledged >= CUT_AT_LEAST:
            self.agenda.mark(Work.RETENTION)
        if through > self.log.end():
            return
        if cursor is not None and cursor.epoch == epoch and key in self._cursors:
            self._cursors[key] = max(through, self._cursors[key])
        elif epoch in self._ephemeral:
            self._ephemeral[epoch] = max(through, self._ephemeral[epoch])

    def end(self, ticket: int) -> None:
        """End an ephemeral subscription, if it exists."""
        self._ephemeral.pop(ticket, None)

    def open(self, mailbox: int) -> None:
        """Note that a mailbox is opened: it gets entries from now on."""
        self._opened[mailbox] = self.log.last + 1

    def close(self, mailbox: int) -> None:
        """Forget the state of a mailbox that is closed."""
        self._opened.pop(mailbox, None)
        for key in [key for key in self._cursors if key[0] == mailbox]:
            del self._cursors[key]

    # -- steps

    def end_step(self, reach: Reach, now: float) -> tuple[list[PeerDatagram], int | None]:
        """End a step. Return the frames to send, and the last position of the ring, if it grew."""
        if ENDING.isdisjoint(self.agenda.due):
            return [], None
        for work in ENDING:
            self.agenda.take_off(work)
        for not_posted in self.origin.posting.take_not_posted():
            self.on_given_up(not_posted.ids)
        self.origin.parcels.release()
        new, _ = self.log.take_rows()
        for record in new:
            self.ring.add(record)
        self._cut()
        self.spreading.letters.clear()
        self._volatile.take_rows()
        return list(self.lanes.leaving(reach, now)), new[-1].position if new else None

    def _cut(self) -> None:
        before = self.log.cut
        through = self.ring.overrun(self.ring_limit_bytes)
        if through is not None:
            self.log.cut_through(through, at_least=1)
        if self._acknowledged >= CUT_AT_LEAST:
            self._acknowledged = 0
            cursors = [*self._cursors.values(), *self._ephemeral.values()]
            if cursors and self._mailboxes.have_readers(len(self._cursors)):
                self.log.cut_through(min(cursors).entry - 1)
        if self.log.cut > before:
            self.ring.cut(self.log.cut)
            self.log.take_rows()
            needed = {*self.arrivals.audiences(), *self.origin.backlog.audiences()}
            self.audiences.forget_unused(cut=self.log.cut, started_at=0, needed=needed)

    def entries(self, after: int, through: int) -> Iterator[LogRecord]:
        """Return the remaining entries behind a position and through another one, in order."""
        first = max(after, self.log.cut) + 1
        return (self.ring.records[position] for position in range(first, min(through, self.log.last) + 1))
