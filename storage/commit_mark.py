"""How far a SQLite database had come: the number of its last acknowledged commit, in `FILE.mark` beside it.

The end of a write-ahead log that is damaged or cut off looks like the end of a log that is whole, and an empty file
like a new database. So each commit has a number, which is durable with it, and is noted here right afterwards. A
database that holds fewer commits than are noted has lost some, or is an older copy.

The mark is not flushed: it outlives the process, but after a loss of power it may be behind, or gone. Then it says
less than is known, never more.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from zlib import crc32

from storage.errors import DatabaseDamagedError, DatabaseUnavailableError

_SIZE = 64


class CommitMark:
    """The mark of one database, which the caller has for itself."""

    def __init__(self, database: Path) -> None:
        self.path = database.with_name(database.name + ".mark")
        self._database = database
        try:
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise DatabaseUnavailableError(
                database=str(database),
                problem=f"cannot write {self.path}: {error.strerror}",
                remedy="let this user write the file and its folder",
            ) from error

    def require(self, commits: int) -> None:
        """Raise `DatabaseDamagedError` if more commits were acknowledged than the database holds."""
        noted = self._read()
        if commits < noted:
            raise DatabaseDamagedError(
                database=str(self._database),
                problem=f"its newest updates are missing: it ends with commit {commits}, but {self.path.name} tells of "
                f"commit {noted}",
                remedy="put the newest file and its -wal back; to go on from an older copy, knowing what that means "
                f'("Backup and restore" in docs/operators.md), remove {self.path.name}',
            )

    def note(self, commits: int) -> None:
        """Note the number of a commit that is durable."""
        text = b"%d" % commits
        # Where this fails, the mark says less than it could.
        with suppress(OSError):
            os.pwrite(self._descriptor, (b"%s %08x\n" % (text, crc32(text))).ljust(_SIZE), 0)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)

    def _read(self) -> int:
        text, _, checksum = os.pread(self._descriptor, _SIZE, 0).strip().partition(b" ")
        return int(text) if text.isdigit() and checksum == b"%08x" % crc32(text) else 0
