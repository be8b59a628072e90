"""The mark of a SQLite database: the server and its last acknowledged commit, in `FILE.mark` beside the database.

The end of a damaged or truncated write-ahead log looks like the end of a whole log. An empty file looks like a new
database. Therefore each commit has a number, durable with the commit and noted in the mark right afterwards. A database
with fewer commits than the mark has lost commits, or is an older copy. The name of the server in the mark detects that
the files of another server were put in place.

The mark is not flushed. It survives the end of the process, but a loss of power may leave it outdated or remove it. The
number in the mark is then too low, never too high.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from namegraph import ServerId
from storage.errors import DatabaseDamagedError, DatabaseUnavailableError, ServerIdentityError
from storage.owned_file import open_owned

_SIZE = 512
"""Bytes that a disk writes at once. A mark with a usual server name fits."""


@dataclass(frozen=True, slots=True)
class CommitMark:
    """Contents of a mark. The defaults mean that nothing is noted. Marks of earlier versions name no server."""

    commits: int = 0
    server: str | None = None

    def require(self, database: Path, *, commits: int) -> None:
        """Raise `DatabaseDamagedError` if more commits were acknowledged than the database holds."""
        name = mark_path(database).name
        if commits < self.commits:
            raise DatabaseDamagedError(
                database=str(database),
                problem=f"its newest updates are missing: it ends with commit {commits}, but {name} tells of "
                f"commit {self.commits}",
                remedy="put the newest file and its -wal back; to go on from an older copy, knowing what that means "
                f'("Backup and restore" in docs/operators.md), remove {name}',
            )

    def require_server(self, database: Path, *, server: ServerId) -> None:
        """Raise `ServerIdentityError` if the mark names another server."""
        if self.server not in (None, server):
            name = mark_path(database).name
            raise ServerIdentityError(
                database=str(database),
                problem=f"it belongs to the server {server!r}, but {name} to the server {self.server!r}",
                remedy=f"put the files of {self.server!r} back; to let {server!r} go on here, remove {name}",
            )


def mark_path(database: Path) -> Path:
    """Return the path of the mark of a database."""
    return database.with_name(database.name + ".mark")


def read_mark(database: Path) -> CommitMark:
    """Return the mark of a database. The mark is empty if the file is missing or a loss of power damaged it."""
    try:
        with os.fdopen(open_owned(mark_path(database), os.O_RDONLY), "rb") as file:
            content = file.read(_SIZE).strip()
    except FileNotFoundError:
        return CommitMark()
    except OSError as error:
        raise _unusable(database, error) from error
    commits, _, rest = content.partition(b" ")
    checksum, _, server = rest.partition(b" ")
    if not commits.isdigit() or checksum != _checksum(commits, server):
        return CommitMark()
    return CommitMark(int(commits), server.decode("utf-8") or None)


class MarkWriter:
    """Writer of the mark of one database, to which the caller has exclusive access."""

    def __init__(self, database: Path) -> None:
        try:
            self._descriptor = open_owned(mark_path(database), os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise _unusable(database, error) from error

    def note(self, *, commits: int, server: ServerId) -> None:
        """Note the number of a commit that is durable."""
        number, name = b"%d" % commits, server.encode("utf-8")
        # A failed write leaves an older mark, which is safe.
        with suppress(OSError):
            os.pwrite(self._descriptor, (b"%s %s %s\n" % (number, _checksum(number, name), name)).ljust(_SIZE), 0)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def _checksum(commits: bytes, server: bytes) -> bytes:
    return b"%08x" % crc32(server, crc32(commits))


def _unusable(database: Path, error: OSError) -> DatabaseUnavailableError:
    return DatabaseUnavailableError(
        database=str(database),
        problem=f"cannot write {mark_path(database)}: {error.strerror}",
        remedy="let this user write the file and its folder",
    )
