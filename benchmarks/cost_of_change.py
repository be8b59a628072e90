"""Cost of a small update, a question and a restart on a large graph, compared with a small graph.

One size grows at a time: subnets, groups, arcs, servers. The updates touch two groups, of two servers or of one. These
groups have no other groups above or below them. The cost is the processor time of these two servers, less their time
when idle. The small graph and the large one are changed in turns.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from benchmarks.builds import NOW, Build
from benchmarks.report import Figure
from benchmarks.servers import CALL_SECONDS, SERVING, ServerProcess, name_servers, running
from shadowtree import Arc, Client

SEED = 7
TOUCHED = 40
"""Pairs of groups that are joined and left in one turn."""

CHECKS = 300
IDLE_SECONDS = 1.0
MOST = 1.5
"""Largest ratio to the cost on the small graph. A flat cost is 1."""


@dataclass(frozen=True)
class Size:
    """Size of a graph, and the number of servers that hold it."""

    subnets: int = 10
    groups: int = 4_000
    arcs: int = 40_000
    servers: int = 2


SMALL = Size()
GROWN = {
    "subnets": replace(SMALL, subnets=10_000),
    "groups": replace(SMALL, groups=100_000),
    "arcs": replace(SMALL, arcs=400_000),
    "servers": replace(SMALL, servers=8),
}


class Graph:
    """Servers with a graph of some size."""

    def __init__(self, size: Size, build: Build, servers: Sequence[ServerProcess], clients: Sequence[Client]) -> None:
        self.size = size
        self._build = build
        self._all = servers
        self._touched = servers[:2]
        self._client = clients[0]
        self._empty = servers[0].processor_seconds()
        """Processor seconds of a start without a graph."""
        self._client.import_arcs(_arcs(size))
        self._idle = self._used(lambda: time.sleep(IDLE_SECONDS)) / IDLE_SECONDS

    def costs(self) -> dict[str, float]:
        """Return the processor seconds of one call of each kind, by kind."""
        found = {}
        for what, child in (("join and leave across servers", "other"), ("join and leave at one server", "here")):
            pairs = [(f"parent-{number}@{_subnet(0)}", _touched(child, number)) for number in range(TOUCHED)]
            found[what] = self._cost(lambda pairs=pairs: self._join_and_leave(pairs)) / TOUCHED
        found["check"] = self._cost(self._check) / CHECKS
        return found

    def restart(self) -> float:
        """Kill the first server and start it again. Return the seconds for each group and arc."""
        command = psutil.Process(self._all[0].process.pid).cmdline()
        self._all[0].kill()
        with (
            running(command, SERVING, build=self._build) as again,
            Client(again.address, timeout=CALL_SECONDS) as client,
        ):
            client.status()
            return again.processor_seconds() / (self.size.groups + self.size.arcs)

    def _used(self, work: Callable[[], None]) -> float:
        before = sum(server.processor_seconds() for server in self._touched)
        work()
        return sum(server.processor_seconds() for server in self._touched) - before

    def _cost(self, work: Callable[[], None]) -> float:
        begun = time.monotonic()
        return self._used(work) - self._idle * (time.monotonic() - begun)

    def _join_and_leave(self, pairs: Sequence[tuple[str, str]]) -> None:
        for parent, child in pairs:
            self._client.join(parent, child, kind="group")
        for parent, child in pairs:
            self._client.leave(parent, child)

    def _check(self) -> None:
        for number in range(CHECKS):
            self._client.check(f"parent-{number % TOUCHED}@{_subnet(0)}", f"here-{number % TOUCHED}@{_subnet(0)}")


def measure(*, quick: bool, builds: Sequence[Build]) -> list[Figure]:
    """Compare each cost with that on the small graph, on each build."""
    turns = 3 if quick else 7
    ratios = {build: dict(_ratios(build, turns)) for build in builds}
    figures = []
    for (grown, what), ratio in ratios[NOW].items():
        notes = [f"{build.name}: {found[grown, what]:.2f}" for build, found in ratios.items() if build is not NOW]
        before, after = getattr(SMALL, grown), getattr(GROWN[grown], grown)
        name = f"{what}: {after:,} {grown} to {before:,}"
        figures.append(Figure(name, ratio, MOST, "x", note="; ".join(notes)))
    return figures


def _ratios(build: Build, turns: int) -> Iterator[tuple[tuple[str, str], float]]:
    """Yield the ratio of the cost on a grown graph to the cost on the small one.

    The key is the grown size and the kind of call.
    """
    for grown, size in GROWN.items():
        with _graph(SMALL, build) as small, _graph(size, build) as large:
            costs = [(small.costs(), large.costs()) for _ in range(turns)]
            for what in costs[0][0]:
                few, many = (statistics.median(each[side][what] for each in costs) for side in (0, 1))
                yield (grown, what), many / few
            yield (grown, "restart, for each group and arc"), large.restart() / small.restart()


@contextmanager
def _graph(size: Size, build: Build) -> Iterator[Graph]:
    shares = [[_subnet(number) for number in range(first, size.subnets, size.servers)] for first in range(size.servers)]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers = stack.enter_context(name_servers(folder, shares, build=build))
        clients = [stack.enter_context(Client(server.address, timeout=CALL_SECONDS)) for server in servers]
        yield Graph(size, build, servers, clients)


def _subnet(number: int) -> str:
    return f"s{number}.x"


def _touched(child: str, number: int) -> str:
    """Return a group of the second server, or of the first."""
    return f"{child}-{number}@{_subnet(1 if child == 'other' else 0)}"


def _arcs(size: Size) -> Iterator[Arc]:
    """Yield groups with people in them, and the groups that updates touch."""
    chance = random.Random(SEED)
    for number in range(TOUCHED):
        for name in (f"parent-{number}@{_subnet(0)}", _touched("here", number), _touched("other", number)):
            yield Arc(name, "", "group")
    groups = [f"g{number}@{_subnet(number % size.subnets)}" for number in range(size.groups)]
    for group in groups:
        yield Arc(group, "", "group")
    for number in range(size.arcs):
        yield Arc(chance.choice(groups), f"p{number}@people.example", "process")
