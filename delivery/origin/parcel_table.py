"""The parcels of an origin that are not settled, or wait for an older parcel: rows, bytes, and what each server has.

    posted --> the server confirms it --> counted for no receiver
      |------> it is given up, or lost -> the server is named to callers as not reached
      '------> all have confirmed it ---> settled, and released once no lane needs its bytes

See docs/protocol-messages.md, "Who is below" and "Messages and servers that part".
"""

from __future__ import annotations

from delivery.model.agenda import Agenda, Work
from delivery.model.uptime import Uptime
from delivery.origin.backlogs import Backlogs
from delivery.origin.unsettled import NEVER_CONFIRMED, NO_VIEW, Backlog, ParcelKey, ParcelRow, ParcelState, Sequence
from delivery.wire.post_lanes import Postage
from namegraph import DurableMap, ServerId


class ParcelTable:
    """All such parcels of one storage, by position in the log of this server."""

    def __init__(self, rows: DurableMap[int, ParcelRow], post: Postage, running: Uptime, agenda: Agenda) -> None:
        self.rows, self.post, self._agenda = rows, post, agenda
        self.states: dict[int, Sequence] = {}
        """State of the sequences in memory, by number."""
        self.by_serial: dict[ParcelKey, int] = {}
        """Positions by sequence, start and first serial."""
        self.backlog = Backlog(rows, self.states)
        self.backlogs = Backlogs(running, agenda)
        """Parcels that receivers have not confirmed, or not taken out of their lanes."""
        self.backlog_bytes = 0
        """Bytes of all parcels in memory."""
        self.settled_bytes = 0
        """Bytes of settled parcels that stay behind an older one of their sequence."""
        self._to_release: dict[int, None] = {}
        """Positions of parcels in memory that may be settled and in no lane."""
        self._learn()

    def _learn(self) -> None:
        """Build the in-memory state of the sequences from the rows of parcels."""
        for position in sorted(self.rows):
            row = self.rows[position]
            sequence = self.states.setdefault(row.sequence, Sequence())
            sequence.unsettled.append(position)
            if row.is_settled:
                sequence.settled.add(position)
            sequence.receivers.update(row.posted)
            # A newer parcel would otherwise overtake one of these that the server wants.
            sequence.stubs |= {server for server, count in row.posted.items() if count == ParcelState.STUB}
            self.by_serial[row.sequence, row.start, row.first_serial] = position

    @property
    def unsettled(self) -> list[int]:
        """Positions of the parcels that are unsettled, or wait for an older parcel, sorted."""
        return sorted(self.rows)

    def oldest_needed(self) -> int | None:
        """Return the position of the oldest parcel that is in some lane, or may still be posted.

        None if there is none.
        """
        # The dict has the order of positions.
        return next(iter(self.post.parcels), None)

    def keep(self, position: int, encoded: bytes) -> None:
        """Keep a parcel in memory until it is settled."""
        self.post.parcels[position] = encoded
        self.backlog_bytes += len(encoded)
        row = self.rows.get(position)
        waiting = [] if row is None else [server for server, count in row.posted.items() if count < 0]
        for server in {*waiting, *self.post.receivers_of(position)}:
            self.backlogs.add(server, position, len(encoded))
        if row is None:
            self.let_go(position)
        elif position in self.states[row.sequence].settled:
            self.settled_bytes += len(encoded)

    def mark(self, position: int, server: ServerId, count: int) -> None:
        """Store the count of mailboxes that get a parcel at a server, or the `ParcelState`."""
        self.rows[position].posted[server] = count
        self.rows.touch(position)
        if count < 0:
            self.backlogs.add(server, position, len(self.post.parcels[position]))
        else:
            self.uncount(position, server)

    def uncount(self, position: int, server: ServerId) -> None:
        """Stop counting a parcel for a server that has it, or does not get it, once it is not in the lane there."""
        if server not in self.post.receivers_of(position):
            self.backlogs.remove(server, position)

    @property
    def unclaimed_bytes(self) -> int:
        """Bytes of parcels in memory that are counted for no receiver."""
        return self.backlog_bytes - self.backlogs.shared_bytes

    def is_kept(self, position: int) -> bool:
        """True if a parcel is not settled, or waits for an older parcel."""
        return position in self.rows

    def is_posted(self, position: int, server: ServerId) -> bool:
        """True if a parcel is not settled, and a server has it or will get it."""
        row = self.rows.get(position)
        return row is not None and server in row.posted

    def posted_to(self) -> list[ServerId]:
        """Return the servers to which unsettled parcels were posted, sorted."""
        return sorted({server for row in self.rows.values() for server in row.posted})

    def waits_for(self, position: int, server: ServerId) -> bool:
        """True if a parcel is not settled, and a server has it or will get it."""
        row = self.rows.get(position)
        return row is not None and server in row.posted and not row.is_settled

    def give_up(self, position: int, server: ServerId) -> tuple[bytes, bool] | None:
        """Stop waiting for a server to have a parcel. Callers are told of it as of a server that was never met.

        Return the parcel, and True if the server has it and remembers its recipients, because it left out a foreign
        process. None if every recipient at the server has the parcel.
        """
        row = self.rows[position]
        self.rows.touch(position)
        is_there = row.posted.pop(server) not in NEVER_CONFIRMED
        self.uncount(position, server)
        if is_there and server not in row.leaving_out:
            return None
        if is_there:
            # The parcel is not over: it may be sent again for the processes that were left out.
            self.forget_remembering(position, server)
        row.note_leaving_out(server, is_so=False)
        row.unknown = tuple(sorted({*row.unknown, server}))
        return self.post.parcels[position], is_there

    def lose(self, position: int, server: ServerId) -> bool:
        """Note that a server does not get a parcel, or has lost it. The parcel is not posted to the server again.

        Return True if the server had not confirmed the parcel: the origin waits until it names its downstream servers.
        Callers are told of it as of a server that was never met.
        """
        row = self.rows[position]
        count = row.posted[server]
        if count in NEVER_CONFIRMED:
            row.unknown = tuple(sorted({*row.unknown, server}))
        if count < 0:
            self.mark(position, server, ParcelState.LOST)
        row.lost = tuple(sorted({*row.lost, server}))
        self.rows.touch(position)
        return count < 0

    def forgo(self, position: int, server: ServerId) -> None:
        """Note that a server does not get a parcel, and do not wait for its downstream servers."""
        if self.lose(position, server):
            self.mark(position, server, 0)

    def expire(self, position: int) -> list[ServerId]:
        """End the rounds of a parcel. Return the servers that have not confirmed it and must be given up, sorted."""
        row = self.rows[position]
        row.is_apart = False
        self.rows.touch(position)
        return sorted(server for server, count in row.posted.items() if count < 0)

    def note_remembered(self, server: ServerId, parcel: ParcelKey) -> bool:
        """Note that a server remembers the recipients of a parcel.

        Return True if the parcel is not settled: the server is told once it is settled.
        """
        position = self.by_serial.get(parcel)
        if position is None:
            return False
        row = self.rows[position]
        row.remembering = tuple(sorted({*row.remembering, server}))
        self.rows.touch(position)
        return True

    def forget_remembering(self, position: int, server: ServerId) -> None:
        """Forget that a server remembers the recipients of a parcel."""
        row = self.rows.get(position)
        if row is not None and server in row.remembering:
            row.remembering = tuple(other for other in row.remembering if other != server)
            self.rows.touch(position)

    def needs_round(self, position: int) -> bool:
        """True if all servers have confirmed a parcel, and it needs another round."""
        row = self.rows[position]
        return row.is_confirmed and row.is_apart

    def is_posted_in(self, position: int, view: str) -> bool:
        """True if the round of a parcel was begun in a view."""
        return self.rows[position].view == view

    def look_again(self) -> None:
        """Allow another round in the same view: a server was removed, and its arcs with it."""
        for position, row in self.rows.items():
            if row.is_apart:
                row.view = NO_VIEW
                self.rows.touch(position)

    def __len__(self) -> int:
        """Return the number of parcels that are not settled, or wait for an older parcel."""
        return len(self.rows)

    def release(self) -> None:
        """Forget the settled parcels to which no lane refers any more, at the end of a step."""
        for server, position in self.post.take_dropped():
            row = self.rows.get(position)
            if row is None or row.posted.get(server, 0) >= 0:
                self.uncount(position, server)
            if row is None:
                self._to_release[position] = None
        for position in self._to_release:
            is_needed = position in self.rows or self.post.refers_to(position)
            if position in self.post.parcels and not is_needed:
                self.backlog_bytes -= len(self.post.parcels.pop(position))
                self._agenda.mark(Work.RETENTION)
        self._to_release.clear()

    def let_go(self, position: int) -> None:
        """Note that a parcel may be settled and in no lane."""
        self._to_release[position] = None
        self._agenda.mark(Work.RELEASE)
