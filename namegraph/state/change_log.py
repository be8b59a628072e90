"""The record of changes that a server makes durable beside them, for auditors and for programs that follow a group.

The core writes it and never reads it: the rows stay in the database.
"""

from __future__ import annotations

from namegraph.model.changes import NO_ORIGIN, ChangeSet, Origin
from namegraph.model.names import ServerId
from namegraph.model.priorities import Priority, revision_of
from namegraph.model.rows import ChangeRecord, Records

CHANGES_KEPT = 100_000
"""Updates whose changes are kept: some 20 MB, and at one update a second those of a day."""

FORGET_EVERY = 100
"""They are forgotten this many at a time."""


class ChangeLog:
    """Numbers what updates changed here, in the order in which they are committed."""

    def __init__(self) -> None:
        self.kept = CHANGES_KEPT
        """How many are kept, and up to `FORGET_EVERY` more."""
        self._last = 0
        self._rows: list[ChangeRecord] = []

    def restore(self, last: int, *, newest: Priority) -> None:
        """Go on after a number.

        Where updates were not recorded before, the first number is left out for them, and the second one is an empty
        record of the newest: whoever knows less is told that more was forgotten.
        """
        self._last = last
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
        self._rows.append(
            ChangeRecord(self._last, final.counter, revision, request_id, told_at, caller, server, changes.encode())
        )

    def take_rows(self, records: Records) -> None:
        """Add the rows of all that was noted."""
        if not self._rows:
            return
        records.changes += self._rows
        if any(row.number % FORGET_EVERY == 0 for row in self._rows) and self._last > self.kept:
            records.forget_changes_through = self._last - self.kept
        self._rows = []
