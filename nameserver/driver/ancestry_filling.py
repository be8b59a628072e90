"""Compute ancestor sets in slices, so that missing sets of many nodes delay no other question or update.

    a question   fills the sets that it is about to ask for, and lets others go first between slices
    nobody       the filler computes what a start, an import or a large update left missing

Source: docs/protocol-updates.md, "What a node knows of its ancestors"; `namegraph.graph.ancestor_sets`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from weakref import ref

from namegraph import CoreQueries, NodeId, NodeIndex, in_slices
from nameserver.driver.run_loop import RunLoop

REST_SECONDS = 0.01
"""Rest between two slices of the background filler: several times as long as a slice takes."""

LOOK_SECONDS = 1.0
"""Interval at which the filler looks for missing sets."""

TURN_SECONDS = 0.002
"""Working time after which other tasks get their turn."""

NAMES_AT_ONCE = 100
"""Names whose sets are filled between two looks at the clock."""


class AncestryFilling:
    """Filler of the ancestor sets of one server."""

    def __init__(self, *, core: CoreQueries, run_loop: RunLoop) -> None:
        self._core = core
        self._run_loop = run_loop

    async def fill_for(self, names: Iterable[str]) -> None:
        """Fill the sets of some nodes, so that a later question takes no time. Unknown names are skipped."""
        core = self._core
        since = time.perf_counter()
        for some in in_slices(names, NAMES_AT_ONCE):
            for name in some:
                node = core.graph.index.get(NodeId(name))
                if node is not None and not core.ancestors.is_known(node):
                    await self._fill(node, rest_seconds=0.0)
            if time.perf_counter() - since > TURN_SECONDS:
                await asyncio.sleep(0)
                since = time.perf_counter()

    async def fill_forever(self) -> None:
        """Fill all missing sets, a slice at a time, for as long as the server runs."""
        looked_at: object = None
        while True:
            await self._run_loop.between_steps()
            # The missing sets of a long step are seen once the step is durable. A weak reference leaves the owner of
            # the sets free to drop them.
            newest = self._run_loop.step_count, ref(self._core.ancestors)
            if looked_at != newest:
                looked_at = newest
                await self._fill_all()
            await asyncio.sleep(LOOK_SECONDS)

    async def _fill_all(self) -> None:
        core, number = self._core, 0
        ancestors, large_changes = ref(core.ancestors), core.ancestors.large_changes
        since = time.perf_counter()
        while number < len(core.graph.ids):
            node = NodeIndex(number)
            if not core.ancestors.is_known(node):
                await self._run_loop.between_steps()
                await self._fill(node, rest_seconds=REST_SECONDS)
            if core.ancestors is not ancestors():
                return  # A step runs in another thread. Once it is durable, all sets are looked at again.
            number += 1
            if time.perf_counter() - since > TURN_SECONDS:
                await asyncio.sleep(REST_SECONDS)
                since = time.perf_counter()
        if core.ancestors is ancestors():
            core.ancestors.looked_at_all(large_changes)

    async def _fill(self, node: NodeIndex, *, rest_seconds: float) -> None:
        core = self._core
        while not core.ancestors.is_known(node):
            ancestors = core.ancestors
            for _ in ancestors.fill(node):
                await asyncio.sleep(rest_seconds)
                if core.ancestors is not ancestors:
                    break  # A step runs in another thread, and these sets belong to it.
