"""A real core behind a run loop, with its readers, over a store that a test can hold."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from namegraph.committed_state import CommittedState
from namegraph.core import ServerCore
from namegraph.events import UpdateCommand
from nameserver.driver.run_loop import RunLoop
from tests.unit.nameserver.gated_store import PATIENCE_SECONDS, GatedStore


class GatedServer:
    def __init__(self, core=None):
        self.store = GatedStore()
        self.core = core or ServerCore(server="one", subnets=["b.c"])
        self.seen = CommittedState(self.core)
        """The state that readers see."""
        self.states = []
        self.time = 100.0
        self.worker, self.stepper = ThreadPoolExecutor(max_workers=1), ThreadPoolExecutor(max_workers=1)
        self.run_loop = RunLoop(
            core=self.core,
            store=self.store,
            worker=self.worker,
            clock=lambda: self.time,
            on_storage_state=self.states.append,
            seen=self.seen,
            stepper=self.stepper,
        )
        self.flushing = asyncio.ensure_future(self.run_loop.flush_forever())

    def command(self, *operations, request_id=None, deadline=None):
        ticket = self.run_loop.new_ticket()
        return UpdateCommand(ticket, request_id or f"request {ticket}", operations, deadline)

    def begin(self, *operations, **more):
        """Send an update without waiting for its answer."""
        return asyncio.ensure_future(self.run_loop.carry_out(self.command(*operations, **more)))

    def read_core(self):
        """Wait as a caller does that has read the core itself."""
        return asyncio.ensure_future(self.run_loop.until_durable())

    async def until(self, condition):
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition():
                await asyncio.sleep(0)

    async def at_rest(self):
        await self.until(lambda: not self.run_loop.undurable_records())

    def group_is_durable(self, group):
        return any(record.node_id == group and record.kind == 1 for record in self.store.load().nodes)

    def end(self):
        self.store.make_room()
        self.store.open()
        self.flushing.cancel()
        self.worker.shutdown()
        self.stepper.shutdown()


async def settle():
    """Let everything run that can."""
    for _ in range(20):
        await asyncio.sleep(0)
