"""Latency for clients of other servers when one server is lost, and when it is restarted as planned.

Of three servers, one is asked. One of its groups has members of `s0` and `s1` below it, another one also of `s2`.

    before the loss:   checks of outside addresses in the first group
    s2 is killed:      the same checks, once it counts as lost; it is started again
    s2 is restarted:   checks of outside addresses in the second group, which need it, one after the other
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread

import psutil

from benchmarks.report import Figure, p99
from benchmarks.servers import SERVING, ServerProcess, name_servers, running
from shadowtree import Client, ShadowtreeError

SUBNETS = (["s0.x"], ["s1.x"], ["s2.x"])
OWN, LOW, FULL, LAST = "own@s0.x", "low@s1.x", "full@s0.x", "last@s2.x"
OUTSIDE = "nobody@outside.example"

CHECKS = 2_000
PATIENCE_SECONDS = 60
BEYOND_TARGET_SECONDS = 0.5
"""Waiting time beyond the absence of a server. A call may take 3.5 seconds if a server is away for 3."""

LATENCY_TARGET = 1.1


def measure(*, quick: bool) -> list[Figure]:
    """Measure one loss, and one planned restart."""
    count = CHECKS // 10 if quick else CHECKS
    with (
        tempfile.TemporaryDirectory() as folder,
        name_servers(Path(folder), SUBNETS) as (asked, _, lost),
        Client(asked.address, timeout=60) as client,
    ):
        _fill(client)
        command = psutil.Process(lost.process.pid).cmdline()
        _checks(client, count)
        before = _checks(client, count)
        lost.kill()
        # Answers are uncertain until the remaining servers agree on a view without the lost one.
        _wait(lambda: len(client.status().view) == len(SUBNETS) - 1)
        after = _checks(client, count)
        with running(command, SERVING) as again:
            _wait(lambda: not client.status().suspended and client.resolve(FULL).unreachable == ())
            restart = _restart(client, again, command)
    return [_figure_of_loss(before, after), *restart]


def _fill(client: Client) -> None:
    for group in (OWN, LOW, FULL, LAST):
        client.create_group(group)
    for parent, child in ((OWN, LOW), (OWN, "ann@s0.x"), (LOW, "bob@outside.example"), (FULL, OWN), (FULL, LAST)):
        client.join(parent, child)


def _checks(client: Client, count: int) -> list[float]:
    found = []
    for _ in range(count):
        started = time.perf_counter()
        is_member = client.check(OWN, OUTSIDE).is_member
        found.append(time.perf_counter() - started)
        assert is_member is False
    return found


def _figure_of_loss(before: list[float], after: list[float]) -> Figure:
    """Return the figure of a loss. The answers before and after were checked to be equal."""
    ratio = statistics.median(after) / statistics.median(before)
    note = f"p50 {1e3 * statistics.median(before):.2f} to {1e3 * statistics.median(after):.2f} ms"
    note += f", p99 {1e3 * p99(before):.2f} to {1e3 * p99(after):.2f} ms"
    what = "check of an outside address in a group that has nothing of a lost server, p50"
    return Figure(what, ratio, LATENCY_TARGET, "x before the loss", note=note)


def _restart(client: Client, restarted: ServerProcess, command: list[str]) -> list[Figure]:
    """Return the figure of a planned restart. Each call is timed, and a call that fails ends the measurement."""
    seconds: list[float] = []
    is_over, failure = Event(), list[Exception]()

    def ask() -> None:
        try:
            while not is_over.is_set():
                started = time.perf_counter()
                assert client.check(FULL, OUTSIDE).is_member is False
                seconds.append(time.perf_counter() - started)
        except (ShadowtreeError, AssertionError) as error:  # The error is raised below.
            failure.append(error)

    asking = Thread(target=ask)
    asking.start()
    _wait(lambda: len(seconds) > 100 or bool(failure))
    began = time.perf_counter()
    restarted.process.terminate()
    restarted.process.wait()
    with running(command, SERVING):
        away, so_far = time.perf_counter() - began, len(seconds)
        _wait(lambda: len(seconds) > so_far + 100 or bool(failure))
        is_over.set()
        asking.join()
        if failure:
            raise failure[0]
        views = len(client.status().view)
    what = f"slowest of {len(seconds):,} checks that need a server which is restarted as planned, beyond its absence"
    note = f"it was away for {away:.1f} s; no check was refused, and the view has {views} servers"
    return [Figure(what, max(seconds) - away, BEYOND_TARGET_SECONDS, "s", note=note)]


def _wait(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("what is to be measured did not come")
        time.sleep(0.02)
