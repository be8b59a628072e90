"""Time in which two servers that were apart join the suspended arcs between them again.

Two servers have arcs from groups of one to groups of the other. One server is killed, and started again once the other
counts it as lost. The time runs from its serving line until no arc is suspended at either server.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import psutil

from benchmarks.report import Figure
from benchmarks.servers import SERVING, name_servers, running
from shadowtree import Arc, Client

ARCS = 10_000
PARENTS = 100
LOOK_SECONDS = 0.05
PATIENCE_SECONDS = 120


def measure(*, quick: bool) -> list[Figure]:
    """Measure one heal."""
    count = ARCS // 10 if quick else ARCS
    arcs = [Arc(f"top{number % PARENTS}@s0.x", f"under{number // PARENTS}@s1.x", "group") for number in range(count)]
    with (
        tempfile.TemporaryDirectory() as folder,
        name_servers(Path(folder), [["s0.x"], ["s1.x"]]) as (stays, killed),
        Client(stays.address, timeout=120) as client,
    ):
        client.import_arcs(arcs)
        command = psutil.Process(killed.process.pid).cmdline()
        killed.kill()
        _until(client, suspended=count)
        with running(command, SERVING) as again, Client(again.address, timeout=120) as other:
            started = time.perf_counter()
            _until(client, suspended=0)
            _until(other, suspended=0)
            seconds = time.perf_counter() - started
    what = f"{count:,} suspended arcs between two servers are joined again"
    return [Figure(what, seconds, 10, "s", note="from the serving line of the server that was killed")]


def _until(client: Client, *, suspended: int) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while len(client.status().suspended) != suspended:
        if time.monotonic() > end:
            raise TimeoutError(f"{len(client.status().suspended)} arcs are suspended, not {suspended}")
        time.sleep(LOOK_SECONDS)
