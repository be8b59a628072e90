"""One peer that confirms no message: what it does to messages that go elsewhere, and to the origin.

Two clusters of three servers get the same load, in turns of some seconds: messages to a group with members at all
three, messages to a group with members at two, and probes to the latter, each until it is settled. In one of the
clusters the third server confirms nothing. A machine that is too slow for the load sends less of it to both.

`python -m benchmarks.stuck_peer --seconds 600` measures for ten minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from enum import Enum, auto
from pathlib import Path

from benchmarks.report import Figure, print_figures
from benchmarks.servers import ServerProcess, name_servers
from benchmarks.silent_server import SILENT
from shadowtree import Client, aio
from shadowtree.errors import BacklogFull

SECONDS = 30
TURN_SECONDS = 5.0
RATE = 500
"""Messages a second to each group."""
PAYLOAD = bytes(4_000)
PROBE_SECONDS = 0.02
TICK_SECONDS = 0.005
UNDER_WAY_LIMIT = 500
"""Limit on the unanswered messages to one group. No more are sent beyond it."""
PATIENCE_SECONDS = 120
PROGRAM = (sys.executable, "-m", "benchmarks.silent_server")
ALL, NEAR = "all@a.x", "near@a.x"
MORE_MEMORY_MEBIBYTES = 64


def measure(*, quick: bool) -> list[Figure]:
    """Measure half a minute of load."""
    return _measured(3 if quick else SECONDS)


def _measured(seconds: float) -> list[Figure]:
    with _cluster("c.x") as honest, _cluster(str(SILENT)) as stuck:
        both = {"beside an honest peer": honest, "beside a stuck peer": stuck}
        settled: dict[str, list[float]] = {name: [] for name in both}
        sent, refused, used = Counter[str](), 0, dict.fromkeys(both, 0.0)
        for turn in range(max(1, round(seconds / TURN_SECONDS))):
            # The machine's other load rises and falls, so neither cluster is always the first.
            for name, (origin, _) in sorted(both.items(), reverse=bool(turn % 2)):
                before = origin.processor_seconds()
                found, answers = asyncio.run(_turn(origin.address, min(seconds, TURN_SECONDS)))
                used[name] += origin.processor_seconds() - before
                settled[name] += found
                sent[name] += len(found) + answers.total()
                refused += answers[_Answer.REFUSED]
        memory = {name: origin.resident_bytes() / 2**20 for name, (origin, _) in both.items()}
        (of_stuck,) = [peer for peer in stuck[1].peers() if peer.server == SILENT]
    medians = {name: 1e3 * statistics.median(times) for name, times in settled.items()}
    slow = {name: 1e3 * statistics.quantiles(times, n=20)[18] for name, times in settled.items()}
    costs = {name: 1e3 * used[name] / sent[name] for name in both}
    less, more = both
    what = f"{2 * RATE:,} messages a second for {seconds:g} s, one peer confirms none"
    return [
        Figure(
            f"a message to others is settled, {what}",
            medians[more] / medians[less],
            1.1,
            "x",
            note=f"{medians[less]:.2f} ms, now {medians[more]:.2f}; "
            f"of 20, one takes {slow[less]:.1f}, now {slow[more]:.1f}",
        ),
        Figure(
            f"processor time of the origin for a message, {what}",
            costs[more] / costs[less],
            1.1,
            "x",
            note=f"{costs[less]:.2f} ms, now {costs[more]:.2f}; {sent[less]:,} messages, now {sent[more]:,}",
        ),
        Figure(
            f"more memory of the origin, {what}",
            memory[more] - memory[less],
            MORE_MEMORY_MEBIBYTES,
            "MiB",
            note=f"{memory[less]:.0f} MiB, now {memory[more]:.0f}; {of_stuck.backlog_bytes / 2**20:.1f} MiB wait; "
            f"{refused:,} messages refused; {of_stuck.state[:40]}",
        ),
    ]


@contextmanager
def _cluster(third: str) -> Iterator[tuple[ServerProcess, Client]]:
    """Run three servers. Yields the first one, which is the origin, and a client of it."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        servers = stack.enter_context(name_servers(Path(folder), (["a.x"], ["b.x"], [third]), program=PROGRAM))
        client = stack.enter_context(Client(servers[0].address, timeout=PATIENCE_SECONDS))
        for group, subnets in ((ALL, ("a.x", "b.x", third)), (NEAR, ("a.x", "b.x"))):
            client.create_group(group)
            for subnet in subnets:
                client.join(group, f"listener@{subnet}")
                client.open_mailbox(f"listener@{subnet}")
        yield servers[0], client


async def _turn(address: str, seconds: float) -> tuple[list[float], Counter[_Answer]]:
    """Put a load on a cluster for some seconds. Return the seconds of probes until settled, and the answers to the
    messages.
    """
    async with aio.Client(address, timeout=PATIENCE_SECONDS) as client:
        until = time.monotonic() + seconds
        loads = [asyncio.create_task(_load(client, group, until)) for group in (ALL, NEAR)]
        times: list[float] = []
        while time.monotonic() < until:
            began = time.perf_counter()
            await client.send(NEAR, b"probe", wait="settled")
            times.append(time.perf_counter() - began)
            await asyncio.sleep(PROBE_SECONDS)
        return times, sum(await asyncio.gather(*loads), Counter[_Answer]())


async def _load(client: aio.Client, group: str, until: float) -> Counter[_Answer]:
    """Send to a group at `RATE`. Return the answers to the messages."""
    answers, under_way = Counter[_Answer](), set[asyncio.Task[_Answer]]()
    began, sent = time.monotonic(), 0
    while time.monotonic() < until:
        due = round((time.monotonic() - began) * RATE)
        new = min(due - sent, UNDER_WAY_LIMIT - len(under_way))
        under_way |= {asyncio.create_task(_sent(client, group)) for _ in range(new)}
        sent += new
        await asyncio.sleep(TICK_SECONDS)
        done = {task for task in under_way if task.done()}
        answers.update(task.result() for task in done)
        under_way -= done
    answers.update(await asyncio.gather(*under_way))
    return answers


class _Answer(Enum):
    """The answer to a message."""

    ACCEPTED = auto()
    REFUSED = auto()


async def _sent(client: aio.Client, group: str) -> _Answer:
    try:
        await client.send(group, PAYLOAD)
    except BacklogFull:
        return _Answer.REFUSED
    return _Answer.ACCEPTED


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stuck_peer", description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of load on each cluster")
    print_figures(_measured(parser.parse_args().seconds))
