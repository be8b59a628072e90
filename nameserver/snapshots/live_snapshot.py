"""ExportSnapshot: the whole state of this server at one revision, sent while updates go on.

    rows about messages, a piece at a time    what steps change is noted meanwhile
    --> the instant: the state of names is kept from now on, and what was noted of messages
    --> that state, a piece at a time, the noted rows, and the log of messages, which never changes

After a few pieces comes a rest as long as they took. A slow reader delays no other call. For a cut, the instant is that
of the step in which this server takes the cut.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from delivery.server import Server
from delivery.snapshot import PIECE_ROWS, LogEnds, MessagePiece, MessageSnapshot, entries
from namegraph import CoreQueries, CutCommand, Effects, Reason, SnapshotReading, refuse
from nameserver.calls.adapters import Chunks, Context, deadline_of
from nameserver.driver.run_loop import RunLoop
from nameserver.wire.message_columns import encode_messages, encode_messages_end
from nameserver.wire.snapshot_columns import encode_end, encode_piece, encode_together
from shadowtree.v1 import admin_pb2 as messages
from storage.store import LogWanted

SNAPSHOTS_AT_ONCE_LIMIT: Final = 2
"""Snapshots at once.

Each takes half of a processor while it lasts. It keeps what changes meanwhile as it was, and up to one more copy of the
ancestor sets.
"""

CUT_NAME_LENGTH_LIMIT: Final = 200

CUT_SECONDS: Final = 30.0
"""Longest time of a cut if its caller sets no deadline. Updates wait for it."""

CUT_WAIT_SECONDS: Final = 60.0
"""Longest wait of a snapshot for its cut. The snapshot holds one of few places."""

STALLED_SECONDS: Final = 60.0
"""Longest time for which the reader of a snapshot may take no message. The snapshot holds one of few places."""

LOG_BYTES: Final = 256 * 1024
"""Bytes of the log of messages that are read at a time. Commits come between."""

MESSAGE_BYTES: Final = 64 * 1024
"""Bytes of pieces that are sent together. Sending a message takes half a millisecond, as long as reading a piece."""

SHORTEST_REST_SECONDS: Final = 0.002
"""Shortest rest. Timers are no finer than a millisecond, so a rest after each piece would be twice as long as meant."""

_CAUGHT_UP: Final = messages.SnapshotChunk(is_caught_up=True).SerializeToString()


class SnapshotCalls:
    """Servicer of snapshots and cuts of one server."""

    def __init__(self, *, core: Server, reads: CoreQueries, run_loop: RunLoop) -> None:
        self._core = core
        self._reads = reads
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
        run_loop = self._run_loop
        with self._followed(cut) as reading:
            async for chunk in _paced(map(encode_messages, reading.messages.read()), reading.may_go_on):
                yield chunk
            if cut:
                reading.is_caught_up = True
                yield _CAUGHT_UP
                await _taken(reading, cut)
            else:
                await run_loop.between_steps()
                reading.begin()
            if run_loop.storage_failure is None:
                await run_loop.until_durable()
            async for chunk in _paced(map(encode_piece, reading.state.pieces())):
                yield chunk
            end = reading.end()
            if run_loop.storage_failure is None:
                async for chunk in self._messages(reading):
                    yield chunk
            yield end

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
        reading = _Reading(self._core, self._reads, self._run_loop, cut)
        self._under_way += 1
        self._run_loop.followers.append(reading.follow)
        try:
            with reading.kept:
                yield reading
        finally:
            self._run_loop.followers.remove(reading.follow)
            self._under_way -= 1


class _Reading:
    """A snapshot under way."""

    def __init__(self, core: Server, reads: CoreQueries, run_loop: RunLoop, cut: str) -> None:
        self.messages: MessageSnapshot = core.message_snapshot()
        self.is_caught_up = False
        self.was_cut_early = False
        self.has_begun = asyncio.Event()
        """Set at the instant of the snapshot, together with the following attributes."""
        self.state: SnapshotReading
        self.messages_ended: tuple[LogEnds, Iterator[MessagePiece]]
        """Rest of the rows about messages."""
        self.kept = ExitStack()
        """Holder of the state."""
        self._core, self._reads, self._run_loop = core, reads, run_loop
        self._cut = cut
        self._facts: dict[str, str]

    async def may_go_on(self) -> bool:
        """Wait until no step is under way. Return False if the instant has come."""
        await self._run_loop.between_steps()
        return not self.has_begun.is_set()

    def follow(self, effects: Effects) -> None:
        """Note the changes of a step. If the step took the cut, it is the instant of the snapshot."""
        if self.has_begun.is_set():
            return
        self.messages.note(effects.records)
        for cut in effects.cuts:
            if self._cut and cut.name == self._cut:
                self.was_cut_early = not self.is_caught_up
                self.begin(cut.update)

    def begin(self, cut: str = "") -> None:
        """Keep the present state: the snapshot is of this instant."""
        self.state = self.kept.enter_context(self._reads.kept(latest=True)).snapshot()
        self.messages_ended = self.messages.finish()
        failure = self._run_loop.storage_failure or ""
        self._facts = {"revision": self._core.revision, "database_failure": failure, "cut": cut}
        self.has_begun.set()

    def end(self) -> bytes:
        """Let go of the state, which was read. Return the chunk after all others."""
        end = encode_end(self.state.closing(), **self._facts)
        del self.state
        self.kept.close()
        return end


async def _taken(reading: _Reading, cut: str) -> None:
    """Wait for the step that takes the cut."""
    try:
        async with asyncio.timeout(CUT_WAIT_SECONDS):
            await reading.has_begun.wait()
    except TimeoutError:
        raise refuse(Reason.DEADLINE_EXCEEDED, f"no cut {cut!r} was made within {CUT_WAIT_SECONDS:g} seconds") from None
    if reading.was_cut_early:
        raise refuse(Reason.UNAVAILABLE, f"the cut {cut!r} was made before this server waited for it")


async def _always() -> bool:
    return True


async def _paced(
    pieces: Iterator[bytes], may_go_on: Callable[[], Awaitable[bool]] = _always
) -> AsyncGenerator[bytes, None]:
    """Yield pieces together while they may go on. Others are served in between, for as long as the pieces took."""
    encoded: list[bytes] = []
    encoded_bytes, worked = 0, 0.0
    while await may_go_on():
        begin = time.thread_time()
        piece = next(pieces, None)
        if piece is None:
            break
        encoded.append(piece)
        encoded_bytes += len(piece)
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
