"""How far a SQLite database had come, and whose it is: its last acknowledged commit, in `FILE.mark` beside it.

The end of a write-ahead log that is damaged or cut off looks like the end of a log that is whole, and an empty file
like a new database. So each commit has a number, which is durable with it, and is noted here right afterwards. A
database that holds fewer commits than are noted has lost some, or is an older copy. The name of the server, noted with
it, tells when the files of another server were put in place.

The mark is not flushed: it outlives the process, but after a loss of power it may be behind, or gone. Then it says
less than is known, never more.
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
"""What a disk writes at once; hardly a name needs more."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What is noted: nothing yet by default. Marks of earlier versions name no server."""

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
        """Raise `ServerIdentityError` if it was another server that had its database here."""
        if self.server not in (None, server):
            name = mark_path(database).name
            raise ServerIdentityError(
                database=str(database),
                problem=f"it belongs to the server {server!r}, but {name} to the server {self.server!r}",
                remedy=f"put the files of {self.server!r} back; to let {server!r} go on here, remove {name}",
            )


def mark_path(database: Path) -> Path:
    """Where the mark of a database is."""
    return database.with_name(database.name + ".mark")


def read_mark(database: Path) -> Mark:
    """What the mark says; nothing where there is none, or where a loss of power spoilt it."""
    try:
        with os.fdopen(open_owned(mark_path(database), os.O_RDONLY), "rb") as file:
            content = file.read(_SIZE).strip()
    except FileNotFoundError:
        return Mark()
    except OSError as error:
        raise _unusable(database, error) from error
    commits, _, rest = content.partition(b" ")
    checksum, _, server = rest.partition(b" ")
    if not commits.isdigit() or checksum != _checksum(commits, server):
        return Mark()
    return Mark(int(commits), server.decode("utf-8") or None)


class MarkWriter:
    """Writes the mark of one database, which the caller has for itself."""

    def __init__(self, database: Path) -> None:
        try:
            self._descriptor = open_owned(mark_path(database), os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise _unusable(database, error) from error

    def note(self, *, commits: int, server: ServerId) -> None:
        """Note the number of a commit that is durable."""
        number, name = b"%d" % commits, server.encode("utf-8")
        # Where this fails, the mark says less than it could.
        with suppress(OSError):
            os.pwrite(self._descriptor, (b"%s %s %s\n" % (number, _checksum(number, name), name)).ljust(_SIZE), 0)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)


def _checksum(commits: bytes, server: bytes) -> bytes:
    return b"%08x" % crc32(server, crc32(commits))


def _unusable(database: Path, error: OSError) -> DatabaseUnavailableError:
    return DatabaseUnavailableError(
        database=str(database),
        problem=f"cannot write {mark_path(database)}: {error.strerror}",
        remedy="let this user write the file and its folder",
    )
