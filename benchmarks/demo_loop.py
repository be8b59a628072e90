"""The last part of the demo: a join that closes a large loop over three servers, the leave that breaks it, questions.

Both builds run beside one another and change in turns.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.builds import NOW, Build
from benchmarks.probe import Probe, probing
from benchmarks.report import Figure, p99, speed_figure
from benchmarks.servers import EXAMPLE, several_connected
from shadowtree import Client
from shadowtree.cli.demo.example_part import write_part
from shadowtree.cli.demo.loops import arc_to_turn_round
from shadowtree.cli.demo.servers import deal

GROUP = "forensics-full@team-pkg-security.tracker.debian.org"
SERVERS = 3
SEED = 7
PAIRS = 500
RESOLVED = 50
"""Groups that are resolved between the checks, one after ten checks."""
ROUNDS = 40
ASKED_EVERY_SECONDS = 0.02
PAUSE_SECONDS = 0.2


class Loop:
    """Three servers of one build with the demo's graph, and the arc that closes the loop."""

    def __init__(self, stack: ExitStack, build: Build, file: Path, shares: Sequence[Sequence[str]]) -> None:
        self._stack = stack
        servers, clients = stack.enter_context(several_connected(shares, build=build))
        self._client: Client = clients[0]
        self._client.import_file(file)
        self._parent, self._child = arc_to_turn_round(self._client.resolve(GROUP, walk=True).walk)
        chance = random.Random(SEED)
        groups = self._client.groups().groups
        pairs = [(chance.choice(groups), chance.choice(groups)) for _ in range(PAIRS)]
        for client in clients:
            for pair in pairs:
                client.check(*pair)
            for group, _ in pairs[:RESOLVED]:
                client.resolve(group)
        questions = []
        for number, pair in enumerate(pairs):
            questions.append(pair)
            if number % (PAIRS // RESOLVED) == 0:
                questions.append((pair[0], ""))
        self._questions = {server.address: questions for server in servers}
        self.join_seconds: list[float] = []
        self.leave_seconds: list[float] = []
        self.check_seconds: list[float] = []
        self.resolve_seconds: list[float] = []
        self.idle_check_seconds: list[float] = []
        """Seconds of checks before the first change."""

    def close_and_open(self) -> None:
        """Close and open the loop once, while all servers answer questions."""
        with probing(self._questions, seconds=ASKED_EVERY_SECONDS) as probe:
            time.sleep(PAUSE_SECONDS)
            begun = time.monotonic()
            self._client.join(self._child, self._parent, "group")
            self.join_seconds.append(time.monotonic() - begun)
            assert self._client.check(self._parent, self._parent)
            joined = time.monotonic()
            time.sleep(PAUSE_SECONDS)
            leaving = time.monotonic()
            self._client.leave(self._child, self._parent, "group")
            self.leave_seconds.append(time.monotonic() - leaving)
            assert not self._client.check(self._parent, self._parent)
            self._keep_answers(probe, ((begun, joined), (leaving, time.monotonic())))

    def _keep_answers(self, probe: Probe, spans: Sequence[tuple[float, float]]) -> None:
        answers = probe.end()
        self.idle_check_seconds += [each.seconds for each in answers if each.is_check and each.asked < spans[0][0]]
        for answer in answers:
            if any(begin <= answer.asked < end for begin, end in spans):
                (self.check_seconds if answer.is_check else self.resolve_seconds).append(answer.seconds)


def measure(*, quick: bool, builds: Sequence[Build]) -> list[Figure]:
    """Close the loop and open it again, the builds in turns."""
    with ExitStack() as stack:
        part = write_part(EXAMPLE, GROUP, Path(stack.enter_context(tempfile.TemporaryDirectory())))
        shares = deal(part.groups_of_subnets, SERVERS)
        loops = {build: Loop(stack, build, part.file, shares) for build in builds}
        in_turn = list(loops.values())
        for _ in range(3 if quick else ROUNDS):
            for loop in in_turn:
                loop.close_and_open()
            # The servers of the last one still compute what its change left missing.
            in_turn.reverse()
    now = loops[NOW]
    longest, idle = max(now.check_seconds) * 1e3, p99(now.idle_check_seconds) * 1e3
    note = f"p50 {statistics.median(now.check_seconds) * 1e3:.1f} ms, longest {longest:.0f} ms; idle p99 {idle:.1f} ms"
    figures = [
        Figure(
            "check on all servers while the demo's loop is closed and opened, p99",
            p99(now.check_seconds) * 1e3,
            20,
            "ms",
            note=note,
        )
    ]
    for build, earlier in loops.items():
        if build is NOW:
            continue
        for what, values in (
            ("the join that closes the demo's loop, p50", (earlier.join_seconds, now.join_seconds)),
            ("the leave that opens it, p50", (earlier.leave_seconds, now.leave_seconds)),
        ):
            medians = [statistics.median(each) for each in values]
            figures.append(speed_figure(f"{what}, as fast as before", *medians, target=0.95))
        for what, values in (
            ("check", (earlier.check_seconds, now.check_seconds)),
            ("resolve", (earlier.resolve_seconds, now.resolve_seconds)),
        ):
            figures.append(speed_figure(f"{what} meanwhile, p99, as fast as before", *map(p99, values), target=1))
    return figures
