"""Undelivered messages: parcels given up before a server confirmed them, and queued messages not accepted.

Parcels come from this origin. Queued messages were for another origin.

    removed for good, --> dead letter --replay, once it is known--> asked --Probed--> under way --Confirm--> none
    or kept too long         |   ^                                    |                  |
                             |   '-- the server is removed again, <---+------------------'
                             v       or the lanes to it begin anew
                           drop: none

The server may have the parcel although its confirmation was lost, and would log the parcel twice. The origin sends a
`Probe` first: the answer comes behind all confirmations of the server.

A dead letter is one parcel. Its number is the position of the parcel in this server's log, so no number comes twice.
Replay sends it only to the servers that lack it, with the same message ids, and it is late there. A server that is back
after all may have the parcel. Its confirmation comes then, and ends the dead letter, too.

A dead letter may also be one queued message, numbered above all positions. Replay queues the message again, and ends
the dead letter.

Lost messages are counted: dead letters without room, and entries that left the log before a mailbox read them. Their
text is not kept.

See docs/protocol-messages.md, "Messages and servers that part", and docs/messages.md, "Dead letters".
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct, msgpack, structs

from delivery.model.agenda import Agenda, Work
from delivery.origin.queue import QueuedMessage
from delivery.wire.posts import Confirm, Over, Parcel, decode_stored
from namegraph import NUMBERS, TEXTS, DurableMap, DurableState, NodeId, ServerId, packed

DEAD_LETTERS_BYTES_LIMIT = 256 * 1024 * 1024
"""Memory limit of dead letters, as large as all parcels that can wait for servers. The oldest go beyond it."""

QUEUED_FROM = 10**15
"""Number behind which those of queued messages begin. No log has so many positions."""

REPLAY_BYTES_LIMIT = 16 * 1024 * 1024
"""Most bytes of dead letters that are under way at once."""


class DeadReason(StrEnum):
    """Reason for which a parcel was given up."""

    SERVER_REMOVED = "server removed"
    EXPIRED = "expired"
    """Parcels are kept no longer for a server, a queued message has expired, or too much waited."""
    REFUSED = "refused"
    """The origin refused a queued message."""


class LossReason(StrEnum):
    """Reason for which messages are lost for good."""

    NO_ROOM = "no room"
    """No room was left for their dead letters."""
    OVERRUN = "overrun"
    """The log had grown to its limit, and a mailbox had not read them."""
    KEPT_TOO_LONG = "kept too long"
    """Retention in the log ended, and a mailbox had not read them."""
    CLOSED = "mailbox closed"
    """A mailbox was closed that had not read them from the log."""


class UndeliveredCount(NamedTuple):
    """Number of messages that were not delivered for one reason."""

    reason: DeadReason | LossReason
    messages: int
    """Number of messages. A message lost from the log, or with a mailbox, counts once for each mailbox."""
    dead_letters: int
    """Number of dead letters that keep these messages. 0 if the messages are lost."""


WHY_LIMIT = 1_000
"""Longest `why`, in characters."""

_LEFT, _POSTED = 0, -1

_ParcelKey = tuple[int, int, int]
"""Sequence number, start, and first serial."""


class _ParcelRow(Struct, array_like=True):
    """One parcel, and the servers that lack it."""

    encoded: bytes
    lacking: dict[ServerId, int]
    """Replay state by server: `_LEFT`, `_POSTED`, or the number of the probe that the server has to answer."""
    reason: DeadReason
    """Reason for which the first of these servers lacks the parcel."""
    is_queued: bool = False
    """True if `encoded` is a `QueuedMessage`, and no parcel."""
    why: str = ""
    """Text of the refusal, for a refused message."""
    remembering: tuple[ServerId, ...] = ()
    """Servers in `lacking` that logged the parcel but skipped foreign recipients. Each remembers the recipients."""


class UndeliveredParcel(NamedTuple):
    """A dead letter as operators see it."""

    number: int
    first_id: str
    """Id of its first message; the other messages have the following serials.

    Empty for a queued message without an id.
    """
    messages: int
    size: int
    """Size in bytes."""
    addressed: NodeId
    servers: tuple[ServerId, ...]
    """Servers that lack it, sorted."""
    replayed_to: tuple[ServerId, ...]
    """Servers of `servers` to which it is under way, sorted."""
    sent_at_ms: int
    """Time at which its first message was accepted, as in `Message`, or queued."""
    reason: DeadReason
    """Reason for which the first of `servers` did not get it."""
    why: str = ""
    """Text of the refusal."""


class DeadLetterStore:
    """All dead letters of this server."""

    def __init__(self, durable: DurableState, agenda: Agenda) -> None:
        self._agenda = agenda
        self._rows = DurableMap(durable, "dead letter", NUMBERS, packed(_ParcelRow))
        self._lost = DurableMap(durable, "messages lost", TEXTS, packed(int))
        """Number of lost messages, by reason."""
        self._counts: Counter[tuple[DeadReason, bool]] = Counter()
        """Number of dead letters by reason and False, and of the messages in them by reason and True."""
        self._told: dict[int, UndeliveredParcel] = {}
        """Constant part of each dead letter, by number."""
        self._numbers: dict[_ParcelKey, int] = {}
        self._over: list[tuple[ServerId, Over]] = []
        self._by_age: list[int] = []
        """Heap of numbers. A number that is gone stays until it is the first."""
        self.size = 0
        self.limit_bytes = DEAD_LETTERS_BYTES_LIMIT
        self.replay_limit_bytes = REPLAY_BYTES_LIMIT
        for number, row in self._rows.items():
            self._learn(number, row)

    def _learn(self, number: int, row: _ParcelRow) -> None:
        size = len(row.encoded)
        if row.is_queued:
            queued = _queued(row)
            told = UndeliveredParcel(
                number, "", 1, size, queued.addressed, (), (), queued.queued_at_ms, row.reason, row.why
            )
        else:
            parcel = decode_stored(row.encoded)
            self._numbers[parcel.sequence, parcel.start, parcel.first_serial] = number
            first, sent_at_ms = parcel.message_id(0), parcel.messages[0].sent_at_ms
            addressed = parcel.targets[0].name
            told = UndeliveredParcel(
                number, first, len(parcel.messages), size, addressed, (), (), sent_at_ms, row.reason
            )
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
        """Number of messages in dead letters that went because there was no room."""
        return self._lost.get(LossReason.NO_ROOM, 0)

    def lost(self, reason: LossReason, messages: int) -> None:
        """Count messages that are lost for good."""
        if messages:
            self._lost[reason] = self._lost.get(reason, 0) + messages

    def undelivered(self) -> list[UndeliveredCount]:
        """Return the numbers of undelivered messages by reason: first the dead letters, then the lost messages.

        Every reason is included, with 0 if it has no messages. The method may be called while a step runs in another
        thread.
        """
        counts, lost = self._counts, self._lost
        kept = [UndeliveredCount(reason, counts[reason, True], counts[reason, False]) for reason in DeadReason]
        return kept + [UndeliveredCount(reason, lost.get(reason, 0), 0) for reason in LossReason]

    def add(
        self, position: int, encoded: bytes, server: ServerId, reason: DeadReason, *, is_remembered: bool = False
    ) -> None:
        """Add a parcel that was given up for a server. `is_remembered`: True if the server remembers its recipients."""
        if position not in self._rows:
            self._rows[position] = _ParcelRow(encoded, {}, reason)
            self._learn(position, self._rows[position])
        row = self._rows[position]
        row.lacking[server] = _LEFT
        if is_remembered:
            row.remembering = (*row.remembering, server)
        self._rows.touch(position)
        self._make_room()

    def add_queued(self, number: int, message: QueuedMessage, reason: DeadReason, why: str = "") -> None:
        """Add a queued message that its origin does not get.

        `number`: number in the queue. `why`: text of the refusal.
        """
        row = _ParcelRow(msgpack.encode(message), {}, reason, is_queued=True, why=why[:WHY_LIMIT])
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
            self._agenda.mark(Work.OVERS)
        self.size -= len(row.encoded)

    def confirmed(self, server: ServerId, confirm: Confirm) -> bool:
        """Note that a server has a parcel. Return True if the server was listed as lacking it."""
        number = self._numbers.get((confirm.sequence, confirm.start, confirm.first_serial))
        if number is None or server not in self._rows[number].lacking:
            return False
        if confirm.has_left_out:
            # The foreign recipients that were left out still lack the parcel.
            return True
        del self._rows[number].lacking[server]
        self._rows.touch(number)
        if not self._rows[number].lacking:
            self._forget(number)
        return True

    def note_remembered(self, server: ServerId, parcel: _ParcelKey) -> bool:
        """Note that a server remembers the recipients of a parcel.

        Return True if the server lacks the parcel in part, and must go on remembering.
        """
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
        """Begin to send dead letters again. Return the number begun, and the number left as they are.

        `numbers`: dead letters to send; unknown numbers are ignored. None for all. `may_post`: true if a dead letter
        may go to a server. `probe`: sends a probe to a server and returns the number that the answer will have.
        `queue`: queues a message for its origin again, and returns True if it could. A dead letter that is under way is
        neither sent again nor left.
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
        """Return the parcels to post now to a server that answered a probe: those it lacks that waited for the
        probe."""
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
        """Return pairs of a server and an `Over` that tells it to forget recipients: the parcel is not sent again."""
        over, self._over = self._over, []
        return over

    def drop(self, numbers: Iterable[int] | None) -> int:
        """Forget dead letters, and return how many there were. `numbers`: None for all of them."""
        chosen = self._chosen(numbers)
        for number in chosen:
            self._forget(number)
        return len(chosen)

    def _chosen(self, numbers: Iterable[int] | None) -> list[int]:
        return sorted(self._rows if numbers is None else self._rows.keys() & set(numbers))

    def begin_again(self, server: ServerId) -> None:
        """Reset the dead letters under way to a server: its lane begins anew, or it was removed again."""
        for number, row in self._rows.items():
            if row.lacking.get(server):
                row.lacking[server] = _LEFT
                self._rows.touch(number)

    def parcels(self) -> Collection[_ParcelKey]:
        """Return the keys of parcels that were given up for some server."""
        return self._numbers.keys()

    def replayed_to(self) -> set[ServerId]:
        """Return the servers to which dead letters are under way."""
        return {server for row in self._rows.values() for server, state in row.lacking.items() if state != _LEFT}

    def lacking(self, message_id: str) -> tuple[ServerId, ...]:
        """Return the servers that lack a message of this origin, sorted."""
        serial, _, sequence = message_id.partition("@")
        for number, told in self._told.items():
            first, _, of = told.first_id.partition("@")
            if of == sequence and int(first) <= int(serial) < int(first) + told.messages:
                return tuple(sorted(self._rows[number].lacking))
        return ()

    def after(self, number: int, limit: int) -> Sequence[UndeliveredParcel]:
        """Return at most `limit` dead letters with numbers above `number`, sorted.

        The method may be called while a step runs in another thread.
        """
        numbers = sorted(self._rows.copy())
        found: list[UndeliveredParcel] = []
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


def _queued(row: _ParcelRow) -> QueuedMessage:
    return msgpack.decode(row.encoded, type=QueuedMessage)
