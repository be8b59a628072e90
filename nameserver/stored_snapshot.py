"""A snapshot of what a database holds, without its server: what that server would know if it started again.

A database holds no ancestor sets; they are computed from its records, as a server that starts would.
"""

from __future__ import annotations

from collections.abc import Iterator

from namegraph.restore import InconsistentStateError
from namegraph.server_core import ServerCore
from nameserver.services.snapshot_chunks import encode_end, encode_piece
from nameserver.settings import Settings
from storage.errors import StorageError, contradictory
from storage.open import reading_state


class UnreadableDatabaseError(Exception):
    """The database cannot be read, or not be believed; the message is one line."""


def stored_snapshot(settings: Settings) -> Iterator[bytes]:
    """The chunks that the server of these settings would send; raises `UnreadableDatabaseError`."""
    try:
        with reading_state(settings.database) as state:
            core = ServerCore.restore(state, subnets=settings.subnets, peers=settings.peers)
    except StorageError as error:
        raise UnreadableDatabaseError(str(error)) from None
    except InconsistentStateError as error:
        raise UnreadableDatabaseError(str(contradictory(settings.database, str(error)))) from None
    snapshot = core.snapshot()
    for piece in snapshot.read():
        yield encode_piece(piece)
    for piece in snapshot.finish():
        yield encode_piece(piece)
    yield encode_end(snapshot.closing(), revision=core.revision, database_failure="")
