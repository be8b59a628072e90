"""The interface of every store, independent of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from namegraph import ChangeRecord, LogRecord, Records, ServerId, StoredState


@dataclass(frozen=True, slots=True)
class ChangesWanted:
    """Conditions for the rows of the audit log to read. A row must meet all conditions."""

    limit: int
    after: int = 0
    """Only larger numbers."""
    through: int | None = None
    """Only this number and smaller ones."""
    newest: int | None = None
    """Only so many of the newest rows. Older ones count as forgotten."""
    with_events: bool = False
    """True to read rows of all kinds. The two following conditions are for updates alone."""
    counter_from: int = 0
    """Minimum counter."""
    told_from: int = 0
    """Minimum time of the record, in milliseconds since 1970."""
    revision: str | None = None


class ChangesFound(NamedTuple):
    """Rows of the audit log, sorted by number."""

    records: list[ChangeRecord]
    oldest: int | None
    """Number of the oldest row of any kind that counts as kept; None if there is no row."""
    newest: int | None
    """Number of the newest row of any kind; None if there is no row."""


LOG_BYTES_PER_READ = 4 * 1024 * 1024
"""Default size of one read: a reader's buffer, and the longest acceptable delay of the next commit."""

LOG_RECORDS_PER_READ = 1_000
"""Maximum number of records of one read, however small they are."""


@dataclass(frozen=True, slots=True)
class LogWanted:
    """Range of the log of messages to read."""

    after: int
    """Only larger positions."""
    through: int | None = None
    """Only this position and smaller ones."""
    bytes_limit: int = LOG_BYTES_PER_READ
    """Minimum total of `encoded` at which reading stops, in bytes. The record that reaches it is the last."""


class Store(Protocol):
    """The durable state of one name server; opened by `storage.open_store`.

    A store may be used from any thread, but from one thread at a time. The usual arrangement is one worker thread for
    every call after the opening.
    """

    @property
    def server(self) -> ServerId:
        """Durable name of the server that owns the state."""
        ...

    @property
    def cautions(self) -> Sequence[str]:
        """Warnings for the operator about this database, found when it was opened. Empty if there are none."""
        ...

    def load(self) -> StoredState:
        """Return everything that was committed.

        The rows are read from the database while the iterables are consumed: exhaust or drop them before the first
        `commit`. Reading may raise `StorageError`.
        """
        ...

    def read_changes(self, wanted: ChangesWanted) -> ChangesFound:
        """Return rows of the audit log, the oldest first.

        Raises `StorageError`. Must not be called while the result of `load` is being consumed.
        """
        ...

    def read_log(self, wanted: LogWanted) -> list[LogRecord]:
        """Return records of the log of messages, sorted by position: at least one if any is in the range.

        Fewer records than the limits allow do not mean that no more exist. Raises `StorageError`. Must not be called
        while the result of `load` is being consumed.
        """
        ...

    def commit(self, records: Records) -> None:
        """Make the records durable, all or none. On return the records survive a power loss.

        A later row replaces an earlier row of the same key, among the records as in the database. An arc of version 0
        or a protocol row without a value deletes the row of its key. Outcomes, changes and log entries to forget are
        deleted last.

        Raises `StorageError`: nothing was stored, and a later call may succeed, except after `DatabaseLostError`, which
        is final. After `DatabaseInterruptedError`, or after a failed flush of the disk, the records may still have
        become durable. The caller then commits the very same records again before any others.
        """
        ...

    def probe(self) -> None:
        """Raise the `StorageError` that a commit would raise, as far as that shows without writing."""
        ...

    def close(self) -> None:
        """Release the database. A second call has no effect."""
        ...
