"""Checkpoints of the audit log: made of durable rows, signed, kept here, and told to other servers.

    durable row 1,000, 2,000, ... or an hour --> sign --> KeepCheckpoint --> durable --> tell

Source: docs/audit-log.md, "Checkpoints".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from msgspec import structs

from namegraph import Checkpoint, Event, KeepCheckpoint, RefusedError, ServerId
from nameserver.driver.observer import Observer

CHECKPOINT_ROWS = 1_000
"""Rows after which a checkpoint is made."""

CHECKPOINT_SECONDS = 3_600.0
"""Time after which a checkpoint is made, if there are new rows."""

SHORTEST_SECONDS = 1.0
"""Time between two checkpoints. A server with thousands of updates a second needs no more."""


class Signer(Protocol):
    """Signing key of the server."""

    @property
    def public_key(self) -> bytes:
        """Ed25519 public key, 32 bytes."""

    def sign(self, data: bytes) -> bytes:
        """Return the signature of some bytes."""


class OwnCheckpoints(Protocol):
    """Durable checkpoints of this server."""

    @property
    def newest(self) -> Checkpoint | None:
        """Newest checkpoint. None if there is none."""


class AuditHead(Protocol):
    """Part of the run loop that knows the newest durable row."""

    @property
    def audit_head(self) -> tuple[int, bytes]:
        """Number and hash of the newest durable row. The number is 0 if none was written since the start."""

    def take(self, event: Event) -> None:
        """Take an event that no caller waits for."""

    async def between_steps(self) -> None:
        """Wait until an event that is taken is carried out at once."""

    async def until_durable(self) -> None:
        """Wait until all steps taken by now are durable. Raises `RefusedError` if the database fails."""


class CheckpointKeeper(Observer):
    """Maker of this server's checkpoints."""

    def __init__(
        self,
        *,
        server: ServerId,
        kept: OwnCheckpoints,
        run_loop: AuditHead,
        tell: Callable[[Checkpoint], None],
        now_ms: Callable[[], int],
        keep_ms: float,
        signer: Signer | None = None,
    ) -> None:
        """`tell`: tells other servers. `keep_ms`: age from which rows go, in milliseconds. `signer`: None if the server
        has no signing key."""
        self._server = server
        self._kept = kept
        self._run_loop = run_loop
        self._tell = tell
        self._now_ms = now_ms
        self._keep_ms = keep_ms
        self._signer = signer
        self._is_due = asyncio.Event()
        newest = kept.newest
        self._last = 0 if newest is None else newest.sequence

    def committed(self, seconds: float) -> None:
        """Note that rows are durable."""
        del seconds
        if self._run_loop.audit_head[0] >= self._last + CHECKPOINT_ROWS:
            self._is_due.set()

    async def keep_forever(self) -> None:
        """Make checkpoints whenever they are due."""
        newest = self._kept.newest
        if newest is not None:
            self._tell(newest)
        while True:
            try:
                async with asyncio.timeout(CHECKPOINT_SECONDS):
                    await self._is_due.wait()
            except TimeoutError:
                pass
            self._is_due.clear()
            await self._make()
            await asyncio.sleep(SHORTEST_SECONDS)

    async def _make(self) -> None:
        number, digest = self._run_loop.audit_head
        if number <= self._last:
            return
        now = self._now_ms()
        checkpoint = Checkpoint(self._server, number, digest, now, self._last)
        if self._signer is not None:
            signature = self._signer.sign(checkpoint.signed_bytes())
            checkpoint = structs.replace(checkpoint, key=self._signer.public_key, signature=signature)
        self._last = number
        # The step must be taken at once: a checkpoint that is told and then forgotten looks like an older database.
        await self._run_loop.between_steps()
        self._run_loop.take(KeepCheckpoint(checkpoint, max(0, int(now - self._keep_ms))))
        while not await self._is_durable():
            await asyncio.sleep(SHORTEST_SECONDS)
        self._tell(checkpoint)

    async def _is_durable(self) -> bool:
        try:
            await self._run_loop.until_durable()
        except RefusedError:
            return False
        return True
