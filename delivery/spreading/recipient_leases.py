"""The origin says which server serves a process that no server owns, where several have it below a target.

    Claims --> assignments --Elsewhere--> each server for which something is different
    Confirm, with somebody left out, of before the last Elsewhere --> the parcel once more
    a server has somebody no more, or is out of reach --> what it has not confirmed once more, to the next one

A server leaves somebody out of a parcel in two cases: the origin has not decided about that one, or it is the turn of
another server. After the first one, what the origin says is on its way there, and the parcel follows. In the second one
the other server has confirmed the parcel, and serves it; or it will confirm it, and say before if it has that one no
more. So whoever has claimed somebody is posted everything, below or not, until it has claimed nobody.

This server is one of those that claim. What it is told, it is told at once.

Source: delivery.md section 4.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from functools import cache, partial

from pyroaring import BitMap

from delivery.arrival.log_writer import LogWriter
from delivery.arrival.recipient_claims import ForeignRecipients
from delivery.model.reach import Reach
from delivery.origin.origin import Origin
from delivery.origin.unsettled import Here
from delivery.spreading.lease_table import Assignments, Known, Told
from delivery.wire.posts import HASHES_LIMIT, Claims, Confirm, Elsewhere, Parcel, PostMessage
from namegraph import PeerLetter, ServerId

CLAIMED_LIMIT = 1_000_000
"""By one server, over all sequences: what a server says is in memory here."""


class Assigning:
    """For all sequences of this server."""

    def __init__(
        self,
        origin: Origin,
        foreign: ForeignRecipients,
        writer: LogWriter,
        *,
        post: Callable[[ServerId, PostMessage], None],
        leave: Callable[[Iterable[PeerLetter]], None],
    ) -> None:
        """`post`: posts something to a server. `leave`: lets out what is posted."""
        self._origin, self._foreign, self._writer = origin, foreign, writer
        self._post, self._leave = post, leave
        self._assignments: dict[int, Assignments] = defaultdict(Assignments)
        """By sequence."""
        self._numbers: dict[int, Counter[ServerId]] = defaultdict(Counter)
        """Of the last `Elsewhere` of a sequence to each server."""
        self._view = ""
        """In which it was looked last who is there."""
        self._full: frozenset[ServerId] = frozenset()
        """Receivers whose backlog was full then: they count as out of reach."""
        self._has_begun = False
        self.claimed_limit = CLAIMED_LIMIT

    # -- parcels of this server

    def servers_for(self, parcel: Parcel, below: list[ServerId], reach: Reach) -> list[ServerId]:
        """To whom to post a new parcel: to those that are below, and to those that have claimed somebody."""
        if parcel.sequence not in self._assignments:
            return below
        claimants = self._assignments[parcel.sequence].claimants()
        full = self._origin.backlogs.full
        known = [server for server in claimants if server != self._origin.server and reach.is_known(server)]
        return list(dict.fromkeys([*below, *(server for server in known if server not in full)]))

    def left_out(self, parcel: Parcel, reach: Reach) -> BitMap:
        """Whom this server leaves out of a parcel of its own. The caller must not change it."""
        found = self._left_out(parcel, reach)
        claims = self._foreign.take_claims()
        for _, each in claims:
            self._claimed(self._origin.server, each, reach)
        return self._left_out(parcel, reach) if claims else found

    def _left_out(self, parcel: Parcel, reach: Reach) -> BitMap:
        foreign = self._writer.foreign(parcel.targets, reach)
        return self._foreign.left_out(self._origin.server, parcel, foreign)

    def log_again(self, parcel: Parcel, before: int, reach: Reach) -> Here:
        """Log a parcel of this server for more than the audience of a number: those who get it only now."""
        left_out, source = self.left_out(parcel, reach), self._origin.server
        audience = self._writer.append_late(parcel, before, reach, left_out, source=source)
        return self._writer.here(audience, parcel.targets, reach)

    def logged(self, position: int, parcel: Parcel) -> None:
        """A parcel of this server is logged here, for those whom no other one serves."""
        here = self._origin.server
        _, number = self._foreign.followed(here, parcel.sequence)
        self._origin.backlog.note_followed(position, here, number)

    # -- what servers say

    def claimed(self, sender: ServerId, claims: Claims, reach: Reach) -> bool:
        """A server has told whom it has below; returns whether that can be so."""
        if claims.start != self._origin.start:
            # What was said to an earlier start is said anew.
            return True
        if self._origin.is_forgotten(claims.sequence):
            return True
        if not self._origin.backlog.is_receiver(claims.sequence, sender):
            return False
        self._leave(self._origin.found(claims.sequence, [sender], reach))
        if self._foreign.is_believed(sender):
            self._claimed(sender, claims, reach)
        else:
            # It serves whom it has, whoever else does.
            self._tell(claims.sequence, sender, [Told(sender, claims.version, 0, (), ())], reach)
        return True

    def _claimed(self, server: ServerId, claims: Claims, reach: Reach) -> None:
        room = self.claimed_limit - sum(each.count(server) for each in self._assignments.values())
        known = self._known(claims.sequence, reach)
        told = self._assignments[claims.sequence].claim(server, claims, known, room=room)
        self._tell(claims.sequence, server, told, reach)

    def confirming(self, sender: ServerId, confirm: Confirm, reach: Reach) -> None:
        """To be called before a confirmation is taken: whoever follows no word of this start has claimed nobody."""
        if confirm.assigner != self._origin.start and confirm.sequence in self._assignments:
            self._forget(confirm.sequence, sender, reach)

    def confirmed(self, sender: ServerId, position: int, confirm: Confirm) -> None:
        """A server has confirmed a parcel that is not settled, and left somebody out."""
        last = self._numbers[confirm.sequence][sender]
        if confirm.assigner != self._origin.start or confirm.number < last:
            self._post_again(position, sender)

    def forget_sequence(self, number: int) -> None:
        """Forget what was claimed in a sequence that the origin remembers no more."""
        self._assignments.pop(number, None)
        self._numbers.pop(number, None)
        self._foreign.forget_sequence(self._origin.server, number)

    def forget(self, server: ServerId, reach: Reach) -> None:
        """A server has started again: nothing that it has claimed counts."""
        for sequence in list(self._assignments):
            self._forget(sequence, server, reach)

    def _forget(self, sequence: int, server: ServerId, reach: Reach) -> None:
        told = self._assignments[sequence].forget(server, self._known(sequence, reach))
        self._tell(sequence, server, told, reach)

    # -- who is there

    def look(self, reach: Reach) -> None:
        """Have others serve whom servers serve that are out of reach since the view is another one.

        After a start, what was left out of parcels that are not settled is decided anew.
        """
        if not self._has_begun:
            self._has_begun = True
            for position, server in self._origin.backlog.leaving_out(self._origin.server):
                self._give_again(position, server, reach)
        full = self._origin.backlogs.full
        is_more_full = not full <= self._full
        self._full = frozenset(full) if full or self._full else self._full
        if self._assignments and reach.is_steady() and (self._view != reach.view() or is_more_full):
            self._view = reach.view()
            self.move(reach)

    def move(self, reach: Reach) -> None:
        """Have others serve whom servers were to serve that are out of reach, or not known any more.

        They may be back, and serve then whom nobody else claims.
        """
        for sequence, assignments in self._assignments.items():
            known = self._known(sequence, reach)
            for server in assignments.claimants():
                if not known.is_present(server):
                    self._tell(sequence, server, assignments.move(server, known), reach)

    def _known(self, sequence: int, reach: Reach) -> Known:
        here = self._origin.server

        def is_present(server: ServerId) -> bool:
            is_in_reach = not reach.is_steady() or reach.is_settled_with(server)
            is_full = server in self._origin.backlogs.full
            return server == here or (reach.is_known(server) and is_in_reach and not is_full)

        backlog, next_serial = self._origin.backlog, self._origin.next_serial(sequence)
        return Known(
            here,
            cache(is_present),
            lambda server: self._numbers[sequence][server] + 1,
            cache(partial(backlog.unserved, sequence, next_serial=next_serial)),
            backlog.unsettled_since(sequence, next_serial=next_serial),
            next_serial,
        )

    # -- what servers are told

    def _tell(self, sequence: int, cause: ServerId, all_told: list[Told], reach: Reach) -> None:
        """Tell servers whom others serve, and post to them once more what they serve only since.

        `cause`: who has said something, or is out of reach. It is posted nothing for that.
        """
        for told in all_told:
            for begin in range(0, max(len(told.added), len(told.removed), 1), HASHES_LIMIT):
                self._numbers[sequence][told.server] += 1
                elsewhere = Elsewhere(
                    sequence,
                    self._origin.start,
                    told.first_serial,
                    self._numbers[sequence][told.server],
                    told.version,
                    b"".join(told.added[begin : begin + HASHES_LIMIT]),
                    b"".join(told.removed[begin : begin + HASHES_LIMIT]),
                )
                if told.server == self._origin.server:
                    self._foreign.decide(told.server, elsewhere)
                else:
                    self._post(told.server, elsewhere)
        since: dict[ServerId, int] = {}
        for told in all_told:
            if told.removed and told.server != cause:
                since.setdefault(told.server, told.first_serial)
        for server, first_serial in since.items():
            for position in self._origin.backlog.unsettled_from(sequence, first_serial):
                self._give_again(position, server, reach)

    def _give_again(self, position: int, server: ServerId, reach: Reach) -> None:
        """A parcel that is not settled is for more who are below a server, if it has it already."""
        if server == self._origin.server:
            parcel, before = self._origin.once_more(position)
            self._origin.logged_again(position, self.log_again(parcel, before, reach))
            self.logged(position, parcel)
        else:
            self._post_again(position, server)

    def _post_again(self, position: int, server: ServerId) -> None:
        if self._origin.backlog.has_confirmed(position, server):
            self._leave(self._origin.post_again(position, server))
