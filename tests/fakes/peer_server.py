"""A name server without a graph, in this process: a real transport over real gRPC, and a core that counts letters."""

from __future__ import annotations

import asyncio
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import grpc

from namegraph.events import Lane
from nameserver.calls.peer_service import peer_service_handlers
from nameserver.calls.read_your_writes import PEER_SERVICE
from nameserver.detector.phi import DetectorLimits
from nameserver.driver.run_loop import RunLoop
from nameserver.transport.peer_directory import PeerDirectory
from nameserver.transport.peer_transport import PeerTransport
from tests.callers import identified
from tests.fakes.peer_core import SendLetter

PATIENCE_SECONDS = 30


async def until(condition):
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await asyncio.sleep(0.01)


class FakeServer:
    """A transport with all that is around it in a name server, but the graph."""

    def __init__(self, core, disk, limits=None, lacks=()):
        """`lacks`: methods of PeerService that this server does not have, as one of an older version."""
        self.core, self.disk = core, disk
        self.said = []
        self.worker = ThreadPoolExecutor(max_workers=1)
        self.run_loop = RunLoop(core=core, store=disk, worker=self.worker, clock=asyncio.get_running_loop().time)
        self.transport = PeerTransport(
            core=core, run_loop=self.run_loop, say=self.said.append, limits=limits or DetectorLimits()
        )
        self.directory = PeerDirectory(core=core, transport=self.transport)
        handlers = identified(peer_service_handlers(core, self.transport))
        for method in lacks:
            del handlers[method]
        self.grpc_server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        self.grpc_server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(PEER_SERVICE, handlers)])
        self.tasks = []

    async def start(self, port):
        assert self.grpc_server.add_insecure_port(f"127.0.0.1:{port}") == port
        await self.grpc_server.start()
        self.tasks = [
            asyncio.ensure_future(self.run_loop.flush_forever()),
            asyncio.ensure_future(self.transport.run()),
        ]

    async def kill(self):
        """End without a word, as far as a server in this process can."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await self.grpc_server.stop(None)
        self.worker.shutdown()

    async def close(self):
        await self.transport.close()
        self.run_loop.finish()
        await asyncio.gather(*self.tasks)
        await self.grpc_server.stop(None)
        self.worker.shutdown()

    def send(self, receiver, letter, lane=Lane.LETTERS):
        self.run_loop.take(SendLetter(receiver, letter, lane))

    def state(self, address):
        return {report.address: report.state for report in self.transport.reports()}.get(address, "")

    def faults(self):
        """Return the peer faults of all servers, strangers included."""
        counts = Counter(self.transport.strangers_refused())
        for report in self.transport.reports():
            counts.update(report.faults)
        return counts

    def letters(self, sender):
        return [letter for other, letter in self.core.handled if other == sender]

    def posts(self, sender):
        return [post for other, post in self.core.posts_handled if other == sender]

    def report(self, server):
        """Return the report on a peer for operators."""
        return next(report for report in self.transport.reports() if server in report.subnets)
