"""Questions: the members of a group, membership of one node, and the groups of a node."""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path

import grpc

from benchmarks.echo import echo_call, paired_medians
from benchmarks.imports import import_example
from benchmarks.report import Figure, median_seconds, timed
from benchmarks.servers import ServerProcess, connected, echo_server, example_subnets
from shadowtree import Arc, Client

SEED = 7
LARGEST_GROUP = "forensics-full@team-pkg-security.tracker.debian.org"
SYNTHETIC = "bench.example"
CHECK_REQUEST_OVERHEAD_BYTES = 4
"""Bytes of a check's message beyond its two names: a tag and a length before each."""


def measure(*, quick: bool) -> list[Figure]:
    """Ask a server that holds the example graph, and one with groups made for the purpose."""
    figures = []
    subnets = [*example_subnets(), SYNTHETIC]
    with (
        tempfile.TemporaryDirectory() as folder,
        echo_server() as echo,
        connected(Path(folder), subnets=subnets) as (_, client),
    ):
        import_example(client)
        figures += _first_and_later_resolutions(client, quick=quick)
        figures += _checks(client, echo, quick=quick)
        figures += _memberships(client, quick=quick)
        figures += _a_million_members(client, quick=quick)
    return figures


def _pairs(client: Client, count: int) -> list[tuple[str, str]]:
    chance = random.Random(SEED)
    groups = client.groups().groups
    people = client.resolve(LARGEST_GROUP).processes
    members = [*people, *groups]
    return [(chance.choice(groups), chance.choice(members)) for _ in range(count)]


def _first_and_later_resolutions(client: Client, *, quick: bool) -> list[Figure]:
    first = timed(lambda: client.resolve(LARGEST_GROUP))
    assert len(client.resolve(LARGEST_GROUP).processes) == 1_988
    later = median_seconds(lambda: client.resolve(LARGEST_GROUP), repetitions=50 if quick else 300)
    return [
        Figure("resolve of 1,988 members over 60 levels, first call", first * 1e3, 60, "ms"),
        Figure("resolve of 1,988 members over 60 levels, later, p50", later * 1e3, 5, "ms"),
    ]


def _checks(client: Client, echo: ServerProcess, *, quick: bool) -> list[Figure]:
    rounds = 500 if quick else 4_000
    pairs = _pairs(client, rounds)
    size = sum(len(group) + len(member) + CHECK_REQUEST_OVERHEAD_BYTES for group, member in pairs) // rounds
    asked = iter(pairs)
    with grpc.insecure_channel(echo.address) as channel:
        check, bare = paired_medians(lambda: client.check(*next(asked)), echo_call(channel, size), rounds=rounds)
    many = _pairs(client, 200_000 if quick else 1_000_000)
    started = time.perf_counter()
    answers = sum(1 for _ in client.check_many(many))
    rate = answers / (time.perf_counter() - started)
    assert answers == len(many)
    return [
        Figure(
            "check of any pair, one client, p50",
            check / bare,
            1.5,
            "x echo",
            note=f"{check * 1e6:,.0f} us against {bare * 1e6:,.0f} us",
        ),
        Figure("check_many, counted in the client", rate, 400_000, "pairs/s", lower_is_better=False),
    ]


def _memberships(client: Client, *, quick: bool) -> list[Figure]:
    person = "everywhere@people.example"
    client.import_arcs(Arc(f"in-{number}@{SYNTHETIC}", person, "process") for number in range(10_000))
    assert len(client.memberships(person).groups) == 10_000
    seconds = median_seconds(lambda: client.memberships(person), repetitions=5 if quick else 50)
    return [Figure("memberships of a person in 10,000 groups, p50", seconds * 1e3, 20, "ms")]


def _a_million_members(client: Client, *, quick: bool) -> list[Figure]:
    group = f"everybody@{SYNTHETIC}"
    count = 1_000_000
    client.import_arcs(Arc(group, f"person-{number}@people.example", "process") for number in range(count))
    assert len(client.resolve(group).processes) == count
    seconds = median_seconds(lambda: len(client.resolve(group).processes), repetitions=3 if quick else 9)
    return [Figure("stream of 1,000,000 members, p50", count / seconds, 5_000_000, "members/s", lower_is_better=False)]
