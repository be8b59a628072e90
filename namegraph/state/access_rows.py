"""Rows that the shell keeps about its callers: API keys as digests, and the secret that the digests are made with.

The core does not read them. It makes them durable in the same transaction as the entry of the audit log that tells of
them. They are part of no snapshot.

See docs/decisions/0047-callers.md.
"""

from __future__ import annotations

from collections.abc import Mapping

from namegraph.state.durable_maps import BYTES, TEXTS, DurableMap, DurableState


class AccessRows:
    """Durable rows of the shell, by key."""

    def __init__(self, durable: DurableState) -> None:
        self._rows = DurableMap(durable, "access", TEXTS, BYTES)

    @property
    def rows(self) -> Mapping[str, bytes]:
        """All rows."""
        return self._rows

    def keep(self, rows: Mapping[str, bytes | None]) -> None:
        """Set rows. A value of None deletes the row of its key."""
        for key, value in rows.items():
            if value is None:
                self._rows.pop(key, None)
            else:
                self._rows[key] = value
