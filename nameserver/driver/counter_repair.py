"""Raise the counter of the database of a stopped server.

Needed if other servers are further ahead than one letter may lead.

A raised counter is always safe: each server begins a fresh incarnation in the same way. A lowered counter is unsafe,
because other servers remember the decisions at the numbers that it would give again.
"""

from __future__ import annotations

from namegraph import ALLOWED, ChangeLog, ChangeRecord, Origin, Priority, Records, StoredState
from nameserver.driver.time_of_day import now_ms
from storage.errors import StorageError
from storage.open import open_store

RAISED_LIMIT = 2**45
"""Largest raise: sixteen times as far as one letter may lead.

The limit has room for a server that was restored time and again, and stops hostile numbers.
"""

OPERATOR = "operator@local"
"""Principal of who writes to the database of a stopped server."""

BY_DATABASE = "database"
"""Means by which that principal is known: access to the database."""


class CounterRepairError(Exception):
    """The counter was not changed. The message is one line."""


def raise_counter(database: str, *, to: int) -> int:
    """Raise the counter of a database durably. Return its old value. Raises `CounterRepairError`."""
    try:
        store = open_store(database)
    except StorageError as error:
        raise CounterRepairError(str(error)) from None
    try:
        state = store.load()
        counter = state.counter
        if to <= counter:
            raise CounterRepairError(f"the counter is {counter} already: it cannot be lowered to {to}")
        if to - counter > RAISED_LIMIT:
            raise CounterRepairError(
                f"{to} is more than {RAISED_LIMIT} above the counter, {counter}: no correct server counts that far; "
                "export the graph, and import it into new databases at all servers"
            )
        store.commit(Records(changes=_rows_of(state, to=to), counter=to))
    except StorageError as error:
        raise CounterRepairError(str(error)) from None
    finally:
        store.close()
    return counter


def _rows_of(state: StoredState, *, to: int) -> list[ChangeRecord]:
    """Return the rows of the audit log that tell of the repair."""
    log, records = ChangeLog(), Records()
    newest = Priority(state.counter, state.server)
    log.restore(state.last_change, state.change_sizes, newest=newest, last_hash=state.last_change_hash)
    origin = Origin(told_at=now_ms(), principal=OPERATOR, how=BY_DATABASE)
    log.note_event("counter_raised", {"before": state.counter, "to": to}, origin, counter=to, decision=ALLOWED)
    log.take_rows(records)
    return records.changes
