"""Bring a database to the newest layout when it is opened; refuse a newer layout and databases of other programs.

An up-to-date database costs two small queries. Alembic is imported only if a migration has to run.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import Connection, String, column, inspect, select, table

from storage.errors import RESTORE, DatabaseDamagedError, DatabaseVersionError, NotOurDatabaseError
from storage.models import SERVER

NEWEST_REVISION = "0010"
"""The last migration. A test compares it with the folder `migrations`."""

VERSION_TABLE = "alembic_version"
"""Alembic's table with the current layout."""


def bring_up_to_date(connection: Connection, *, database: str) -> None:
    """Run the missing migrations in the transaction of the caller."""
    if stated_revision(connection, database=database) != NEWEST_REVISION:
        _upgrade(connection)


def stated_revision(connection: Connection, *, database: str) -> str | None:
    """Return the layout of a database, which this program knows; None if the database is empty.

    Only reads. Raises `StorageError`.
    """
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
    """Raise `StorageError` if the layout is not the newest. Only the server of the database may change the layout."""
    if VERSION_TABLE not in inspect(connection).get_table_names():
        raise NotOurDatabaseError(
            database=database, problem="it holds no tables of a name server", remedy="see that it is the right one"
        )
    version_table = table(VERSION_TABLE, column("version_num", String))
    require_newest_of(connection.execute(select(version_table.c.version_num)).scalars().all(), database=database)


def require_newest_of(revisions: Sequence[object], *, database: str) -> None:
    """Raise `DatabaseVersionError` if `revisions`, read from a database, are not exactly the newest layout."""
    if list(revisions) != [NEWEST_REVISION]:
        raise DatabaseVersionError(
            database=database,
            problem=f"its layout is not {NEWEST_REVISION!r}, which this program reads",
            remedy="start its server once with this version, or use the version of its server",
        )


def migrations_folder() -> Path:
    """Return the folder of the migrations, in a checkout and in an installed package alike."""
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
