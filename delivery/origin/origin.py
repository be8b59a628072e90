"""The origin of messages: it accepts and numbers them, and posts each message to every server below.

    Send --> open parcel --CloseParcels--> unsettled --all to whom it was posted have confirmed--> settled
                                             |   ^
                                             v   | a server that is found is posted everything from the oldest
                                            posted   parcel on that is not settled, before anything newer

If a server lacks very many parcels, steps post them in slices. The event that showed the server (a confirmation, or a
new parcel) waits until the rest is short, and counts as not handled: after a crash the slices begin again. A server
whose lane begins anew is posted slices, too; their progress is durable.

No server knows all servers below at once. The origin knows the homes of the members of its own groups. Each of these
servers names the next ones when it confirms, and the servers to which paths from it were lost. Take the path from the
target to a member at the time of acceptance: the first server on it that was not posted to follows a server that names
it. A settled parcel has therefore reached all members, whatever changes meanwhile.

A server without recipients for a parcel is posted the stub of each later parcel of the sequence, until it wants one.
Before it is posted any parcel in full again, it is posted in full all parcels of which it has an unconfirmed stub. No
parcel overtakes a wanted one. A confirmation of a stub counts only until the parcel itself was posted.

The home of the addressed group is the origin: the coordinator of a centralised ordering algorithm. All messages to one
target set are one sequence, with serials that rise by one, and every lane is in order.

See docs/protocol-messages.md, "Who is below" and "Accepted, settled, sent again".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import takewhile

from msgspec import structs

from delivery.model.agenda import Agenda, Work
from delivery.model.reach import Reach
from delivery.model.uptime import Uptime
from delivery.model.words import Kept
from delivery.origin.message_progress import MessageProgress
from delivery.origin.parcel_builder import ParcelBuilder, WaitingMessage
from delivery.origin.parcel_posting import ParcelPosting
from delivery.origin.parcel_table import ParcelTable
from delivery.origin.sequence_table import SequenceRow, SequenceTable
from delivery.origin.servers_below import (
    ONWARD_TAKEN_LIMIT,
    bounded_onward,
    is_apart,
    own_onward,
    servers_below,
)
from delivery.origin.settlement import Settlement
from delivery.origin.unsettled import IDLE, NO_VIEW, Here, ParcelRow, ParcelState, Sequence
from delivery.wire.post_lanes import Postage
from delivery.wire.posts import Confirm, Parcel, Want, decode_stored, encode
from namegraph import NUMBERS, DurableMap, DurableState, PeerLetter, ServerId, TargetSet, packed

UNCLAIMED_BYTES_LIMIT = 256 * 1024 * 1024
"""Memory limit of parcels that wait only for a view, or for an older parcel. All messages are refused beyond it."""

START_CHANCES = 2**16
"""Number of values of the random part of a start number, which is its last bits."""


class MessageOrigin:
    """Messages of all sequences of this server."""

    def __init__(
        self,
        durable: DurableState,
        server: ServerId,
        post: Postage,
        running: Uptime,
        agenda: Agenda,
        kept: Kept = Kept.DURABLE,
    ) -> None:
        self.kept, self._agenda = kept, agenda
        self.server = server
        self._post = post
        rows = DurableMap(durable, "sequence", NUMBERS, packed(SequenceRow))
        self.parcels = ParcelTable(DurableMap(durable, "parcel", NUMBERS, packed(ParcelRow)), post, running, agenda)
        self.backlog, self.backlogs = self.parcels.backlog, self.parcels.backlogs
        self.sequences = SequenceTable(durable, rows, self.parcels.states, server, running, agenda)
        self.messages = MessageProgress(self.parcels, self.sequences, kept)
        self.posting = ParcelPosting(
            durable, server, self.parcels, self.sequences, running, agenda, ids=self.messages.ids
        )
        self.settling = Settlement(self.parcels, self.sequences, position_of=self.messages.position_of)
        self.open = ParcelBuilder()
        self.start = 0
        """Number of this start of the server, contained in the ids of the messages that it accepts."""

    # -- messages become parcels

    def close(
        self, *, view_number: int, at: float, is_apart: Callable[[str], bool]
    ) -> Iterator[tuple[Parcel, list[WaitingMessage]]]:
        """Yield the parcels of all waiting messages, each with these messages. `at`: the running time.

        `is_apart`: true of a source whose messages share no parcel with those of other sources.
        """
        for targets, quality, parcels in self.open.drain(is_apart):
            number = self.sequences.number_for(targets, quality)
            row = self.sequences.rows[number]
            row.used_at = at
            for together in parcels:
                messages = tuple(waiting.send.message for waiting in together)
                named = (number, self.start, row.next_serial, row.targets, row.quality)
                parcel = Parcel(*named, messages, kept=self.kept, assigner=self.start, accepted_in=view_number)
                yield parcel, together
                row.next_serial += len(together)
            row.start = self.start
            self.sequences.rows.touch(number)
            if not self.parcels.states.get(number, IDLE).unsettled:
                self.sequences.note_idle(number)

    def is_crowded(self, targets: TargetSet) -> bool:
        """True if a message would make another sequence of several targets, or with exceptions, busy, and many are.

        The method may be called while a step runs in another thread.
        """
        return self.sequences.is_crowded(targets, coming=self.open.sets)

    def servers_below(self, parcel: Parcel, reach: Reach) -> list[ServerId]:
        """Return the other servers that are known to be below a new parcel's targets."""
        onward = self.parcels.states.get(parcel.sequence, IDLE).onward
        return servers_below(parcel.targets, onward, reach, here=self.server)

    def is_told(self, number: int, targets: TargetSet, reach: Reach) -> bool:
        """True if all servers below some targets have named their downstream servers in a sequence."""
        onward = self.parcels.states.get(number, IDLE).onward
        return all(server in onward for server in servers_below(targets, onward, reach, here=self.server))

    def begin(
        self,
        parcel: Parcel,
        together: list[WaitingMessage],
        servers: list[ServerId],
        reach: Reach,
        *,
        position: int,
        here: Here,
        at: float,
    ) -> list[PeerLetter]:
        """Post a parcel that is in the log. Return the posts to send. `at`: the running time."""
        names = (parcel.sequence, parcel.start, parcel.first_serial)
        row = ParcelRow(*names, len(together), here.audience, here.mailboxes, {})
        row.is_apart, row.accepted_at = is_apart(parcel.targets, reach), at
        row.view = reach.view() if reach.is_steady() else NO_VIEW
        row.note_leaving_out(self.server, is_so=here.leaves_out)
        self.parcels.rows[position] = row
        if not self._agenda.is_timed(Work.EXPIRY):
            self._agenda.mark(Work.EXPIRY)
        self.parcels.by_serial[row.sequence, row.start, row.first_serial] = position
        if parcel.sequence not in self.parcels.states:
            self.parcels.states[parcel.sequence] = Sequence()
        self.sequences.note_busy(parcel.sequence)
        self.parcels.states[parcel.sequence].begin(position, servers)
        self.settling.begin(position, parcel, together)
        onward = self.parcels.states[parcel.sequence].onward
        if self.backlogs.full.isdisjoint(servers) and not all(server in onward for server in servers):
            size = self.backlogs.memory_of(len(self._post.parcels[position]))
            self.backlogs.untold.add(parcel.sequence, size)
        return self.posting.found(parcel.sequence, servers, reach)

    # -- servers below

    def catch_up_for_confirm(self, sender: ServerId, confirm: Confirm, reach: Reach) -> tuple[list[PeerLetter], bool]:
        """Post a slice, as `catch_up` does, to the servers that a confirmation names."""
        sequence = self.parcels.states.get(confirm.sequence, IDLE)
        if self.posting.is_short_of(sequence):
            return [], True
        servers = self._note_below_before(sender, confirm, reach)
        position = self.parcels.by_serial.get((confirm.sequence, confirm.start, confirm.first_serial))
        if position is not None and position not in sequence.settled and sender in self.parcels.rows[position].posted:
            targets = self.sequences.targets_of(confirm.sequence)
            servers += [*bounded_onward(confirm.onward, reach), *own_onward(targets, reach, here=self.server)]
        return self.posting.catch_up(confirm.sequence, servers, reach)

    def catch_up_for_open(self, reach: Reach) -> tuple[list[PeerLetter], bool]:
        """Post a slice, as `catch_up` does, to the servers below the messages that wait for the next parcels."""
        leaving: list[PeerLetter] = []
        for targets, quality in self.open.kinds():
            number = self.sequences.number_of(targets, quality)
            sequence = self.parcels.states.get(number, IDLE)
            if not self.posting.is_short_of(sequence):
                below = servers_below(targets, sequence.onward, reach, here=self.server)
                letters, is_done = self.posting.catch_up(number, below, reach)
                leaving += letters
                if not is_done:
                    return leaving, False
        return leaving, True

    def confirm(self, sender: ServerId, confirm: Confirm, reach: Reach) -> tuple[bool, list[int], list[PeerLetter]]:
        """Handle a confirmation: a server has a parcel in its log, or knows that it does not get it.

        Only some of the servers that it names count, within limits. Return False if a correct server cannot send it,
        the positions of parcels that it may settle, and the posts to send.
        """
        if confirm.sequence not in self.sequences:
            return self.sequences.is_forgotten(confirm.sequence), [], []
        sequence = self.parcels.states.get(confirm.sequence, IDLE)
        position = self.parcels.by_serial.get((confirm.sequence, confirm.start, confirm.first_serial))
        before = self._found_before(sender, confirm, reach)
        if position is None or position in sequence.settled:
            # A settled parcel was posted again, after a server began its lanes anew.
            return True, [], before
        row = self.parcels.rows[position]
        if sender not in row.posted:
            return False, [], []
        count = row.posted[sender]
        confirmed: list[int] = []
        if count == ParcelState.LOST:
            until = takewhile(lambda each: each <= position, sequence.unsettled)
            confirmed = [each for each in until if self.parcels.rows[each].posted.get(sender) == ParcelState.LOST]
        elif count < 0 and confirm.round == row.round and confirm.is_of_stub == (count == ParcelState.STUB):
            confirmed = [position]
            if confirm.takes_stubs and not confirm.mailboxes:
                sequence.stubs.add(sender)
            row.note_leaving_out(sender, is_so=confirm.has_left_out)
            if confirm.assigner == self.start:
                self.backlog.note_followed(position, sender, confirm.number)
            if confirm.is_remembered:
                row.remembering = tuple(sorted({*row.remembering, sender}))
        for each in confirmed:
            self._note_confirmed(each, sender, confirm, reach)
        onward = sequence.onward[sender] = bounded_onward(confirm.onward, reach)
        targets = self.sequences.targets_of(confirm.sequence)
        if confirm.sequence in self.backlogs.untold and self.is_told(confirm.sequence, targets, reach):
            self.backlogs.untold.remove(confirm.sequence)
        row.is_apart |= not row.is_of_copy and is_apart(targets, reach)
        letters = self.posting.found(confirm.sequence, [*onward, *own_onward(targets, reach, here=self.server)], reach)
        return True, confirmed or [position], [*before, *letters]

    def _found_before(self, sender: ServerId, confirm: Confirm, reach: Reach) -> list[PeerLetter]:
        """Post all unsettled parcels to servers that may have been below: as stubs, because they may have no
        recipients.

        Paths do not move to a server that is out of this view: its arcs are suspended. If it was below, another round
        follows.
        """
        servers = self._note_below_before(sender, confirm, reach)
        return self.posting.found(confirm.sequence, servers, reach) if servers else []

    def _note_below_before(self, sender: ServerId, confirm: Confirm, reach: Reach) -> list[ServerId]:
        """Return the servers that may have been below. Those that were never posted to will get stubs."""
        sequence = self.parcels.states.get(confirm.sequence, IDLE)
        if sender not in sequence.receivers:
            return []
        servers = [server for server in confirm.onward_before if reach.is_settled_with(server)][:ONWARD_TAKEN_LIMIT]
        sequence.stubs.update(server for server in servers if server not in sequence.receivers)
        return servers

    def _note_confirmed(self, position: int, sender: ServerId, confirm: Confirm, reach: Reach) -> None:
        row = self.parcels.rows[position]
        self.backlogs.note_confirmed(sender)
        self.parcels.mark(position, sender, 0 if row.posted[sender] == ParcelState.LOST else confirm.mailboxes)
        if not row.is_of_copy:
            # This server does not wait for a removed server, even if another server still has memberships with it.
            row.is_apart |= any(map(reach.is_known, confirm.apart))
            # Two servers that confirmed it in different views may both miss the suspended arcs that cut one of them
            # off. The first had none yet. The other does not know the members whose parcels are on the way.
            row.is_apart |= row.view != reach.view()
        self.parcels.rows.touch(position)

    def post_again(self, position: int, server: ServerId) -> list[PeerLetter]:
        """Post a parcel again in its round to a server that has confirmed it, for the processes that the server left
        out."""
        row = self.parcels.rows[position]
        self.parcels.mark(position, server, ParcelState.UNCONFIRMED_AGAIN)
        leaving = self.posting.end_stubs(server, self.parcels.states[row.sequence])
        again, _ = self.once_more(position)
        return [*leaving, self._post.send_inline(server, encode(again))]

    def logged_again(self, position: int, here: Here) -> None:
        """Store the larger audience of a parcel at this server."""
        row = self.parcels.rows[position]
        row.audience, row.mailboxes = here.audience, here.mailboxes
        row.note_leaving_out(self.server, is_so=here.leaves_out)
        self.parcels.rows.touch(position)

    def want(self, sender: ServerId, want: Want) -> tuple[bool, list[PeerLetter]]:
        """Handle a `Want`: a server has recipients for a parcel of which it was posted the stub.

        Return False if a correct server cannot send it, and the posts to send. They include all later parcels of which
        the server has only the stub.
        """
        if want.sequence not in self.sequences:
            return self.sequences.is_forgotten(want.sequence), []
        sequence = self.parcels.states.get(want.sequence, IDLE)
        position = self.parcels.by_serial.get((want.sequence, want.start, want.first_serial))
        if position is None or self.parcels.rows[position].posted.get(sender) != ParcelState.STUB:
            # The parcel was given up for the server, or posted in full since.
            return True, []
        return True, self.posting.end_stubs(sender, sequence)

    def begin_round(self, position: int, parcel: Parcel, reach: Reach, here: Here) -> list[PeerLetter]:
        """Begin another round of a parcel, as the servers that were apart are back. Return the posts to send."""
        row = self.parcels.rows[position]
        row.round, row.view = parcel.round, reach.view()
        row.is_apart = is_apart(parcel.targets, reach)
        self.logged_again(position, here)
        below = filter(reach.is_known, own_onward(parcel.targets, reach, here=self.server))
        again = filter(reach.is_known, row.posted)
        posted = dict.fromkeys(below, ParcelState.UNCONFIRMED) | dict.fromkeys(again, ParcelState.UNCONFIRMED_AGAIN)
        row.posted = {}
        for server, count in (posted | dict.fromkeys(row.lost, 0)).items():
            self.parcels.mark(position, server, count)
        encoded, sequence = encode(parcel), self.parcels.states[row.sequence]
        sequence.receivers.update(row.posted)
        leaving: list[PeerLetter] = []
        for server in row.posted:
            if server not in row.lost:
                leaving += self.posting.end_stubs(server, sequence)
                if not self.posting.waits_its_turn(server, position):
                    leaving.append(self._post.send_inline(server, encoded))
        return leaving

    def once_more(self, position: int) -> tuple[Parcel, int]:
        """Return an unsettled parcel with its present round, and the number of its audience at this server."""
        row = self.parcels.rows[position]
        parcel = decode_stored(self._post.parcels[position])
        return structs.replace(parcel, round=row.round, assigner=self.start), row.audience

    def removed(self, server: ServerId) -> None:
        """Handle the removal of a server: parcels are no longer posted to servers because it named them."""
        self.posting.end_again(server)
        for sequence in self.parcels.states.values():
            sequence.posted.discard(server)
            sequence.named.discard(server)
            sequence.catching_up.pop(server, None)
            sequence.made_whole.pop(server, None)
            sequence.onward = {
                teller: tuple(told for told in onward if told != server)
                for teller, onward in sequence.onward.items()
                if teller != server
            }

    def begin_start(self, start: int) -> int:
        """Begin a start of this server and return its number: `start`, or a higher number if that would not rise.

        Message ids contain the number, so a server restored from an old backup gives no id again. The number also tells
        servers that logged a parcel which of two parcels was accepted later.
        """
        of_parcels = (row.start for row in self.parcels.rows.values())
        last = max((0, *(row.start for row in self.sequences.rows.values()), *of_parcels))
        # The random part of the number stays.
        self.start = start if start > last else last + 1 + start % START_CHANCES
        return self.start

    def go_back(self) -> None:
        """Mark the parcels of the old backup from which this server was restored, as it has just been told.

        Unsettled parcels are posted again in their first form, which servers that have them pass over. Parcels accepted
        in this start are in no backup.
        """
        for position, row in self.parcels.rows.items():
            if row.start != self.start:
                row.round, row.is_apart, row.is_of_copy = 0, False, True
                self.parcels.rows.touch(position)

    # -- lanes that begin anew
