"""Work of the run loop on the database, done by a worker thread. A failed write is retried until it works."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final, Protocol, TypeVar

from namegraph import LogRecord, Records, RefusedError
from nameserver.driver.group_commit import unavailable
from nameserver.driver.ports import DurableStore
from storage.errors import DatabaseLostError, StorageError
from storage.store import ChangesFound, ChangesWanted, LogWanted

FIRST_RETRY_SECONDS: Final = 0.1
LONGEST_RETRY_SECONDS: Final = 5.0
"""Longest pause between two tries. A full disk is found usable again within this time after an operator made room."""

Wanted = TypeVar("Wanted")
Found = TypeVar("Found")


class StorageState(Protocol):
    """Receiver of the state of the database."""

    def fail(self, why: str) -> None:
        """Note that the database cannot be written."""

    def recover(self) -> None:
        """Note that the database can be written, as before or again."""


class DatabaseWork:
    """Work of one worker thread. At most one piece of work is under way at a time."""

    def __init__(self, store: DurableStore, worker: Executor, state: StorageState) -> None:
        self._store, self._worker, self._state = store, worker, state

    async def commit(self, records: Records) -> None:
        """Make records durable, however long it takes. Raises `DatabaseLostError`."""
        retry_seconds = FIRST_RETRY_SECONDS
        while not await self._works(self._store.commit, records):
            await asyncio.sleep(retry_seconds)
            retry_seconds = min(2 * retry_seconds, LONGEST_RETRY_SECONDS)

    async def probe(self) -> None:
        """Find out if the database is there while there is nothing to write. Raises `DatabaseLostError`."""
        if await self._works(self._store.probe):
            self._state.recover()

    async def _works(self, work: Callable[..., None], *arguments: Records) -> bool:
        try:
            await asyncio.get_running_loop().run_in_executor(self._worker, work, *arguments)
        except DatabaseLostError as error:
            self._state.fail(str(error))
            raise
        except StorageError as error:
            self._state.fail(str(error))
            return False
        return True

    async def read_changes(self, wanted: ChangesWanted) -> ChangesFound:
        """Read the record of changes. Raises `RefusedError` if the database fails."""
        return await self._read(self._store.read_changes, wanted)

    async def read_log(self, wanted: LogWanted) -> list[LogRecord]:
        """Read entries of the log of messages. Raises `RefusedError` if the database fails."""
        return await self._read(self._store.read_log, wanted)

    async def _read(self, read: Callable[[Wanted], Found], wanted: Wanted) -> Found:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._worker, read, wanted)
        except StorageError as error:
            raise RefusedError(unavailable(str(error))) from None
