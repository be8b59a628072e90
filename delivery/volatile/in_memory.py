"""What is kept in memory: all that one server does with messages to groups whose policy says so. None of it is a row.

    Send --> origin --at once, or soon--> parcel --+--> lanes in memory --> other servers
                                                   +--> ring, for the mailboxes here --> endpoints

It is the machinery of what is durable, over maps that nobody writes, lanes that are in memory, and a ring in place of
the log: who is below is found in the same way, and everybody gets the same sequence. A server that starts again has
forgotten all of it. Others notice that by its start: what it had not confirmed by then it does not get, nor anything
once more, for it may have handed that out.

A position in the ring is above all those of earlier starts. So whoever was handed something before a restart is known
to be behind.

Source: delivery.md sections 0, 3 and 8.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import NamedTuple

from delivery.arrival.arrivals import Arrivals
from delivery.arrival.log_writer import LogWriter
from delivery.arrival.recent_downstream import LostWays
from delivery.log.log import CUT_AT_LEAST, NOBODY_KNOWN, Log
from delivery.mailboxes.audiences import Audiences
from delivery.mailboxes.gateways import Gateways
from delivery.mailboxes.listeners import Listeners
from delivery.mailboxes.mailboxes import Mailboxes, SubscriptionKey
from delivery.model.reach import Reach
from delivery.model.uptime import RunningTime
from delivery.model.words import Kept, Position
from delivery.origin.admission import require_backlog
from delivery.origin.dead_letters import DeadLetters
from delivery.origin.origin import Origin
from delivery.origin.senders import Senders
from delivery.origin.servers_below import is_home
from delivery.origin.unsettled import ParcelKey
from delivery.spreading.parcel_pipeline import Spreading
from delivery.volatile.datagrams import PeerDatagram
from delivery.volatile.memory_lanes import Broken, MemoryLanes
from delivery.wire.post_lanes import Postage
from delivery.wire.posts import PARCEL_BYTES_LIMIT, Carried, Confirm, Lost, Parcel, encode
from namegraph import DurableState, LogRecord, PeerFault, Reason, ServerId, TargetSet, VolatileState, refuse

RING_BYTES_LIMIT = 64 * 1024 * 1024
"""Of parcels; the oldest go, whoever has not read them."""

STARTS_LIMIT = 10_000
"""Target sets of which it is remembered in which start of their origin the last parcel came."""

SHARE_SECONDS = 0.0005
"""Parcels are made of what came at once, but so long after the last ones for each message in these: what comes
meanwhile shares them, and costs other servers little. Whoever sends one after the other waits for nothing."""

SHARE_SECONDS_LIMIT = 0.002
"""The longest such wait."""

POSITIONS_OF_START = 2**20
"""The first position of a start is its number times this; a start has a number for each few microseconds."""


class Ring:
    """The newest entries, by position: all behind the one that was dropped last."""

    def __init__(self) -> None:
        self.records: dict[int, LogRecord] = {}
        self.size = 0

    def add(self, record: LogRecord) -> None:
        """Put one behind all others."""
        self.records[record.position] = record
        self.size += len(record.encoded)

    def cut(self, through: int) -> None:
        """Forget those at a position and before."""
        while self.records and (oldest := next(iter(self.records))) <= through:
            self.size -= len(self.records.pop(oldest).encoded)

    def overrun(self, limit: int) -> int | None:
        """Through which position it is to be cut, to be no larger; None: it is not."""
        size, through = self.size, None
        for position, record in self.records.items():
            if size <= limit:
                break
            size -= len(record.encoded)
            through = position
        return through


class MemoryCounts(NamedTuple):
    """How much of it a server has."""

    entries: int
    """Of the ring."""
    bytes: int
    """Of these."""
    parcels_unsettled: int
    """Of this server."""
    parcels_lost: int
    """Since its start, before they came here."""


class MemoryArrivals(Arrivals):
    """What other servers post of it."""

    def __init__(
        self, state: DurableState, server: ServerId, post: Postage, writer: LogWriter, lost_ways: LostWays
    ) -> None:
        super().__init__(state, server, post, writer, lost_ways)
        self._starts: dict[tuple[ServerId, TargetSet], int] = {}
        """The start in which an origin accepted the last parcel to a target set that came."""
        self.parcels_lost = 0
        """Parcels that do not come, since this server started, as far as it was told."""

    def log(self, sender: ServerId, parcel: Parcel, encoded: bytes, reach: Reach) -> Confirm | None:
        """As of what is durable; those whom it reaches are told before that its origin has started again."""
        before = self._starts.get((sender, parcel.targets))
        if before is not None and before < parcel.start:
            # How much of the start before did not come, nobody knows.
            self._append_lost(Lost(parcel.sequence, parcel.start, parcel.first_serial, parcel.targets, 1), reach)
        self._starts.pop((sender, parcel.targets), None)
        self._starts[sender, parcel.targets] = parcel.start
        if len(self._starts) > STARTS_LIMIT:
            del self._starts[next(iter(self._starts))]
        return super().log(sender, parcel, encoded, reach)

    def lose(self, sender: ServerId, lost: Lost, reach: Reach) -> Confirm | None:
        """Some parcels do not come: those whom they would reach are told; so is their origin, of who is further below.

        Returns what it is to be told, None if it is none.
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
    """See the module."""

    def __init__(
        self,
        server: ServerId,
        mailboxes: Mailboxes,
        listeners: Listeners,
        gateways: Gateways,
        running: RunningTime,
        lost_ways: LostWays,
        faults: Counter[tuple[ServerId, PeerFault]],
    ) -> None:
        """`faults`: what other servers did wrong is counted there."""
        self._mailboxes = mailboxes
        self._volatile = VolatileState()
        self.lanes = MemoryLanes(faults)
        self.log = Log(self._volatile)
        self.ring = Ring()
        self.audiences = Audiences(self._volatile, mailboxes, listeners, gateways)
        self.origin = Origin(self._volatile, server, self.lanes, Kept.MEMORY)
        self.senders = Senders(self._volatile, begin_anywhere=True)
        self.writer = writer = LogWriter(self.log, self.audiences, running)
        self._running = running
        self.arrivals = MemoryArrivals(self._volatile, server, self.lanes, writer, lost_ways)
        self.spreading = Spreading(
            origin=self.origin,
            post=self.lanes,
            arrivals=self.arrivals,
            writer=writer,
            senders=self.senders,
            dead_letters=DeadLetters(self._volatile),
        )
        self.on_given_up: Callable[[list[str]], None] = lambda _ids: None
        """Told of messages that may not come to those behind suspended arcs, or behind servers that are away."""
        self.ring_limit_bytes = RING_BYTES_LIMIT
        self._cursors: dict[SubscriptionKey, Position] = {}
        """Through where subscriptions of mailboxes have acknowledged, as far as an endpoint has come for each."""
        self._ephemeral: dict[int, Position] = {}
        """The same of ephemeral ones, by ticket."""
        self._opened: dict[int, int] = {}
        """Of mailboxes that were opened since this server started: the first entry that can be for them."""
        self._close_at = 0.0
        """From when on parcels may be made of what came, on the clock of steps."""
        self._acknowledged = 0
        """How often, since it was last looked what nobody needs any more."""

    def begin_start(self, start: int) -> None:
        """To be called before the first step."""
        self.lanes.start = self.origin.start = self.arrivals.foreign.start = start
        self.log.last = self.log.cut = start * POSITIONS_OF_START

    @property
    def counts(self) -> MemoryCounts:
        """May be asked while a step is carried out in another thread."""
        ring, arrivals = self.ring, self.arrivals
        return MemoryCounts(len(ring.records), ring.size, self.origin.parcels_unsettled, arrivals.parcels_lost)

    @property
    def is_unused(self) -> bool:
        """Return True if no step is about anything that is here, and no other server has said anything of it."""
        return self.lanes.is_unused and self.spreading.is_unused and self.log.is_empty

    # -- sending

    @property
    def backlog_limit_bytes(self) -> int:
        """Limit of what one receiver has not confirmed, and of what waits for no receiver."""
        return self.origin.backlogs.limit_bytes

    @backlog_limit_bytes.setter
    def backlog_limit_bytes(self, limit: int) -> None:
        self.origin.backlogs.limit_bytes = limit

    def require_room(self, targets: TargetSet, reach: Reach) -> None:
        """Raise `RefusedError` where too much waits for a receiver that is in reach; what waits for others goes."""
        origin = self.origin
        if origin.backlogs.full or origin.backlog_bytes >= self.backlog_limit_bytes:
            # Parcels for a server that is connected stay: only messages that go there are refused.
            away = [server for server in origin.backlogs.receivers() if not reach.is_settled_with(server)]
            waiting_bytes = origin.unclaimed_bytes + sum(map(origin.backlogs.bytes_of, away))
            if waiting_bytes >= self.backlog_limit_bytes:
                self._give_up_for_servers_away(reach)
        require_backlog(origin, targets, reach)
        if origin.unclaimed_bytes >= self.backlog_limit_bytes or origin.open.is_full:
            raise refuse(Reason.BACKLOG_FULL, "too many messages are in memory here and on their way; try again later")

    def _give_up_for_servers_away(self, reach: Reach) -> None:
        """Half of what is not settled, the oldest first, is not sent to servers that are away, as far as it was not."""
        origin = self.origin
        oldest = origin.unsettled
        oldest = oldest[: len(oldest) // 2 + 1]
        given_up = set[int]()
        for server in origin.posted_to():
            if not reach.is_settled_with(server):
                given_up |= self._give_up(server, set(oldest))
        for position in oldest:
            if origin.is_kept(position):
                if position in given_up or origin.needs_round(position):
                    self.on_given_up(origin.ids(position))
                if not origin.expire(position):
                    self.spreading.end_round(position, reach)
        origin.release()

    def _give_up(self, server: ServerId, positions: set[int]) -> set[int]:
        """Some parcels are not sent to a server, as far as they were not; returns the positions of these."""
        given_up = set[int]()
        waiting, keys = self.lanes.waiting(server), defaultdict[int, set[ParcelKey]](set)
        for position, key in self.origin.backlog.posted_to_server(server):
            if position in positions and (key in waiting or self.origin.backlog.is_lost(position, server)):
                self.origin.forgo(position, server)
                given_up.add(position)
                if key in waiting:
                    keys[key[0]].add(key)
        for sequence, some in keys.items():
            self.lanes.drop(server, some, self.origin.targets_of(sequence))
        return given_up

    def make_parcels(self, reach: Reach, now: float) -> None:
        """Make parcels of what came, if it is time, or if it is enough for one."""
        if self.origin.open and (now >= self._close_at or self.origin.open.bytes >= PARCEL_BYTES_LIMIT):
            self._close_at = now + min(SHARE_SECONDS * self.origin.open.count, SHARE_SECONDS_LIMIT)
            self.spreading.close()
        self.spreading.make_parcels(reach, at=self._running.seconds)

    def next_deadline(self) -> float | None:
        """When a step is wanted, if none is taken before."""
        of_lanes = self.lanes.next_deadline()
        if not self.origin.open:
            return of_lanes
        return self._close_at if of_lanes is None else min(self._close_at, of_lanes)

    # -- other servers

    def came(self, sender: ServerId, carried: Carried, reach: Reach, now: float) -> None:
        """Another server has sent pieces of what it posts."""
        whole, broken = self.lanes.came(sender, carried, now)
        if broken is not None:
            self._break(broken, reach)
        for post in whole:
            self.arrivals.keep(post)

    def _break(self, broken: Broken, reach: Reach) -> None:
        """A server has started again: it gets no more of what was sent to it, whatever it had."""
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
            if origin.lose(position, server):
                lost[key[0]].add(key)
        self.lanes.withdraw(server, withdrawn)
        for sequence, keys in lost.items():
            self.lanes.lose(server, keys, origin.targets_of(sequence))
        self.spreading.forget_claims(server, reach)
        for position in left:
            self.spreading.go_on(position, reach)

    def look_for_removed(self, reach: Reach) -> None:
        """Nothing waits for servers that are gone for good, nor anything of theirs."""
        self.spreading.forget_removed(reach)
        for server in self.origin.posted_to():
            if not reach.is_known(server):
                self.origin.removed(server)
                left = [position for position, _ in self.origin.backlog.posted_to_server(server)]
                for position in left:
                    self.origin.forgo(position, server)
                for position in left:
                    self.spreading.go_on(position, reach)
                self.lanes.forget(server)

    # -- endpoints

    def begin(self, key: SubscriptionKey, *, is_new: bool, sought: Position | None) -> Position:
        """An endpoint begins to read the ring, behind what it has acknowledged; returns where.

        `is_new`: it is to be handed nothing of before. `sought`: all through that it has handled.
        """
        oldest = Position.before(max(self.log.cut + 1, self._opened.get(key[0], 0)))
        cursor = self._cursors.get(key, self.log.end() if is_new else oldest)
        if sought is not None and cursor < sought <= self.log.end():
            cursor = sought
        self._cursors[key] = cursor
        return cursor

    def begin_ephemeral(self, ticket: int) -> Position:
        """The same of an ephemeral one: it begins with what comes next."""
        self._ephemeral[ticket] = self.log.end()
        return self.log.end()

    def acknowledge(self, key: SubscriptionKey, epoch: int, through: Position) -> None:
        """All through a position is handled, by the endpoint of an epoch; of an ephemeral one, that is its ticket."""
        cursor = self._mailboxes.cursor(key)
        self._acknowledged += 1
        if through > self.log.end():
            return
        if cursor is not None and cursor.epoch == epoch and key in self._cursors:
            self._cursors[key] = max(through, self._cursors[key])
        elif epoch in self._ephemeral:
            self._ephemeral[epoch] = max(through, self._ephemeral[epoch])

    def end(self, ticket: int) -> None:
        """An ephemeral one ends, if it is there."""
        self._ephemeral.pop(ticket, None)

    def open(self, mailbox: int) -> None:
        """The mailbox of a number is opened: it gets what comes from now on."""
        self._opened[mailbox] = self.log.last + 1

    def close(self, mailbox: int) -> None:
        """The mailbox of a number is closed."""
        self._opened.pop(mailbox, None)
        for key in [key for key in self._cursors if key[0] == mailbox]:
            del self._cursors[key]

    # -- steps

    def end_step(self, reach: Reach, now: float) -> tuple[list[PeerDatagram], int | None]:
        """What is to leave, and through which position the ring goes, where that is more than before."""
        for not_posted in self.origin.take_not_posted():
            self.on_given_up(not_posted.ids)
        self.origin.release()
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
        """Those behind a position and through another one that are still there, in order."""
        first = max(after, self.log.cut) + 1
        return (self.ring.records[position] for position in range(first, min(through, self.log.last) + 1))
