"""Compute ancestor sets in slices, so that missing sets of many nodes delay no other question or update.

    a question   fills the sets that it is about to ask for, and lets others go first between slices
    nobody       the filler computes what a start, an import or a large update left missing, once that is durable

Sets are filled in the core itself, where all later questions find them. Readers of an earlier state use them too, as
far as they were the same then (`HeldAncestorSets`). While a step runs in another thread, the core's own sets are left
alone, and those of the readers are filled.

Source: docs/protocol-updates.md, "What a node knows of its ancestors"; `namegraph.graph.ancestor_sets`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable

from namegraph import AncestorSets, CoreQueries, NodeId, NodeIndex, in_slices
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

    def __init__(self, *, core: CoreQueries, reads: CoreQueries, run_loop: RunLoop) -> None:
        """`reads`: the state of the core that readers see."""
        self._core = core
        self._reads = reads
        self._run_loop = run_loop

    async def fill_for(self, names: Iterable[str]) -> None:
        """Fill the sets of some nodes, so that a later question takes no time. Unknown names are skipped."""
        reads = self._reads
        since = time.perf_counter()
        for some in in_slices(names, NAMES_AT_ONCE):
            for name in some:
                node = reads.graph.index.get(NodeId(name))
                if node is not None and not reads.ancestors.is_known(node):
                    await self._fill_named(NodeId(name))
            if time.perf_counter() - since > TURN_SECONDS:
                await asyncio.sleep(0)
                since = time.perf_counter()

    async def fill_forever(self) -> None:
        """Fill all missing sets, a slice at a time, for as long as the server runs."""
        looked_at = -1
        while True:
            await self._run_loop.between_steps()
            newest = self._reads.ancestors.drops
            if looked_at != newest:
                looked_at = newest
                await self._fill_all()
            await asyncio.sleep(LOOK_SECONDS)

    async def _fill_all(self) -> None:
        core, number = self._core, 0
        large_changes = core.ancestors.large_changes
        since = time.perf_counter()
        while number < len(core.graph.ids):
            node = NodeIndex(number)
            while not core.ancestors.is_known(node):
                await self._run_loop.between_steps()
                await self._fill(core.ancestors, node, rest_seconds=REST_SECONDS)
            number += 1
            if time.perf_counter() - since > TURN_SECONDS:
                await asyncio.sleep(REST_SECONDS)
                await self._run_loop.between_steps()
                since = time.perf_counter()
        core.ancestors.looked_at_all(large_changes)

    async def _fill_named(self, name: NodeId) -> None:
        node = self._core.graph.index.get(name)
        if node is not None and not self._run_loop.is_in_long_step:
            await self._fill(self._core.ancestors, node, rest_seconds=0.0)
        reads = self._reads
        node = reads.graph.index.get(name)
        if node is not None:
            await self._fill(reads.ancestors, node, rest_seconds=0.0)

    async def _fill(self, sets: AncestorSets, node: NodeIndex, *, rest_seconds: float) -> None:
        """Fill the set of a node, as far as these sets may be changed here: they are those of the core between steps,
        or those that readers see."""
        for _ in sets.fill(node):
            await asyncio.sleep(rest_seconds)
            is_of_core = sets is self._core.ancestors and not self._run_loop.is_in_long_step
            if not is_of_core and sets is not self._reads.ancestors:
                return
