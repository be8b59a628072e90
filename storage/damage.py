"""Checks of a SQLite file for damage, as far as SQLite detects it, and the error for rows that contradict each other.

The checks run before the first write to the file.
"""

from __future__ import annotations

import sqlite3
from functools import cache

from sqlalchemy import Connection, text
from sqlalchemy.dialects.sqlite import dialect
from sqlalchemy.schema import CreateIndex, CreateTable

from storage.errors import RESTORE, DatabaseDamagedError
from storage.models import Base
from storage.urls import parse_database_url, show_url


def check_pages(connection: Connection, *, database: str) -> None:
    """Check every page; raise `DatabaseDamagedError`, or an error of the driver if SQLite cannot open the file."""
    driver_connection = connection.connection.driver_connection
    assert isinstance(driver_connection, sqlite3.Connection)
    # A report of damage may quote bytes that are no valid text.
    driver_connection.text_factory = bytes
    # The first row is "ok" or describes the first problem; further rows describe further problems.
    ((found,), *_) = driver_connection.execute("PRAGMA integrity_check(1)").fetchall()
    driver_connection.text_factory = str
    if found != b"ok":
        what = " ".join(found.decode("utf-8", "replace").replace("*** in database main ***", "").split())
        raise DatabaseDamagedError(database=database, problem=f"the file is damaged ({what})", remedy=RESTORE)


def check_layout(connection: Connection, *, database: str) -> None:
    """Raise `DatabaseDamagedError` if the SQL of a table or index differs from the SQL of the migrations."""
    found = {
        name: _one_line(sql)
        for name, sql in connection.execute(text("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))
    }
    for name, sql in _expected_layout().items():
        if found.get(name) != sql:
            raise DatabaseDamagedError(
                database=database, problem=f"the table or index {name} is not as it was made", remedy=RESTORE
            )


@cache
def _expected_layout() -> dict[str, str]:
    expected = {}
    for table in Base.metadata.sorted_tables:
        expected[table.name] = _one_line(str(CreateTable(table).compile(dialect=dialect())))
        for index in table.indexes:
            assert index.name is not None
            expected[index.name] = _one_line(str(CreateIndex(index).compile(dialect=dialect())))
    return expected


def _one_line(sql: str) -> str:
    return " ".join(sql.split())


def contradictory(url: str, why: str) -> DatabaseDamagedError:
    """Return the error for a database whose rows have valid checksums but contradict each other."""
    database = show_url(parse_database_url(url))
    return DatabaseDamagedError(database=database, problem=f"its rows contradict one another ({why})", remedy=RESTORE)
