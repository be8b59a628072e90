"""Open the database that a URL names. Engines are imported only when they are needed."""

from __future__ import annotations

from contextlib import AbstractContextManager

from namegraph import ServerId, StoredState
from storage.errors import DatabaseUrlError, DriverMissingError
from storage.store import Store


def open_store(url: str, *, server: ServerId | None = None) -> Store:
    """Open a database for exclusive use, bring its layout up to date and check its owner.

    `sqlite:///FILE` is created if it does not exist; `postgresql://USER@HOST/DATABASE` must exist. The first opening
    needs and writes the server's name; later openings may leave it out. Raises `StorageError` if the URL is wrong, or
    the database is in use, belongs to another server, comes from a newer version, is damaged or is out of reach. After
    an error no file or connection is left open.
    """
    from storage.urls import parse_database_url, show_url

    parsed = parse_database_url(url)
    if parsed.get_backend_name() == "sqlite":
        from storage.sqlite import open_sqlite_store

        return open_sqlite_store(parsed, server=server)
    require_psycopg(show_url(parsed))
    from storage.postgresql import open_postgresql_store

    return open_postgresql_store(parsed, server=server)


def reading_state(url: str) -> AbstractContextManager[StoredState]:
    """Return the state of a PostgreSQL database at one instant, while its server runs. Consume it inside the context.

    Raises `StorageError`, also for SQLite: only one process at a time uses a SQLite file.
    """
    from storage.urls import parse_database_url, show_url

    parsed = parse_database_url(url)
    if parsed.get_backend_name() == "sqlite":
        raise DatabaseUrlError(
            database=show_url(parsed),
            problem="a SQLite file is its server's alone, and cannot be read beside it",
            remedy="ask the server for the snapshot",
        )
    require_psycopg(show_url(parsed))
    from storage.postgresql import reading_postgresql

    return reading_postgresql(parsed)


def require_psycopg(database: str) -> None:
    """Raise `DriverMissingError` if the driver of PostgreSQL is not installed."""
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        raise DriverMissingError(
            database=database,
            problem="PostgreSQL needs the package psycopg, which is not installed",
            remedy="run, in the sources of Shadowtree: pip install '.[postgres]'",
        ) from error
