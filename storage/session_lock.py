"""The advisory lock of a PostgreSQL session, tried out with a second session that must not get the lock.

A database that speaks PostgreSQL's protocol may accept `pg_advisory_lock` and lock nothing (CockroachDB). A connection
pooler in transaction mode gives the session that holds the lock to another client (PgBouncer). Neither fault is visible
in a single session.

    first session:   pg_advisory_lock(key)                    holds the lock
    second session:  BEGIN; pg_try_advisory_lock(key)         must be refused, in another backend process
    first session:   pg_backend_pid()                         must be the backend process of before
"""

from __future__ import annotations

from dataclasses import dataclass

import psycopg
from sqlalchemy import Connection, Engine, func, select
from sqlalchemy.exc import DBAPIError

from storage.errors import DatabaseUnavailableError, NotOurDatabaseError

LOCK_NAMESPACE = 0x53485452
"""First half of the lock key, to distinguish the project's advisory locks from other programs'.

The second half is the schema.
"""

_KEY = (LOCK_NAMESPACE, func.hashtext(func.current_schema()))

_BACKEND = select(func.pg_backend_pid())
_TAKE = select(func.pg_backend_pid(), func.pg_advisory_lock(*_KEY))
_TRY = select(func.pg_backend_pid(), func.pg_try_advisory_lock(*_KEY))
_RELEASE = select(func.pg_advisory_unlock(*_KEY))

_LACKS_LOCKS = frozenset(("0A000", "42883"))
"""SQLSTATEs of a database without these functions: not supported, no such function."""

_TOO_MANY = "53300"
"""SQLSTATE of a session above the connection limit of the database or the user."""

USE_POSTGRESQL = "use PostgreSQL itself"


@dataclass(frozen=True, slots=True)
class Trial:
    """Result of trying the lock in a second session."""

    caution: str | None = None
    """Reason why the lock could not be tried. None if it was tried and holds."""


def take(connection: Connection, *, database: str) -> int:
    """Take the lock in a transaction of the caller; return the backend process that holds it."""
    try:
        return int(connection.execute(_TAKE).one()[0])
    except DBAPIError as error:
        if isinstance(error.orig, psycopg.Error) and error.orig.sqlstate in _LACKS_LOCKS:
            raise _refused(database, f"it has no session advisory locks ({str(error.orig).splitlines()[0]})") from error
        raise


def try_out(engine: Engine, holder: Connection, backend: int, *, database: str) -> Trial:
    """Ask for the lock in a second session.

    Raises `NotOurDatabaseError` if the second session gets the lock, or if a pooler serves both sessions by one
    backend.
    """
    try:
        second = engine.connect()
    except DBAPIError as error:
        if isinstance(error.orig, psycopg.Error) and _TOO_MANY in (error.orig.sqlstate or "", *_states(error.orig)):
            return Trial("the lock was not tried out: a second session was one too many for PostgreSQL")
        raise DatabaseUnavailableError(
            database=database,
            problem=f"cannot connect a second time, to try out the lock ({str(error.orig).splitlines()[0]})",
            remedy="see that PostgreSQL runs",
        ) from error
    with second, second.begin():
        other, is_taken = second.execute(_TRY).one()
        if is_taken:
            second.execute(_RELEASE)
        if other != backend and not is_taken:
            # While the second session is in a transaction, a pooler cannot give its backend to the first.
            with holder.begin():
                other = holder.execute(_BACKEND).scalar_one()
            if other == backend:
                return Trial()
        elif other != backend:
            raise _refused(database, "its session advisory locks lock nothing: two sessions got the same lock")
    raise NotOurDatabaseError(
        database=database,
        problem="a connection pooler in transaction mode is in front of it, so that locks of a session do not hold",
        remedy="connect to PostgreSQL itself, or to a pool in session mode",
    )


def _states(error: psycopg.Error) -> tuple[str, ...]:
    """Guess the SQLSTATE of a refused connection from its text: the driver gives no SQLSTATE."""
    return (_TOO_MANY,) if "too many" in str(error) or "remaining connection slots" in str(error) else ()


def _refused(database: str, problem: str) -> NotOurDatabaseError:
    return NotOurDatabaseError(
        database=database,
        problem=f"{problem}, so that two servers could write to it at once",
        remedy=USE_POSTGRESQL,
    )
