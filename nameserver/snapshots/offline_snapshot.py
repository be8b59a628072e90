"""Snapshot of the content of a database without its server: the state that the server would have after a start.

A database holds no ancestor sets. They are computed from its records, as a starting server does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from delivery.server import Server
from namegraph import InconsistentStateError, ServerCore, StoredState
from nameserver.config.settings import Settings
from nameserver.wire.snapshot_columns import encode_end, encode_piece
from storage.copied import TABLES as COPIED_TABLES
from storage.copied import copied_state, java_database
from storage.damage import contradictory
from storage.errors import StorageError
from storage.open import reading_state


class UnreadableDatabaseError(Exception):
    """The database cannot be read, or its content is inconsistent. The message is one line."""


def stored_snapshot(settings: Settings) -> Iterator[bytes]:
    """Return the chunks that the server of these settings would send. Raises `UnreadableDatabaseError`."""
    with _saying_what_is_wrong(settings), reading_state(settings.database) as state:
        core = _restored(state, settings)
    yield from _chunks(core)


def copied_snapshot(settings: Settings, folder: Path) -> Iterator[bytes]:
    """Return the same chunks from a copy of the database that was made as `copy_request` says."""
    with _saying_what_is_wrong(settings):
        core = _restored(copied_state(folder, settings.database), settings)
    yield from _chunks(core)


def copy_request(settings: Settings, folder: Path) -> dict[str, object]:
    """Return the request for `python -m spark_graph_jobs.database_copy`. Raises `UnreadableDatabaseError`."""
    with _saying_what_is_wrong(settings):
        database = java_database(settings.database)
    return {
        "url": database.url,
        "properties": dict(database.properties),
        "tables": dict(COPIED_TABLES),
        "folder": str(folder),
    }


@contextmanager
def _saying_what_is_wrong(settings: Settings) -> Iterator[None]:
    try:
        yield
    except StorageError as error:
        raise UnreadableDatabaseError(str(error)) from None
    except InconsistentStateError as error:
        raise UnreadableDatabaseError(str(contradictory(settings.database, str(error)))) from None


def _restored(state: StoredState, settings: Settings) -> ServerCore:
    return Server.restore(state, subnets=settings.subnets, peers=settings.peer_addresses)


def _chunks(core: ServerCore) -> Iterator[bytes]:
    snapshot = core.snapshot()
    yield from map(encode_piece, snapshot.pieces())
    yield encode_end(snapshot.closing(), revision=core.revision, database_failure="")
