"""Import of the example graph to five servers while each answers questions: latency of answers, and cost of the
import.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.builds import NOW, Build
from benchmarks.probe import probing
from benchmarks.report import Figure, p99, speed_figure
from benchmarks.servers import EXAMPLE, example_weights, several_connected
from shadowtree.cli.demo.servers import deal

SERVERS = 5
ASKED_EVERY_SECONDS = 0.05
MEMBER = "somebody@people.example"


@dataclass(frozen=True)
class Import:
    """Cost of one import."""

    seconds: float
    peak_megabytes: float
    """Peak memory of the server that needs most, in megabytes."""

    answers: list[float]
    """Seconds of each answer during the import."""


def measure(*, quick: bool, builds: Sequence[Build]) -> list[Figure]:
    """Measure one import of each build, or two of the only build."""
    imports: dict[Build, list[Import]] = {build: [] for build in builds}
    for _ in range(1 if quick or len(builds) > 1 else 2):
        for build, found in imports.items():
            found.append(_import(build))
    now = min(imports[NOW], key=lambda each: each.seconds)
    note = f"of {len(now.answers):,} answers; p99 {p99(now.answers) * 1e3:.0f} ms; import in {now.seconds:.1f} s"
    what = f"latest answer of any of {SERVERS} servers while they take the example graph"
    figures = [Figure(what, max(now.answers) * 1e3, 100, "ms", note=note)]
    for build, found in imports.items():
        if build is NOW:
            continue
        earlier = min(found, key=lambda each: each.seconds)
        figures += [
            speed_figure("  the import, as fast as before", earlier.seconds, now.seconds, target=1),
            speed_figure(
                "  memory of the server that needs most, as little as before",
                earlier.peak_megabytes,
                now.peak_megabytes,
                target=1,
                unit="MB",
            ),
            speed_figure("  latest answer, as early as before", max(earlier.answers), max(now.answers), target=1),
        ]
    return figures


def _import(build: Build) -> Import:
    shares = deal(example_weights(), SERVERS)
    with several_connected(shares, build=build) as (servers, clients):
        questions = {}
        for server, client, share in zip(servers, clients, shares, strict=True):
            group = f"asked-for@{share[0]}"
            client.create_group(group)
            client.join(group, MEMBER, kind="process")
            questions[server.address] = [(group, MEMBER)]
        with probing(questions, seconds=ASKED_EVERY_SECONDS) as probe:
            begun = time.monotonic()
            summary = clients[0].import_file(EXAMPLE)
            ended = time.monotonic()
            answers = [answer.seconds for answer in probe.end() if begun <= answer.asked < ended]
        assert summary.arcs == 454_565, summary
        peak = max(server.peak_resident_bytes() for server in servers) / 1e6
    return Import(ended - begun, peak, answers)
