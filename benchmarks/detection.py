"""How soon a killed server is lost to the others, and whether one is that is only busy.

A false alarm is a server that runs and is not "up" in somebody's `ListPeers` because it was lost; one that is only
suspected for a moment is no alarm, for nothing is done about it.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.report import Figure
from benchmarks.servers import name_servers
from shadowtree import Client, aio

KILLS = 20
SERVERS = 3
LOAD_SECONDS_VARIABLE = "DETECTION_LOAD_SECONDS"
"""Of the environment: for how long false alarms are looked for. The target is about 20 minutes: 1200."""
LOAD_SECONDS = 60
LOOK_SECONDS = 0.02
CALLERS = 8
"""On each server: together they keep two cores busy."""
BURNERS = 2
"""Processes that do nothing but use a core."""


def measure(*, quick: bool) -> list[Figure]:
    """Kills, then load."""
    load_seconds = float(os.environ.get(LOAD_SECONDS_VARIABLE, 10 if quick else LOAD_SECONDS))
    return _kills(3 if quick else KILLS) + _false_alarms(load_seconds)


def _kills(count: int) -> list[Figure]:
    seconds = sorted(_one_kill() for _ in range(count))
    note = f"{count} kills; p99 {seconds[min(count - 1, round(0.99 * count))]:.2f} s, longest {seconds[-1]:.2f} s"
    return [Figure("a killed server is lost, p50", statistics.median(seconds), 3, "s", note=note)]


def _one_kill() -> float:
    with (
        tempfile.TemporaryDirectory() as folder,
        name_servers(Path(folder), [["s0.x"], ["s1.x"]]) as (watching, killed),
        Client(watching.address) as client,
    ):
        _until(client, "up")
        started = time.perf_counter()
        killed.kill()
        _until(client, "lost")
        return time.perf_counter() - started


def _until(client: Client, life: str) -> None:
    while [peer.life for peer in client.peers()] != [life]:
        time.sleep(LOOK_SECONDS)


def _false_alarms(seconds: float) -> list[Figure]:
    shares = [[f"s{number}.x"] for number in range(SERVERS)]
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(BURNERS)]
    try:
        with tempfile.TemporaryDirectory() as folder, name_servers(Path(folder), shares) as servers:
            addresses = [server.address for server in servers]
            calls, alarms, suspicions = asyncio.run(_under_load(addresses, seconds))
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
    load = f"{SERVERS} servers, {calls / seconds:,.0f} calls a second and {BURNERS} busy processes"
    what = f"false alarms in {seconds / 60:.1f} minutes of full load"
    return [Figure(what, alarms, 0, "", note=f"{load}; {suspicions} suspected")]


async def _under_load(addresses: list[str], seconds: float) -> tuple[int, int, int]:
    """How many calls were made, how often a server was lost, and how often one was suspected."""
    end = time.monotonic() + seconds
    callers = [
        _call_again_and_again(addresses, server, caller, end)
        for server in range(len(addresses))
        for caller in range(CALLERS)
    ]
    watchers = [_watch(address, end) for address in addresses]
    results = await asyncio.gather(asyncio.gather(*callers), asyncio.gather(*watchers))
    return sum(results[0]), sum(lost for lost, _ in results[1]), sum(suspected for _, suspected in results[1])


async def _call_again_and_again(addresses: list[str], server: int, caller: int, end: float) -> int:
    """Joins and leaves of a group of one server below a group of the next, and questions about them."""
    parent = f"p{caller}@s{server}.x"
    child = f"c{server}-{caller}@s{(server + 1) % len(addresses)}.x"
    calls = 0
    async with aio.Client(addresses[server], timeout=120) as names:
        await names.create_group(parent)
        await names.create_group(child)
        while time.monotonic() < end:
            await names.join(parent, child, kind="group")
            await names.resolve(parent, groups=True)
            await names.leave(parent, child)
            calls += 3
    return calls


async def _watch(address: str, end: float) -> tuple[int, int]:
    """How often a peer of one server was found to be lost, and suspected."""
    counts = {"lost": 0, "suspected": 0}
    before: dict[str, str] = {}
    async with aio.Client(address, timeout=120) as names:
        while time.monotonic() < end:
            for peer in await names.peers():
                if peer.life != before.get(peer.address) and peer.life in counts:
                    counts[peer.life] += 1
                before[peer.address] = peer.life
            await asyncio.sleep(0.1)
    return counts["lost"], counts["suspected"]
