"""Counting of the nodes of a server in slices, so that other tasks do not wait after a large change."""

from __future__ import annotations

import asyncio

from resolver.census import Census, Counts


async def counted(census: Census) -> Counts:
    """Return the number of nodes that the server owns, as it is when all nodes were looked at."""
    while census.look_at_some():
        await asyncio.sleep(0)
    return census.counts()
