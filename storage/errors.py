"""Why a database refuses to open or to commit: each error is one line that says what, where, and what to do.

All of them are `StorageError`. They are refusals or faults of the world outside; a row that a database cannot
hold at all is our bug and stays the exception it is.
"""

from __future__ import annotations

RESTORE = 'restore it from a backup ("Backup and restore" in docs/operators.md says how)'
"""What to do about a database that is damaged."""


class StorageError(Exception):
    """Something is wrong with the database. The text is one line: what, where, and what to do."""

    def __init__(self, *, database: str, problem: str, remedy: str) -> None:
        super().__init__(f"database {database}: {problem}; {remedy}")
        self.database = database
        """The URL or file, without a password."""
        self.problem = problem
        self.remedy = remedy


class DatabaseUrlError(StorageError):
    """The URL is of no engine that we know, or is malformed."""


class DriverMissingError(StorageError):
    """The engine is known, but the package that talks to it is not installed."""


class DatabaseInUseError(StorageError):
    """Another server, or another program, holds this database."""

    def __init__(self, *, database: str, problem: str, remedy: str, process: int | None = None) -> None:
        """`process`: the id of the process that holds it; None if it is not known."""
        super().__init__(database=database, problem=problem, remedy=remedy)
        self.process = process


class ServerIdentityError(StorageError):
    """The database belongs to a server of another name, or is new and was given no name."""


class ServerNotNamedError(ServerIdentityError):
    """The database is new, and nobody said whose it is to be: opened with the name of a server, it will do."""


class DatabaseVersionError(StorageError):
    """A newer version of the software wrote this database."""


class NotOurDatabaseError(StorageError):
    """The file is no database, or the database holds the tables of another program."""


class DatabaseDamagedError(StorageError):
    """The database is ours, but what it holds cannot be right."""


class DatabaseFullError(StorageError):
    """There is no room left. Nothing of the failed commit was stored; later ones work once there is room."""


class DatabaseUnavailableError(StorageError):
    """The database cannot be reached, read or written at present."""


class DatabaseInterruptedError(DatabaseUnavailableError):
    """The connection or the file is gone, and with it, perhaps, exclusive use. Later commits find out, and may work.

    If this ended a commit, that commit may have been made: made again, it has the same effect.
    """


class DatabaseLostError(StorageError):
    """Another server has used the database meanwhile. This store commits no more; the server must be restarted."""
