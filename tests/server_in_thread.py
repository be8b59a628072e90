"""A real name server in this process, on a database in memory: the composition of `nameserver/server.py` as it is.

    client --> relay --> name server        all of them in one event loop, in a thread of its own

It starts in some milliseconds, so each test may have one of its own.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from types import MappingProxyType
from typing import Any, Literal

from delivery.model.words import MessageContent
from delivery.wire.posts import decode_stored
from nameserver.config.settings import load_settings
from nameserver.driver.planned_end import PlannedEnd
from nameserver.server import serve_until
from nameserver.settings_reload import SettingsReload
from nameserver.telemetry.log_lines import LOGGER, ProcessLog
from shadowtree import Arc, Client
from shadowtree.cli.support.free_ports import unused_ports
from storage.errors import DatabaseFullError
from storage.memory import MemoryDatabase, MemoryStore
from tests.fakes.call_relay import CallRelay
from tests.fakes.loop_in_thread import LoopInThread

Kind = Literal["group", "process"]

UNREAD_URL = "sqlite:///in-memory"
"""A setting that must be there. The database of these servers is given to them open."""


@cache
def _loop() -> LoopInThread:
    # Otherwise warnings would go to standard error, among the output of commands that tests compare.
    LOGGER.addHandler(logging.NullHandler())
    loop = LoopInThread("name servers")
    atexit.register(loop.close)
    return loop


class FillableStore(MemoryStore):
    """A store in memory whose disk may be full. `is_full`: no commit succeeds while it is true."""

    is_full = False

    def probe(self) -> None:
        """See `Store`."""
        super().probe()
        if self.is_full:
            raise DatabaseFullError(database="in memory", problem="the disk is full", remedy="make room")

    def commit(self, records: Any) -> None:
        """See `Store`."""
        self.probe()
        super().commit(records)


class ServerInThread:
    """One name server, which serves from its creation until it is closed."""

    def __init__(
        self, *subnets: str, listen: str = "127.0.0.1:0", on: MemoryDatabase | None = None, **settings: Any
    ) -> None:
        """`settings`: see `nameserver/config/settings.py`. `on`: the database of an earlier server, or none."""
        values = {
            "database": UNREAD_URL,
            "subnets": subnets,
            "listen": listen,
            "restart_grace_seconds": "0",
            "listen_local": "none",
        }
        self._settings = load_settings(None, values | settings, {})
        self.database = MemoryDatabase() if on is None else on
        self.store: FillableStore
        self._relay: CallRelay | None = None
        self.start()

    @property
    def relay(self) -> CallRelay:
        """The way to the server for clients whose calls a test watches or breaks."""
        if self._relay is None:
            self._relay = CallRelay(self.address)
            _loop().run(self._relay.start())
        return self._relay

    @property
    def address(self) -> str:
        """HOST:PORT of the server, the same after another start."""
        return self._settings.listen

    def start(self) -> None:
        """Start, or start again after an end, with what the database has."""
        _loop().run(self._start())

    def fill(self, *groups: str, arcs: Mapping[tuple[str, str], Kind] = MappingProxyType({})) -> None:
        """Import groups, and arcs by parent and child. Groups that arcs name need not be named again."""
        empty = [Arc(group, "", "group") for group in groups]
        with Client(self.address) as names:
            names.import_arcs([*empty, *(Arc(parent, child, kind) for (parent, child), kind in arcs.items())])

    @property
    def groups(self) -> set[str]:
        """Groups that this server has."""
        with Client(self.address) as names:
            return set(names.groups())

    @property
    def arcs(self) -> dict[tuple[str, str], Kind]:
        """Kinds of the members of this server's groups, by parent and child."""
        with Client(self.address) as names:
            return {(arc.parent, arc.child): arc.kind for arc in names.export() if arc.child}

    @property
    def messages(self) -> list[MessageContent]:
        """Messages in the log of this server, in order."""
        # The thread of the database may cut the log meanwhile.
        log = dict(self.database.log)
        parcels = [decode_stored(log[position].encoded) for position in sorted(log)]
        return [message for parcel in parcels for message in parcel.messages]

    def end(self) -> None:
        """End as planned, with a goodbye to peers."""
        _loop().run(self._end())

    def kill(self) -> None:
        """End without a word, as far as a server in this process can."""
        _loop().run(self._kill())
        # A server keeps what it has restored and imported apart from garbage for ever. Tests end many servers.
        gc.unfreeze()

    def close(self) -> None:
        """End without a word, and end the relay."""
        self.kill()
        if self._relay is not None:
            _loop().run(self._relay.close())

    def __enter__(self) -> ServerInThread:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _start(self) -> None:
        self._planned_end = PlannedEnd(self._settings.restart_grace_seconds)
        serving = asyncio.get_running_loop().create_future()
        log = ProcessLog(self._settings.log)
        self._task = asyncio.ensure_future(
            serve_until(
                self._planned_end,
                self._settings,
                announce=serving.set_result,
                log=log,
                reloading=SettingsReload(self._settings, log, lambda: self._settings),
                open_database=self._open_store,
            )
        )
        await asyncio.wait((self._task, serving), return_when=asyncio.FIRST_COMPLETED)
        if self._task.done():
            await self._task
        self._settings = replace(self._settings, listen=serving.result().rpartition(" ")[2])

    def _open_store(self, settings: Any) -> FillableStore:
        self.store = FillableStore(self.database, server=settings.name or settings.subnets[0])
        return self.store

    async def _end(self) -> None:
        self._planned_end.begin("a test")
        assert await self._task == 0

    async def _kill(self) -> None:
        self._task.cancel()
        await asyncio.wait((self._task,))


@contextmanager
def two_servers(subnet: str, other: str) -> Iterator[tuple[ServerInThread, ServerInThread]]:
    """Run the servers of two subnets, each of which is a peer of the other one."""
    listen, listen_of_other = (f"127.0.0.1:{port}" for port in unused_ports(2))
    with (
        ServerInThread(subnet, listen=listen, peers={other: listen_of_other}) as one,
        ServerInThread(other, listen=listen_of_other, peers={subnet: listen}) as two,
    ):
        yield one, two
