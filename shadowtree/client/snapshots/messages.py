"""Collector of the message tables in the chunks of a snapshot. The latest row of each key is valid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shadowtree.v1 import admin_pb2

_Chunk = admin_pb2.SnapshotChunk


class MessageCollector:
    """Collector that takes chunks in order. Ask for the tables after the last one."""

    def __init__(self) -> None:
        self._log: dict[int, tuple[Any, ...]] = {}
        self._audiences: dict[int, _Chunk.Audience] = {}
        self._mailboxes: dict[str, _Chunk.Mailbox] = {}
        self._cursors: dict[tuple[int, str], _Chunk.Cursor] = {}
        self._unsettled: dict[int, _Chunk.Unsettled] = {}
        self._reached: list[tuple[list[str], bytes]] = []
        self._end: _Chunk.MessagesEnd | None = None

    def take(self, chunk: admin_pb2.SnapshotChunk) -> None:
        """Take the next chunk."""
        for entry in chunk.log:
            self._log[entry.position] = _entry(entry)
        self._audiences |= {row.number: row for row in chunk.audiences}
        self._mailboxes |= {row.process: row for row in chunk.mailboxes}
        self._cursors |= {(row.mailbox, row.subscription): row for row in chunk.cursors}
        self._unsettled |= {row.position: row for row in chunk.unsettled}
        self._reached += [(list(row.targets), row.mailboxes) for row in chunk.reached]
        if chunk.HasField("messages_end"):
            self._end = chunk.messages_end

    def ends(self) -> dict[str, int] | None:
        """Return the entries of the manifest; None if the server sent no tables of messages."""
        end = self._end
        if end is None:
            return None
        ends = {"log_last": end.log_last, "log_cut": end.log_cut, "mailboxes_numbered": end.mailboxes_numbered}
        return ends | ({"log_gone": end.log_gone} if end.log_gone else {})

    def tables(self) -> dict[str, Sequence[tuple[Any, ...]]]:
        """Return rows by table; empty if the server sent no tables of messages."""
        end = self._end
        if end is None:
            return {}
        return {
            "message_log": [self._log[position] for position in sorted(self._log) if position > end.log_cut],
            "audiences": sorted((row.number, row.mailboxes) for row in self._audiences.values() if not row.is_gone),
            "mailboxes": sorted(
                (row.number, row.process, row.opened_at) for row in self._mailboxes.values() if not row.is_gone
            ),
            "cursors": sorted(
                (row.mailbox, row.subscription, row.entry, row.item)
                for row in self._cursors.values()
                if not row.is_gone
            ),
            "unsettled": [_unsettled(row) for _, row in sorted(self._unsettled.items()) if not row.is_gone],
            "reached": sorted(self._reached),
        }


def _entry(entry: _Chunk.LogEntry) -> tuple[Any, ...]:
    return (
        entry.position,
        list(entry.targets),
        entry.sequence,
        entry.start,
        entry.first_serial,
        entry.messages,
        entry.round,
        entry.quality,
        entry.audience,
        entry.digest,
    )


def _unsettled(row: _Chunk.Unsettled) -> tuple[Any, ...]:
    return (
        row.position,
        row.sequence,
        row.start,
        row.first_serial,
        row.messages,
        row.round,
        list(row.posted),
        list(row.confirmed),
        list(row.delivered),
    )
