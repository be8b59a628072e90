"""A real history of changes, one by one. Its data may be read in place, but not copied into the project."""

from __future__ import annotations

import gzip
import os
import tempfile
import time
from pathlib import Path

import grpc
import networkx

from benchmarks.echo import echo_call
from benchmarks.report import Figure, median_seconds
from benchmarks.servers import connected, echo_server

POINTS_COMPARED = 50


def measure(*, quick: bool) -> list[Figure]:  # noqa: ARG001 - one run is as short as it gets
    """Replay `rust-teams`, comparing answers on the way."""
    extra = os.environ.get("SHADOWTREE_EXTRA_DATA")
    if extra is None:
        print("  (the history of rust-teams is not measured: SHADOWTREE_EXTRA_DATA is not set)")
        return []
    changes = _read(Path(extra) / "data/rust-teams/churn.tsv.gz")
    named = {name for _, parent, child, kind in changes for name in _groups(parent, child, kind)}
    subnets = sorted({name.partition("@")[2] for name in named})
    truth = networkx.DiGraph()
    every = max(1, len(changes) // POINTS_COMPARED)
    seconds = 0.0
    with tempfile.TemporaryDirectory() as folder, connected(Path(folder), subnets=subnets) as (_, client):
        created: set[str] = set()
        for number, (sign, parent, child, kind) in enumerate(changes):
            started = time.perf_counter()
            for group in _groups(parent, child, kind):
                if group not in created:
                    created.add(group)
                    client.create_group(group)
            if sign == "+":
                client.join(parent, child, kind="group" if kind == "group" else "process")
                seconds += time.perf_counter() - started
                truth.add_edge(parent, child)
            else:
                client.leave(parent, child)
                seconds += time.perf_counter() - started
                truth.remove_edge(parent, child)
            if number % every == 0:
                group = parent
                reached = networkx.descendants(truth, group)
                expected = sorted(node for node in reached if node not in created)
                assert list(client.resolve(group).processes) == expected, (number, group)
    calls = len(changes) + len(created)
    with echo_server() as echo, grpc.insecure_channel(echo.address) as channel:
        bare = calls * median_seconds(echo_call(channel, 80), repetitions=1_000)
    what = f"replay of rust-teams, {len(changes):,} changes one by one"
    return [Figure(what, seconds, 20, "s", note=f"{calls:,} calls; that many of the echo take {bare:.1f} s")]


def _groups(parent: str, child: str, kind: str) -> list[str]:
    return [parent, child] if kind == "group" else [parent]


def _read(path: Path) -> list[tuple[str, str, str, str]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = (line.rstrip("\n").split("\t") for line in lines)
        return [(sign, parent, child, kind) for _, _, sign, parent, child, kind in rows]
