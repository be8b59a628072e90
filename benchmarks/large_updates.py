"""Joins and leaves between groups of different servers with thousands of groups above and below: the cores alone.

The example graph is dealt by domain over five cores in one process (`fed_cores`). The cost is the processor time of the
servers. Builds are updated in turns.
"""

from __future__ import annotations

import gzip
import json
import random
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.builds import NOW, Build
from benchmarks.report import Figure, speed_figure
from benchmarks.servers import EXAMPLE, example_weights
from shadowtree.cli.demo.servers import deal

SERVERS = 5
SEED = 7
PAIRS = 16
QUICK_PAIRS = 4
FED_CORES = Path(__file__).with_name("fed_cores.py")


class Cores:
    """Process with the cores of one build."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.seconds: dict[str, list[dict[str, float]]] = {"join": [], "leave": []}
        """Seconds that each server needed, for each update, by verb."""

    def send(self, what: object) -> None:
        """Send one line."""
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()

    def wait_until_ready(self) -> None:
        """Wait for the import."""
        assert self._process.stdout.readline() == "ready\n"

    def change(self, verb: str, parent: str, child: str) -> None:
        """Make an update and note its cost."""
        self.send([verb, parent, child])
        self.seconds[verb].append(json.loads(self._process.stdout.readline()))

    def in_all(self) -> float:
        """Return the seconds of all servers for all updates."""
        return sum(sum(each.values()) for changes in self.seconds.values() for each in changes)


@contextmanager
def _cores(build: Build) -> Iterator[Cores]:
    process = subprocess.Popen(
        [sys.executable, "-P", str(FED_CORES)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=build.environment(),
        cwd=build.folder,
    )
    try:
        yield Cores(process)
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def measure(*, quick: bool, builds: Sequence[Build]) -> list[Figure]:
    """Join random groups of different servers, and leave them again."""
    shares = deal(example_weights(), SERVERS)
    pairs = random_pairs(shares, QUICK_PAIRS if quick else PAIRS)
    with ExitStack() as stack:
        cores = {build: stack.enter_context(_cores(build)) for build in builds}
        for each in cores.values():
            each.send([shares, str(EXAMPLE)])
        for each in cores.values():
            each.wait_until_ready()
        for verb, changed in (("join", pairs), ("leave", pairs[::-1])):
            for parent, child in changed:
                for each in cores.values():
                    each.change(verb, parent, child)
    now = cores[NOW]
    figures = []
    for verb, target in (("join", 0.25), ("leave", 0.5)):
        of_busiest = [max(each.values()) for each in now.seconds[verb]]
        in_all = statistics.median(sum(each.values()) for each in now.seconds[verb])
        note = (
            f"mean {statistics.mean(of_busiest):.2f}, longest {max(of_busiest):.2f}; of all servers, p50 {in_all:.2f}"
        )
        what = f"{verb} of two random groups of the example over {SERVERS} servers, cores alone, busiest server, p50"
        figures.append(Figure(what, statistics.median(of_busiest), target, "s of processor", note=note))
    what = f"{len(pairs)} such joins and leaves: processor of all servers, as little as before"
    return figures + [
        speed_figure(what, earlier.in_all(), now.in_all(), target=5)
        for build, earlier in cores.items()
        if build is not NOW
    ]


def random_pairs(shares: Sequence[Sequence[str]], count: int) -> list[tuple[str, str]]:
    """Return pairs of groups of the example at home on different servers, with no arc from the first to the second."""
    home_of = {subnet: number for number, share in enumerate(shares) for subnet in share}
    with gzip.open(EXAMPLE, "rt", encoding="utf-8") as lines:
        arcs = {(parent, child) for parent, child, _ in (line.rstrip("\n").split("\t") for line in lines)}
    groups = sorted({parent for parent, _ in arcs})
    chance = random.Random(SEED)
    pairs: list[tuple[str, str]] = []
    while len(pairs) < count:
        parent, child = chance.sample(groups, 2)
        if home_of[parent.partition("@")[2]] != home_of[child.partition("@")[2]] and (parent, child) not in arcs:
            pairs.append((parent, child))
    return pairs
