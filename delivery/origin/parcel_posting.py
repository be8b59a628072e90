"""Posting parcels to servers: to those found late, in slices, and again to those whose lanes begin anew.

    a server is found --> every unsettled parcel, the oldest first --> lane
    a lane begins anew -> every unsettled parcel, in slices -----------^  newer parcels wait behind them
    a server had no recipients --> stubs, until it wants a parcel

If a server lacks very many parcels, steps post them in slices. The event that showed the server waits until the rest is
short, and counts as not handled: after a crash the slices begin again. Progress of a lane that begins anew is durable.

See docs/protocol-messages.md, "Who is below" and "Accepted, settled, sent again".
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from msgspec import structs

from delivery.model.agenda import Agenda, Work
from delivery.model.reach import Reach
from delivery.model.uptime import Uptime
from delivery.origin.parcel_table import ParcelTable
from delivery.origin.sequence_table import SequenceTable
from delivery.origin.servers_below import UNKNOWN_LIMIT
from delivery.origin.unsettled import IDLE, ParcelState, Sequence
from delivery.wire.posts import Stub, Want, decode_stored, encode
from namegraph import TEXTS, DurableMap, DurableState, PeerLetter, ServerId, packed

POSTED_AT_ONCE = 500
"""Most parcels that one step posts to servers that are found late: some ten milliseconds. Later steps post the rest."""


class NotPosted(NamedTuple):
    """A parcel that a receiver does not get, because too much waits for the receiver."""

    position: int
    receiver: ServerId
    encoded: bytes
    ids: list[str]
    """Ids of the messages in the parcel."""


class ParcelPosting:
    """Posts of one origin."""

    def __init__(
        self,
        durable: DurableState,
        server: ServerId,
        table: ParcelTable,
        sequences: SequenceTable,
        running: Uptime,
        agenda: Agenda,
        *,
        ids: Callable[[int], list[str]],
    ) -> None:
        """Wire the parts. `ids`: returns the ids of the messages of a parcel, by position."""
        self._server, self._table, self._sequences = server, table, sequences
        self._running, self._agenda, self._ids = running, agenda, ids
        self.posted_at_once = POSTED_AT_ONCE
        self._spent, self._spent_in_step = 0, 0
        """Parcels that a step has posted to servers that were found late, and the number of that step."""
        self._not_posted: list[NotPosted] = []
        """Parcels not posted since the last `take_not_posted`."""
        self._again = DurableMap(durable, "post again", TEXTS, packed(int))
        """Position through which unsettled parcels were posted again, by server whose lane has begun anew."""
        self._left_again = self._learn_again()
        """Positions of parcels still to be posted to such a server, sorted. Newer parcels wait behind them."""
        if self._left_again:
            agenda.mark_at_once(Work.AGAIN)

    @property
    def room(self) -> int:
        """Number of parcels that this step may still post to servers that are found late."""
        return self.posted_at_once - (self._spent if self._spent_in_step == self._running.step_count else 0)

    def spend_room(self) -> None:
        """Note that this step posts another parcel to a server that was found late."""
        is_first = self._spent_in_step != self._running.step_count
        self._spent, self._spent_in_step = 1 if is_first else self._spent + 1, self._running.step_count

    @property
    def is_short(self) -> bool:
        """True if all unsettled parcels can be posted in this step."""
        return len(self._table.rows) <= self.room

    def is_short_of(self, sequence: Sequence) -> bool:
        """True if all parcels of a sequence can be posted in this step."""
        return len(sequence.unsettled) <= self.room

    def catch_up(self, number: int, servers: Iterable[ServerId], reach: Reach) -> tuple[list[PeerLetter], bool]:
        """Post a slice of the unsettled parcels to servers that are below and lack them.

        Return the posts to send, and True if `found` may post the rest at once.
        """
        sequence, leaving = self._table.states.get(number, IDLE), list[PeerLetter]()
        if self.is_short_of(sequence):
            return leaving, True
        for server in servers:
            if server == self._server or server in sequence.posted or not reach.is_known(server):
                continue
            sequence.receivers.add(server)
            for position in sequence.behind(sequence.catching_up.get(server, 0)):
                if server not in self._table.rows[position].posted:
                    if self.room <= 0:
                        return leaving, False
                    leaving += self._post_late(server, position, sequence)
                sequence.catching_up[server] = position
            sequence.catching_up.pop(server, None)
            sequence.posted.add(server)
        return leaving, True

    def catch_up_for_want(self, sender: ServerId, want: Want) -> tuple[list[PeerLetter], bool]:
        """Post in full a slice of the parcels of which a server has only the stub, and wants one.

        Return the posts to send, and True if `want` may post the rest at once.
        """
        sequence, leaving = self._table.states.get(want.sequence, IDLE), list[PeerLetter]()
        if self.is_short_of(sequence) or sender not in sequence.stubs:
            return leaving, True
        position = self._table.by_serial.get((want.sequence, want.start, want.first_serial))
        is_wanted = position is not None and self._table.rows[position].posted.get(sender) == ParcelState.STUB
        if not is_wanted and sender not in sequence.made_whole:
            return leaving, True
        for position in sequence.behind(sequence.made_whole.get(sender, 0)):
            if self._table.rows[position].posted.get(sender) == ParcelState.STUB:
                if self.room <= 0:
                    return leaving, False
                self.spend_room()
                self._table.mark(position, sender, ParcelState.UNCONFIRMED)
                leaving += self.post_in_turn(sender, position)
            sequence.made_whole[sender] = position
        sequence.made_whole.pop(sender, None)
        sequence.stubs.discard(sender)
        return leaving, True

    def _post_late(self, server: ServerId, position: int, sequence: Sequence) -> list[PeerLetter]:
        """Post a parcel to a server that is found only now."""
        self.spend_room()
        row = self._table.rows[position]
        leaving = self.end_stubs(server, sequence) if row.round else []
        if server in self._table.backlogs.full and self._table.backlogs.takes_no_more(server):
            row.posted[server] = ParcelState.UNCONFIRMED
            self._table.forgo(position, server)
            encoded = self._table.post.parcels[position]
            self._not_posted.append(NotPosted(position, server, encoded, self._ids(position)))
            self._agenda.mark(Work.EXPIRY)
            return leaving
        if row.unknown:
            row.unknown = tuple(other for other in row.unknown if other != server)
        self._table.mark(position, server, ParcelState.STUB if server in sequence.stubs else ParcelState.UNCONFIRMED)
        if self._left_again and self.waits_its_turn(server, position):
            return leaving
        leaving.append(self.posted(server, position))
        return leaving

    def take_not_posted(self) -> list[NotPosted]:
        """Return the parcels that receivers do not get, since the last call."""
        not_posted, self._not_posted = self._not_posted, []
        return not_posted

    def found(self, number: int, servers: Iterable[ServerId], reach: Reach) -> list[PeerLetter]:
        """Post all unsettled parcels that they lack to servers that are below."""
        leaving: list[PeerLetter] = []
        sequence = self._table.states[number]
        unknown: list[ServerId] = []
        for server in servers:
            if server == self._server:
                continue
            if not reach.is_known(server):
                unknown.append(server)
                continue
            sequence.receivers.add(server)
            for position in sequence.lacking(server):
                if server not in self._table.rows[position].posted:
                    leaving += self._post_late(server, position, sequence)
        if unknown:
            self._name_unknown(sequence, unknown)
        return leaving

    def _name_unknown(self, sequence: Sequence, servers: list[ServerId]) -> None:
        """Note unknown servers as unreachable for the unsettled parcels.

        Limits on the servers of a parcel, and on parcels, keep this within some milliseconds.
        """
        for position in sequence.not_naming(servers):
            row = self._table.rows[position]
            room = UNKNOWN_LIMIT - len(row.unknown)
            new = [server for server in servers if server not in row.unknown][:room] if room > 0 else []
            if new:
                row.unknown = tuple(sorted({*row.unknown, *new}))
                self._table.rows.touch(position)

    def posted(self, server: ServerId, position: int) -> PeerLetter:
        """Post a parcel in its present round, or its stub."""
        row = self._table.rows[position]
        number = row.round
        if row.posted[server] == ParcelState.STUB:
            of = self._sequences.rows[row.sequence]
            stub = Stub(row.sequence, row.start, row.first_serial, of.targets, of.quality, row.messages)
            return self._table.post.send_inline(server, encode(stub))
        if not number:
            return self._table.post.send_parcel(server, position)
        parcel = decode_stored(self._table.post.parcels[position])
        return self._table.post.send_inline(server, encode(structs.replace(parcel, round=number)))

    def end_stubs(self, server: ServerId, sequence: Sequence) -> list[PeerLetter]:
        """End stubs for a server. Post in full first the parcels of which the server has only an unconfirmed stub."""
        if server not in sequence.stubs:
            return []
        sequence.stubs.discard(server)
        leaving: list[PeerLetter] = []
        for position in sequence.unsettled:
            row = self._table.rows[position]
            if row.posted.get(server) == ParcelState.STUB:
                self._table.mark(position, server, ParcelState.UNCONFIRMED)
                leaving += self.post_in_turn(server, position)
        return leaving

    def begin_again(self, server: ServerId) -> list[PeerLetter]:
        """Post unsettled parcels, and those that wait for them, to a server again in order: its lane begins anew."""
        for sequence in self._table.states.values():
            sequence.stubs.discard(server)
            sequence.made_whole.pop(server, None)
            for numbers in sequence.followed.values():
                numbers.pop(server, None)
        left = self._left_again[server] = self._expect_again(server, 0)
        for position in left:
            row = self._table.rows[position]
            if not row.round or position not in self._table.states[row.sequence].settled:
                self._table.backlogs.add(server, position, len(self._table.post.parcels[position]))
        return self._post_again(server)

    def _learn_again(self) -> dict[ServerId, deque[int]]:
        """Return the parcels that are still to be posted again, from the rows of an earlier start."""
        for sequence in self._table.states.values():
            sequence.stubs -= {ServerId(server) for server in self._again}
        return {
            ServerId(server): self._expect_again(ServerId(server), through) for server, through in self._again.items()
        }

    def _expect_again(self, server: ServerId, through: int) -> deque[int]:
        """Return the parcels behind a position that a server is posted again, sorted.

        None of them counts as confirmed.
        """
        left = deque[int]()
        for position, row in sorted(self._table.rows.items()):
            if position > through and server in row.posted and server not in row.lost:
                left.append(position)
                if position not in self._table.states[row.sequence].settled:
                    # The state becomes durable when the parcel is posted.
                    row.posted[server] = ParcelState.UNCONFIRMED
        return left

    @property
    def posts_again(self) -> bool:
        """True if a later step must post parcels again to a server whose lane began anew."""
        return bool(self._left_again)

    def post_more_again(self, reach: Reach) -> list[PeerLetter]:
        """Post the next slice to servers whose lanes began anew."""
        leaving: list[PeerLetter] = []
        for server in list(self._left_again):
            if reach.is_known(server):
                leaving += self._post_again(server)
            else:
                self.end_again(server)
        return leaving

    def _post_again(self, server: ServerId) -> list[PeerLetter]:
        left, leaving = self._left_again[server], list[PeerLetter]()
        while left and self.room > 0:
            position = left.popleft()
            row = self._table.rows.get(position)
            if row is not None and server in row.posted and server not in row.lost:
                self.spend_room()
                self._table.rows.touch(position)
                leaving.append(self.posted(server, position))
        if left:
            self._again[server] = left[0] - 1
            self._agenda.mark_at_once(Work.AGAIN)
        else:
            self.end_again(server)
        return leaving

    def end_again(self, server: ServerId) -> None:
        """Note that a server was posted all parcels again, or is gone."""
        self._left_again.pop(server, None)
        if server in self._again:
            del self._again[server]

    def post_in_turn(self, server: ServerId, position: int) -> list[PeerLetter]:
        """Post a parcel, or queue it behind the parcels that are posted again. Return the posts to send."""
        return [] if self.waits_its_turn(server, position) else [self.posted(server, position)]

    def waits_its_turn(self, server: ServerId, position: int) -> bool:
        """True if a later step posts a parcel, behind those that a server is posted again."""
        left = self._left_again.get(server)
        if not left or position < left[0]:
            return False
        if position > left[-1]:
            left.append(position)
        elif left[(place := bisect_left(left, position))] != position:
            left.insert(place, position)
        return True
