"""A join over two servers beside that of an earlier build: its latency, and the processor time of both servers."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from contextlib import ExitStack

from benchmarks.builds import NOW, Build
from benchmarks.report import Figure, speed_figure
from benchmarks.servers import ServerProcess, several_connected
from shadowtree import Arc, Client

JOINS = 400
JOINS_IN_TURN = 20
"""Joins of one build before those of the other, so that a noisy moment meets both."""

SETTLING_SECONDS = 1.0
"""Time after which the background work of an import is over."""

FASTER_TARGET = 1.1


def measure(*, quick: bool, builds: Sequence[Build]) -> list[Figure]:
    """Join groups of one server to groups of the other, all builds in turns."""
    count = 2 * JOINS_IN_TURN if quick else JOINS
    with ExitStack() as stack:
        pairs = {build: _pair(stack, build, count) for build in builds}
        time.sleep(SETTLING_SECONDS)
        times: dict[Build, list[float]] = {build: [] for build in builds}
        processor = dict.fromkeys(builds, 0.0)
        for first in range(0, count, JOINS_IN_TURN):
            for build in builds if first % (2 * JOINS_IN_TURN) else reversed(builds):
                servers, client = pairs[build]
                before = sum(server.processor_seconds() for server in servers)
                for number in range(first, first + JOINS_IN_TURN):
                    started = time.perf_counter()
                    client.join(f"parent-{number}@a.x", f"child-{number}@b.x", kind="group")
                    times[build].append(time.perf_counter() - started)
                processor[build] += sum(server.processor_seconds() for server in servers) - before
    medians = {build: statistics.median(of_build) * 1e3 for build, of_build in times.items()}
    each = {build: seconds / count * 1e3 for build, seconds in processor.items()}
    return [
        Figure("join over two servers, p50", medians[NOW], None, "ms", note=f"{each[NOW]:.1f} ms of processor"),
        *(
            figure
            for build in builds
            if build is not NOW
            for figure in (
                speed_figure("  as fast as before", medians[build], medians[NOW], target=FASTER_TARGET, unit="ms"),
                speed_figure("  as little processor as before", each[build], each[NOW], target=1, unit="ms"),
            )
        ),
    ]


def _pair(stack: ExitStack, build: Build, count: int) -> tuple[list[ServerProcess], Client]:
    servers, (client, _) = stack.enter_context(several_connected([["a.x"], ["b.x"]], build=build))
    client.import_arcs(
        Arc(f"{name}-{number}@{subnet}", "", "group")
        for number in range(count)
        for name, subnet in (("parent", "a.x"), ("child", "b.x"))
    )
    return servers, client
