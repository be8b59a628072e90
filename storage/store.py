"""What every store offers, whatever engine is behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from namegraph import ChangeRecord, LogRecord, Records, ServerId, StoredState


@dataclass(frozen=True, slots=True)
class ChangesWanted:
    """Which records of changes to read: all these conditions hold for each of them."""

    limit: int
    after: int = 0
    """Larger numbers only."""
    counter_from: int = 0
    """Of this counter or a larger one."""
    told_from: int = 0
    """Told at this time or later, in milliseconds since 1970."""
    revision: str | None = None


class ChangesFound(NamedTuple):
    """Records of changes, sorted by number."""

    records: list[ChangeRecord]
    oldest: int | None
    """The number of the oldest that is kept; None where none is."""
    newest: int | None


LOG_BYTES_PER_READ = 4 * 1024 * 1024
"""As much as a reader's buffer is worth, and what one reading may hold up the next commit for."""

LOG_RECORDS_PER_READ = 1_000
"""No reading gives more, however small they are."""


@dataclass(frozen=True, slots=True)
class LogWanted:
    """Which piece of the log of messages to read."""

    after: int
    """Larger positions only."""
    through: int | None = None
    """This position and smaller ones only."""
    bytes_limit: int = LOG_BYTES_PER_READ
    """The record with which those found have this many bytes of `encoded` is the last."""


class Store(Protocol):
    """The durable state of one name server; opened by `storage.open_store`.

    A store may be used from any thread, but from one at a time: the usual arrangement is one worker thread
    that runs every call after the opening one.
    """

    @property
    def server(self) -> ServerId:
        """The durable name of the server whose state this is."""
        ...

    @property
    def cautions(self) -> Sequence[str]:
        """Warnings for the operator about this database, found when it was opened; empty if there are none."""
        ...

    def load(self) -> StoredState:
        """Return everything that was committed.

        The rows are read from the database while the iterables are consumed: exhaust (or drop) them before
        the first `commit`. Reading may raise `StorageError`.
        """
        ...

    def read_changes(self, wanted: ChangesWanted) -> ChangesFound:
        """Return records of changes, the oldest first. Raises `StorageError`; not beside what `load` returned."""
        ...

    def read_log(self, wanted: LogWanted) -> list[LogRecord]:
        """Return records of the log of messages, sorted by position: at least one where there is one.

        Fewer than the limits allow does not mean that there are no more. Raises `StorageError`; not beside what `load`
        returned.
        """
        ...

    def commit(self, records: Records) -> None:
        """Make the records durable, all or none; on return they survive a power loss.

        A later row of the same key replaces an earlier one, in the records as in the database; where the last one is an
        arc of version 0 or a protocol row without a value, none is left. Outcomes,
        changes and entries of the log are forgotten last. Raises
        `StorageError`: then nothing was stored and a later call may succeed, except after `DatabaseLostError`, which is
        final. After `DatabaseInterruptedError`, and where a disk failed to flush, the records may come back whole: the
        caller commits the very same records again before any others.
        """
        ...

    def probe(self) -> None:
        """Raise the `StorageError` that a commit would meet, as far as that shows without writing."""
        ...

    def close(self) -> None:
        """Give the database up; may be called again."""
        ...
