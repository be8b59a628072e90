"""Calls of the Python client beside bare echoes: one at a time, and checks of many tasks of one client at once.

The client runs in a process of its own, with the build that is measured. The server does too.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks import client_asking
from benchmarks.builds import NOW, Build
from benchmarks.client_asking import GROUPS, PEOPLE, SEED, SUBNET, TASKS, group_id, person_id
from benchmarks.report import Figure, speed_figure
from benchmarks.servers import echo_server, name_server
from shadowtree import Arc, Client

MEMBERS = 20
"""People of a group. The number is small, so that a resolution is small."""

TURNS = 3
P50_TARGETS = {"check": 1.6, "resolve": 2.2, "memberships": 2.2}
P95_TARGET = 1.5
RATE_TARGETS = {64: 30_000}


def measure(*, quick: bool, builds: Sequence[Build]) -> list[Figure]:
    """Call the server of each build with its own client, in turns. The median turn counts."""
    turns: dict[Build, list[dict[str, float]]] = {build: [] for build in builds}
    with ExitStack() as stack:
        echo = stack.enter_context(echo_server())
        addresses = {}
        for build in builds:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            addresses[build] = stack.enter_context(name_server(folder, subnets=[SUBNET], build=build)).address
            with Client(addresses[build]) as client:
                client.import_arcs(_arcs())
        for _ in range(1 if quick else TURNS):
            for build in builds:
                command = [sys.executable, "-P", client_asking.__file__, addresses[build], echo.address]
                command.append(str(10 if quick else 1))
                said = subprocess.run(
                    command, env=build.environment(), cwd=build.folder, check=True, stdout=subprocess.PIPE, text=True
                )
                turns[build].append(json.loads(said.stdout))
    found = {
        build: {what: sorted(turn[what] for turn in of_build)[len(of_build) // 2] for what in of_build[0]}
        for build, of_build in turns.items()
    }
    return _figures(found)


def _figures(found: Mapping[Build, Mapping[str, float]]) -> list[Figure]:
    figures = []
    now = found[NOW]
    earlier = [values for build, values in found.items() if build is not NOW]
    for call, target in P50_TARGETS.items():
        for share, limit in (("p50", target), ("p95", P95_TARGET)):
            what = f"{call} {share}"
            figures.append(Figure(f"client: {call}, {share}", now[what], limit, f"x {share} of an echo"))
            figures += [
                speed_figure("  as fast as before", before[what], now[what], target=1, unit="x echo")
                for before in earlier
            ]
    for tasks in TASKS:
        what = f"{tasks} tasks"
        figures.append(
            Figure(
                f"client: checks of {tasks} tasks at once",
                now[what],
                RATE_TARGETS.get(tasks),
                "a second",
                lower_is_better=False,
            )
        )
        figures += [
            Figure(
                "  as many as before",
                now[what] / before[what],
                1,
                "x",
                lower_is_better=False,
                note=f"{before[what]:,.0f} a second",
            )
            for before in earlier
        ]
    return figures


def _arcs() -> list[Arc]:
    chance = random.Random(SEED)
    return [
        Arc(group_id(group), person_id(person), "process")
        for group in range(GROUPS)
        for person in chance.sample(range(PEOPLE), MEMBERS)
    ]
