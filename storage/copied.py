"""The state in a copy of a PostgreSQL database: its tables as Parquet files, written by Spark's JDBC source.

Rows come in Arrow batches and pass through the code that reads a database. Checksums, gaps and layout are therefore
checked alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import Table

from namegraph import StoredState
from storage.errors import DatabaseUrlError, NotOurDatabaseError
from storage.models import ARCS, NODES, OUTCOMES, PROTOCOL_ROWS, SERVER, VIRTUAL_NODES
from storage.rows import Slice
from storage.schema import VERSION_TABLE, require_newest_of
from storage.sql_store import server_of_row, state_of_slices
from storage.urls import POSTGRESQL, hosts_of, parse_database_url, show_url

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_PER_BATCH: Final = 20_000

_IN_THE_URL: Final = ("host", "port")
"""Parameters that Java takes in its URL alone."""

_TARGETS_OF_JAVA: Final[Mapping[str, str]] = {
    "read-write": "primary",
    "read-only": "secondary",
    "standby": "secondary",
    "prefer-standby": "preferSecondary",
}
"""Java's values for libpq's `target_session_attrs`, where they differ."""

TABLES: Final[Mapping[str, str | None]] = {
    VERSION_TABLE: None,
    SERVER.name: None,
    NODES.name: NODES.c.node.name,
    VIRTUAL_NODES.name: VIRTUAL_NODES.c.number.name,
    ARCS.name: ARCS.c.parent.name,
    OUTCOMES.name: OUTCOMES.c.sequence.name,
    PROTOCOL_ROWS.name: None,
}
"""Tables to copy, each with the integer column by which the table may be cut into ranges, or None."""


@dataclass(frozen=True, slots=True)
class JavaDatabase:
    """JDBC URL of a database and the connection properties that Java needs."""

    url: str
    properties: Mapping[str, str]


def java_database(text: str) -> JavaDatabase:
    """Convert a database URL of this project; raise `DatabaseUrlError` if Java cannot reach the database."""
    url = parse_database_url(text)
    shown = show_url(url)
    if url.get_backend_name() != POSTGRESQL:
        raise DatabaseUrlError(database=shown, problem="JDBC reads PostgreSQL alone", remedy="ask its server instead")
    options = {name: value for name, value in url.query.items() if isinstance(value, str) and name not in _IN_THE_URL}
    hosts = hosts_of(url)
    if not hosts or any(host.startswith("/") for host, _ in hosts):
        raise DatabaseUrlError(
            database=shown,
            problem="JDBC reaches PostgreSQL over TCP, not over a Unix socket",
            remedy="name its host and port, or read without --jdbc",
        )
    given = {"user": url.username, "password": url.password}
    properties = {**options, **{name: value for name, value in given.items() if value is not None}}
    if len(hosts) > 1:
        wanted = properties.pop("target_session_attrs", "read-write")
        properties["targetServerType"] = _TARGETS_OF_JAVA.get(wanted, wanted)
    shown_hosts = ",".join(f"{f'[{host}]' if ':' in host else host}:{port}" for host, port in hosts)
    return JavaDatabase(f"jdbc:postgresql://{shown_hosts}/{url.database or ''}", properties)


def copied_state(folder: Path, text: str) -> StoredState:
    """Return the state in a copied folder of the database of a URL. Rows are read while consumed.

    Raises `StorageError`.
    """
    database = show_url(parse_database_url(text))
    require_newest_of(_table(folder, VERSION_TABLE).column("version_num").to_pylist(), database=database)
    rows = [row for rows in _slices(folder, SERVER) for row in rows]
    if not rows:
        raise NotOurDatabaseError(
            database=database, problem="no server has used it", remedy="see that it is the right one"
        )
    state = server_of_row(rows[0], database=database)
    return state_of_slices(state, lambda table, order: _slices(folder, table, order), database=database)


def _slices(folder: Path, table: Table, order: str | None = None) -> Iterator[Slice]:
    rows = _table(folder, table.name).select(table.columns.keys())
    if order is not None:
        rows = rows.sort_by(order)
    for batch in rows.to_batches(ROWS_PER_BATCH):
        yield list(zip(*(column.to_pylist() for column in batch.columns), strict=True))


def _table(folder: Path, name: str) -> pa.Table:
    import pyarrow.parquet as pq

    return pq.read_table(folder / name)
