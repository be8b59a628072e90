"""Events for the audit log that no step of the core makes by itself.

    note --> waiting, bounded --every second, or write_now--> NoteEvents --> core.step --> a row, durable with its batch

An event about a durable change is noted by the core, in the transaction of the change. All other events come here.
Refusals are limited by identity: beyond the limit they are counted, and one row tells the count.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping

from namegraph import NO_ORIGIN, REFUSED, AuditEntry, Fact, NoteEvents, Origin

WAITING_EVENTS_LIMIT = 1_000
"""Most events that wait to be written: some 300 KB. Later events are counted by kind, and one row tells the counts."""

REFUSALS_LIMIT = 10
"""Refusals of one identity that are written in one second. Further ones are counted."""

COUNTED_IDENTITIES_LIMIT = 1_000
"""Identities whose refusals are counted apart in one second. Refusals of further ones are counted together."""

WRITE_SECONDS = 1.0
"""Time between two writes: a flush for each event would let callers without rights slow down all others."""

OTHERS = "others"
"""Name under which the refusals of further identities are counted."""


class AuditLog:
    """Collector of events. All methods belong to the thread of the event loop."""

    def __init__(self, *, take: Callable[[NoteEvents], None], is_writable: Callable[[], bool]) -> None:
        """`take`: takes a step of the core. `is_writable`: returns False while the database fails or is overloaded."""
        self._take = take
        self._is_writable = is_writable
        self._waiting: list[AuditEntry] = []
        self._left_out: Counter[str] = Counter()
        """Number of events that found no room, by kind."""
        self._refusals: Counter[str] = Counter()
        """Number of refusals in this second, by identity."""
        self._timer: asyncio.TimerHandle | None = None

    def note(
        self, kind: str, facts: Mapping[str, Fact], origin: Origin = NO_ORIGIN, *, decision: str = "", rule: str = ""
    ) -> None:
        """Note an event. It is durable after the next write, at most some seconds later."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(WRITE_SECONDS, self._write_later)
        if decision == REFUSED and not self._is_to_be_written(origin):
            return
        if len(self._waiting) >= WAITING_EVENTS_LIMIT:
            self._left_out[kind] += 1
        else:
            self._waiting.append(AuditEntry(kind, dict(facts), origin, decision, rule))

    def write_now(self) -> None:
        """Hand all events to the core, unless the database is failing. The core makes them durable with its next
        batch."""
        if not self._is_writable():
            return
        entries, self._waiting = self._waiting, []
        counted = {who: count - REFUSALS_LIMIT for who, count in self._refusals.items() if count > REFUSALS_LIMIT}
        self._refusals.clear()
        entries += [
            AuditEntry("refusals_counted", {"identity": who, "count": count}, decision=REFUSED)
            for who, count in counted.items()
        ]
        if self._left_out:
            entries.append(AuditEntry("events_left_out", dict(self._left_out)))
            self._left_out.clear()
        if entries:
            self._take(NoteEvents(tuple(entries)))

    def end(self) -> None:
        """Write no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _write_later(self) -> None:
        self._timer = None
        self.write_now()
        if self._waiting or self._left_out or self._refusals:
            self._timer = asyncio.get_running_loop().call_later(WRITE_SECONDS, self._write_later)

    def _is_to_be_written(self, origin: Origin) -> bool:
        who = identity_of(origin)
        if who not in self._refusals and len(self._refusals) >= COUNTED_IDENTITIES_LIMIT:
            who = OTHERS
        self._refusals[who] += 1
        return self._refusals[who] <= REFUSALS_LIMIT


def identity_of(origin: Origin) -> str:
    """Return the identity whose refusals are counted: the credential, or else the principal at its host."""
    if origin.credential:
        return origin.credential
    host = origin.caller.rpartition(":")[0]
    return f"{origin.principal} {host}".strip()
