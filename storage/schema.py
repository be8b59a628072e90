"""Brings a database to the newest layout when it is opened, and refuses one that is newer or not ours.

A database that is up to date costs two small queries; Alembic is imported only where there is work for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import Connection, String, column, inspect, select, table

from storage.errors import RESTORE, DatabaseDamagedError, DatabaseVersionError, NotOurDatabaseError
from storage.models import SERVER

NEWEST_REVISION = "0009"
"""The last migration; a test compares it with the folder `migrations`."""

VERSION_TABLE = "alembic_version"
"""Where Alembic writes down the layout."""


def bring_up_to_date(connection: Connection, *, database: str) -> None:
    """Run the migrations that are missing, in the transaction of the caller."""
    if stated_revision(connection, database=database) != NEWEST_REVISION:
        _upgrade(connection)


def stated_revision(connection: Connection, *, database: str) -> str | None:
    """The layout of a database, one that this program knows; None if it is empty. Raises `StorageError`; only reads."""
    tables = inspect(connection).get_table_names()
    if not tables:
        return None
    if VERSION_TABLE not in tables or SERVER.name not in tables:
        raise NotOurDatabaseError(
            database=database,
            problem="it holds tables of another program",
            remedy="give a new or empty database",
        )
    version_table = table(VERSION_TABLE, column("version_num", String))
    revisions = connection.execute(select(version_table.c.version_num)).scalars().all()
    if len(revisions) != 1:
        raise DatabaseDamagedError(
            database=database,
            problem=f"it states {len(revisions)} versions of its layout instead of one",
            remedy=RESTORE,
        )
    revision = str(revisions[0])
    if revision != NEWEST_REVISION and not _is_known(revision):
        raise DatabaseVersionError(
            database=database,
            problem=f"a newer shadowtree wrote it (layout {revision!r}, known up to {NEWEST_REVISION!r})",
            remedy="run that newer shadowtree, or restore a backup made before the upgrade",
        )
    return revision


def require_newest(connection: Connection, *, database: str) -> None:
    """Raise `StorageError` where the layout is another one than the newest, which only its server may change."""
    if VERSION_TABLE not in inspect(connection).get_table_names():
        raise NotOurDatabaseError(
            database=database, problem="it holds no tables of a name server", remedy="see that it is the right one"
        )
    version_table = table(VERSION_TABLE, column("version_num", String))
    require_newest_of(connection.execute(select(version_table.c.version_num)).scalars().all(), database=database)


def require_newest_of(revisions: Sequence[object], *, database: str) -> None:
    """The same, of the versions that a database states."""
    if list(revisions) != [NEWEST_REVISION]:
        raise DatabaseVersionError(
            database=database,
            problem=f"its layout is not {NEWEST_REVISION!r}, which this program reads",
            remedy="start its server once with this version, or use the version of its server",
        )


def migrations_folder() -> Path:
    """Where the migrations are, in a checkout and in an installed package alike."""
    import migrations

    return Path(str(migrations.__file__)).parent


def _upgrade(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(migrations_folder()).replace("%", "%%"))
    command.upgrade(config, "head")


def _is_known(revision: str) -> bool:
    from alembic.script import ScriptDirectory

    return any(script.revision == revision for script in ScriptDirectory(migrations_folder()).walk_revisions())
