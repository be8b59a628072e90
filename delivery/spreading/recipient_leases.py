"""Leases of foreign processes: the origin assigns each to one of the servers that have it below a target.

    Claims --> leases --Elsewhere--> each server for which something is different
    Confirm, with somebody left out, of before the last Elsewhere --> the parcel once more
    a server has somebody no more, or is out of reach --> what it has not confirmed once more, to the next one

A server leaves a process out of a parcel in two cases. If the origin has not decided about the process, the decision is
on its way to the server, and the parcel follows. If it is the turn of another server, that server has confirmed the
parcel and serves the process, or will confirm it. Before that confirmation it says if it does not have the process any
more. A server with claims is therefore posted every parcel, below or not, until it claims no process.

This server is a claimant, too. It gets decisions at once.

See docs/protocol-messages.md, "Who is below" (processes that nobody owns), and
docs/decisions/0031-foreign-processes-served-once.md.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from functools import cache, partial

from pyroaring import BitMap

from delivery.arrival.log_writer import LogWriter
from delivery.arrival.recipient_claims import RecipientClaims
from delivery.model.agenda import Agenda, Work
from delivery.model.reach import Reach
from delivery.origin.origin import MessageOrigin
from delivery.origin.unsettled import Here
from delivery.spreading.lease_table import LeaseNotice, LeaseTable, SequenceView
from delivery.wire.posts import HASHES_LIMIT, Claims, Confirm, Elsewhere, Parcel, PostMessage
from namegraph import PeerLetter, ServerId

CLAIMED_LIMIT = 1_000_000
"""Most processes claimed by one server, over all sequences: claims are in memory."""


class RecipientLeases:
    """Leases of all sequences of this server."""

    def __init__(
        self,
        origin: MessageOrigin,
        foreign: RecipientClaims,
        writer: LogWriter,
        agenda: Agenda,
        *,
        post: Callable[[ServerId, PostMessage], None],
        leave: Callable[[Iterable[PeerLetter]], None],
    ) -> None:
        """Wire the parts. `post`: posts a message to a server. `leave`: sends posts with the step."""
        self._origin, self._foreign, self._writer, self._agenda = origin, foreign, writer, agenda
        self._post, self._leave = post, leave
        self._assignments: dict[int, LeaseTable] = defaultdict(LeaseTable)
        """Leases by sequence."""
        self._numbers: dict[int, Counter[ServerId]] = defaultdict(Counter)
        """Number of the last `Elsewhere` of a sequence to each server."""
        self._view = ""
        """View in which `look` last checked the servers."""
        self._full: frozenset[ServerId] = frozenset()
        """Receivers whose backlog was full then. They count as out of reach."""
        self._has_begun = False
        self.claimed_limit = CLAIMED_LIMIT
        agenda.mark(Work.LEASES)

    # -- parcels of this server

    def servers_for(self, parcel: Parcel, below: list[ServerId], reach: Reach) -> list[ServerId]:
        """Return the servers to which to post a new parcel: those below, and those with claims."""
        if parcel.sequence not in self._assignments:
            return below
        claimants = self._assignments[parcel.sequence].claimants()
        full = self._origin.backlogs.full
        known = [server for server in claimants if server != self._origin.server and reach.is_known(server)]
        return list(dict.fromkeys([*below, *(server for server in known if server not in full)]))

    def left_out(self, parcel: Parcel, reach: Reach) -> BitMap:
        """Return the processes that this server leaves out of its own parcel. The caller must not change the bitmap."""
        found = self._left_out(parcel, reach)
        claims = self._foreign.take_claims()
        for _, each in claims:
            self._claimed(self._origin.server, each, reach)
        return self._left_out(parcel, reach) if claims else found

    def _left_out(self, parcel: Parcel, reach: Reach) -> BitMap:
        foreign = self._writer.foreign(parcel.targets, reach)
        return self._foreign.left_out(self._origin.server, parcel, foreign)

    def log_again(self, parcel: Parcel, before: int, reach: Reach) -> Here:
        """Log a parcel of this server again, for new recipients. `before`: number of its audience so far."""
        left_out, source = self.left_out(parcel, reach), self._origin.server
        audience = self._writer.append_late(parcel, before, reach, left_out, source=source)
        return self._writer.here(audience, parcel.targets, reach)

    def logged(self, position: int, parcel: Parcel) -> None:
        """Note that a parcel of this server is logged here, except for processes that other servers serve."""
        here = self._origin.server
        _, number = self._foreign.followed(here, parcel.sequence)
        self._origin.backlog.note_followed(position, here, number)

    # -- claims and confirmations

    def claimed(self, sender: ServerId, claims: Claims, reach: Reach) -> bool:
        """Handle the claims of a server. Return False if a correct server cannot send them."""
        if claims.start != self._origin.start:
            # Claims to an earlier start are made again.
            return True
        if self._origin.sequences.is_forgotten(claims.sequence):
            return True
        if not self._origin.backlog.is_receiver(claims.sequence, sender):
            return False
        self._leave(self._origin.posting.found(claims.sequence, [sender], reach))
        if self._foreign.is_believed(sender):
            self._claimed(sender, claims, reach)
        else:
            # The server serves all its processes, whether or not other servers do.
            self._tell(claims.sequence, sender, [LeaseNotice(sender, claims.version, 0, (), ())], reach)
        return True

    def _claimed(self, server: ServerId, claims: Claims, reach: Reach) -> None:
        room = self.claimed_limit - sum(each.count(server) for each in self._assignments.values())
        known = self._known(claims.sequence, reach)
        told = self._assignments[claims.sequence].claim(server, claims, known, room=room)
        self._agenda.mark(Work.LEASES)
        self._tell(claims.sequence, server, told, reach)

    def confirming(self, sender: ServerId, confirm: Confirm, reach: Reach) -> None:
        """Forget the claims of a server whose confirmation follows no decision of this start.

        The caller must call this before it handles the confirmation.
        """
        if confirm.assigner != self._origin.start and confirm.sequence in self._assignments:
            self._forget(confirm.sequence, sender, reach)

    def confirmed(self, sender: ServerId, position: int, confirm: Confirm) -> None:
        """Handle the confirmation of an unsettled parcel that left out a process."""
        last = self._numbers[confirm.sequence][sender]
        if confirm.assigner != self._origin.start or confirm.number < last:
            self._post_again(position, sender)

    def forget_sequence(self, number: int) -> None:
        """Forget the claims in a sequence that the origin has forgotten."""
        self._assignments.pop(number, None)
        self._numbers.pop(number, None)
        self._foreign.forget_sequence(self._origin.server, number)

    def forget(self, server: ServerId, reach: Reach) -> None:
        """Forget all claims of a server that has started again."""
        for sequence in list(self._assignments):
            self._forget(sequence, server, reach)

    def _forget(self, sequence: int, server: ServerId, reach: Reach) -> None:
        told = self._assignments[sequence].forget(server, self._known(sequence, reach))
        self._tell(sequence, server, told, reach)

    # -- servers in reach

    def look(self, reach: Reach) -> None:
        """Let other servers serve the processes of servers that are out of reach in the present view.

        After a start, processes that were left out of unsettled parcels are decided anew.
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
        if self._assignments:
            # The view may change in any step.
            self._agenda.mark(Work.LEASES)

    def move(self, reach: Reach) -> None:
        """Let other servers serve the processes of servers that are out of reach, or not known any more.

        A server that comes back serves the processes that no other server claims.
        """
        for sequence, assignments in self._assignments.items():
            known = self._known(sequence, reach)
            for server in assignments.claimants():
                if not known.is_present(server):
                    self._tell(sequence, server, assignments.move(server, known), reach)

    def _known(self, sequence: int, reach: Reach) -> SequenceView:
        here = self._origin.server

        def is_present(server: ServerId) -> bool:
            is_in_reach = not reach.is_steady() or reach.is_settled_with(server)
            is_full = server in self._origin.backlogs.full
            return server == here or (reach.is_known(server) and is_in_reach and not is_full)

        backlog, next_serial = self._origin.backlog, self._origin.sequences.next_serial(sequence)
        return SequenceView(
            here,
            cache(is_present),
            lambda server: self._numbers[sequence][server] + 1,
            cache(partial(backlog.unserved, sequence, next_serial=next_serial)),
            backlog.unsettled_since(sequence, next_serial=next_serial),
            next_serial,
        )

    # -- decisions for servers

    def _tell(self, sequence: int, cause: ServerId, all_told: list[LeaseNotice], reach: Reach) -> None:
        """Tell servers about processes served elsewhere, and post them again the parcels that they serve only now.

        `cause`: server that made a claim, or is out of reach. It is not posted parcels again.
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
        """Serve an unsettled parcel to further processes of a server, if the server has the parcel."""
        if server == self._origin.server:
            parcel, before = self._origin.once_more(position)
            self._origin.logged_again(position, self.log_again(parcel, before, reach))
            self.logged(position, parcel)
        else:
            self._post_again(position, server)

    def _post_again(self, position: int, server: ServerId) -> None:
        if self._origin.backlog.has_confirmed(position, server):
            self._leave(self._origin.post_again(position, server))
