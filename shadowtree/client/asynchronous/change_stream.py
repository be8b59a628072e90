"""Updates as they are committed; the stream of the synchronous client is generated from this file by `make client`."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator

from shadowtree.client.asynchronous.transport import pause
from shadowtree.client.change_record import Resumption, read_updates
from shadowtree.client.foreign_text import printable
from shadowtree.errors import Unavailable
from shadowtree.results import RecordedUpdate
from shadowtree.v1 import name_service_pb2 as messages
from shadowtree.vocabulary import Revision


class ChangeStream(AsyncIterator[RecordedUpdate]):
    """Updates as they are committed, for ever. `revision` is that of the last update returned, from which to resume.

    The stream begins with the first update that is asked for, or with `open`. A server that cannot be reached is
    retried as long as a restart may take (`RESUME_S`); meanwhile `is_interrupted` is true.
    """

    is_interrupted = False

    def __init__(
        self,
        begin: Callable[[Revision | None], AsyncGenerator[messages.ChangesChunk, None]],
        after_revision: Revision | None,
    ) -> None:
        """`begin` opens a stream of chunks after a revision."""
        self._begin = begin
        self._pending: Iterator[RecordedUpdate] = iter(())
        self._resumption = Resumption()
        self.revision = after_revision or ""
        self._chunks: AsyncGenerator[messages.ChangesChunk, None] | None = None

    async def open(self) -> None:
        """Begin the stream: every update committed after the return is reported."""
        if self._chunks is None:
            self._chunks = self._begin(self.revision or None)
            self._take(await anext(self._chunks))

    async def __anext__(self) -> RecordedUpdate:
        """Return the next update, once there is one; raise an error that ends the stream for good."""
        await self.open()
        while True:
            for update in self._pending:
                self.revision = update.revision
                return update
            assert self._chunks is not None
            try:
                self._take(await anext(self._chunks))
            except Unavailable as error:
                self.is_interrupted = True
                await pause(self._resumption.pause_after(error, time.monotonic()))
                self._chunks = self._begin(self.revision)

    async def close(self) -> None:
        """End the stream."""
        if self._chunks is not None:
            await self._chunks.aclose()

    def _take(self, chunk: messages.ChangesChunk) -> None:
        self._resumption.goes_on()
        self.is_interrupted = False
        self.revision = self.revision or printable(chunk.revision)
        self._pending = read_updates(chunk)
