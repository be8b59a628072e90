"""ExportSnapshot: the whole state of this server at one revision, sent while updates go on.

    a piece is read -> others get their turn -> the next piece ...   what steps change is noted meanwhile
    a few pieces were read -> a rest as long as that took -> the next ones, which are sent when they fill a message
    little is left -> the rest is read at one instant -> durable -> sent -> the log of messages, which never changes

A slow reader delays no other call. Rows that change repeatedly are read again once. For a cut, the instant is that of
the step in which this server takes the cut. The snapshot follows changes until then.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from delivery.server import Server
from delivery.snapshot import PIECE_ROWS, LogEnds, MessagePiece, MessageSnapshot, entries
from namegraph import CutCommand, Effects, Reason, SnapshotReading, refuse
from nameserver.calls.adapters import Chunks, Context, deadline_of
from nameserver.driver.run_loop import RunLoop
from nameserver.wire.message_columns import encode_messages, encode_messages_end
from nameserver.wire.snapshot_columns import encode_end, encode_piece, encode_together
from shadowtree.v1 import admin_pb2 as messages
from storage.store import LogWanted

SNAPSHOTS_AT_ONCE_LIMIT: Final = 2
"""Snapshots at once.

Each takes half of a processor while it lasts, and keeps up to one more copy of the ancestor sets.
"""

CUT_NAME_LENGTH_LIMIT: Final = 200

CUT_SECONDS: Final = 30.0
"""Longest time of a cut if its caller sets no deadline. Updates wait for it."""

CUT_WAIT_SECONDS: Final = 60.0
"""Wait of a snapshot for its cut once the server has been read. The snapshot holds one of few places."""

STALLED_SECONDS: Final = 60.0
"""Longest time for which the reader of a snapshot may take no message. The snapshot holds one of few places."""

FOLLOWING_SECONDS: Final = 0.1
"""Interval at which changes are read during the wait for a cut."""

LOG_BYTES: Final = 256 * 1024
"""Bytes of the log of messages that are read at a time. Commits come between."""

MESSAGE_BYTES: Final = 64 * 1024
"""Bytes of pieces that are sent together. Sending a message takes half a millisecond, as long as reading a piece."""

SHORTEST_REST_SECONDS: Final = 0.002
"""Shortest rest. Timers are no finer than a millisecond, so a rest after each piece would be twice as long as meant."""

_CAUGHT_UP: Final = messages.SnapshotChunk(is_caught_up=True).SerializeToString()


class SnapshotCalls:
    """Servicer of snapshots and cuts of one server."""

    def __init__(self, *, core: Server, run_loop: RunLoop) -> None:
        self._core = core
        self._run_loop = run_loop
        self._under_way = 0

    async def export(self, request: messages.ExportSnapshotRequest, context: Context) -> Chunks:
        """Return all rows, in pieces."""
        del context
        if self._under_way >= SNAPSHOTS_AT_ONCE_LIMIT:
            raise refuse(
                Reason.UNAVAILABLE, f"{self._under_way} snapshots of this server are being taken; try again later"
            )
        return self._chunks(request.cut)

    async def make_cut(self, request: messages.MakeCutRequest, context: Context) -> messages.MakeCutResponse:
        """Let all servers take a cut."""
        if not (0 < len(request.name) <= CUT_NAME_LENGTH_LIMIT and request.name.isprintable()):
            raise refuse(
                Reason.INVALID_REQUEST,
                f"the name of a cut has 1 to {CUT_NAME_LENGTH_LIMIT} printable characters",
                field="name",
            )
        run_loop = self._run_loop
        deadline = deadline_of(context, run_loop) or run_loop.now() + CUT_SECONDS
        made = await run_loop.carry_out(CutCommand(run_loop.new_ticket(), request.name, deadline))
        return messages.MakeCutResponse(revision=made.revision)

    async def _chunks(self, cut: str) -> AsyncGenerator[bytes, None]:
        with self._followed(cut) as reading:
            async for chunk in _paced(reading, reading.pieces()):
                yield chunk
            if cut:
                reading.is_caught_up = True
                yield _CAUGHT_UP
                until = self._run_loop.now() + CUT_WAIT_SECONDS
                while not reading.last:
                    if self._run_loop.now() > until:
                        raise refuse(
                            Reason.DEADLINE_EXCEEDED, f"no cut {cut!r} was made within {CUT_WAIT_SECONDS:g} seconds"
                        )
                    async for chunk in _paced(reading, map(encode_piece, reading.snapshot.keep_up())):
                        yield chunk
                    with suppress(TimeoutError):
                        async with asyncio.timeout(FOLLOWING_SECONDS):
                            await reading.ended.wait()
            else:
                await self._run_loop.between_steps()
                reading.finish()
        if self._run_loop.storage_failure is None:
            await self._run_loop.until_durable()
        if reading.was_cut_early:
            raise refuse(Reason.UNAVAILABLE, f"the cut {cut!r} was made before this server had been read")
        for chunk in reading.last:
            yield chunk
        if self._run_loop.storage_failure is None:
            async for chunk in self._messages(reading):
                yield chunk
        yield reading.end

    async def _messages(self, reading: _Reading) -> AsyncGenerator[bytes, None]:
        """Yield the rest of the rows about messages, and the log as it was at the instant of the snapshot.

        Entries cut since then have left the log for good, so the snapshot is of a log that was cut that far. Entries
        that went from the middle are included if they were read before.
        """
        ends, pieces = reading.messages_ended
        for piece in pieces:
            yield encode_messages(piece)
            await self._run_loop.between_steps()
        after, lacking = ends.cut, list[range]()
        while after < ends.last:
            records = await self._run_loop.read_log(LogWanted(after, ends.last, LOG_BYTES))
            if not records:
                break
            for record in records:
                if record.position > after + 1:
                    lacking.append(range(after + 1, record.position))
                after = record.position
            began = time.thread_time()
            for begin in range(0, len(records), PIECE_ROWS):
                yield encode_messages(entries(records[begin : begin + PIECE_ROWS]))
                await self._run_loop.between_steps()
            await asyncio.sleep(time.thread_time() - began)
        log = self._core.delivery.log
        cut = min(ends.last, log.cut)
        lacking.append(range(after + 1, ends.last + 1))
        gone = sum(max(0, each.stop - max(each.start, cut + 1)) for each in lacking)
        # Lacking entries that are neither cut nor gone were lost by the database.
        yield encode_messages_end(ends._replace(cut=cut, gone=min(gone, log.gone)))

    @contextmanager
    def _followed(self, cut: str) -> Iterator[_Reading]:
        """Yield a snapshot that is told of all steps."""
        reading = _Reading(self._core, self._run_loop, cut)
        self._under_way += 1
        self._run_loop.followers.append(reading.follow)
        try:
            yield reading
        finally:
            self._run_loop.followers.remove(reading.follow)
            reading.snapshot.close()
            self._under_way -= 1


class _Reading:
    """A snapshot under way, and its last chunks once they were read."""

    def __init__(self, core: Server, run_loop: RunLoop, cut: str) -> None:
        self.snapshot: SnapshotReading = core.snapshot()
        self.messages: MessageSnapshot = core.message_snapshot()
        self.is_caught_up = False
        self.was_cut_early = False
        self.last: list[bytes] = []
        self.end = b""
        """Chunk that comes after all others."""
        self.messages_ended: tuple[LogEnds, Iterator[MessagePiece]]
        """Rest of the rows about messages. Set together with `last`."""
        self.ended = asyncio.Event()
        self._core = core
        self._run_loop = run_loop
        self._cut = cut
        self.between_steps = run_loop.between_steps

    def pieces(self) -> Iterator[bytes]:
        """Yield all pieces, encoded. Steps may come between."""
        yield from map(encode_piece, self.snapshot.read())
        yield from map(encode_messages, self.messages.read())

    def follow(self, effects: Effects) -> None:
        """Note the changes of a step. If the step took the cut, read the rest."""
        if self.last:
            return
        self.snapshot.note(effects.records)
        self.messages.note(effects.records)
        for cut in effects.cuts:
            if self._cut and cut.name == self._cut:
                self.was_cut_early = not self.is_caught_up
                self.finish(cut.update)

    def finish(self, cut: str = "") -> None:
        """Read the rest. The snapshot is of the last step."""
        self.last = [encode_piece(piece) for piece in self.snapshot.finish()]
        self.messages_ended = self.messages.finish()
        revision, failure = self._core.revision, self._run_loop.storage_failure or ""
        closing = self.snapshot.closing()
        self.end = encode_end(closing, revision=revision, database_failure=failure, cut=cut)
        self.ended.set()


async def _paced(reading: _Reading, pieces: Iterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Encode pieces until the cut comes. Other tasks are served in between, for as long as the pieces took."""
    encoded: list[bytes] = []
    encoded_bytes, worked = 0, 0.0
    while not reading.last:
        await reading.between_steps()
        begin = time.thread_time()
        piece = next(pieces, None)
        if piece is None:
            break
        encoded.append(piece)
        encoded_bytes += len(encoded[-1])
        worked += time.thread_time() - begin
        if encoded_bytes >= MESSAGE_BYTES:
            yield encode_together(encoded)
            encoded, encoded_bytes = [], 0
        if worked < SHORTEST_REST_SECONDS:
            await asyncio.sleep(0)
        else:
            await asyncio.sleep(worked)
            worked = 0.0
    if encoded:
        yield encode_together(encoded)
