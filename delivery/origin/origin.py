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

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import takewhile
from typing import NamedTuple

from msgspec import Struct, structs

from delivery.model.agenda import Agenda, Work
from delivery.model.events import Answer, Settled
from delivery.model.reach import Reach
from delivery.model.uptime import Uptime
from delivery.model.words import Kept, Quality
from delivery.origin.backlogs import Backlogs
from delivery.origin.parcel_builder import ParcelBuilder, WaitingMessage, asked_to_be_told
from delivery.origin.servers_below import (
    ONWARD_TAKEN_LIMIT,
    UNKNOWN_LIMIT,
    bounded_onward,
    is_apart,
    own_onward,
    servers_below,
)
from delivery.origin.unsettled import (
    IDLE,
    NEVER_CONFIRMED,
    NO_VIEW,
    Backlog,
    Here,
    ParcelKey,
    ParcelRow,
    ParcelState,
    Progress,
    Sequence,
)
from delivery.wire.post_lanes import Postage
from delivery.wire.posts import (
    NUMBER_LIMIT,
    PARCEL_MESSAGES_LIMIT,
    Confirm,
    Over,
    Parcel,
    Stub,
    Want,
    decode_stored,
    encode,
    message_id,
    read_message_id,
)
from namegraph import (
    NUMBERS,
    TEXTS,
    DurableMap,
    DurableState,
    PeerLetter,
    Reason,
    ServerId,
    Slices,
    TargetSet,
    in_slices,
    is_plain,
    only,
    packed,
    refuse,
)

UNCLAIMED_BYTES_LIMIT = 256 * 1024 * 1024
"""Memory limit of parcels that wait only for a view, or for an older parcel. All messages are refused beyond it."""

SETTLED_BYTES_LIMIT = 16 * 1024 * 1024
"""Memory limit of settled parcels behind an older one of their sequence, kept for a receiver whose lane begins anew."""

PLAIN_SEQUENCES_LIMIT = 10_000
"""Most remembered idle sequences of a single target without exceptions: one for each group in use."""

OTHER_SEQUENCES_LIMIT = 1_000
"""Most remembered idle sequences of several targets, or with exceptions."""

BUSY_SEQUENCES_LIMIT = 10_000
"""Most sequences with messages that not all servers have."""

CROWD_LIMIT = 1_000
"""Busy sequences of several targets, or with exceptions, beyond which the shell delays new ones."""

SEQUENCE_SECONDS = 7 * 86_400.0
"""Running time after its last message for which a sequence is remembered."""

FORGOTTEN_OF_A_STEP = 200
"""Most sequences that one step forgets: as many as a step can make."""

POSTED_AT_ONCE = 500
"""Most parcels that one step posts to servers that are found late: some ten milliseconds. Later steps post the rest."""

START_CHANCES = 2**16
"""Number of values of the random part of a start number, which is its last bits."""


class _SequenceRow(Struct, array_like=True):
    """A sequence: one target set at one quality."""

    targets: TargetSet
    quality: Quality
    next_serial: int
    """Serial of the next message."""
    start: int = 0
    """Start in which the last message was accepted."""
    used_at: float = 0.0
    """Running time of the last message."""

    @property
    def is_plain(self) -> bool:
        """True if there is a single target without exceptions."""
        return is_plain(self.targets)


class Forgotten(NamedTuple):
    """A sequence that the origin has forgotten."""

    number: int
    receivers: tuple[ServerId, ...] | None
    """Servers that had parcels of the sequence, sorted.

    None for a sequence from before the start of the origin: any server may be one.
    """
    over: Over
    """Post that announces the end of the sequence."""


class NotPosted(NamedTuple):
    """A parcel that a receiver does not get, because too much waits for the receiver."""

    position: int
    receiver: ServerId
    encoded: bytes
    ids: list[str]
    """Ids of the messages in the parcel."""


