"""Lists of unusual shapes over three name servers: each person gets one copy. Time until the first copy is sent.

diamonds    thirty in a row, so one person is reached in 2 to the 30 ways
loop        each list is in the one before, and the last one in the first
chain       each list is in the one before, without an arc back to the first
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.mail_distribution import SUBNETS, lmtp_session, running_gateway, wait_for, wait_until_quiet
from benchmarks.mail_sink import counted, reset
from benchmarks.report import Figure
from benchmarks.servers import running, several_connected
from shadowtree import Arc

DIAMONDS = 30
LOOP = 995
CHAIN = 10_000
FIRST_COPY_SECONDS = 1.0
POLL_SECONDS = 0.002


def measure(*, quick: bool) -> list[Figure]:
    """Measure three name servers, one gateway and one sink."""
    rounds = 1 if quick else 5
    shapes = {
        f"{DIAMONDS} diamonds in a row": ("diamond-0", 1),
        f"{LOOP} lists in a loop": ("loop-0", LOOP),
        f"a chain of {CHAIN:,} lists": ("chain-0", CHAIN),
    }
    with (
        tempfile.TemporaryDirectory() as folder,
        several_connected([[subnet] for subnet in SUBNETS]) as (servers, clients),
        running([sys.executable, "-m", "benchmarks.mail_sink"], r"sink on 127.0.0.1:(\d+)$") as sink,
    ):
        for arcs in (_diamonds(), _loop(), _chain()):
            clients[0].import_arcs(arcs)
        port = int(sink.address)
        with (
            running_gateway(Path(folder), servers[0], port, SUBNETS[0], "central") as gateway,
            lmtp_session(int(gateway.address)) as session,
        ):
            figures = []
            for what, (name, people) in shapes.items():
                seconds = []
                for _ in range(rounds):
                    wait_until_quiet(port)
                    reset(port)
                    session.seconds_until_safe(name)
                    started = time.perf_counter()
                    while not counted(port)[0]:
                        time.sleep(POLL_SECONDS)
                    seconds.append(time.perf_counter() - started)
                    wait_for(port, people)
                    wait_until_quiet(port)
                    _, copies, _, _ = counted(port)
                    assert copies == people, f"{what}: {copies} copies for {people} people"
                first = statistics.median(seconds)
                figures.append(Figure(f"mail: {what}: the first copy is sent after", first, FIRST_COPY_SECONDS, "s"))
    return figures


def _group(name: str, at: int) -> str:
    """Return a list of a shape. Each list is on another server than the one before. The first is on the gateway's
    server.
    """
    return f"{name}-{at}@{SUBNETS[at % len(SUBNETS)]}"


def _person(name: str, at: int) -> str:
    return f"{name}-{at}@people.example"


def _diamonds() -> Iterator[Arc]:
    for at in range(DIAMONDS):
        for side in ("left", "right"):
            yield Arc(_group("diamond", at), _group(side, at), "group")
            yield Arc(_group(side, at), _group("diamond", at + 1), "group")
    yield Arc(_group("diamond", DIAMONDS), _person("diamond", 0), "process")


def _loop() -> Iterator[Arc]:
    for at in range(LOOP):
        yield Arc(_group("loop", at), _group("loop", (at + 1) % LOOP), "group")
        yield Arc(_group("loop", at), _person("loop", at), "process")


def _chain() -> Iterator[Arc]:
    for at in range(CHAIN):
        if at + 1 < CHAIN:
            yield Arc(_group("chain", at), _group("chain", at + 1), "group")
        yield Arc(_group("chain", at), _person("chain", at), "process")
