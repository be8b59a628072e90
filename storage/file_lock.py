"""Exclusive use of a SQLite file by one server: an operating system lock on `FILE.lock` beside the file.

The lock belongs to the open file, so the system releases it when the process ends, however it ends. The lock file
stays: after a removal two servers could each lock a file of that name. The lock file holds the process id and the kind
of program, for the error message of a second server. Programs that only read the database are not blocked.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from storage.errors import DatabaseInUseError, DatabaseUnavailableError
from storage.owned_file import open_owned

HOLDER_BYTES = 64
"""Size of the lock file's contents: a process id and the kind of program. Earlier versions wrote no kind."""


class FileLock:
    """A lock that is held from its creation until `release` or the end of the process."""

    def __init__(self, database: Path, *, of: str = "name server", is_check: bool = False) -> None:
        """`of`: kind of program, for messages. `is_check`: neither create nor write the lock file."""
        self._of = of
        self.path = lock_path(database)
        self._database = database
        try:
            self._descriptor = open_owned(self.path, os.O_RDWR if is_check else os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise DatabaseUnavailableError(
                database=str(database),
                problem=f"cannot write {self.path}: {error.strerror}",
                remedy="give a file in an existing folder that this user may write",
            ) from error
        try:
            self._take(is_noted=not is_check)
        except BaseException:
            os.close(self._descriptor)
            raise

    @classmethod
    def of_existing(cls, database: Path, *, of: str = "name server") -> FileLock:
        """Take the lock on the existing lock file without changing the file's contents."""
        return cls(database, of=of, is_check=True)

    def release(self) -> None:
        """Release the lock, so that another server can open the database."""
        os.close(self._descriptor)

    def is_in_place(self) -> bool:
        """Return True if the path still leads to the locked file.

        If not, another server may hold the file's successor.
        """
        return names_open_file(self.path, self._descriptor)

    def _take(self, *, is_noted: bool) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise self._in_use() from error
        except OSError as error:
            raise DatabaseUnavailableError(
                database=str(self._database),
                problem=f"cannot lock {self.path}: {error.strerror}",
                remedy="give a file on a local disk",
            ) from error
        if not is_noted:
            return
        try:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"{os.getpid()} {self._of}\n".encode("ascii"), 0)
        except OSError as error:
            raise DatabaseUnavailableError(
                database=str(self._database),
                problem=f"cannot write {self.path}: {error.strerror}",
                remedy="make room on the disk",
            ) from error

    def _in_use(self) -> DatabaseInUseError:
        noted = os.pread(self._descriptor, HOLDER_BYTES, 0).decode("ascii", "replace")
        process, _, program = noted.strip().partition(" ")
        which = f"another {self._of}" if program in ("", self._of) else f"a {program}"
        return DatabaseInUseError(
            database=str(self._database),
            problem=f"{which} (process {process or 'unknown'}) is using it",
            remedy="stop that server, or give this one a database of its own",
            process=int(process) if process.isdigit() else None,
        )


def lock_path(database: Path) -> Path:
    """Return the path of the lock file of a database."""
    return database.with_name(database.name + ".lock")


def names_open_file(path: Path, descriptor: int) -> bool:
    """Return True if the path leads to the file that is open under the descriptor."""
    try:
        found = path.stat()
    except OSError:
        return False
    held = os.fstat(descriptor)
    return (found.st_dev, found.st_ino) == (held.st_dev, held.st_ino)