class MessageOrigin:
    """All sequences of this server."""

    def __init__(
        self,
        durable: DurableState,
        server: ServerId,
        post: Postage,
        running: Uptime,
        agenda: Agenda,
        kept: Kept = Kept.DURABLE,
    ) -> None:
        self.kept, self._running, self._agenda = kept, running, agenda
        self.server = server
        self._post = post
        self._rows = DurableMap(durable, "sequence", NUMBERS, packed(_SequenceRow))
        self._parcels = DurableMap(durable, "parcel", NUMBERS, packed(ParcelRow))
        self._numbers = {(row.targets, row.quality): number for number, row in self._rows.items()}
        self._alone = {row.targets[0].name: number for number, row in self._rows.items() if len(row.targets) == 1}
        """Number of a sequence for each single target, with exceptions or without: exceptions change no server
        below."""
        self._ends = DurableMap(durable, "sequence ends", TEXTS, packed(tuple[int, int]))
        """Last sequence number, and first serial of new sequences: one value, without a key.

        No sequence number is given again. The serial is above those of all forgotten sequences, so no message id is
        given again.
        """
        self._last_number, self._first_serial = self._ends.get("", (max(self._rows, default=0), 1))
        self._last_number_at_start = self._last_number
        self.limits = {True: PLAIN_SEQUENCES_LIMIT, False: OTHER_SEQUENCES_LIMIT}
        """Limits of idle sequences: True for plain ones, False for other ones."""
        self._sequences: dict[int, Sequence] = {}
        self.backlog = Backlog(self._parcels, self._sequences)
        self._by_serial: dict[ParcelKey, int] = {}
        """Positions by sequence, start and first serial."""
        self.open = ParcelBuilder()
        self._waiting: dict[int, list[tuple[int, str]]] = {}
        """Tickets and message ids of callers waiting for a parcel to settle, by log position."""
        self._to_release: dict[int, None] = {}
        """Positions of parcels in memory that may be settled and in no lane."""
        self.backlogs = Backlogs(running, agenda)
        """Parcels that receivers have not confirmed, or not taken out of their lanes."""
        self._settled_bytes = 0
        """Bytes of settled parcels that stay behind an older one of their sequence."""
        self.start = 0
        """Number of this start of the server, contained in the ids of the messages that it accepts."""
        self.backlog_bytes = 0
        self.settled_limit_bytes = SETTLED_BYTES_LIMIT
        self.posted_at_once = POSTED_AT_ONCE
        self._spent, self._spent_in_step = 0, 0
        """Parcels that a step has posted to servers that were found late, and the number of that step."""
        self._not_posted: list[NotPosted] = []
        """Parcels not posted since the last `take_not_posted`."""
        self._learn_parcels()
        self._again = DurableMap(durable, "post again", TEXTS, packed(int))
        """Position through which unsettled parcels were posted again, by server whose lane has begun anew."""
        self._left_again = self._learn_again()
        """Positions of parcels still to be posted to such a server, sorted. Newer parcels wait behind them."""
        self._idle: dict[bool, dict[int, None]] = {True: {}, False: {}}
        """Idle sequences, the least recently used first: True for plain ones, False for other ones."""
        self._others = sum(not row.is_plain for row in self._rows.values())
        """Number of sequences of several targets, or with exceptions."""
        for number, of in sorted(self._rows.items(), key=lambda each: (each[1].used_at, each[0])):
            if number not in self._sequences:
                self._idle[of.is_plain][number] = None
        agenda.mark(Work.SEQUENCES)
        if self._left_again:
            agenda.mark_at_once(Work.AGAIN)

    @property
    def _room(self) -> int:
        """Number of parcels that this step may still post to servers that are found late."""
        return self.posted_at_once - (self._spent if self._spent_in_step == self._running.step_count else 0)

    def _spend_room(self) -> None:
        is_first = self._spent_in_step != self._running.step_count
        self._spent, self._spent_in_step = 1 if is_first else self._spent + 1, self._running.step_count

    def _learn_parcels(self) -> None:
        """Build the in-memory state of the sequences from the rows of parcels."""
        for position in sorted(self._parcels):
            row = self._parcels[position]
            sequence = self._sequences.setdefault(row.sequence, Sequence())
            sequence.unsettled.append(position)
            if row.is_settled:
                sequence.settled.add(position)
            sequence.receivers.update(row.posted)
            # A newer parcel would otherwise overtake one of these that the server wants.
            sequence.stubs |= {server for server, count in row.posted.items() if count == ParcelState.STUB}
            self._by_serial[row.sequence, row.start, row.first_serial] = position

    @property
    def unsettled(self) -> list[int]:
        """Positions of the parcels that are unsettled, or wait for an older parcel, sorted."""
        return sorted(self._parcels)

    def oldest_needed(self) -> int | None:
        """Return the position of the oldest parcel that is in some lane, or may still be posted.

        None if there is none.
        """
        # The dict has the order of positions.
        return next(iter(self._post.parcels), None)

    def keep(self, position: int, encoded: bytes) -> None:
        """Keep a parcel in memory until it is settled."""
        self._post.parcels[position] = encoded
        self.backlog_bytes += len(encoded)
        row = self._parcels.get(position)
        waiting = [] if row is None else [server for server, count in row.posted.items() if count < 0]
        for server in {*waiting, *self._post.receivers_of(position)}:
            self.backlogs.add(server, position, len(encoded))
        if row is None:
            self._let_go(position)
        elif position in self._sequences[row.sequence].settled:
            self._settled_bytes += len(encoded)

    def _mark(self, position: int, server: ServerId, count: int) -> None:
        """Store the count of mailboxes that get a parcel at a server, or the `ParcelState`."""
        self._parcels[position].posted[server] = count
        self._parcels.touch(position)
        if count < 0:
            self.backlogs.add(server, position, len(self._post.parcels[position]))
        else:
            self._uncount(position, server)

    def _uncount(self, position: int, server: ServerId) -> None:
        """Stop counting a parcel for a server that has it, or does not get it, once it is not in the lane there."""
        if server not in self._post.receivers_of(position):
            self.backlogs.remove(server, position)

    @property
    def unclaimed_bytes(self) -> int:
        """Bytes of parcels in memory that are counted for no receiver."""
        return self.backlog_bytes - self.backlogs.shared_bytes

    # -- messages become parcels

    def close(
        self, *, view_number: int, at: float, is_apart: Callable[[str], bool]
    ) -> Iterator[tuple[Parcel, list[WaitingMessage]]]:
        """Yield the parcels of all waiting messages, each with these messages. `at`: the running time.

        `is_apart`: true of a source whose messages share no parcel with those of other sources.
        """
        for targets, quality, parcels in self.open.drain(is_apart):
            number = self._numbers.get((targets, quality))
            if number is None:
                self._last_number += 1
                number = self._numbers[targets, quality] = self._last_number
                self._ends[""] = (self._last_number, self._first_serial)
                self._rows[number] = _SequenceRow(targets, quality, self._first_serial)
                if not self._agenda.is_timed(Work.UPTIME):
                    self._agenda.mark(Work.UPTIME)
                if len(targets) == 1:
                    self._alone[targets[0].name] = number
                self._others += not is_plain(targets)
            row = self._rows[number]
            row.used_at = at
            for together in parcels:
                messages = tuple(waiting.send.message for waiting in together)
                named = (number, self.start, row.next_serial, row.targets, row.quality)
                parcel = Parcel(*named, messages, kept=self.kept, assigner=self.start, accepted_in=view_number)
                yield parcel, together
                row.next_serial += len(together)
            row.start = self.start
            self._rows.touch(number)
            if not self._sequences.get(number, IDLE).unsettled:
                self._is_idle(number)

    def _is_idle(self, number: int) -> None:
        """Note that all parcels of a sequence are settled, as the most recently used idle sequence."""
        row = self._rows[number]
        idle = self._idle[row.is_plain]
        idle.pop(number, None)
        idle[number] = None
        if len(idle) > self.limits[row.is_plain]:
            self._agenda.mark(Work.SEQUENCES)
        self._agenda.mark_from(Work.SEQUENCES, row.used_at + SEQUENCE_SECONDS)

    def require_place(self, targets: TargetSet, quality: Quality) -> None:
        """Raise `RefusedError` if a message would make another sequence busy, and too many are."""
        busy = len(self._rows) - sum(map(len, self._idle.values()))
        if busy < BUSY_SEQUENCES_LIMIT:
            return
        number = self._numbers.get((targets, quality))
        if number is None or any(number in idle for idle in self._idle.values()):
            raise refuse(
                Reason.BACKLOG_FULL,
                f"messages to {busy} sets of targets wait for servers that are out of reach; try again later",
            )

    def is_crowded(self, targets: TargetSet) -> bool:
        """True if a message would make another sequence of several targets, or with exceptions, busy, and many are.

        The method may be called while a step runs in another thread.
        """
        if is_plain(targets) or self._busy_others() < CROWD_LIMIT:
            return False
        numbers = [self._numbers.get((targets, each)) for each in Quality]
        return not any(number is not None and number not in self._idle[False] for number in numbers)

    def _busy_others(self) -> int:
        return self._others - len(self._idle[False]) + self.open.sets

    def forget_idle(self) -> Iterator[Forgotten]:
        """Forget the idle sequences beyond the limits, and those not used for long."""
        at = self._running.seconds
        room = FORGOTTEN_OF_A_STEP
        for kind, idle in self._idle.items():
            while idle and room:
                number = next(iter(idle))
                if len(idle) <= self.limits[kind] and at - self._rows[number].used_at < SEQUENCE_SECONDS:
                    break
                room -= 1
                del idle[number]
                yield self._forget(number)
        if not room:
            self._agenda.mark(Work.SEQUENCES)
        if not self._agenda.is_timed(Work.SEQUENCES):
            used_at = [self._rows[number].used_at for idle in self._idle.values() for number in idle]
            if used_at:
                self._agenda.mark_from(Work.SEQUENCES, min(used_at) + SEQUENCE_SECONDS)

    def _forget(self, number: int) -> Forgotten:
        row, sequence = self._rows.pop(number), self._sequences.pop(number, IDLE)
        del self._numbers[row.targets, row.quality]
        if self._alone.get(row.targets[0].name) == number:
            del self._alone[row.targets[0].name]
        self._others -= not row.is_plain
        if row.next_serial > self._first_serial:
            self._first_serial = row.next_serial
            self._ends[""] = (self._last_number, self._first_serial)
        receivers = None
        if number > self._last_number_at_start:
            receivers = tuple(sorted(sequence.receivers - {self.server}))
        return Forgotten(number, receivers, Over(number, row.start, NUMBER_LIMIT))

    @property
    def has_sequences(self) -> bool:
        """True if any sequence is remembered."""
        return bool(self._rows)

    def is_forgotten(self, number: int) -> bool:
        """True if a sequence of this number existed and was forgotten."""
        return 0 < number <= self._last_number and number not in self._rows

    def servers_below(self, parcel: Parcel, reach: Reach) -> list[ServerId]:
        """Return the other servers that are known to be below a new parcel's targets."""
        onward = self._sequences.get(parcel.sequence, IDLE).onward
        return servers_below(parcel.targets, onward, reach, here=self.server)

    def full_receiver(self, targets: TargetSet, reach: Reach) -> ServerId | None:
        """Return a receiver below some targets whose backlog has reached its limit. None if there is none."""
        full = self.backlogs.full
        if not full:
            return None
        told: dict[ServerId, tuple[ServerId, ...]] = {}
        alone = [self._alone.get(target.name, 0) for target in targets]
        own = [self._numbers.get((targets, quality), 0) for quality in Quality]
        for number in (*own, *alone):
            for server, onward in self._sequences.get(number, IDLE).onward.items():
                told[server] = (*told.get(server, ()), *onward)
        below = servers_below(targets, told, reach, here=self.server)
        found = next((server for server in below if server in full), None)
        if found is not None:
            return found
        singles = ((number, (target,)) for number, target in zip(alone, targets, strict=True))
        is_told = any(self._is_told(number, targets, reach) for number in own)
        if is_told or all(self._is_told(number, single, reach) for number, single in singles):
            return None
        beyond = self.backlogs.untold.bytes_beyond(frozenset(full), self._receivers_of)
        return self.backlogs.overshot(beyond)

    def _receivers_of(self, number: int) -> Collection[ServerId]:
        """Return the servers that were found to be below in a sequence."""
        return self._sequences.get(number, IDLE).receivers

    def _is_told(self, number: int, targets: TargetSet, reach: Reach) -> bool:
        """True if all servers below some targets have named their downstream servers in a sequence."""
        onward = self._sequences.get(number, IDLE).onward
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
        self._parcels[position] = row
        if not self._agenda.is_timed(Work.EXPIRY):
            self._agenda.mark(Work.EXPIRY)
        self._by_serial[row.sequence, row.start, row.first_serial] = position
        if parcel.sequence not in self._sequences:
            self._sequences[parcel.sequence] = Sequence()
        self._idle[self._rows[parcel.sequence].is_plain].pop(parcel.sequence, None)
        self._sequences[parcel.sequence].begin(position, servers)
        if asked := asked_to_be_told(parcel, together):
            self._waiting[position] = asked
        onward = self._sequences[parcel.sequence].onward
        if self.backlogs.full.isdisjoint(servers) and not all(server in onward for server in servers):
            size = self.backlogs.memory_of(len(self._post.parcels[position]))
            self.backlogs.untold.add(parcel.sequence, size)
        return self.found(parcel.sequence, servers, reach)

    # -- servers below

    @property
    def is_short(self) -> bool:
        """True if all unsettled parcels can be posted in this step."""
        return len(self._parcels) <= self._room

    def _is_short(self, sequence: Sequence) -> bool:
        """True if all parcels of a sequence can be posted in this step."""
        return len(sequence.unsettled) <= self._room

    def catch_up(self, number: int, servers: Iterable[ServerId], reach: Reach) -> tuple[list[PeerLetter], bool]:
        """Post a slice of the unsettled parcels to servers that are below and lack them.

        Return the posts to send, and True if `found` may post the rest at once.
        """
        sequence, leaving = self._sequences.get(number, IDLE), list[PeerLetter]()
        if self._is_short(sequence):
            return leaving, True
        for server in servers:
            if server == self.server or server in sequence.posted or not reach.is_known(server):
                continue
            sequence.receivers.add(server)
            for position in sequence.behind(sequence.catching_up.get(server, 0)):
                if server not in self._parcels[position].posted:
                    if self._room <= 0:
                        return leaving, False
                    leaving += self._post_late(server, position, sequence)
                sequence.catching_up[server] = position
            sequence.catching_up.pop(server, None)
            sequence.posted.add(server)
        return leaving, True

    def catch_up_for_confirm(self, sender: ServerId, confirm: Confirm, reach: Reach) -> tuple[list[PeerLetter], bool]:
        """Post a slice, as `catch_up` does, to the servers that a confirmation names."""
        sequence = self._sequences.get(confirm.sequence, IDLE)
        if self._is_short(sequence):
            return [], True
        servers = self._note_below_before(sender, confirm, reach)
        position = self._by_serial.get((confirm.sequence, confirm.start, confirm.first_serial))
        if position is not None and position not in sequence.settled and sender in self._parcels[position].posted:
            targets = self._rows[confirm.sequence].targets
            servers += [*bounded_onward(confirm.onward, reach), *own_onward(targets, reach, here=self.server)]
        return self.catch_up(confirm.sequence, servers, reach)

    def catch_up_for_want(self, sender: ServerId, want: Want) -> tuple[list[PeerLetter], bool]:
        """Post in full a slice of the parcels of which a server has only the stub, and wants one.

        Return the posts to send, and True if `want` may post the rest at once.
        """
        sequence, leaving = self._sequences.get(want.sequence, IDLE), list[PeerLetter]()
        if self._is_short(sequence) or sender not in sequence.stubs:
            return leaving, True
        position = self._by_serial.get((want.sequence, want.start, want.first_serial))
        is_wanted = position is not None and self._parcels[position].posted.get(sender) == ParcelState.STUB
        if not is_wanted and sender not in sequence.made_whole:
            return leaving, True
        for position in sequence.behind(sequence.made_whole.get(sender, 0)):
            if self._parcels[position].posted.get(sender) == ParcelState.STUB:
                if self._room <= 0:
                    return leaving, False
                self._spend_room()
                self._mark(position, sender, ParcelState.UNCONFIRMED)
                leaving += self._post_in_turn(sender, position)
            sequence.made_whole[sender] = position
        sequence.made_whole.pop(sender, None)
        sequence.stubs.discard(sender)
        return leaving, True

    def catch_up_for_open(self, reach: Reach) -> tuple[list[PeerLetter], bool]:
        """Post a slice, as `catch_up` does, to the servers below the messages that wait for the next parcels."""
        leaving: list[PeerLetter] = []
        for targets, quality in self.open.kinds():
            number = self._numbers.get((targets, quality), 0)
            sequence = self._sequences.get(number, IDLE)
            if not self._is_short(sequence):
                below = servers_below(targets, sequence.onward, reach, here=self.server)
                letters, is_done = self.catch_up(number, below, reach)
                leaving += letters
                if not is_done:
                    return leaving, False
        return leaving, True

    def _post_late(self, server: ServerId, position: int, sequence: Sequence) -> list[PeerLetter]:
        """Post a parcel to a server that is found only now."""
        self._spend_room()
        row = self._parcels[position]
        leaving = self._end_stubs(server, sequence) if row.round else []
        if server in self.backlogs.full and self.backlogs.takes_no_more(server):
            row.posted[server] = ParcelState.UNCONFIRMED
            self.forgo(position, server)
            encoded = self._post.parcels[position]
            self._not_posted.append(NotPosted(position, server, encoded, self.ids(position)))
            self._agenda.mark(Work.EXPIRY)
            return leaving
        if row.unknown:
            row.unknown = tuple(other for other in row.unknown if other != server)
        self._mark(position, server, ParcelState.STUB if server in sequence.stubs else ParcelState.UNCONFIRMED)
        if self._left_again and self._waits_its_turn(server, position):
            return leaving
        leaving.append(self._posted(server, position))
        return leaving

    def take_not_posted(self) -> list[NotPosted]:
        """Return the parcels that receivers do not get, since the last call."""
        not_posted, self._not_posted = self._not_posted, []
        return not_posted

    def found(self, number: int, servers: Iterable[ServerId], reach: Reach) -> list[PeerLetter]:
        """Post all unsettled parcels that they lack to servers that are below."""
        leaving: list[PeerLetter] = []
        sequence = self._sequences[number]
        unknown: list[ServerId] = []
        for server in servers:
            if server == self.server:
                continue
            if not reach.is_known(server):
                unknown.append(server)
                continue
            sequence.receivers.add(server)
            for position in sequence.lacking(server):
                if server not in self._parcels[position].posted:
                    leaving += self._post_late(server, position, sequence)
        if unknown:
            self._name_unknown(sequence, unknown)
        return leaving

    def _name_unknown(self, sequence: Sequence, servers: list[ServerId]) -> None:
        """Note unknown servers as unreachable for the unsettled parcels.

        Limits on the servers of a parcel, and on parcels, keep this within some milliseconds.
        """
        for position in sequence.not_naming(servers):
            row = self._parcels[position]
            room = UNKNOWN_LIMIT - len(row.unknown)
            new = [server for server in servers if server not in row.unknown][:room] if room > 0 else []
            if new:
                row.unknown = tuple(sorted({*row.unknown, *new}))
                self._parcels.touch(position)

    def _posted(self, server: ServerId, position: int) -> PeerLetter:
        """Post a parcel in its present round, or its stub."""
        row = self._parcels[position]
        number = row.round
        if row.posted[server] == ParcelState.STUB:
            of = self._rows[row.sequence]
            stub = Stub(row.sequence, row.start, row.first_serial, of.targets, of.quality, row.messages)
            return self._post.send_inline(server, encode(stub))
        if not number:
            return self._post.send_parcel(server, position)
        parcel = decode_stored(self._post.parcels[position])
        return self._post.send_inline(server, encode(structs.replace(parcel, round=number)))

    def confirm(self, sender: ServerId, confirm: Confirm, reach: Reach) -> tuple[bool, list[int], list[PeerLetter]]:
        """Handle a confirmation: a server has a parcel in its log, or knows that it does not get it.

        Only some of the servers that it names count, within limits. Return False if a correct server cannot send it,
        the positions of parcels that it may settle, and the posts to send.
        """
        if confirm.sequence not in self._rows:
            return self.is_forgotten(confirm.sequence), [], []
        sequence = self._sequences.get(confirm.sequence, IDLE)
        position = self._by_serial.get((confirm.sequence, confirm.start, confirm.first_serial))
        before = self._found_before(sender, confirm, reach)
        if position is None or position in sequence.settled:
            # A settled parcel was posted again, after a server began its lanes anew.
            return True, [], before
        row = self._parcels[position]
        if sender not in row.posted:
            return False, [], []
        count = row.posted[sender]
        confirmed: list[int] = []
        if count == ParcelState.LOST:
            until = takewhile(lambda each: each <= position, sequence.unsettled)
            confirmed = [each for each in until if self._parcels[each].posted.get(sender) == ParcelState.LOST]
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
        targets = self._rows[confirm.sequence].targets
        if confirm.sequence in self.backlogs.untold and self._is_told(confirm.sequence, targets, reach):
            self.backlogs.untold.remove(confirm.sequence)
        row.is_apart |= not row.is_of_copy and is_apart(targets, reach)
        letters = self.found(confirm.sequence, [*onward, *own_onward(targets, reach, here=self.server)], reach)
        return True, confirmed or [position], [*before, *letters]

    def _found_before(self, sender: ServerId, confirm: Confirm, reach: Reach) -> list[PeerLetter]:
        """Post all unsettled parcels to servers that may have been below: as stubs, because they may have no
        recipients.

        Paths do not move to a server that is out of this view: its arcs are suspended. If it was below, another round
        follows.
        """
        servers = self._note_below_before(sender, confirm, reach)
        return self.found(confirm.sequence, servers, reach) if servers else []

    def _note_below_before(self, sender: ServerId, confirm: Confirm, reach: Reach) -> list[ServerId]:
        """Return the servers that may have been below. Those that were never posted to will get stubs."""
        sequence = self._sequences.get(confirm.sequence, IDLE)
        if sender not in sequence.receivers:
            return []
        servers = [server for server in confirm.onward_before if reach.is_settled_with(server)][:ONWARD_TAKEN_LIMIT]
        sequence.stubs.update(server for server in servers if server not in sequence.receivers)
        return servers

    def _note_confirmed(self, position: int, sender: ServerId, confirm: Confirm, reach: Reach) -> None:
        row = self._parcels[position]
        self.backlogs.note_confirmed(sender)
        self._mark(position, sender, 0 if row.posted[sender] == ParcelState.LOST else confirm.mailboxes)
        if not row.is_of_copy:
            # This server does not wait for a removed server, even if another server still has memberships with it.
            row.is_apart |= any(map(reach.is_known, confirm.apart))
            # Two servers that confirmed it in different views may both miss the suspended arcs that cut one of them
            # off. The first had none yet. The other does not know the members whose parcels are on the way.
            row.is_apart |= row.view != reach.view()
        self._parcels.touch(position)

    def post_again(self, position: int, server: ServerId) -> list[PeerLetter]:
        """Post a parcel again in its round to a server that has confirmed it, for the processes that the server left
        out."""
        row = self._parcels[position]
        self._mark(position, server, ParcelState.UNCONFIRMED_AGAIN)
        leaving = self._end_stubs(server, self._sequences[row.sequence])
        again, _ = self.once_more(position)
        return [*leaving, self._post.send_inline(server, encode(again))]

    def next_serial(self, number: int) -> int:
        """Return the serial of the next message of a sequence."""
        return self._rows[number].next_serial

    def logged_again(self, position: int, here: Here) -> None:
        """Store the larger audience of a parcel at this server."""
        row = self._parcels[position]
        row.audience, row.mailboxes = here.audience, here.mailboxes
        row.note_leaving_out(self.server, is_so=here.leaves_out)
        self._parcels.touch(position)

    def want(self, sender: ServerId, want: Want) -> tuple[bool, list[PeerLetter]]:
        """Handle a `Want`: a server has recipients for a parcel of which it was posted the stub.

        Return False if a correct server cannot send it, and the posts to send. They include all later parcels of which
        the server has only the stub.
        """
        if want.sequence not in self._rows:
            return self.is_forgotten(want.sequence), []
        sequence = self._sequences.get(want.sequence, IDLE)
        position = self._by_serial.get((want.sequence, want.start, want.first_serial))
        if position is None or self._parcels[position].posted.get(sender) != ParcelState.STUB:
            # The parcel was given up for the server, or posted in full since.
            return True, []
        return True, self._end_stubs(sender, sequence)

    def _end_stubs(self, server: ServerId, sequence: Sequence) -> list[PeerLetter]:
        """End stubs for a server. Post in full first the parcels of which the server has only an unconfirmed stub."""
        if server not in sequence.stubs:
            return []
        sequence.stubs.discard(server)
        leaving: list[PeerLetter] = []
        for position in sequence.unsettled:
            row = self._parcels[position]
            if row.posted.get(server) == ParcelState.STUB:
                self._mark(position, server, ParcelState.UNCONFIRMED)
                leaving += self._post_in_turn(server, position)
        return leaving

    def needs_round(self, position: int) -> bool:
        """True if all servers have confirmed a parcel, and it needs another round."""
        row = self._parcels[position]
        return row.is_confirmed and row.is_apart

    def begin_round(self, position: int, parcel: Parcel, reach: Reach, here: Here) -> list[PeerLetter]:
        """Begin another round of a parcel, as the servers that were apart are back. Return the posts to send."""
        row = self._parcels[position]
        row.round, row.view = parcel.round, reach.view()
        row.is_apart = is_apart(parcel.targets, reach)
        self.logged_again(position, here)
        below = filter(reach.is_known, own_onward(parcel.targets, reach, here=self.server))
        again = filter(reach.is_known, row.posted)
        posted = dict.fromkeys(below, ParcelState.UNCONFIRMED) | dict.fromkeys(again, ParcelState.UNCONFIRMED_AGAIN)
        row.posted = {}
        for server, count in (posted | dict.fromkeys(row.lost, 0)).items():
            self._mark(position, server, count)
        encoded, sequence = encode(parcel), self._sequences[row.sequence]
        sequence.receivers.update(row.posted)
        leaving: list[PeerLetter] = []
        for server in row.posted:
            if server not in row.lost:
                leaving += self._end_stubs(server, sequence)
                if not self._waits_its_turn(server, position):
                    leaving.append(self._post.send_inline(server, encoded))
        return leaving

    def is_posted_in(self, position: int, view: str) -> bool:
        """True if the round of a parcel was begun in a view."""
        return self._parcels[position].view == view

    def look_again(self) -> None:
        """Allow another round in the same view: a server was removed, and its arcs with it."""
        for position, row in self._parcels.items():
            if row.is_apart:
                row.view = NO_VIEW
                self._parcels.touch(position)

    def once_more(self, position: int) -> tuple[Parcel, int]:
        """Return an unsettled parcel with its present round, and the number of its audience at this server."""
        row = self._parcels[position]
        parcel = decode_stored(self._post.parcels[position])
        return structs.replace(parcel, round=row.round, assigner=self.start), row.audience

    @staticmethod
    def settled_at_once(parcel: Parcel, together: list[WaitingMessage]) -> list[Answer]:
        """Return the answers for a parcel that has no recipients."""
        return [Settled(ticket, name, 0, 0) for ticket, name in asked_to_be_told(parcel, together)]

    def wait(self, ticket: int, name: str, lacking: tuple[ServerId, ...]) -> list[Answer]:
        """Register another caller that waits for a message to settle. Return the answer if the message is settled.

        `lacking`: the servers that are known to have been removed before they had the message.
        """
        position = self._position_of(name)
        if position is None:
            return [Settled(ticket, name, None, None, lacking)]
        self._waiting.setdefault(position, []).append((ticket, name))
        return self.settle(position)[0]

    def progress(self, name: str) -> Progress | None:
        """Return the progress of a message. None if it is settled, or was never accepted at this server.

        The method may be called while a step runs in another thread.
        """
        position = self._position_of(name)
        row = None if position is None else self._parcels.get(position)
        return None if row is None else row.progress

    def is_settled(self, name: str) -> bool:
        """True if a message is settled that was accepted since the start, or was unsettled at the start."""
        position = self._position_of(name)
        return position is None or self._parcels[position].is_settled

    def is_sent_apart(self, name: str) -> bool:
        """True if a message is not settled, and was posted while servers were apart."""
        position = self._position_of(name)
        return position is not None and self._parcels[position].is_sent_apart

    def pending(self) -> Slices[dict[ServerId, int]]:
        """Return the number of unconfirmed parcels by server, sorted by server.

        A parcel counts in the state in which it is visited. The method may run while a step runs in another thread.
        """
        found: Counter[ServerId] = Counter()
        for rows in in_slices(list(self._parcels.values())):
            for row in rows:
                found.update(server for server, count in list(row.posted.items()) if count < 0)
            yield len(rows)
        return dict(sorted(found.items()))

    @property
    def parcels_unsettled(self) -> int:
        """Number of parcels that are not settled, or wait for an older parcel."""
        return len(self._parcels)

    def _position_of(self, name: str) -> int | None:
        found = read_message_id(name)
        if found is None or found.kept is not self.kept:
            return None
        alone = only(found.addressed)
        numbers = [found.sequence] if found.sequence else [self._numbers.get((alone, each), 0) for each in Quality]
        for number in numbers:
            if number not in self._sequences:
                continue
            # The message is the first of its parcel, or a later one.
            for first_serial in range(found.serial, max(0, found.serial - PARCEL_MESSAGES_LIMIT), -1):
                position = self._by_serial.get((number, found.start, first_serial))
                if position is not None:
                    row = self._parcels.get(position)
                    return position if row is not None and found.serial < first_serial + row.messages else None
        return None

    def settle(self, position: int) -> tuple[list[Answer], list[PeerLetter]]:
        """Settle a parcel if it can be settled. Return the answers to callers, and the posts to send.

        A settled parcel is forgotten once all parcels before it are settled.
        """
        row = self._parcels[position]
        if not row.is_settled:
            return [], []
        progress = row.progress
        answers: list[Answer] = [
            Settled(ticket, name, progress.mailboxes, progress.servers, row.unknown)
            for ticket, name in self._waiting.pop(position, ())
        ]
        sequence, letters = self._sequences[row.sequence], list[PeerLetter]()
        if position not in sequence.settled:
            sequence.settled.add(position)
            self._settled_bytes += len(self._post.parcels[position])
        while sequence.unsettled and sequence.unsettled[0] in sequence.settled:
            letters += self._forget_settled(sequence, sequence.unsettled.popleft())
        if not sequence.unsettled:
            self._is_idle(row.sequence)
            self.backlogs.untold.remove(row.sequence)
        if sequence.is_idle:
            del self._sequences[row.sequence]
        if self._settled_bytes > self.settled_limit_bytes:
            letters += self._forget_all_settled()
        return answers, letters

    def _forget_settled(self, sequence: Sequence, position: int) -> list[PeerLetter]:
        """Forget a settled parcel. Return the posts to send."""
        sequence.settled.discard(position)
        self._settled_bytes -= len(self._post.parcels[position])
        self._let_go(position)
        done = self._parcels.pop(position)
        sequence.followed.pop(position, None)
        del self._by_serial[done.sequence, done.start, done.first_serial]
        over = encode(Over(done.sequence, done.start, done.first_serial))
        return [self._post.send_inline(server, over) for server in done.remembering]

    def _forget_all_settled(self) -> list[PeerLetter]:
        """Forget the settled parcels behind older ones of their sequences. Return the posts to send.

        A receiver may confirm no parcel for days, and not be below the target set any more. Later parcels are settled
        then, and wait only for the older ones.
        """
        letters: list[PeerLetter] = []
        for sequence in self._sequences.values():
            if sequence.settled:
                settled = sorted(sequence.settled)
                sequence.unsettled = deque(each for each in sequence.unsettled if each not in sequence.settled)
                for position in settled:
                    letters += self._forget_settled(sequence, position)
        return letters

    def release(self) -> None:
        """Forget the settled parcels to which no lane refers any more, at the end of a step."""
        for server, position in self._post.take_dropped():
            row = self._parcels.get(position)
            if row is None or row.posted.get(server, 0) >= 0:
                self._uncount(position, server)
            if row is None:
                self._to_release[position] = None
        for position in self._to_release:
            is_needed = position in self._parcels or self._post.refers_to(position)
            if position in self._post.parcels and not is_needed:
                self.backlog_bytes -= len(self._post.parcels.pop(position))
                self._agenda.mark(Work.RETENTION)
        self._to_release.clear()

    def _let_go(self, position: int) -> None:
        """Note that a parcel may be settled and in no lane."""
        self._to_release[position] = None
        self._agenda.mark(Work.RELEASE)

    def removed(self, server: ServerId) -> None:
        """Handle the removal of a server: parcels are no longer posted to servers because it named them."""
        self._end_again(server)
        for sequence in self._sequences.values():
            sequence.posted.discard(server)
            sequence.named.discard(server)
            sequence.catching_up.pop(server, None)
            sequence.made_whole.pop(server, None)
            sequence.onward = {
                teller: tuple(told for told in onward if told != server)
                for teller, onward in sequence.onward.items()
                if teller != server
            }

    def note_remembered(self, server: ServerId, parcel: ParcelKey) -> bool:
        """Note that a server remembers the recipients of a parcel.

        Return True if the parcel is not settled: the server is told once it is settled.
        """
        position = self._by_serial.get(parcel)
        if position is None:
            return False
        row = self._parcels[position]
        row.remembering = tuple(sorted({*row.remembering, server}))
        self._parcels.touch(position)
        return True

    def forget_remembering(self, position: int, server: ServerId) -> None:
        """Forget that a server remembers the recipients of a parcel."""
        row = self._parcels.get(position)
        if row is not None and server in row.remembering:
            row.remembering = tuple(other for other in row.remembering if other != server)
            self._parcels.touch(position)

    def waits_for(self, position: int, server: ServerId) -> bool:
        """True if a parcel is not settled, and a server has it or will get it."""
        row = self._parcels.get(position)
        return row is not None and server in row.posted and not row.is_settled

    def give_up(self, position: int, server: ServerId) -> tuple[bytes, bool] | None:
        """Stop waiting for a server to have a parcel. Callers are told of it as of a server that was never met.

        Return the parcel, and True if the server has it and remembers its recipients, because it left out a foreign
        process. None if every recipient at the server has the parcel.
        """
        row = self._parcels[position]
        self._parcels.touch(position)
        is_there = row.posted.pop(server) not in NEVER_CONFIRMED
        self._uncount(position, server)
        if is_there and server not in row.leaving_out:
            return None
        if is_there:
            # The parcel is not over: it may be sent again for the processes that were left out.
            self.forget_remembering(position, server)
        row.note_leaving_out(server, is_so=False)
        row.unknown = tuple(sorted({*row.unknown, server}))
        return self._post.parcels[position], is_there

    def lose(self, position: int, server: ServerId) -> bool:
        """Note that a server does not get a parcel, or has lost it. The parcel is not posted to the server again.

        Return True if the server had not confirmed the parcel: the origin waits until it names its downstream servers.
        Callers are told of it as of a server that was never met.
        """
        row = self._parcels[position]
        count = row.posted[server]
        if count in NEVER_CONFIRMED:
            row.unknown = tuple(sorted({*row.unknown, server}))
        if count < 0:
            self._mark(position, server, ParcelState.LOST)
        row.lost = tuple(sorted({*row.lost, server}))
        self._parcels.touch(position)
        return count < 0

    def forgo(self, position: int, server: ServerId) -> None:
        """Note that a server does not get a parcel, and do not wait for its downstream servers."""
        if self.lose(position, server):
            self._mark(position, server, 0)

    def ids(self, position: int) -> list[str]:
        """Return the ids of the messages of an unsettled parcel."""
        row = self._parcels[position]
        targets = self.targets_of(row.sequence)
        serials = range(row.first_serial, row.first_serial + row.messages)
        return [message_id(serial, targets, row.sequence, row.start, self.kept) for serial in serials]

    def targets_of(self, sequence: int) -> TargetSet:
        """Return the target set of a sequence."""
        return self._rows[sequence].targets

    def is_kept(self, position: int) -> bool:
        """True if a parcel is not settled, or waits for an older parcel."""
        return position in self._parcels

    def expire(self, position: int) -> list[ServerId]:
        """End the rounds of a parcel. Return the servers that have not confirmed it and must be given up, sorted."""
        row = self._parcels[position]
        row.is_apart = False
        self._parcels.touch(position)
        return sorted(server for server, count in row.posted.items() if count < 0)

    def is_posted(self, position: int, server: ServerId) -> bool:
        """True if a parcel is not settled, and a server has it or will get it."""
        row = self._parcels.get(position)
        return row is not None and server in row.posted

    def posted_to(self) -> list[ServerId]:
        """Return the servers to which unsettled parcels were posted, sorted."""
        return sorted({server for row in self._parcels.values() for server in row.posted})

    def begin_start(self, start: int) -> int:
        """Begin a start of this server and return its number: `start`, or a higher number if that would not rise.

        Message ids contain the number, so a server restored from an old backup gives no id again. The number also tells
        servers that logged a parcel which of two parcels was accepted later.
        """
        of_parcels = (row.start for row in self._parcels.values())
        last = max((0, *(row.start for row in self._rows.values()), *of_parcels))
        # The random part of the number stays.
        self.start = start if start > last else last + 1 + start % START_CHANCES
        return self.start

    def go_back(self) -> None:
        """Mark the parcels of the old backup from which this server was restored, as it has just been told.

        Unsettled parcels are posted again in their first form, which servers that have them pass over. Parcels accepted
        in this start are in no backup.
        """
        for position, row in self._parcels.items():
            if row.start != self.start:
                row.round, row.is_apart, row.is_of_copy = 0, False, True
                self._parcels.touch(position)

    # -- lanes that begin anew

    def begin_again(self, server: ServerId) -> list[PeerLetter]:
        """Post unsettled parcels, and those that wait for them, to a server again in order: its lane begins anew."""
        for sequence in self._sequences.values():
            sequence.stubs.discard(server)
            sequence.made_whole.pop(server, None)
            for numbers in sequence.followed.values():
                numbers.pop(server, None)
        left = self._left_again[server] = self._expect_again(server, 0)
        for position in left:
            row = self._parcels[position]
            if not row.round or position not in self._sequences[row.sequence].settled:
                self.backlogs.add(server, position, len(self._post.parcels[position]))
        return self._post_again(server)

    def _learn_again(self) -> dict[ServerId, deque[int]]:
        """Return the parcels that are still to be posted again, from the rows of an earlier start."""
        for sequence in self._sequences.values():
            sequence.stubs -= {ServerId(server) for server in self._again}
        return {
            ServerId(server): self._expect_again(ServerId(server), through) for server, through in self._again.items()
        }

    def _expect_again(self, server: ServerId, through: int) -> deque[int]:
        """Return the parcels behind a position that a server is posted again, sorted.

        None of them counts as confirmed.
        """
        left = deque[int]()
        for position, row in sorted(self._parcels.items()):
            if position > through and server in row.posted and server not in row.lost:
                left.append(position)
                if position not in self._sequences[row.sequence].settled:
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
                self._end_again(server)
        return leaving

    def _post_again(self, server: ServerId) -> list[PeerLetter]:
        left, leaving = self._left_again[server], list[PeerLetter]()
        while left and self._room > 0:
            position = left.popleft()
            row = self._parcels.get(position)
            if row is not None and server in row.posted and server not in row.lost:
                self._spend_room()
                self._parcels.touch(position)
                leaving.append(self._posted(server, position))
        if left:
            self._again[server] = left[0] - 1
            self._agenda.mark_at_once(Work.AGAIN)
        else:
            self._end_again(server)
        return leaving

    def _end_again(self, server: ServerId) -> None:
        """Note that a server was posted all parcels again, or is gone."""
        self._left_again.pop(server, None)
        if server in self._again:
            del self._again[server]

    def _post_in_turn(self, server: ServerId, position: int) -> list[PeerLetter]:
        """Post a parcel, or queue it behind the parcels that are posted again. Return the posts to send."""
        return [] if self._waits_its_turn(server, position) else [self._posted(server, position)]

    def _waits_its_turn(self, server: ServerId, position: int) -> bool:
        """True if a later step posts a parcel, behind those that a server is posted again."""
        left = self._left_again.get(server)
        if not left or position < left[0]:
            return False
        if position > left[-1]:
            left.append(position)
        elif left[(place := bisect_left(left, position))] != position:
            left.insert(place, position)
        return True
