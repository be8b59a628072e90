"""Name servers whose links are recorded: every byte that one of them sends another passes here."""

from __future__ import annotations

import asyncio

from shadowtree.cli.support.free_ports import unused_ports
from tests.fakes.loop_in_thread import LoopInThread
from tests.integration.nameserver.several_servers import SeveralServers


class Recorder:
    """A proxy for any port that records the bytes. Runs in a thread of its own."""

    def __init__(self):
        self.bytes = bytearray()
        self._loop = LoopInThread("recorder")
        self._servers = []

    def pass_on(self, port, to):
        """Pass bytes from one port on to another."""
        return self._loop.run(self._listen(port, to))

    def forget(self):
        self.bytes.clear()

    def close(self):
        self._loop.run(self._stop_listening())
        self._loop.close()

    async def _stop_listening(self):
        for server in self._servers:
            server.close()

    async def _listen(self, port, to):
        async def serve(reader, writer):
            try:
                other_reader, other_writer = await asyncio.open_connection("127.0.0.1", to)
            except OSError:
                writer.close()
                return
            await asyncio.gather(self._copy(reader, other_writer), self._copy(other_reader, writer))

        self._servers.append(await asyncio.start_server(serve, "127.0.0.1", port))

    async def _copy(self, reader, writer):
        try:
            while data := await reader.read(65_536):
                self.bytes += data
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()


class RecordedServers(SeveralServers):
    """Servers that reach one another through `recorder` alone; clients come directly."""

    def __init__(self, start, folder, shares, recorder):
        found = unused_ports(2 * len(shares))
        ports, self._links = found[: len(shares)], found[len(shares) :]
        for port, link in zip(ports, self._links, strict=True):
            recorder.pass_on(link, port)
        super().__init__(start, folder, ports, shares)

    def peer_address(self, number):
        return f"127.0.0.1:{self._links[number]}"
