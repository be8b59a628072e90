"""What could not be delivered: parcels of this origin that a server had not got when it was removed for good.

    removed, not confirmed --> dead letter --replay, once that server is known again--> under way --Confirm--> none
                                  |   ^                                                    |
                                  |   '---------- the server is removed again, <-----------'
                                  v               or the lanes to it begin anew
                                drop: none

A dead letter is one parcel. Its number is the parcel's position in the log here, so no number comes twice. Replayed, it
goes to the servers that lack it alone, with the ids its messages had, and is late there. One that is back after all may
have had a parcel and not been heard: its confirmation comes then, and ends the dead letter, too.

Source: delivery.md section 9.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct, structs

from delivery.wire import Confirm, Parcel, decode_stored
from namegraph import NUMBERS, TEXTS, DurableMap, DurableState, NodeId, ServerId, packed

DEAD_LETTERS_BYTES_LIMIT = 256 * 1024 * 1024
"""As large as what can wait for servers. They are in memory, too; beyond it the oldest go."""

REPLAY_BYTES_LIMIT = 16 * 1024 * 1024
"""Of dead letters that are under way at once."""

_ParcelKey = tuple[int, int, int]
"""The number of a sequence, the incarnation, and the first serial."""


class _Row(Struct, array_like=True):
    """One parcel, and who lacks it."""

    encoded: bytes
    lacking: dict[ServerId, bool]
    """Whether it is under way to them again."""


class DeadLetter(NamedTuple):
    """What operators are told of one."""

    number: int
    first_id: str
    """Of the first of its messages; the others have the serials that follow."""
    messages: int
    size: int
    """In bytes."""
    addressed: NodeId
    servers: tuple[ServerId, ...]
    """Which lack it; sorted."""
    replayed_to: tuple[ServerId, ...]
    """Of these, the ones to which it is under way; sorted."""
    sent_at_ms: int
    """When the first of its messages was accepted, as in `Message`."""


class DeadLetters:
    """All dead letters of this server."""

    def __init__(self, durable: DurableState) -> None:
        self._rows = DurableMap(durable, "dead letter", NUMBERS, packed(_Row))
        self._lost = DurableMap(durable, "dead letters lost", TEXTS, packed(int))
        """One value, without a key: of how many messages the dead letters had to go."""
        self._told: dict[int, DeadLetter] = {}
        """What of each does not change."""
        self._numbers: dict[_ParcelKey, int] = {}
        self.size = 0
        self.limit_bytes = DEAD_LETTERS_BYTES_LIMIT
        self.replay_limit_bytes = REPLAY_BYTES_LIMIT
        for number, row in self._rows.items():
            self._learn(number, row.encoded)

    def _learn(self, number: int, encoded: bytes) -> None:
        parcel = decode_stored(encoded)
        self._numbers[parcel.sequence, parcel.incarnation, parcel.first_serial] = number
        self._told[number] = DeadLetter(
            number,
            parcel.message_id(0),
            len(parcel.messages),
            len(encoded),
            parcel.targets[0].name,
            (),
            (),
            parcel.messages[0].sent_at_ms,
        )
        self.size += len(encoded)

    @property
    def messages_lost(self) -> int:
        """How many messages were in dead letters that had to go, since there was no room for them."""
        return self._lost.get("", 0)

    def add(self, position: int, encoded: bytes, server: ServerId) -> None:
        """A server that was removed has not got a parcel."""
        if position not in self._rows:
            self._rows[position] = _Row(encoded, {})
            self._learn(position, encoded)
        self._rows[position].lacking[server] = False
        self._rows.touch(position)
        while self.size > self.limit_bytes:
            oldest = min(self._rows)
            self._lost[""] = self.messages_lost + self._told[oldest].messages
            self._forget(oldest)

    def _forget(self, number: int) -> None:
        row = self._rows.pop(number)
        del self._told[number]
        parcel = decode_stored(row.encoded)
        del self._numbers[parcel.sequence, parcel.incarnation, parcel.first_serial]
        self.size -= len(row.encoded)

    def confirmed(self, server: ServerId, confirm: Confirm) -> bool:
        """A server has a parcel. Whether it was said to lack it."""
        number = self._numbers.get((confirm.sequence, confirm.incarnation, confirm.first_serial))
        if number is None or server not in self._rows[number].lacking:
            return False
        del self._rows[number].lacking[server]
        self._rows.touch(number)
        if not self._rows[number].lacking:
            self._forget(number)
        return True

    def replay(
        self, numbers: Iterable[int] | None, may_post: Callable[[ServerId, int], bool]
    ) -> tuple[list[tuple[Parcel, list[ServerId]]], int]:
        """What is to be posted anew, each with to whom, and how many of the dead letters are left as they are.

        `numbers`: None, all of them; one that is not there is none. `may_post`: whether a number may go to a server.
        One that is under way is neither posted again nor left.
        """
        posts: list[tuple[Parcel, list[ServerId]]] = []
        left = 0
        under_way = sum(len(row.encoded) for row in self._rows.values() if any(row.lacking.values()))
        for number in self._chosen(numbers):
            row = self._rows[number]
            waiting = [server for server, is_under_way in row.lacking.items() if not is_under_way]
            ready = [server for server in waiting if may_post(server, number)]
            if ready and (not under_way or under_way + len(row.encoded) <= self.replay_limit_bytes):
                under_way += len(row.encoded)
                stored = decode_stored(row.encoded)
                posts.append((structs.replace(stored, round=stored.round + 1, is_replayed=True), ready))
                row.lacking |= dict.fromkeys(ready, True)
                self._rows.touch(number)
                waiting = [server for server in waiting if server not in ready]
            left += bool(waiting)
        return posts, left

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
                row.lacking[server] = False
                self._rows.touch(number)

    def replayed_to(self) -> set[ServerId]:
        """The servers to which any are under way."""
        return {server for row in self._rows.values() for server, is_under_way in row.lacking.items() if is_under_way}

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
                replayed_to = tuple(server for server, is_under_way in lacking if is_under_way)
                found.append(told._replace(servers=servers, replayed_to=replayed_to))
        return found

    def __len__(self) -> int:
        return len(self._rows)
