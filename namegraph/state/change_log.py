"""The durable record of changes and events: the audit log, which programs that follow a group read as well.

The core writes the rows and never reads them. They stay in the database. Each row has its place in a chain of hashes
(`namegraph.model.audit_chain`). The core computes the chain as it numbers the rows, so a flush that is repeated writes
the same rows again, and a start goes on from the newest durable row.

Source: docs/audit-log.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from namegraph.model.audit_chain import ALLOWED, CHAIN_BEGINNING, UPDATE, Fact, chained, encode_facts
from namegraph.model.changes import NO_ORIGIN, ChangeSet, Origin
from namegraph.model.names import ServerId
from namegraph.model.priorities import Priority, revision_of
from namegraph.model.rows import ChangeRecord, Records

CHANGES_KEPT = 100_000
"""Newest rows that `changes` and `watch` read: a day at one update a second. A look for a revision reads them all."""

AUDIT_DAYS = 400.0
"""Age from which rows are forgotten: a year, and time to look into it."""

CHANGES_BYTES_KEPT = 256 * 1024 * 1024
"""Bytes of all kept rows: some 800,000 updates of one change each."""

FORGET_EVERY = 100
"""Number of rows that are forgotten at a time."""

ROW_BYTES = 250
"""Bytes of a row besides its changes: texts, two hashes, and the overhead of the database."""


class ChangeLog:
    """Numbers the rows of this server in the order of their commits, and chains them."""

    def __init__(self) -> None:
        self.kept_bytes = CHANGES_BYTES_KEPT
        self._last = 0
        self._hash = CHAIN_BEGINNING
        self._rows: list[ChangeRecord] = []
        self._sizes: deque[tuple[int, int]] = deque([(0, 0)])
        """Bytes of the rows, by `number // FORGET_EVERY`, the oldest first."""
        self._bytes = 0
        self._forgotten = 0
        """Number through which rows are to be forgotten because of their age. 0: no row is."""

    @property
    def last(self) -> int:
        """Number of the newest row. 0 if there is none."""
        return self._last

    @property
    def first(self) -> int:
        """Number before which no row is kept, a multiple of `FORGET_EVERY`."""
        return self._sizes[0][0] * FORGET_EVERY

    def restore(self, last: int, sizes: Iterable[tuple[int, int]], *, newest: Priority, last_hash: bytes = b"") -> None:
        """Go on after the row `last`. `sizes`: bytes of all kept rows, by `number // FORGET_EVERY`, sorted.

        If earlier updates were not recorded, the first number is skipped for them, and the second number is an
        empty record of the newest update. A reader that knows less is then told that more was forgotten.
        `last_hash`: hash of the row `last`. If it has none, the chain begins behind it.
        """
        self._last = last
        self._hash = last_hash or CHAIN_BEGINNING
        self._sizes = deque(sizes) or self._sizes
        self._bytes = sum(size for _, size in self._sizes)
        if not last and newest.counter:
            self._last = 1
            self._append(
                newest.counter, revision_of(newest, coordinator=newest.server), NO_ORIGIN, ChangeSet().encode()
            )

    def note(self, final: Priority, coordinator: ServerId, origin: Origin, changes: ChangeSet) -> None:
        """Record an update, unless it changed nothing here."""
        if len(changes):
            decision = ALLOWED if origin.principal else ""
            revision = revision_of(final, coordinator=coordinator)
            self._append(final.counter, revision, origin, changes.encode(), decision=decision)

    def note_event(
        self,
        kind: str,
        facts: Mapping[str, Fact],
        origin: Origin = NO_ORIGIN,
        *,
        counter: int = 0,
        decision: str = "",
        rule: str = "",
    ) -> None:
        """Record an event. `counter`: priority counter of this server."""
        assert kind != UPDATE, "an update is recorded by its changes"
        self._append(counter, "", origin, encode_facts(facts), kind=kind, decision=decision, rule=rule)

    def forget_through(self, number: int) -> None:
        """Forget the rows through a number, except the newest row, from which the chain goes on."""
        through = min(number, self._last - 1)
        if through >= self.first:
            self._forgotten = max(self._forgotten, through)

    def _append(
        self,
        counter: int,
        revision: str,
        origin: Origin,
        encoded: bytes,
        *,
        kind: str = UPDATE,
        decision: str = "",
        rule: str = "",
    ) -> None:
        self._last += 1
        row = ChangeRecord(
            self._last,
            counter,
            revision,
            origin.request_id,
            origin.told_at,
            origin.caller,
            origin.server,
            encoded,
            kind,
            origin.principal,
            origin.how,
            origin.credential,
            origin.via,
            decision,
            rule,
        )
        record = chained(row, self._hash)
        self._hash = record.hash
        self._rows.append(record)
        size = ROW_BYTES + len(encoded)
        hundreds, before = self._sizes[-1]
        if hundreds == self._last // FORGET_EVERY:
            self._sizes[-1] = (hundreds, before + size)
        else:
            self._sizes.append((self._last // FORGET_EVERY, size))
        self._bytes += size

    def take_rows(self, records: Records) -> None:
        """Add the rows of all noted updates and events, and the number through which old rows go."""
        if not self._rows and not self._forgotten:
            return
        records.changes += self._rows
        forgotten, self._forgotten = self._forgotten, 0
        if any(row.number % FORGET_EVERY == 0 for row in self._rows):
            forgotten = max(forgotten, self._overrun_through())
        self._rows = []
        if forgotten > 0:
            records.forget_changes_through = forgotten
            while (self._sizes[0][0] + 1) * FORGET_EVERY <= forgotten + 1:
                self._bytes -= self._sizes.popleft()[1]

    def _overrun_through(self) -> int:
        """Return the number through which the oldest rows go, so that the rest fits into `kept_bytes`. 0: none
        goes."""
        size, through = self._bytes, 0
        for hundreds, of_these in self._sizes:
            if size <= self.kept_bytes:
                break
            size, through = size - of_these, (hundreds + 1) * FORGET_EVERY - 1
        return min(through, self._sizes[-1][0] * FORGET_EVERY - 1)


def change_sizes(records: Iterable[ChangeRecord]) -> list[tuple[int, int]]:
    """Return the sizes of kept rows, in the form of `StoredState.change_sizes`."""
    found: dict[int, int] = {}
    for record in records:
        hundreds = record.number // FORGET_EVERY
        found[hundreds] = found.get(hundreds, 0) + ROW_BYTES + len(record.changes)
    return sorted(found.items())
