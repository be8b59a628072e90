"""Cost of logs, metrics and traces: the same unary `check` on servers with and without them, in turns."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.report import Figure
from benchmarks.servers import SERVING, running
from shadowtree import Client
from shadowtree.cli.support.free_ports import unused_ports

SUBNET = "bench.example"
GROUP, MEMBER = f"staff@{SUBNET}", f"ann@{SUBNET}"
CALLS_IN_TURN = 200
"""Calls in a turn: long enough to exceed noise, short enough for all servers to see the same machine."""


def measure(*, quick: bool) -> list[Figure]:
    """Measure the median of the ratios of turns that follow one another."""
    turns = 10 if quick else 100
    listens = [f"127.0.0.1:{port}" for port in unused_ports(3)]
    metrics = 'metrics_listen = "{}"\n'
    with ExitStack() as stack:
        clients = {
            "off": stack.enter_context(_asked('log_level = "error"\n')),
            "on": stack.enter_context(_asked(metrics.format(listens[0]))),
            # No collector takes the spans: they are made, and dropped in the end.
            "traced": stack.enter_context(_asked(metrics.format(listens[1]) + f'traces_endpoint = "{listens[2]}"\n')),
        }
        seconds: dict[str, list[float]] = {name: [] for name in clients}
        for _ in range(turns):
            for name, client in clients.items():
                seconds[name].append(_turn(client))
    without = seconds["off"]
    return [
        Figure(what, _ratio(seconds[name], without), limit, "x without", note=_note(seconds[name], without))
        for what, name, limit in (
            ("check with logs and metrics, one client", "on", 1.05),
            ("check with logs, metrics and traces, one client", "traced", 1.05),
        )
    ]


@contextmanager
def _asked(settings: str) -> Iterator[Client]:
    """Yield a client of a server with these settings."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "names.toml"
        common = f'listen = "127.0.0.1:0"\ndatabase = "sqlite:///{folder}/names.db"\nsubnets = ["{SUBNET}"]\n'
        config.write_text(common + settings)
        command = [sys.executable, "-m", "shadowtree", "serve", "--config", str(config)]
        with running(command, SERVING) as server, Client(server.address) as client:
            client.create_group(GROUP)
            client.join(GROUP, MEMBER, "process")
            yield client


def _turn(client: Client) -> float:
    started = time.perf_counter()
    for _ in range(CALLS_IN_TURN):
        client.check(GROUP, MEMBER)
    return (time.perf_counter() - started) / CALLS_IN_TURN


def _ratio(with_it: list[float], without: list[float]) -> float:
    return statistics.median(one / other for one, other in zip(with_it, without, strict=True))


def _note(with_it: list[float], without: list[float]) -> str:
    return f"{statistics.median(with_it) * 1e6:,.0f} us against {statistics.median(without) * 1e6:,.0f} us"
