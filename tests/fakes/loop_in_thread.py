"""An event loop in a thread of its own, for fakes that serve tests which have none."""

from __future__ import annotations

import asyncio
import threading


class LoopInThread:
    """An event loop in a thread. Closing it ends every task begun in it."""

    def __init__(self, name: str) -> None:
        """Start the thread. `name`: its name."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, coroutine):
        """Run a coroutine there, and return its result or raise its error."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def close(self) -> None:
        """End every task, and wait for its end. A task that the collector finds later would be a fault in some other
        test.
        """
        self.run(_end_others())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _end_others() -> None:
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        for task in others:
            task.cancel()
        await asyncio.wait(others)
