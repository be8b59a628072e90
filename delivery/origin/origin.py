"""The origin of messages: it accepts them, numbers them, and has each of them reach every server that is below.

    Send --> open parcel --CloseParcels--> unsettled --all to whom it was posted have confirmed--> settled
                                             |   ^
                                             v   | a server that is found is posted everything from the oldest
                                            posted   parcel on that is not settled, before anything newer

Where that is very much, steps do it in slices. What has shown the server (a confirmation, a new parcel) waits until the
rest takes no time, and counts as not handled: so a server that crashes meanwhile begins anew. A server whose lane has
begun anew is posted slices, too: how far that is, is durable.

Which servers are below, nobody knows at once: this server knows those of the members of its own groups, and each of
those tells the next ones as it confirms, and to whom ways were lost. On the way from the target to a member, as it was
when the message was accepted, the first server that was not posted to has one before it that names it. So a parcel that
is settled has reached all, whatever changes meanwhile.

A server that had nobody for a parcel is posted the stub of each later one of the sequence, until it wants one. Before
it is posted anything whole again, it is posted whole all of which it has the stub and has not confirmed it. So nothing
overtakes what it wants. What it says of a stub counts only until the parcel itself was posted.

The home of the addressed group is the origin, so all that is sent to one target set is one sequence: its serials rise
by one, and every lane is in order.

Source: delivery.md sections 4 and 5; K6 section 6.6.1 (a centralised algorithm, with the home as coordinator).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import takewhile
from typing import NamedTuple

from msgspec import Struct, structs

from delivery.model.events import Answer, Settled
from delivery.model.reach import Reach
from delivery.model.words import Kept, Quality
from delivery.origin.backlogs import Backlogs
from delivery.origin.parcel_builder import OpenMessages, Waiting, asked_to_be_told
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
"""Bytes of parcels that wait for a view alone, or for an older parcel. All messages are refused beyond it."""

SETTLED_BYTES_LIMIT = 16 * 1024 * 1024
"""Bytes of settled parcels that stay behind an older one of their sequence, for a receiver whose lane begins anew."""

PLAIN_SEQUENCES_LIMIT = 10_000
"""Idle sequences of a single target without exceptions that are remembered: one for each group in use."""

OTHER_SEQUENCES_LIMIT = 1_000
"""Idle sequences of several targets, or with exceptions, that are remembered."""

BUSY_SEQUENCES_LIMIT = 10_000
"""Sequences with messages that not all servers have."""

CROWD_LIMIT = 1_000
"""Busy sequences of several targets, or with exceptions, beyond which the shell lets new ones wait."""

SEQUENCE_SECONDS = 7 * 86_400.0
"""Running time after its last message for which a sequence is remembered."""

FORGOTTEN_OF_A_STEP = 200
"""Sequences that one step forgets: as many as a step can make."""

POSTED_AT_ONCE = 500
"""Parcels that one step posts to servers that are found late: some ten milliseconds. More are posted in later steps."""

START_CHANCES = 2**16
"""Among so many values what is random in the number of a start is drawn: its last bits."""


class _SequenceRow(Struct, array_like=True):
    """One target set at one quality."""

    targets: TargetSet
    quality: Quality
    next_serial: int
    """The serial of the next message."""
    start: int = 0
    """In which the last one was accepted."""
    used_at: float = 0.0
    """Running time of the last message."""

    @property
    def is_plain(self) -> bool:
        """True for a single target without exceptions."""
        return is_plain(self.targets)


class Forgotten(NamedTuple):
    """A sequence that the origin remembers no more."""

    number: int
    receivers: tuple[ServerId, ...] | None
    """Servers that had parcels of it, sorted. None for a sequence of before the start of the origin: any may be one."""
    over: Over
    """Says that nothing of the sequence comes any more."""


class NotPosted(NamedTuple):
    """A parcel that a receiver does not get: too much waits for it."""

    position: int
    receiver: ServerId
    encoded: bytes
    ids: list[str]
    """Ids of its messages."""


class Origin:
    """All sequences of this server."""

    def __init__(self, durable: DurableState, server: ServerId, post: Postage, kept: Kept = Kept.DURABLE) -> None:
        self.kept = kept
        self.server = server
        self._post = post
        self._rows = DurableMap(durable, "sequence", NUMBERS, packed(_SequenceRow))
        self._parcels = DurableMap(durable, "parcel", NUMBERS, packed(ParcelRow))
        self._numbers = {(row.targets, row.quality): number for number, row in self._rows.items()}
        self._alone = {row.targets[0].name: number for number, row in self._rows.items() if len(row.targets) == 1}
        """Number of a sequence of each single target, with exceptions or without. These change no server below."""
        self._ends = DurableMap(durable, "sequence ends", TEXTS, packed(tuple[int, int]))
        """One value, without a key: the last number of a sequence, and the serial with which new sequences begin.

        No number is given again. The serial is above those of all sequences that were forgotten, so no id is, either.
        """
        self._last_number, self._first_serial = self._ends.get("", (max(self._rows, default=0), 1))
        self._last_number_at_start = self._last_number
        self.limits = {True: PLAIN_SEQUENCES_LIMIT, False: OTHER_SEQUENCES_LIMIT}
        """Limits of idle sequences: of plain ones, and of others."""
        self._sequences: dict[int, Sequence] = {}
        self.backlog = Backlog(self._parcels, self._sequences)
        self._by_serial: dict[ParcelKey, int] = {}
        """Positions by sequence, start and first serial."""
        self.open = OpenMessages()
        self._waiting: dict[int, list[tuple[int, str]]] = {}
        """By position of a parcel: tickets of those who are to be told when it is settled, with the message's id."""
        self._to_release: dict[int, None] = {}
        """Positions of parcels in memory that may be settled and in no lane."""
        self.backlogs = Backlogs()
        """Parcels that receivers have not confirmed, or not taken out of their lanes."""
        self._settled_bytes = 0
        """Bytes of settled parcels that stay behind an older one of their sequence."""
        self.start = 0
        """Names this start of the server: what it accepts has it in its id."""
        self.backlog_bytes = 0
        self.settled_limit_bytes = SETTLED_BYTES_LIMIT
        self.posted_at_once = self._room = POSTED_AT_ONCE
        self._not_posted: list[NotPosted] = []
        """Parcels since `take_not_posted`."""
        self._learn_parcels()
        self._again = DurableMap(durable, "post again", TEXTS, packed(int))
        """Position through which a server whose lane has begun anew was posted again what is not settled."""
        self._left_again = self._learn_again()
        """Parcels that are still to be posted to such a server, sorted. Newer ones wait behind them."""
        self._idle: dict[bool, dict[int, None]] = {True: {}, False: {}}
        """Sequences of which all is settled, of plain ones and of others, the one first that was used longest ago."""
        self._others = sum(not row.is_plain for row in self._rows.values())
        """Sequences of several targets, or with exceptions."""
        for number, of in sorted(self._rows.items(), key=lambda each: (each[1].used_at, each[0])):
            if number not in self._sequences:
                self._idle[of.is_plain][number] = None

    def _learn_parcels(self) -> None:
        """Fill what is in memory of the sequences, from the rows of parcels."""
        for position in sorted(self._parcels):
            row = self._parcels[position]
            sequence = self._sequences.setdefault(row.sequence, Sequence())
            sequence.unsettled.append(position)
            if row.is_settled:
                sequence.settled.add(position)
            sequence.receivers.update(row.posted)
            # Else something newer would overtake what they want of these.
            sequence.stubs |= {server for server, count in row.posted.items() if count == ParcelState.STUB}
            self._by_serial[row.sequence, row.start, row.first_serial] = position

    @property
    def unsettled(self) -> list[int]:
        """The positions of the parcels that are not settled, and of those that wait for one before them; sorted."""
        return sorted(self._parcels)

    def oldest_needed(self) -> int | None:
        """The position of the oldest parcel that is still to be posted to somebody, or may be, or is in some lane."""
        # They are kept in the order of their positions.
        return next(iter(self._post.parcels), None)

    def keep(self, position: int, encoded: bytes) -> None:
        """Hold a parcel in memory until it is settled."""
        self._post.parcels[position] = encoded
        self.backlog_bytes += len(encoded)
        row = self._parcels.get(position)
        waiting = [] if row is None else [server for server, count in row.posted.items() if count < 0]
        for server in {*waiting, *self._post.receivers_of(position)}:
            self.backlogs.add(server, position, len(encoded))
        if row is None:
            self._to_release[position] = None
        elif position in self._sequences[row.sequence].settled:
            self._settled_bytes += len(encoded)

    def _mark(self, position: int, server: ServerId, count: int) -> None:
        """Note how many mailboxes get a parcel at a server, or how it was posted to the server."""
        self._parcels[position].posted[server] = count
        self._parcels.touch(position)
        if count < 0:
            self.backlogs.add(server, position, len(self._post.parcels[position]))
        else:
            self._uncount(position, server)

    def _uncount(self, position: int, server: ServerId) -> None:
        """Count a parcel no longer for a server that has it, or does not get it, once it is not in the lane there."""
        if server not in self._post.receivers_of(position):
            self.backlogs.remove(server, position)

    @property
    def unclaimed_bytes(self) -> int:
        """Bytes of parcels in memory that are counted for no receiver."""
        return self.backlog_bytes - self.backlogs.shared_bytes

    # -- messages become parcels

    def close(
        self, *, view_number: int, at: float, is_apart: Callable[[str], bool]
    ) -> Iterator[tuple[Parcel, list[Waiting]]]:
        """The parcels of all messages that wait, with what each message of them was. `at`: the running time.

        `is_apart`: whether messages of a source share no parcel with those of others.
        """
        for targets, quality, parcels in self.open.drain(is_apart):
            number = self._numbers.get((targets, quality))
            if number is None:
                self._last_number += 1
                number = self._numbers[targets, quality] = self._last_number
                self._ends[""] = (self._last_number, self._first_serial)
                self._rows[number] = _SequenceRow(targets, quality, self._first_serial)
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
        """Note that all of a sequence is settled; of idle ones it was used last."""
        idle = self._idle[self._rows[number].is_plain]
        idle.pop(number, None)
        idle[number] = None

    def require_place(self, targets: TargetSet, quality: Quality) -> None:
        """Raise `RefusedError` if a message would make one more sequence busy, and too many are."""
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
        """Whether a message would make one more sequence busy, of several targets or with exceptions, and many are.

        May be asked while a step is carried out in another thread.
        """
        if is_plain(targets) or self._busy_others() < CROWD_LIMIT:
            return False
        numbers = [self._numbers.get((targets, each)) for each in Quality]
        return not any(number is not None and number not in self._idle[False] for number in numbers)

    def _busy_others(self) -> int:
        return self._others - len(self._idle[False]) + self.open.sets

    def forget_idle(self, at: float) -> Iterator[Forgotten]:
        """Forget idle sequences: those beyond the limits, and those that were not used for long."""
        room = FORGOTTEN_OF_A_STEP
        for kind, idle in self._idle.items():
            while idle and room:
                number = next(iter(idle))
                if len(idle) <= self.limits[kind] and at - self._rows[number].used_at < SEQUENCE_SECONDS:
                    break
                room -= 1
                del idle[number]
                yield self._forget(number)

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
        """Whether any sequence is remembered."""
        return bool(self._rows)

    def is_forgotten(self, number: int) -> bool:
        """Whether a sequence of this number was there and is not any more."""
        return 0 < number <= self._last_number and number not in self._rows

    def servers_below(self, parcel: Parcel, reach: Reach) -> list[ServerId]:
        """The servers that are known to be below a new parcel's targets; this one is not among them."""
        onward = self._sequences.get(parcel.sequence, IDLE).onward
        return servers_below(parcel.targets, onward, reach, here=self.server)

    def full_receiver(self, targets: TargetSet, reach: Reach) -> ServerId | None:
        """Return a receiver below some targets whose backlog has reached its limit; None if there is none."""
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
        """Return True if all servers below some targets have told in a sequence who is further below."""
        onward = self._sequences.get(number, IDLE).onward
        return all(server in onward for server in servers_below(targets, onward, reach, here=self.server))

    def begin(
        self,
        parcel: Parcel,
        together: list[Waiting],
        servers: list[ServerId],
        reach: Reach,
        *,
        position: int,
        here: Here,
        at: float,
    ) -> list[PeerLetter]:
        """Post a parcel that is in the log; returns what is to leave. `at`: the running time."""
        names = (parcel.sequence, parcel.start, parcel.first_serial)
        row = ParcelRow(*names, len(together), here.audience, here.mailboxes, {})
        row.is_apart, row.accepted_at = is_apart(parcel.targets, reach), at
        row.view = reach.view() if reach.is_steady() else NO_VIEW
        row.note_leaving_out(self.server, is_so=here.leaves_out)
        self._parcels[position] = row
        self._by_serial[row.sequence, row.start, row.first_serial] = position
        if parcel.sequence not in self._sequences:
            self._sequences[parcel.sequence] = Sequence()
        self._idle[self._rows[parcel.sequence].is_plain].pop(parcel.sequence, None)
        self._sequences[parcel.sequence].begin(position, servers)
        if asked := asked_to_be_told(parcel, together):
            self._waiting[position] = asked
        onward = self._sequences[parcel.sequence].onward
        if self.backlogs.full.isdisjoint(servers) and not all(server in onward for server in servers):
            size = len(self._post.parcels[position]) + self.backlogs.parcel_bytes
            self.backlogs.untold.add(parcel.sequence, size)
        return self.found(parcel.sequence, servers, reach)

    # -- servers below

    @property
    def is_short(self) -> bool:
        """True if all that is not settled can be posted in this step."""
        return len(self._parcels) <= self._room

    def _is_short(self, sequence: Sequence) -> bool:
        """Return True if all of a sequence can be posted in this step."""
        return len(sequence.unsettled) <= self._room

    def catch_up(self, number: int, servers: Iterable[ServerId], reach: Reach) -> tuple[list[PeerLetter], bool]:
        """Post a slice of what is not settled to servers that are below and lack it.

        Returns what is to leave, and whether `found` posts the rest at once.
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
        """Do so for the servers of which a confirmation tells."""
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
        """Post whole a slice of the parcels of which a server has the stub alone, and wants one.

        Returns what is to leave, and whether `want` posts the rest at once.
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
                self._room -= 1
                self._mark(position, sender, ParcelState.UNCONFIRMED)
                leaving += self._post_in_turn(sender, position)
            sequence.made_whole[sender] = position
        sequence.made_whole.pop(sender, None)
        sequence.stubs.discard(sender)
        return leaving, True

    def catch_up_for_open(self, reach: Reach) -> tuple[list[PeerLetter], bool]:
        """Do as `catch_up` for the servers that are below the messages which wait for the next parcels."""
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
        self._room -= 1
        row = self._parcels[position]
        leaving = self._end_stubs(server, sequence) if row.round else []
        if server in self.backlogs.full and self.backlogs.takes_no_more(server):
            row.posted[server] = ParcelState.UNCONFIRMED
            self.forgo(position, server)
            encoded = self._post.parcels[position]
            self._not_posted.append(NotPosted(position, server, encoded, self.ids(position)))
            return leaving
        if row.unknown:
            row.unknown = tuple(other for other in row.unknown if other != server)
        self._mark(position, server, ParcelState.STUB if server in sequence.stubs else ParcelState.UNCONFIRMED)
        if self._left_again and self._waits_its_turn(server, position):
            return leaving
        leaving.append(self._posted(server, position))
        return leaving

    @property
    def has_not_posted(self) -> bool:
        """True if `take_not_posted` returns something."""
        return bool(self._not_posted)

    def take_not_posted(self) -> list[NotPosted]:
        """Return the parcels that receivers do not get since this was last asked."""
        not_posted, self._not_posted = self._not_posted, []
        return not_posted

    def found(self, number: int, servers: Iterable[ServerId], reach: Reach) -> list[PeerLetter]:
        """Post all that is not settled to servers that are below, as far as it was not."""
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
        """Note servers that are not known here as unreachable for the parcels that are not settled.

        So many servers are noted for a parcel, and for so many parcels, that this takes some milliseconds.
        """
        for position in sequence.not_naming(servers):
            row = self._parcels[position]
            room = UNKNOWN_LIMIT - len(row.unknown)
            new = [server for server in servers if server not in row.unknown][:room] if room > 0 else []
            if new:
                row.unknown = tuple(sorted({*row.unknown, *new}))
                self._parcels.touch(position)

    def _posted(self, server: ServerId, position: int) -> PeerLetter:
        """Post a parcel as it is in the present round, or its stub."""
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
        """A server has a parcel in its log, or knows that it does not get it. Of the servers that it names, some count.

        Returns whether that can be so, the positions of parcels that may be settled by it, and what is to leave now.
        """
        if confirm.sequence not in self._rows:
            return self.is_forgotten(confirm.sequence), [], []
        sequence = self._sequences.get(confirm.sequence, IDLE)
        position = self._by_serial.get((confirm.sequence, confirm.start, confirm.first_serial))
        before = self._found_before(sender, confirm, reach)
        if position is None or position in sequence.settled:
            # Settled: it was posted again after a server began its lanes anew.
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
        """Post all that is not settled to servers that may have been below: stubs, for they may have nobody.

        To one that is not in this view ways do not move: its arcs are suspended. If it was, another round follows.
        """
        servers = self._note_below_before(sender, confirm, reach)
        return self.found(confirm.sequence, servers, reach) if servers else []

    def _note_below_before(self, sender: ServerId, confirm: Confirm, reach: Reach) -> list[ServerId]:
        """Return the servers that may have been below, and have those get stubs that were never posted anything."""
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
            # A server that was removed here is waited for by nobody here, whatever others still have of it.
            row.is_apart |= any(map(reach.is_known, confirm.apart))
            # Of two servers that confirmed it in different views, neither may know of the suspended arcs that cut off
            # the other: one had none yet, the other does not know for whom they are on the way.
            row.is_apart |= row.view != reach.view()
        self._parcels.touch(position)

    def post_again(self, position: int, server: ServerId) -> list[PeerLetter]:
        """Post a parcel once more in its round to a server that has confirmed it, for those whom it left out."""
        row = self._parcels[position]
        self._mark(position, server, ParcelState.UNCONFIRMED_AGAIN)
        leaving = self._end_stubs(server, self._sequences[row.sequence])
        again, _ = self.once_more(position)
        return [*leaving, self._post.send_inline(server, encode(again))]

    def next_serial(self, number: int) -> int:
        """The serial of the next message of a sequence."""
        return self._rows[number].next_serial

    def logged_again(self, position: int, here: Here) -> None:
        """More get a parcel here than did before."""
        row = self._parcels[position]
        row.audience, row.mailboxes = here.audience, here.mailboxes
        row.note_leaving_out(self.server, is_so=here.leaves_out)
        self._parcels.touch(position)

    def want(self, sender: ServerId, want: Want) -> tuple[bool, list[PeerLetter]]:
        """A server has somebody for a parcel of which it was posted the stub.

        Returns whether that can be so, and what is to leave now: also all later ones of which it has the stub alone.
        """
        if want.sequence not in self._rows:
            return self.is_forgotten(want.sequence), []
        sequence = self._sequences.get(want.sequence, IDLE)
        position = self._by_serial.get((want.sequence, want.start, want.first_serial))
        if position is None or self._parcels[position].posted.get(sender) != ParcelState.STUB:
            # Given up for it, or posted whole since.
            return True, []
        return True, self._end_stubs(sender, sequence)

    def _end_stubs(self, server: ServerId, sequence: Sequence) -> list[PeerLetter]:
        """Post whole from now on, and first of all the parcels of which a server has the stub alone, unconfirmed."""
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
        """Whether all have confirmed a parcel, and it is to be posted once more."""
        row = self._parcels[position]
        return row.is_confirmed and row.is_apart

    def begin_round(self, position: int, parcel: Parcel, reach: Reach, here: Here) -> list[PeerLetter]:
        """Post a parcel once more, now that the servers are there that were apart; returns what is to leave."""
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
        """Whether the round of a parcel was begun in a view."""
        return self._parcels[position].view == view

    def look_again(self) -> None:
        """Another round may find more in the same view: a server was removed, and its arcs with it."""
        for position, row in self._parcels.items():
            if row.is_apart:
                row.view = NO_VIEW
                self._parcels.touch(position)

    def once_more(self, position: int) -> tuple[Parcel, int]:
        """Of a parcel that is not settled: what it is in its round, now, and the number of its audience here."""
        row = self._parcels[position]
        parcel = decode_stored(self._post.parcels[position])
        return structs.replace(parcel, round=row.round, assigner=self.start), row.audience

    @staticmethod
    def settled_at_once(parcel: Parcel, together: list[Waiting]) -> list[Answer]:
        """What callers are to be told of a parcel that nobody gets."""
        return [Settled(ticket, name, 0, 0) for ticket, name in asked_to_be_told(parcel, together)]

    def wait(self, ticket: int, name: str, lacking: tuple[ServerId, ...]) -> list[Answer]:
        """Let one more caller wait until a message is settled; what to tell at once, where it was settled before.

        `lacking`: the servers that are known to have been removed before they had it.
        """
        position = self._position_of(name)
        if position is None:
            return [Settled(ticket, name, None, None, lacking)]
        self._waiting.setdefault(position, []).append((ticket, name))
        return self.settle(position)[0]

    def progress(self, name: str) -> Progress | None:
        """How far a message is; None where it is settled, or was never accepted here.

        May be asked while a step is carried out in another thread.
        """
        position = self._position_of(name)
        row = None if position is None else self._parcels.get(position)
        return None if row is None else row.progress

    def is_settled(self, name: str) -> bool:
        """Whether a message that was accepted here since the start, or is not settled, is settled."""
        position = self._position_of(name)
        return position is None or self._parcels[position].is_settled

    def is_sent_apart(self, name: str) -> bool:
        """Whether a message is not settled, and was posted while servers were apart."""
        position = self._position_of(name)
        return position is not None and self._parcels[position].is_sent_apart

    def pending(self) -> Slices[dict[ServerId, int]]:
        """For how many parcels each server is waited for that has not confirmed all of them; sorted by server.

        Each parcel counts as it is when it is looked at, also while a step is carried out in another thread.
        """
        found: Counter[ServerId] = Counter()
        for rows in in_slices(list(self._parcels.values())):
            for row in rows:
                found.update(server for server, count in list(row.posted.items()) if count < 0)
            yield len(rows)
        return dict(sorted(found.items()))

    @property
    def parcels_unsettled(self) -> int:
        """How many parcels are not settled, or wait for one before them."""
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
            # It is the first message of its parcel, or one of the next ones.
            for first_serial in range(found.serial, max(0, found.serial - PARCEL_MESSAGES_LIMIT), -1):
                position = self._by_serial.get((number, found.start, first_serial))
                if position is not None:
                    row = self._parcels.get(position)
                    return position if row is not None and found.serial < first_serial + row.messages else None
        return None

    def settle(self, position: int) -> tuple[list[Answer], list[PeerLetter]]:
        """A parcel may be settled: what callers are to be told, and what is to leave.

        It is forgotten after all before it.
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
        """Forget a settled parcel; returns what is to leave."""
        sequence.settled.discard(position)
        self._settled_bytes -= len(self._post.parcels[position])
        self._to_release[position] = None
        done = self._parcels.pop(position)
        sequence.followed.pop(position, None)
        del self._by_serial[done.sequence, done.start, done.first_serial]
        over = encode(Over(done.sequence, done.start, done.first_serial))
        return [self._post.send_inline(server, over) for server in done.remembering]

    def _forget_all_settled(self) -> list[PeerLetter]:
        """Forget the settled parcels behind older ones of their sequences; returns what is to leave.

        A receiver may confirm nothing for days, and be below the target set no more: parcels that came after that are
        settled, and wait for the older ones alone.
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
        """Forget the parcels that no lane refers to any more and that are settled: the end of a step."""
        self._room = self.posted_at_once
        for server, position in self._post.take_dropped():
            row = self._parcels.get(position)
            if row is None or row.posted.get(server, 0) >= 0:
                self._uncount(position, server)
            if row is None:
                self._to_release[position] = None
        if not self._to_release:
            return
        for position in self._to_release:
            is_needed = position in self._parcels or self._post.refers_to(position)
            if position in self._post.parcels and not is_needed:
                self.backlog_bytes -= len(self._post.parcels.pop(position))
        self._to_release.clear()

    def removed(self, server: ServerId) -> None:
        """A server is not known any more: nobody is posted anything because it says so."""
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
        """A server remembers who got a parcel. Whether that is not settled: then the server is told once it is."""
        position = self._by_serial.get(parcel)
        if position is None:
            return False
        row = self._parcels[position]
        row.remembering = tuple(sorted({*row.remembering, server}))
        self._parcels.touch(position)
        return True

    def forget_remembering(self, position: int, server: ServerId) -> None:
        """Whether a server remembers who got a parcel does not matter any more."""
        row = self._parcels.get(position)
        if row is not None and server in row.remembering:
            row.remembering = tuple(other for other in row.remembering if other != server)
            self._parcels.touch(position)

    def waits_for(self, position: int, server: ServerId) -> bool:
        """Whether a parcel is not settled, and a server among those that have got it or will."""
        row = self._parcels.get(position)
        return row is not None and server in row.posted and not row.is_settled

    def give_up(self, position: int, server: ServerId) -> tuple[bytes, bool] | None:
        """Wait no longer until a server has a parcel. That it has not got it is told as of one that was never met.

        Returns the parcel, and whether the server remembers who got it, for it has it, and has left somebody out. None
        where nobody there lacks it.
        """
        row = self._parcels[position]
        self._parcels.touch(position)
        is_there = row.posted.pop(server) not in NEVER_CONFIRMED
        self._uncount(position, server)
        if is_there and server not in row.leaving_out:
            return None
        if is_there:
            # It may be sent again for those: it is not over.
            self.forget_remembering(position, server)
        row.note_leaving_out(server, is_so=False)
        row.unknown = tuple(sorted({*row.unknown, server}))
        return self._post.parcels[position], is_there

    def lose(self, position: int, server: ServerId) -> bool:
        """A server does not get a parcel, or has it no more, whatever it had: it is posted no more to that one.

        Returns whether it was waited for: then it is until it says who is further below. Callers are told of it as of a
        server that was never met.
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
        """The same, and the server is not waited for, whoever is further below."""
        if self.lose(position, server):
            self._mark(position, server, 0)

    def ids(self, position: int) -> list[str]:
        """What names the messages of a parcel that is not settled."""
        row = self._parcels[position]
        targets = self.targets_of(row.sequence)
        serials = range(row.first_serial, row.first_serial + row.messages)
        return [message_id(serial, targets, row.sequence, row.start, self.kept) for serial in serials]

    def targets_of(self, sequence: int) -> TargetSet:
        """Of the sequence of a number."""
        return self._rows[sequence].targets

    def is_kept(self, position: int) -> bool:
        """Whether a parcel is not settled, or waits for one before it."""
        return position in self._parcels

    def expire(self, position: int) -> list[ServerId]:
        """A parcel is not posted once more; returns who has not confirmed it and is to be given up, sorted."""
        row = self._parcels[position]
        row.is_apart = False
        self._parcels.touch(position)
        return sorted(server for server, count in row.posted.items() if count < 0)

    def is_posted(self, position: int, server: ServerId) -> bool:
        """Whether a parcel is not settled, and a server has got it or will."""
        row = self._parcels.get(position)
        return row is not None and server in row.posted

    def posted_to(self) -> list[ServerId]:
        """The servers to which anything was posted that is not settled; sorted."""
        return sorted({server for row in self._parcels.values() for server in row.posted})

    def begin_start(self, start: int) -> int:
        """Begin a start of this server, and return its number: `start`, or a higher one where that would not rise.

        Ids hold it, so that an older copy of the database gives none that was given since; and by it those who logged
        something know which of two parcels was accepted later.
        """
        of_parcels = (row.start for row in self._parcels.values())
        last = max((0, *(row.start for row in self._rows.values()), *of_parcels))
        # What is random in it stays.
        self.start = start if start > last else last + 1 + start % START_CHANCES
        return self.start

    def go_back(self) -> None:
        """This server goes on from an older copy of its database, and has just been told so.

        What is not settled in it is posted again as it was at first, which whoever has heard it passes over. What was
        accepted since this start is of no copy.
        """
        for position, row in self._parcels.items():
            if row.start != self.start:
                row.round, row.is_apart, row.is_of_copy = 0, False, True
                self._parcels.touch(position)

    # -- lanes that begin anew

    def begin_again(self, server: ServerId) -> list[PeerLetter]:
        """The lane to a server begins anew: post to it again what is not settled, and what waits for that, in order."""
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
        """Return what is still to be posted again, as the rows of an earlier start say."""
        for sequence in self._sequences.values():
            sequence.stubs -= {ServerId(server) for server in self._again}
        return {
            ServerId(server): self._expect_again(ServerId(server), through) for server, through in self._again.items()
        }

    def _expect_again(self, server: ServerId, through: int) -> deque[int]:
        """Return the parcels behind a position that a server is posted again, sorted; it has confirmed none of them."""
        left = deque[int]()
        for position, row in sorted(self._parcels.items()):
            if position > through and server in row.posted and server not in row.lost:
                left.append(position)
                if position not in self._sequences[row.sequence].settled:
                    # It becomes durable when it is posted.
                    row.posted[server] = ParcelState.UNCONFIRMED
        return left

    @property
    def posts_again(self) -> bool:
        """True if a later step is to post again what some server has lost."""
        return bool(self._left_again)

    def post_more_again(self, reach: Reach) -> list[PeerLetter]:
        """Post a slice more to servers whose lanes have begun anew."""
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
                self._room -= 1
                self._parcels.touch(position)
                leaving.append(self._posted(server, position))
        if left:
            self._again[server] = left[0] - 1
        else:
            self._end_again(server)
        return leaving

    def _end_again(self, server: ServerId) -> None:
        """Note that a server has all that it lost, or is gone."""
        self._left_again.pop(server, None)
        if server in self._again:
            del self._again[server]

    def _post_in_turn(self, server: ServerId, position: int) -> list[PeerLetter]:
        """Post a parcel, or let it wait until all before it was posted again; returns what is to leave."""
        return [] if self._waits_its_turn(server, position) else [self._posted(server, position)]

    def _waits_its_turn(self, server: ServerId, position: int) -> bool:
        """Return True if a later step posts a parcel, behind those that a server is posted again."""
        left = self._left_again.get(server)
        if not left or position < left[0]:
            return False
        if position > left[-1]:
            left.append(position)
        elif left[(place := bisect_left(left, position))] != position:
            left.insert(place, position)
        return True
