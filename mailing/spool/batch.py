"""Rows of one commit: the last value of each key in a list of changes, written by one statement for each table.

changes, in order --> { key: last value }, { ids that are gone } --> deletions, then rows
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, Table, bindparam, delete
from sqlalchemy.dialects import postgresql, sqlite

from mailing.rules.events import Change, Forget, ForgetDigest, ForgetFailing, Keep, Save
from mailing.rules.failures import Digest, Failing
from mailing.rules.spooled import FINAL_STATES
from mailing.spool.tables import CHUNKS, CONTENTS, DIGESTS, FAILING, MESSAGES
from storage.checksums import row_checksum

_ENCODER: Final = msgspec.json.Encoder()
_TABLES: Final = (MESSAGES, CONTENTS, CHUNKS, FAILING, DIGESTS)

Key = tuple[str] | tuple[str, int]


class SpoolBatch:
    """Net effect of an ordered list of changes."""

    def __init__(self, changes: Iterable[Change]) -> None:
        self._gone: dict[Table, dict[str, None]] = {table: {} for table in _TABLES}
        """Ids by table. All rows of these ids are deleted before any row is written."""
        self._kept: dict[Table, dict[Key, Any]] = {table: {} for table in _TABLES}
        for change in changes:
            self._take(change)

    def write(self, connection: Connection) -> None:
        """Write the batch within a transaction that is under way."""
        for table, gone in self._gone.items():
            if gone:
                connection.execute(_DELETING[table], [{"gone": id_} for id_ in gone])
        writing = _WRITING[connection.dialect.name]
        for table, kept in self._kept.items():
            if kept:
                connection.execute(writing[table], [_row(table, key, value) for key, value in kept.items()])

    def _take(self, change: Change) -> None:
        match change:
            case Save():
                self._save(change)
            case Forget(id_):
                self._delete(id_, (MESSAGES, CONTENTS, CHUNKS))
            case Keep(Failing() as failing):
                self._kept[FAILING][failing.person,] = failing
            case Keep(Digest() as digest):
                self._kept[DIGESTS][digest.group,] = digest
            case ForgetFailing(person):
                self._delete(person, (FAILING,))
            case ForgetDigest(group):
                self._delete(group, (DIGESTS,))

    def _save(self, change: Save) -> None:
        message = change.message
        self._kept[MESSAGES][message.id,] = message
        for chunk in change.chunks:
            self._kept[CHUNKS][chunk.message, chunk.number] = chunk
        if message.state in FINAL_STATES:
            self._delete(message.id, (CONTENTS,))
        elif change.content is not None:
            self._kept[CONTENTS][message.id,] = change.content

    def _delete(self, id_: str, tables: Iterable[Table]) -> None:
        for table in tables:
            self._gone[table][id_] = None
            kept = self._kept[table]
            for key in [key for key in kept if key[0] == id_]:
                del kept[key]


def _row(table: Table, key: Key, value: Any) -> dict[str, Any]:
    row = (*key, value if table is CONTENTS else _ENCODER.encode(value))
    return dict(zip(table.columns.keys(), (*row, row_checksum(row)), strict=True))


def _writing(insert: Any) -> Mapping[Table, Any]:
    """Return an upsert statement for each table, made with the `insert` of a dialect."""
    found = {}
    for table in _TABLES:
        statement = insert(table)
        others = {column.name: statement.excluded[column.name] for column in table.columns if not column.primary_key}
        found[table] = statement.on_conflict_do_update(index_elements=[*table.primary_key.columns], set_=others)
    return found


_WRITING: Final = {"sqlite": _writing(sqlite.insert), "postgresql": _writing(postgresql.insert)}
_DELETING: Final = {table: delete(table).where(table.c.id == bindparam("gone")) for table in _TABLES}
