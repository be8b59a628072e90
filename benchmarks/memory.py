"""Memory of a server with a million arcs after a restart, once ancestor sets were computed in the background.

The graph is synthetic: groups on levels, where some groups and people are chosen as children more often than the rest.
The numbers of the ancestors of a node are spread over all numbers of nodes, so that their compressed bitmap has several
containers.
"""

from __future__ import annotations

import random
import tempfile
import time
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.builds import NOW, Build
from benchmarks.report import Figure, speed_figure
from benchmarks.servers import CALL_SECONDS, name_server
from shadowtree import Arc, Client

SEED = 11
SUBNET = "bench.example"
ARCS = 1_059_000
GROUPS = 140_000
PEOPLE = 280_000
LEVELS = 12
GROWTH = 1.5
"""Ratio of the groups of one level to the groups of the level above."""

GROUP_SHARE = 0.28
"""Share of the arcs that lead to groups."""

POPULARITY = 2
"""Exponent of the choice of children. 1: an even choice."""

QUICK_SHARE = 20
"""Factor by which the graph is smaller in a quick run."""

WAIT_SECONDS = 60


def measure(*, quick: bool, builds: Sequence[Build]) -> list[Figure]:
    """Import the graph, restart the server, wait for a minute, and read its memory, one build at a time."""
    arcs = _arcs(smaller=QUICK_SHARE if quick else 1)
    restarted: dict[Build, float] = {}
    filled: dict[Build, float] = {}
    with ExitStack() as stack:
        for build in builds:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            with name_server(folder, subnets=[SUBNET], build=build) as server:
                with Client(server.address, timeout=CALL_SECONDS) as client:
                    client.import_arcs(arcs)
                server.kill()
            server = stack.enter_context(name_server(folder, subnets=[SUBNET], build=build))
            restarted[build] = server.resident_bytes() / 1e6
            time.sleep(WAIT_SECONDS / (QUICK_SHARE if quick else 1))
            filled[build] = server.peak_resident_bytes() / 1e6
            server.kill()
    what = f"resident memory with {len(arcs):,} arcs, the most in a minute after a restart"
    return [
        Figure(what, filled[NOW], 800, "MB", note=f"{restarted[NOW]:,.0f} MB at the restart"),
        *(
            speed_figure("  as little as before", before, filled[NOW], target=1, unit="MB")
            for build, before in filled.items()
            if build is not NOW
        ),
    ]


def _arcs(*, smaller: int) -> list[Arc]:
    """Return arcs without loops, from groups to groups of deeper levels and to people, in random order."""
    chance = random.Random(SEED)
    groups, people = GROUPS // smaller, PEOPLE // smaller
    weights = [GROWTH**level for level in range(LEVELS)]
    ends = [int(groups * sum(weights[: level + 1]) / sum(weights)) for level in range(LEVELS)]
    level_of = [bisect_right(ends, group) for group in range(groups)]
    found: dict[tuple[int, int], Arc] = {}
    while len(found) < ARCS // smaller:
        parent = chance.randrange(groups)
        first = ends[level_of[parent]]
        if chance.random() < GROUP_SHARE and first < groups:
            child = first + int((groups - first) * chance.random() ** POPULARITY)
            found.setdefault((parent, child), Arc(f"g{parent}@{SUBNET}", f"g{child}@{SUBNET}", "group"))
        else:
            child = groups + int(people * chance.random() ** POPULARITY)
            found.setdefault((parent, child), Arc(f"g{parent}@{SUBNET}", f"p{child}@{SUBNET}", "process"))
    return list(found.values())
