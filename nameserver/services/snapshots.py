"""ExportSnapshot: the whole state of this server at one revision, sent while updates go on.

    a piece is read and sent -> a rest as long as that took -> the next piece ...   what steps change is noted meanwhile
    little is left -> the rest is read at one instant -> durable -> sent

Whoever reads the pieces slowly delays nobody: what changes again and again is read again once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from namegraph.refusals import Reason, refuse
from namegraph.server_core import ServerCore
from namegraph.snapshot import Snapshot
from nameserver.run_loop import RunLoop
from nameserver.services.calls import Chunks, Context
from nameserver.services.snapshot_chunks import encode_end, encode_piece
from shadowtree.v1 import admin_pb2 as messages

SNAPSHOTS_AT_ONCE_LIMIT = 2
"""Each takes half of a processor while it lasts, and keeps up to one more copy of the ancestor sets."""


class SnapshotCalls:
    """Answers for one server."""

    def __init__(self, *, core: ServerCore, run_loop: RunLoop) -> None:
        self._core = core
        self._run_loop = run_loop
        self._under_way = 0

    async def export(self, request: messages.ExportSnapshotRequest, context: Context) -> Chunks:
        """All rows, in pieces."""
        del request, context
        if self._under_way >= SNAPSHOTS_AT_ONCE_LIMIT:
            raise refuse(
                Reason.UNAVAILABLE, f"{self._under_way} snapshots of this server are being taken; try again later"
            )
        return self._chunks()

    async def _chunks(self) -> AsyncIterator[bytes]:
        with self._followed() as snapshot:
            pieces = snapshot.read()
            while True:
                begin = time.monotonic()
                piece = next(pieces, None)
                if piece is None:
                    break
                chunk = encode_piece(piece)
                worked = time.monotonic() - begin
                yield chunk
                await asyncio.sleep(worked)
            last = self._last(snapshot)
        if self._run_loop.newest_batch is not None and self._run_loop.storage_failure is None:
            await self._run_loop.until_durable()
        for chunk in last:
            yield chunk

    def _last(self, snapshot: Snapshot) -> list[bytes]:
        found = [encode_piece(piece) for piece in snapshot.finish()]
        failure = self._run_loop.storage_failure or ""
        return [*found, encode_end(snapshot.closing(), revision=self._core.revision, database_failure=failure)]

    @contextmanager
    def _followed(self) -> Iterator[Snapshot]:
        """A snapshot that is told of all steps."""
        snapshot = self._core.snapshot()
        self._under_way += 1
        self._run_loop.followers.append(snapshot.note)
        try:
            yield snapshot
        finally:
            self._run_loop.followers.remove(snapshot.note)
            snapshot.close()
            self._under_way -= 1
