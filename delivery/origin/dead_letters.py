"""What could not be delivered: parcels of this origin that were given up before a server had confirmed them, and
messages that were queued here for another origin and not accepted there.

    removed for good, --> dead letter --replay, once it is known--> asked --Probed--> under way --Confirm--> none
    or kept too long         |   ^                                    |                  |
                             |   '-- the server is removed again, <---+------------------'
                             v       or the lanes to it begin anew
                           drop: none

The server may have had it and not been heard, and then it would log it twice. So it is asked first (`Probe`): its
answer comes behind all that it has confirmed.

A dead letter is one parcel. Its number is the parcel's position in the log here, so no number comes twice. Replayed, it
goes to the servers that lack it alone, with the ids its messages had, and is late there. One that is back after all may
have had a parcel and not been heard: its confirmation comes then, and ends the dead letter, too.

Or it is one queued message, with its number in the queue, which is put above all positions. Replayed, it is queued
again, and no dead letter any more.

What is lost for good is counted: what there was no room for here, and what went from the log before a mailbox had read
it. Its text is nowhere any more.

Source: delivery.md sections 9 and 11.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct, msgpack, structs

from delivery.origin.queue import QueuedMessage
from delivery.wire.posts import Confirm, Over, Parcel, decode_stored
from namegraph import NUMBERS, TEXTS, DurableMap, DurableState, NodeId, ServerId, packed

DEAD_LETTERS_BYTES_LIMIT = 256 * 1024 * 1024
"""As large as what can wait for servers. They are in memory, too; beyond it the oldest go."""

QUEUED_FROM = 10**15
"""The numbers of queued messages begin behind this: no log has so many positions."""

REPLAY_BYTES_LIMIT = 16 * 1024 * 1024
"""Of dead letters that are under way at once."""


class DeadReason(StrEnum):
    """Why a parcel was given up."""

    SERVER_REMOVED = "server removed"
    EXPIRED = "expired"
    """Parcels are kept no longer for a server, or a queued message is good no longer. Or too much waited."""
    REFUSED = "refused"
    """A queued message was refused by its origin."""


class LossReason(StrEnum):
    """Why messages are lost for good."""

    NO_ROOM = "no room"
    """For the dead letters that they were in."""
    OVERRUN = "overrun"
    """The log had grown to its limit, and a mailbox had not read them."""
    KEPT_TOO_LONG = "kept too long"
    """In the log, and a mailbox had not read them."""
    CLOSED = "mailbox closed"
    """In the log, and a mailbox had not read them when it was closed."""


class Undelivered(NamedTuple):
    """How many messages were not delivered for one reason."""

    reason: DeadReason | LossReason
    messages: int
    """Those that are lost from the log, or with a mailbox, count once for each mailbox."""
    dead_letters: int
    """In which they are kept; 0: they are lost."""


WHY_LIMIT = 1_000
"""Characters."""

_LEFT, _POSTED = 0, -1

_ParcelKey = tuple[int, int, int]
"""The number of a sequence, the start, and the first serial."""


class _Row(Struct, array_like=True):
    """One parcel, and who lacks it."""

    encoded: bytes
    lacking: dict[ServerId, int]
    """Whether it is under way to them again: `_LEFT`, `_POSTED`, or the number of the probe that is to be answered."""
    reason: DeadReason
    """Why the first of them lacks it."""
    is_queued: bool = False
    """Whether it is a `QueuedMessage`, and no parcel."""
    why: str = ""
    """Of one that was refused: in words."""
    remembering: tuple[ServerId, ...] = ()
    """Of those who lack it, servers that have it, and had left somebody out: they remember who got it."""


class DeadLetter(NamedTuple):
    """What operators are told of one."""

    number: int
    first_id: str
    """Of the first of its messages; the others have the serials that follow. Empty of a queued message: it has none."""
    messages: int
    size: int
    """In bytes."""
    addressed: NodeId
    servers: tuple[ServerId, ...]
    """Which lack it; sorted."""
    replayed_to: tuple[ServerId, ...]
    """Of these, the ones to which it is under way; sorted."""
    sent_at_ms: int
    """When the first of its messages was accepted, as in `Message`, or queued."""
    reason: DeadReason
    """Why the first of `servers` did not get it."""
    why: str = ""
    """The refusal, in words."""


class DeadLetters:
    """All dead letters of this server."""

    def __init__(self, durable: DurableState) -> None:
        self._rows = DurableMap(durable, "dead letter", NUMBERS, packed(_Row))
        self._lost = DurableMap(durable, "messages lost", TEXTS, packed(int))
        """How many, by reason."""
        self._counts: Counter[tuple[DeadReason, bool]] = Counter()
        """Dead letters by reason; with True, the messages in them."""
        self._told: dict[int, DeadLetter] = {}
        """What of each does not change."""
        self._numbers: dict[_ParcelKey, int] = {}
        self._over: list[tuple[ServerId, Over]] = []
        self._by_age: list[int] = []
        """A heap of numbers, those that are gone among them until they are the first."""
        self.size = 0
        self.limit_bytes = DEAD_LETTERS_BYTES_LIMIT
        self.replay_limit_bytes = REPLAY_BYTES_LIMIT
        for number, row in self._rows.items():
            self._learn(number, row)

    def _learn(self, number: int, row: _Row) -> None:
        size = len(row.encoded)
        if row.is_queued:
            queued = _queued(row)
            told = DeadLetter(number, "", 1, size, queued.addressed, (), (), queued.queued_at_ms, row.reason, row.why)
        else:
            parcel = decode_stored(row.encoded)
            self._numbers[parcel.sequence, parcel.start, parcel.first_serial] = number
            first, sent_at_ms = parcel.message_id(0), parcel.messages[0].sent_at_ms
            addressed = parcel.targets[0].name
            told = DeadLetter(number, first, len(parcel.messages), size, addressed, (), (), sent_at_ms, row.reason)
        self._told[number] = told
        self.size += size
        heapq.heappush(self._by_age, number)
        self._count(number, 1)

    def _count(self, number: int, by: int) -> None:
        told = self._told[number]
        self._counts[told.reason, False] += by
        self._counts[told.reason, True] += by * told.messages

    @property
    def messages_lost(self) -> int:
        """How many messages were in dead letters that had to go, since there was no room for them."""
        return self._lost.get(LossReason.NO_ROOM, 0)

    def lost(self, reason: LossReason, messages: int) -> None:
        """Messages are lost for good."""
        if messages:
            self._lost[reason] = self._lost.get(reason, 0) + messages

    def undelivered(self) -> list[Undelivered]:
        """How many messages were not delivered, by reason: what is kept, then what is lost. Reasons of none are there.

        May be asked while a step is carried out in another thread.
        """
        counts, lost = self._counts, self._lost
        kept = [Undelivered(reason, counts[reason, True], counts[reason, False]) for reason in DeadReason]
        return kept + [Undelivered(reason, lost.get(reason, 0), 0) for reason in LossReason]

    def add(
        self, position: int, encoded: bytes, server: ServerId, reason: DeadReason, *, is_remembered: bool = False
    ) -> None:
        """A parcel was given up for a server. `is_remembered`: whether that one remembers who got it."""
        if position not in self._rows:
            self._rows[position] = _Row(encoded, {}, reason)
            self._learn(position, self._rows[position])
        row = self._rows[position]
        row.lacking[server] = _LEFT
        if is_remembered:
            row.remembering = (*row.remembering, server)
        self._rows.touch(position)
        self._make_room()

    def add_queued(self, number: int, message: QueuedMessage, reason: DeadReason, why: str = "") -> None:
        """A queued message does not come to its origin. `number`: in the queue. `why`: the refusal, in words."""
        row = _Row(msgpack.encode(message), {}, reason, is_queued=True, why=why[:WHY_LIMIT])
        self._rows[QUEUED_FROM + number] = row
        self._learn(QUEUED_FROM + number, row)
        self._make_room()

    def _make_room(self) -> None:
        while self.size > self.limit_bytes:
            oldest = self._oldest()
            self.lost(LossReason.NO_ROOM, self._told[oldest].messages)
            self._forget(oldest)

    def _oldest(self) -> int:
        while self._by_age[0] not in self._rows:
            heapq.heappop(self._by_age)
        return self._by_age[0]

    def _forget(self, number: int) -> None:
        row = self._rows.pop(number)
        self._count(number, -1)
        del self._told[number]
        if not row.is_queued:
            parcel = decode_stored(row.encoded)
            key = (parcel.sequence, parcel.start, parcel.first_serial)
            del self._numbers[key]
            self._over += [(server, Over(*key)) for server in row.remembering if server in row.lacking]
        self.size -= len(row.encoded)

    def confirmed(self, server: ServerId, confirm: Confirm) -> bool:
        """A server has a parcel. Whether it was said to lack it."""
        number = self._numbers.get((confirm.sequence, confirm.start, confirm.first_serial))
        if number is None or server not in self._rows[number].lacking:
            return False
        if confirm.has_left_out:
            # Those lack it still.
            return True
        del self._rows[number].lacking[server]
        self._rows.touch(number)
        if not self._rows[number].lacking:
            self._forget(number)
        return True

    def note_remembered(self, server: ServerId, parcel: _ParcelKey) -> bool:
        """A server remembers who got a parcel. Whether it lacks it, and so is to remember that."""
        number = self._numbers.get(parcel)
        if number is None or server not in self._rows[number].lacking:
            return False
        row = self._rows[number]
        row.remembering = tuple(sorted({*row.remembering, server}))
        self._rows.touch(number)
        return True

    def replay(
        self,
        numbers: Iterable[int] | None,
        may_post: Callable[[ServerId, int], bool],
        probe: Callable[[ServerId], int],
        queue: Callable[[QueuedMessage], bool],
    ) -> tuple[int, int]:
        """Begin to send dead letters again; returns how many, and how many are left as they are.

        `numbers`: None, all of them; one that is not there is none. `may_post`: whether a number may go to a server.
        `probe`: asks a server, and returns the number that its answer has. `queue`: has a message wait
        for its origin again, if it can. One that is under way is neither sent again
        nor left.
        """
        replayed = left = 0
        probes: dict[ServerId, int] = {}
        under_way = sum(len(row.encoded) for row in self._rows.values() if any(row.lacking.values()))
        for number in self._chosen(numbers):
            row = self._rows[number]
            if row.is_queued:
                is_back = queue(_queued(row))
                replayed, left = replayed + is_back, left + (not is_back)
                if is_back:
                    self._forget(number)
                continue
            waiting = [server for server, state in row.lacking.items() if state == _LEFT]
            ready = [server for server in waiting if may_post(server, number)]
            if ready and (not under_way or under_way + len(row.encoded) <= self.replay_limit_bytes):
                under_way += len(row.encoded)
                replayed += 1
                for server in ready:
                    if server not in probes:
                        probes[server] = probe(server)
                    row.lacking[server] = probes[server]
                self._rows.touch(number)
                waiting = [server for server in waiting if server not in ready]
            left += bool(waiting)
        return replayed, left

    def probed(self, server: ServerId, probe: int) -> list[Parcel]:
        """A server has answered: what it lacks and was to be sent again before that, to be posted now."""
        parcels = []
        for number in sorted(self._rows):
            row = self._rows[number]
            if 0 < row.lacking.get(server, _LEFT) <= probe:
                row.lacking[server] = _POSTED
                self._rows.touch(number)
                stored = decode_stored(row.encoded)
                parcels.append(structs.replace(stored, round=stored.round + 1, is_replayed=True, assigner=0))
        return parcels

    def take_over(self) -> list[tuple[ServerId, Over]]:
        """Whom to tell of what parcels that they need not remember who got them: these are not sent again."""
        over, self._over = self._over, []
        return over

    def drop(self, numbers: Iterable[int] | None) -> int:
        """Forget dead letters, all of them where no numbers are given; returns how many there were of these."""
        chosen = self._chosen(numbers)
        for number in chosen:
            self._forget(number)
        return len(chosen)

    def _chosen(self, numbers: Iterable[int] | None) -> list[int]:
        return sorted(self._rows if numbers is None else self._rows.keys() & set(numbers))

    def begin_again(self, server: ServerId) -> None:
        """What was under way to a server will not come: its lane begins anew, or it is removed again."""
        for number, row in self._rows.items():
            if row.lacking.get(server):
                row.lacking[server] = _LEFT
                self._rows.touch(number)

    def parcels(self) -> Collection[_ParcelKey]:
        """Those that were given up for some server."""
        return self._numbers.keys()

    def replayed_to(self) -> set[ServerId]:
        """The servers to which any are under way."""
        return {server for row in self._rows.values() for server, state in row.lacking.items() if state != _LEFT}

    def lacking(self, message_id: str) -> tuple[ServerId, ...]:
        """The servers that lack a message of this origin; sorted."""
        serial, _, sequence = message_id.partition("@")
        for number, told in self._told.items():
            first, _, of = told.first_id.partition("@")
            if of == sequence and int(first) <= int(serial) < int(first) + told.messages:
                return tuple(sorted(self._rows[number].lacking))
        return ()

    def after(self, number: int, limit: int) -> Sequence[DeadLetter]:
        """So many dead letters at most whose numbers are higher, sorted.

        May be asked while a step is carried out in another thread.
        """
        numbers = sorted(self._rows.copy())
        found: list[DeadLetter] = []
        for each in numbers[bisect_right(numbers, number) :][:limit]:
            row, told = self._rows.get(each), self._told.get(each)
            if row is not None and told is not None:
                lacking = sorted(dict(row.lacking).items())
                servers = tuple(server for server, _ in lacking)
                replayed_to = tuple(server for server, state in lacking if state != _LEFT)
                found.append(told._replace(servers=servers, replayed_to=replayed_to))
        return found

    def __len__(self) -> int:
        return len(self._rows)


def _queued(row: _Row) -> QueuedMessage:
    return msgpack.decode(row.encoded, type=QueuedMessage)
