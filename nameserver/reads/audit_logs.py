"""ExportAuditLog and ListCheckpoints: the audit log of this server, and checkpoints of this server and others.

Rows are read from the database, some hundreds at a time, so a slow reader holds no memory here.

Source: docs/audit-log.md.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

from namegraph import ChangeRecord, Checkpoint, ServerId
from nameserver.calls.adapters import Chunks, Context
from nameserver.driver.run_loop import RunLoop
from nameserver.wire import conversion
from shadowtree.v1 import admin_pb2 as messages
from storage.store import ChangesWanted

ROWS_PER_READ = 500
"""Rows that are read at once: some 200 KB, and milliseconds of the thread of the database."""


class KeptCheckpoints(Protocol):
    """Durable checkpoints of this server and of others."""

    @property
    def own(self) -> list[Checkpoint]:
        """Checkpoints of this server, the oldest first."""

    def of_peers(self) -> list[Checkpoint]:
        """Return the checkpoints of other servers, by server."""

    def older_than(self, at: int) -> int:
        """Return the number of the newest row that is older than a time, by the checkpoints. 0 if none is known."""


class AuditLogCalls:
    """Servicer of the audit log of this server."""

    def __init__(self, *, server: ServerId, checkpoints: KeptCheckpoints, run_loop: RunLoop) -> None:
        self._server = server
        self._checkpoints = checkpoints
        self._run_loop = run_loop

    async def export(self, request: messages.ExportAuditLogRequest, context: Context) -> Chunks:
        """Return the rows after a number, from the first one of a time on."""
        del context
        newest = (await self._run_loop.read_audit_log(ChangesWanted(0))).newest or 0
        return self._rows(request.after, newest, since=request.since_ms)

    async def _rows(self, after: int, newest: int, *, since: int) -> AsyncGenerator[bytes, None]:
        is_begun = not since
        if since:
            after = max(after, self._checkpoints.older_than(since))
        yield messages.AuditLogChunk(server=self._server).SerializeToString()
        while after < newest:
            wanted = ChangesWanted(ROWS_PER_READ, after=after, through=newest)
            rows = (await self._run_loop.read_audit_log(wanted)).records
            if not rows:
                return
            after = rows[-1].number
            if not is_begun:
                rows = _from_time(rows, since)
                is_begun = bool(rows)
            if rows:
                yield messages.AuditLogChunk(server=self._server, rows=map(_told, rows)).SerializeToString()

    async def list_checkpoints(
        self, request: messages.ListCheckpointsRequest, context: Context
    ) -> messages.CheckpointList:
        """Return the durable checkpoints of one server, or of all."""
        del context
        wanted = conversion.read_subnet(request.server)
        await self._run_loop.until_durable()
        kept = [*self._checkpoints.own, *self._checkpoints.of_peers()]
        return messages.CheckpointList(
            server=self._server,
            checkpoints=[
                messages.CheckpointList.Checkpoint(
                    server=each.server,
                    sequence=each.sequence,
                    hash=each.hash,
                    at_ms=each.at,
                    before=each.before,
                    key=each.key,
                    signature=each.signature,
                )
                for each in kept
                if wanted is None or each.server == ServerId(wanted)
            ],
        )


def _from_time(rows: Sequence[ChangeRecord], since: int) -> list[ChangeRecord]:
    """Return the rows from the first one that was asked for at a time or later."""
    first = next((place for place, row in enumerate(rows) if row.told_at >= since), len(rows))
    return list(rows[first:])


def _told(row: ChangeRecord) -> messages.AuditRow:
    return messages.AuditRow(
        number=row.number,
        counter=row.counter,
        revision=row.revision,
        request_id=row.request_id,
        told_at_ms=row.told_at,
        caller=row.caller,
        server=row.server,
        changes=row.changes,
        kind=row.kind,
        principal=row.principal,
        how=row.how,
        credential=row.credential,
        via=row.via,
        decision=row.decision,
        rule=row.rule,
        previous=row.previous,
        hash=row.hash,
    )
