"""False alarms of the failure detector: five busy servers under full load.

A false alarm is a peer that a server counted as lost, or a change of views. A peer that is suspected for a moment is no
false alarm, since no server acts on it, but it is counted too. A server that ever lost a peer stays in a view with a
list of members. So an alarm that came and went between two looks is found at the end.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections import Counter
from pathlib import Path

from benchmarks.report import Figure
from benchmarks.servers import name_servers
from shadowtree import Unavailable, aio

SERVERS = 5
MINUTES = 20
QUICK_MINUTES = 1 / 6
CALLERS = 6
"""Callers on each server. All callers and servers together keep two cores busy."""
CALL_SECONDS = 120
"""Timeout of a call, so long that no call fails because it waits for a processor."""
LOOK_SECONDS = 0.2


def measure(*, quick: bool) -> list[Figure]:
    """Measure false alarms under load."""
    minutes = QUICK_MINUTES if quick else MINUTES
    shares = [[f"s{number}.x"] for number in range(SERVERS)]
    with tempfile.TemporaryDirectory() as folder, name_servers(Path(folder), shares) as servers:
        found = asyncio.run(_under_load([server.address for server in servers], 60 * minutes))
    load = f"{SERVERS} servers, {SERVERS * CALLERS} clients, {found['calls'] / minutes / 60:,.0f} calls a second"
    what = f"in {minutes:.1f} minutes of full load"
    return [
        Figure(f"servers taken for lost {what}", found["lost"], 0, "", note=f"{load}; {found['suspected']} suspected"),
        Figure(f"views changed {what}", found["views"], 0, "", note=f"{found['refused']} calls refused as UNAVAILABLE"),
    ]


async def _under_load(addresses: list[str], seconds: float) -> Counter[str]:
    """Return the counts of calls, refused calls, lost and suspected peers, and views."""
    counts: Counter[str] = Counter()
    end = time.monotonic() + seconds
    async with asyncio.TaskGroup() as tasks:
        for server, address in enumerate(addresses):
            tasks.create_task(_watch(address, end, counts))
            for caller in range(CALLERS):
                tasks.create_task(_call_again_and_again(address, server, caller, end, counts))
    return counts


async def _call_again_and_again(address: str, server: int, caller: int, end: float, counts: Counter[str]) -> None:
    """Join a group of the next server, ask, and leave it, again and again. The five groups of one number make a
    ring.
    """
    next_server = (server + 1) % SERVERS
    parent, child, person = f"p{caller}@s{server}.x", f"p{caller}@s{next_server}.x", f"ann{caller}@s{server}.x"
    chance = random.Random(f"{server}-{caller}")
    async with aio.Client(address, timeout=CALL_SECONDS) as names:
        await names.create_group(parent)
        await names.join(parent, person, kind="process")
        while not await _is_there(names, child):
            await asyncio.sleep(LOOK_SECONDS)
        while time.monotonic() < end:
            try:
                await names.join(parent, child, kind="group")
                for ask in chance.sample(range(4), 2):
                    match ask:
                        case 0:
                            await names.resolve(parent, groups=True)
                        case 1:
                            await names.check(parent, f"ann{caller}@s{chance.randrange(SERVERS)}.x")
                        case 2:
                            await names.memberships(person)
                        case 3:
                            await names.resolve(child)
                await names.leave(parent, child)
            except Unavailable:
                counts["refused"] += 1
                await _clear(names, parent, child)
            counts["calls"] += 4


async def _is_there(names: aio.Client, group: str) -> bool:
    return group in (await names.groups()).groups


async def _clear(names: aio.Client, parent: str, child: str) -> None:
    """Leave the arc, which may have been joined."""
    while True:
        try:
            found = await names.describe(parent)
            if child in [each.id for each in found.children]:
                await names.leave(parent, child)
        except Unavailable:
            await asyncio.sleep(LOOK_SECONDS)
        else:
            return


async def _watch(address: str, end: float, counts: Counter[str]) -> None:
    """Count the changes in a server's state of its peers, and in the members of its view."""
    lives: dict[str, str] = {}
    view: tuple[str, ...] = ()
    async with aio.Client(address, timeout=CALL_SECONDS) as names:
        is_last = False
        while not is_last:
            is_last = time.monotonic() >= end
            for peer in await names.peers():
                if peer.life != lives.get(peer.address):
                    counts[peer.life] += 1
                lives[peer.address] = peer.life
            now = (await names.status()).view
            counts["views"] += now != view
            view = now
            await asyncio.sleep(LOOK_SECONDS)
