"""A chain of groups that alternates between eight servers: a join closes it to a ring, a leave opens it again."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from benchmarks.builds import NOW, Build
from benchmarks.report import Figure, speed_figure, timed
from benchmarks.servers import several_connected
from shadowtree import Arc

SERVERS = 8
GROUPS = 10_000
GROUPS_COMPARED = 1_000
"""Number of groups that an earlier build can join and leave in acceptable time."""


def measure(*, quick: bool, builds: Sequence[Build]) -> list[Figure]:
    """Measure the long chain on this build, and the shorter one on all builds."""
    figures = []
    if not quick:
        close, open_again = _seconds(NOW, GROUPS)
        figures = [
            Figure(f"a chain of {GROUPS:,} groups over {SERVERS} servers is closed to a ring", close, 4, "s"),
            Figure("  and opened again", open_again, 2, "s"),
        ]
    for build in builds:
        if build is not NOW:
            before, now = _seconds(build, GROUPS_COMPARED), _seconds(NOW, GROUPS_COMPARED)
            for what, *seconds in zip(("closed", "opened"), before, now, strict=True):
                name = f"a chain of {GROUPS_COMPARED:,} groups over {SERVERS} servers is {what}, as fast as before"
                figures.append(speed_figure(name, *seconds, target=10))
    return figures


def _seconds(build: Build, count: int) -> tuple[float, float]:
    """Return the seconds to close a chain of `count` groups, and to open it."""
    groups = [f"g{number}@s{number % SERVERS}.x" for number in range(count)]
    with several_connected([[f"s{number}.x"] for number in range(SERVERS)], build=build) as (_, (client, *_others)):
        client.import_arcs(Arc(*arc, "group") for arc in pairwise(groups))
        close = timed(lambda: client.join(groups[-1], groups[0], "group"))
        assert client.check(groups[0], groups[0])
        open_again = timed(lambda: client.leave(groups[-1], groups[0], "group"))
        assert not client.check(groups[0], groups[0])
    return close, open_again
