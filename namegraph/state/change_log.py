"""The durable record of changes, for auditors and for programs that follow a group.

The core writes the record and never reads it. The rows stay in the database.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from namegraph.model.changes import NO_ORIGIN, ChangeSet, Origin
from namegraph.model.names import ServerId
from namegraph.model.priorities import Priority, revision_of
from namegraph.model.rows import ChangeRecord, Records

CHANGES_KEPT = 100_000
"""Updates whose changes are kept: some 20 MB, or a day at one update a second."""

CHANGES_BYTES_KEPT = 256 * 1024 * 1024
"""Bytes of the kept changes of all these updates. If updates changed much, fewer updates are kept."""

FORGET_EVERY = 100
"""Number of updates that are forgotten at a time."""


class ChangeLog:
    """Numbers the changes of updates here, in the order of their commits."""

    def __init__(self) -> None:
        self.kept = CHANGES_KEPT
        """Number of updates that are kept. Up to `FORGET_EVERY` more may be kept."""
        self.kept_bytes = CHANGES_BYTES_KEPT
        self._last = 0
        self._rows: list[ChangeRecord] = []
        self._sizes: deque[tuple[int, int]] = deque([(0, 0)])
        """Bytes of the changes, by `number // FORGET_EVERY`, the oldest first."""
        self._bytes = 0

    def restore(self, last: int, sizes: Iterable[tuple[int, int]], *, newest: Priority) -> None:
        """Go on after the number `last`. `sizes`: bytes of all kept changes, by `number // FORGET_EVERY`, sorted.

        If earlier updates were not recorded, the first number is skipped for them, and the second number is an
        empty record of the newest update. A reader that knows less is then told that more was forgotten.
        """
        self._last = last
        self._sizes = deque(sizes) or self._sizes
        self._bytes = sum(size for _, size in self._sizes)
        if not last and newest.counter:
            self._last = 1
            self._append(newest, newest.server, NO_ORIGIN, ChangeSet())

    def note(self, final: Priority, coordinator: ServerId, origin: Origin, changes: ChangeSet) -> None:
        """Record an update, unless it changed nothing here."""
        if len(changes):
            self._append(final, coordinator, origin, changes)

    def _append(self, final: Priority, coordinator: ServerId, origin: Origin, changes: ChangeSet) -> None:
        self._last += 1
        revision = revision_of(final, coordinator=coordinator)
        request_id, told_at, caller, server = origin.request_id, origin.told_at, origin.caller, origin.server
        encoded = changes.encode()
        self._rows.append(
            ChangeRecord(self._last, final.counter, revision, request_id, told_at, caller, server, encoded)
        )
        hundreds, size = self._sizes[-1]
        if hundreds == self._last // FORGET_EVERY:
            self._sizes[-1] = (hundreds, size + len(encoded))
        else:
            self._sizes.append((self._last // FORGET_EVERY, len(encoded)))
        self._bytes += len(encoded)

    def take_rows(self, records: Records) -> None:
        """Add the rows of all noted updates."""
        if not self._rows:
            return
        records.changes += self._rows
        if any(row.number % FORGET_EVERY == 0 for row in self._rows):
            forgotten = max(self._last - self.kept, self._overrun_through())
            if forgotten > 0:
                records.forget_changes_through = forgotten
                while (self._sizes[0][0] + 1) * FORGET_EVERY <= forgotten + 1:
                    self._bytes -= self._sizes.popleft()[1]
        self._rows = []

    def _overrun_through(self) -> int:
        """Return the number through which the oldest records go, so that the rest fits into `kept_bytes`. 0: none
        goes."""
        size, through = self._bytes, 0
        for hundreds, of_these in self._sizes:
            if size <= self.kept_bytes:
                break
            size, through = size - of_these, (hundreds + 1) * FORGET_EVERY - 1
        return min(through, self._sizes[-1][0] * FORGET_EVERY - 1)


def change_sizes(records: Iterable[ChangeRecord]) -> list[tuple[int, int]]:
    """Return the sizes of kept changes, in the form of `StoredState.change_sizes`."""
    found: dict[int, int] = {}
    for record in records:
        hundreds = record.number // FORGET_EVERY
        found[hundreds] = found.get(hundreds, 0) + len(record.changes)
    return sorted(found.items())
