"""A TCP proxy that a test breaks: each direction passes, drops, stalls or is cut, at any time.

    dialler --> [ proxy ] --> target        `outward`: bytes from the dialler
            <--           <--               `homeward`: bytes from the target

A proxy stands for the way of one server to another. Both servers of a pair dial. So a test that breaks the way from a
to b sets `outward` of the proxy by which a dials b, and `homeward` of the proxy by which b dials a. `Network` does so.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from enum import Enum

from tests.fakes.loop_in_thread import LoopInThread

CHUNK_BYTES = 64 * 1024


class Passage(Enum):
    """Fate of bytes."""

    PASS = "pass"
    DROP = "drop"
    """They are taken and thrown away. Connections that lost some are closed when bytes pass again."""
    STALL = "stall"
    """They are not taken, and wait."""
    CUT = "cut"
    """Connections are closed, new ones too, at once."""


class TcpProxy:
    """Listens on a free port, and passes on to a target that may start later. To be used in one event loop."""

    def __init__(self, target: str) -> None:
        """`target`: HOST:PORT."""
        self.address = ""
        self.outward = self.homeward = Passage.PASS
        self._host, _, port = target.rpartition(":")
        self._port = int(port)
        self._server: asyncio.Server | None = None
        self._connections: set[_Connection] = set()
        self._changed = asyncio.Event()
        self._is_closed = False

    async def start(self) -> TcpProxy:
        """Listen; `address` is set then."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    def set(self, *, outward: Passage | None = None, homeward: Passage | None = None) -> None:
        """Change what becomes of bytes from now on, in either direction; None leaves it as it is."""
        self.outward = outward or self.outward
        self.homeward = homeward or self.homeward
        modes = (self.outward, self.homeward)
        for connection in list(self._connections):
            if Passage.CUT in modes or (connection.has_lost_bytes and Passage.DROP not in modes):
                connection.close()
        self._changed.set()
        self._changed = asyncio.Event()

    async def close(self) -> None:
        """End, with all connections."""
        self._is_closed = True
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.close()
            connection.task.cancel()  # It may wait for bytes to pass again.
        while self._connections:
            await asyncio.wait([connection.task for connection in self._connections])

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(writer)
        self._connections.add(connection)
        try:
            # One may have been taken from the system just before the end.
            if not self._is_closed and Passage.CUT not in (self.outward, self.homeward):
                await self._carry(connection, reader, writer)
        except (OSError, asyncio.CancelledError):
            pass  # The target is missing, an end has gone, or a test cut the connection.
        finally:
            connection.close()
            self._connections.discard(connection)

    async def _carry(self, connection: _Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, forth = await asyncio.open_connection(self._host, self._port)
        connection.writers.append(forth)
        pumps = [
            asyncio.ensure_future(self._pump("outward", connection, reader, forth)),
            asyncio.ensure_future(self._pump("homeward", connection, back, writer)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(
        self, direction: str, connection: _Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while True:
            await self._until_moving(direction)
            data = await reader.read(CHUNK_BYTES)
            if not data:
                return
            await self._until_moving(direction)
            if getattr(self, direction) is Passage.DROP:
                connection.has_lost_bytes = True
                continue
            writer.write(data)
            await writer.drain()

    async def _until_moving(self, direction: str) -> None:
        while getattr(self, direction) is Passage.STALL:
            await self._changed.wait()


class _Connection:
    """A connection to the proxy, and its connection to the target."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writers = [writer]
        self.has_lost_bytes = False
        task = asyncio.current_task()
        assert task is not None
        self.task = task

    def close(self) -> None:
        for writer in self.writers:
            with suppress(OSError):
                writer.transport.abort()


class Network:
    """The ways between several places, one proxy for each ordered pair. To be used in one event loop."""

    def __init__(self) -> None:
        self._ways: dict[tuple[str, str], TcpProxy] = {}

    async def way(self, source: str, destination: str, target: str) -> str:
        """Make the way on which the place `source` dials the place `destination`; returns its address."""
        proxy = await TcpProxy(target).start()
        self._ways[source, destination] = proxy
        return proxy.address

    def set(self, source: str, destination: str, passage: Passage) -> None:
        """Set the fate of all bytes from one place to another, whichever of them dialled."""
        if (source, destination) in self._ways:
            self._ways[source, destination].set(outward=passage)
        if (destination, source) in self._ways:
            self._ways[destination, source].set(homeward=passage)

    def set_dialling(self, source: str, destination: str, passage: Passage) -> None:
        """Set the fate of connections that one place dials to another. Connections in the other direction are
        unchanged.
        """
        self._ways[source, destination].set(outward=passage, homeward=passage)

    def part(self, one: str, other: str, passage: Passage = Passage.DROP) -> None:
        """Break both directions between two places."""
        self.set(one, other, passage)
        self.set(other, one, passage)

    def heal(self) -> None:
        """Let all bytes pass again, everywhere."""
        for proxy in self._ways.values():
            proxy.set(outward=Passage.PASS, homeward=Passage.PASS)

    async def close(self) -> None:
        """End all proxies."""
        for proxy in self._ways.values():
            await proxy.close()


class NetworkInThread:
    """A `Network` with an event loop of its own, for tests without one. As a context manager it ends by itself."""

    def __init__(self) -> None:
        self._loop = LoopInThread("network")
        self._network = Network()

    def __enter__(self) -> NetworkInThread:
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.run(self._network.close())
        self._loop.close()

    def way(self, source: str, destination: str, target: str) -> str:
        """Return the address of a way, see `Network`."""
        return self._loop.run(self._network.way(source, destination, target))

    def set(self, source: str, destination: str, passage: Passage) -> None:
        """Set a passage, see `Network`. The setting holds when the call returns."""
        self._call(lambda: self._network.set(source, destination, passage))

    def set_dialling(self, source: str, destination: str, passage: Passage) -> None:
        """Set a passage for dialled connections, see `Network`. The setting holds when the call returns."""
        self._call(lambda: self._network.set_dialling(source, destination, passage))

    def part(self, one: str, other: str, passage: Passage = Passage.DROP) -> None:
        """Break the ways between two places, see `Network`. The setting holds when the call returns."""
        self._call(lambda: self._network.part(one, other, passage))

    def heal(self) -> None:
        """Let all bytes pass again, see `Network`. The setting holds when the call returns."""
        self._call(self._network.heal)

    def _call(self, change):
        async def carry_out() -> None:
            change()

        self._loop.run(carry_out())
