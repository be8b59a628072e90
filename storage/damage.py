"""Whether a SQLite file is whole, as far as SQLite itself can tell: looked at before anything is written to it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Connection, text
from sqlalchemy.dialects.sqlite import dialect
from sqlalchemy.schema import CreateIndex, CreateTable

from storage.errors import RESTORE, DatabaseDamagedError
from storage.models import Base


def check_pages(path: Path) -> None:
    """Look at every page; raise `DatabaseDamagedError` or, where SQLite cannot even begin, `sqlite3.Error`.

    The connection is one that only reads, so that a file which is refused stays as it is, with its write-ahead log.
    """
    if not path.exists() or path.stat().st_size == 0:
        return
    with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, isolation_level=None)) as connection:
        connection.text_factory = bytes
        # The first line is "ok", or says what is wrong, and so do the next ones.
        (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if found != b"ok":
        what = " ".join(found.decode("utf-8", "replace").replace("*** in database main ***", "").split())
        raise DatabaseDamagedError(database=str(path), problem=f"the file is damaged ({what})", remedy=RESTORE)


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
