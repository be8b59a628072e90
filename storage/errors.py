"""Reasons why a database refuses to open or to commit. Each error is one line with problem, place and remedy.

All errors are `StorageError`: refusals, or faults of the environment. A row that no database can hold is a bug of the
program and keeps its original exception.
"""

from __future__ import annotations

RESTORE = 'restore it from a backup ("Backup and restore" in docs/operators.md says how)'
"""Remedy for a damaged database."""


class StorageError(Exception):
    """Base of all database errors. The text is one line: database, problem and remedy."""

    def __init__(self, *, database: str, problem: str, remedy: str) -> None:
        super().__init__(f"database {database}: {problem}; {remedy}")
        self.database = database
        """URL or file, without a password."""
        self.problem = problem
        self.remedy = remedy


class DatabaseUrlError(StorageError):
    """The URL is malformed or names an unknown engine."""


class DriverMissingError(StorageError):
    """The engine is known, but the package that talks to it is not installed."""


class DatabaseInUseError(StorageError):
    """Another server, or another program, holds this database."""

    def __init__(self, *, database: str, problem: str, remedy: str, process: int | None = None) -> None:
        """`process`: the id of the process that holds the database; None if unknown."""
        super().__init__(database=database, problem=problem, remedy=remedy)
        self.process = process


class ServerIdentityError(StorageError):
    """The database belongs to a server of another name, or is new and was given no name."""


class ServerNotNamedError(ServerIdentityError):
    """The database is new and the caller named no server. A name of a server makes the call succeed."""


class DatabaseVersionError(StorageError):
    """A newer version of the software wrote this database."""


class NotOurDatabaseError(StorageError):
    """The file is no database, or the database holds the tables of another program."""


class DatabaseDamagedError(StorageError):
    """The database was written by this program, but its contents cannot be right."""


class DatabaseFullError(StorageError):
    """The disk is full. Nothing of the failed commit was stored. Later commits succeed once there is room."""


class DatabaseUnavailableError(StorageError):
    """The database cannot be reached, read or written at present."""


class DatabaseInterruptedError(DatabaseUnavailableError):
    """The connection or the file was lost, and possibly exclusive use. Later commits check this and may succeed.

    A commit that failed with this error may have been stored. Repeating the commit has the same effect.
    """


class DatabaseLostError(StorageError):
    """Another server has used the database meanwhile. This store commits no more; the server must be restarted."""
