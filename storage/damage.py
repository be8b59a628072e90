"""Damage: whether a SQLite file is whole, as far as SQLite itself can tell, and what is said of rows that contradict.

The file is looked at before anything is written to it.
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
    """Look at every page; raise `DatabaseDamagedError` or, where SQLite cannot even begin, an error of the driver."""
    driver_connection = connection.connection.driver_connection
    assert isinstance(driver_connection, sqlite3.Connection)
    # What is wrong may quote a text that is none.
    driver_connection.text_factory = bytes
    # The first line is "ok", or says what is wrong, and so do the next ones.
    ((found,), *_) = driver_connection.execute("PRAGMA integrity_check(1)").fetchall()
    driver_connection.text_factory = str
    if found != b"ok":
        what = " ".join(found.decode("utf-8", "replace").replace("*** in database main ***", "").split())
        raise DatabaseDamagedError(database=database, problem=f"the file is damaged ({what})", remedy=RESTORE)


def check_layout(connection: Connection, *, database: str) -> None:
    """Raise `DatabaseDamagedError` where a table is not exactly what the migrations make."""
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
    """The error of a database whose rows are each as they were written, but cannot be true together."""
    database = show_url(parse_database_url(url))
    return DatabaseDamagedError(database=database, problem=f"its rows contradict one another ({why})", remedy=RESTORE)
