"""State that messages leave behind: while a server is away, after all are acknowledged, and for each target."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from benchmarks.report import Figure
from benchmarks.servers import SERVING, connected, name_servers, open_mailboxes, running
from shadowtree import Client

SUBNETS = (["a.x"], ["b.x"], ["c.x"])
GROUP = "all@a.x"
PAYLOAD = bytes(200)
RATE = 1_000
UNCOUNTED_MESSAGES = 100_000
"""Messages before the count begins. State with a limit of its own, such as the database's page cache, is full
by then.
"""
BEGIN_MESSAGES = 10_000
READ_AT_ONCE = 10_000
PATIENCE_SECONDS = 300
LOOK_SECONDS = 0.2


def measure(*, quick: bool) -> list[Figure]:
    """Measure an absence of a minute, ten million messages, and a hundred thousand targets."""
    return [
        *_away(seconds=3 if quick else 60),
        _memory(messages=50_000 if quick else 10_000_000),
        *_targets(count=5_000 if quick else 100_000),
    ]


def _away(*, seconds: int) -> list[Figure]:
    with (
        tempfile.TemporaryDirectory() as folder,
        name_servers(Path(folder), SUBNETS) as (origin, _, away),
        Client(origin.address, timeout=PATIENCE_SECONDS) as client,
    ):
        client.create_group(GROUP)
        for (subnet,) in SUBNETS:
            client.join(GROUP, f"listener@{subnet}")
            client.open_mailbox(f"listener@{subnet}")
        client.send(GROUP, PAYLOAD, wait="settled")
        command = psutil.Process(away.process.pid).cmdline()
        away.kill()
        began = time.monotonic()
        with client.sender("benchmark") as out:
            for number in range(RATE * seconds):
                time.sleep(max(0.0, began + number / RATE - time.monotonic()))
                out.send(GROUP, PAYLOAD)
        waited = client.status().parcels_unsettled
        with running(command, SERVING):
            _wait(lambda: all(peer.life == "up" for peer in client.peers().peers))
            met = time.monotonic()
            _wait(lambda: client.status().parcels_unsettled == 0)
            settled = time.monotonic() - met
    what = f"settled after a server was away for {seconds} s at {RATE:,} messages a second, from when it is met"
    return [Figure(what, settled, 10, "s", note=f"{waited:,} parcels waited")]


def _memory(*, messages: int) -> Figure:
    with (
        tempfile.TemporaryDirectory() as folder,
        connected(Path(folder), subnets=["a.x"]) as (server, client),
    ):
        client.create_group(GROUP)
        client.join(GROUP, "listener@a.x")
        with client.listen("listener@a.x") as listener, client.sender("benchmark") as out:

            def send_and_acknowledge(count: int) -> None:
                for _ in range(count // READ_AT_ONCE):
                    for _ in range(READ_AT_ONCE):
                        out.send(GROUP, PAYLOAD)
                    out.flush()
                    for _ in range(READ_AT_ONCE):
                        last = next(listener)
                    last.acknowledge()

            send_and_acknowledge(UNCOUNTED_MESSAGES)
            send_and_acknowledge(BEGIN_MESSAGES)
            before = server.resident_bytes()
            send_and_acknowledge(messages)
            after = server.resident_bytes()
    return Figure(
        f"memory after {messages:,} messages, all acknowledged, more than after {BEGIN_MESSAGES:,}",
        100 * (after / before - 1),
        2,
        "%",
        note=f"{before / 2**20:.1f} to {after / 2**20:.1f} MiB",
    )


def _targets(*, count: int) -> list[Figure]:
    """Measure one message to each of many people, each of whom gets its first message."""
    people = [f"m{number}@a.x" for number in range(count)]
    tenth = count // 10
    with (
        tempfile.TemporaryDirectory() as folder,
        connected(Path(folder), subnets=["a.x"]) as (server, client),
    ):
        asyncio.run(open_mailboxes(server.address, people))
        memory, used = server.resident_bytes(), list[float]()
        with client.sender("benchmark") as out:
            for begin in range(0, count, tenth):
                before = server.processor_seconds()
                for person in people[begin : begin + tenth]:
                    out.send(person, PAYLOAD)
                out.flush()
                used.append(server.processor_seconds() - before)
        kept = (server.resident_bytes() - memory) / count
    note = f"{1e6 * used[0] / tenth:.0f} to {1e6 * used[-1] / tenth:.0f} us of processor"
    what = f"a message to one more target, the last of {count:,} beside the first"
    return [
        Figure(what, used[-1] / used[0], 1.5, "x", note=note),
        Figure("kept in memory of each target that got a message, and of its message", kept, 2_500, "bytes"),
    ]


def _wait(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError("the servers do not come to rest")
        time.sleep(LOOK_SECONDS)
