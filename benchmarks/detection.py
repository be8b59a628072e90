"""Time until the other servers declare a killed server lost."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.report import Figure
from benchmarks.servers import name_servers
from shadowtree import Client

KILLS = 20
LOOK_SECONDS = 0.02


def measure(*, quick: bool) -> list[Figure]:
    """Measure some kills."""
    count = 3 if quick else KILLS
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
