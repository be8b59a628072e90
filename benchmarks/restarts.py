"""Restart of a server with many subnets after a crash: time until its first answer."""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.builds import NOW, Build
from benchmarks.report import Figure, speed_figure
from benchmarks.servers import CALL_SECONDS, ServerProcess, name_server
from shadowtree import Arc, Client

SEED = 7
SUBNETS = 1_036
GROUPS = 72_000
ARCS = 504_000
PEOPLE = 40_000
GROUPS_BELOW_SHARE = 0.4
FARTHEST = 500
"""Greatest distance between a group and its children, in the order of numbers."""


def measure(*, quick: bool, builds: Sequence[Build]) -> list[Figure]:
    """Kill a server and start it again on the same database, the builds in turns."""
    subnets = [f"s{number}.example" for number in range(SUBNETS)]
    seconds: dict[Build, list[float]] = {build: [] for build in builds}
    arcs = _arcs(subnets)
    with ExitStack() as stack:
        folders = {build: Path(stack.enter_context(tempfile.TemporaryDirectory())) for build in builds}
        for build, folder in folders.items():
            with _server(folder, subnets, build) as (server, client):
                summary = client.import_arcs(arcs)
                assert summary.arcs == ARCS, summary
                server.kill()
        for _ in range(1 if quick else 3):
            for build, folder in folders.items():
                seconds[build].append(_until_first_answer(folder, subnets, build))
    medians = {build: statistics.median(times) for build, times in seconds.items()}
    what = f"restart with {ARCS:,} arcs in {SUBNETS:,} subnets after kill -9, to the first answer"
    return [
        Figure(what, medians[NOW], 5, "s"),
        *(
            speed_figure("  as fast as before", before, medians[NOW], target=1)
            for build, before in medians.items()
            if build is not NOW
        ),
    ]


@contextmanager
def _server(folder: Path, subnets: Sequence[str], build: Build) -> Iterator[tuple[ServerProcess, Client]]:
    with (
        name_server(folder, subnets=subnets, build=build) as server,
        Client(server.address, timeout=CALL_SECONDS) as client,
    ):
        yield server, client


def _until_first_answer(folder: Path, subnets: Sequence[str], build: Build) -> float:
    begun = time.perf_counter()
    with _server(folder, subnets, build) as (server, client):
        client.check(_group(1, subnets), _group(0, subnets))
        seconds = time.perf_counter() - begun
        assert client.status().arcs == ARCS
        server.kill()
    return seconds


def _group(number: int, subnets: Sequence[str]) -> str:
    return f"g{number}@{subnets[number % len(subnets)]}"


def _arcs(subnets: Sequence[str]) -> list[Arc]:
    """Return arcs without loops: groups below groups shortly before them, and people in them."""
    chance = random.Random(SEED)
    found: dict[tuple[str, str], Arc] = {}
    while len(found) < ARCS:
        parent = chance.randrange(GROUPS - 1)
        if chance.random() < GROUPS_BELOW_SHARE:
            child = _group(chance.randint(parent + 1, min(parent + FARTHEST, GROUPS - 1)), subnets)
            arc = Arc(_group(parent, subnets), child, "group")
        else:
            arc = Arc(_group(parent, subnets), f"p{chance.randrange(PEOPLE)}@people.example", "process")
        found.setdefault((arc.parent, arc.child), arc)
    return list(found.values())
