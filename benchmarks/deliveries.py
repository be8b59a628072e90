"""Messages over three servers: how many a second, how soon, and what a listener that is behind gets a second."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import pairwise

import grpc

from benchmarks.echo import echo_call
from benchmarks.report import Figure
from benchmarks.servers import echo_server, several_connected
from shadowtree import Arc, Client, aio

SUBNETS = ("a.x", "b.x", "c.x")
PAYLOAD = bytes(200)
ECHO_BYTES = 200
OPENED_AT_ONCE = 500


def measure(*, quick: bool) -> list[Figure]:
    """One sender of each server, one listener on each."""
    count = 2_000 if quick else 40_000
    with ExitStack() as stack:
        servers, clients = stack.enter_context(several_connected([[subnet] for subnet in SUBNETS]))
        nested(clients[0])
        echo = stack.enter_context(echo_server())
        channel = stack.enter_context(grpc.insecure_channel(echo.address))
        bare = _median_seconds(echo_call(channel, ECHO_BYTES), rounds=50 if quick else 500)
        sent = _seconds_to_send(clients[0], count)
        read = _seconds_to_read(clients[1], count)
        waits = _seconds_to_arrive(clients, count, rounds=20 if quick else 200)
        large = _seconds_to_many(clients[2], servers[2].address, mailboxes=1_000 if quick else 100_000)
    arrived = statistics.median(waits)
    return [
        Figure(
            "messages of 200 B a second, 3 servers, durable at all", count / sent, 20_000, "/s", lower_is_better=False
        ),
        Figure("read a second by a listener so far behind", count / read, 50_000, "/s", lower_is_better=False),
        Figure(
            "p50 from sender to listener of another server",
            arrived / bare,
            6,
            "x echo",
            note=f"{arrived * 1e3:.1f} ms; echo {bare * 1e3:.2f} ms",
        ),
        Figure("one message to the mailboxes of a large group", large * 1e3, 50, "ms"),
    ]


def nested(client: Client) -> None:
    """A group on each server, one in the other, with a listener each."""
    groups = [Arc(f"all@{parent}", f"all@{child}", "group") for parent, child in pairwise(SUBNETS)]
    client.import_arcs([*groups, *(Arc(f"all@{subnet}", f"listener@{subnet}", "member") for subnet in SUBNETS)])
    for subnet in SUBNETS:
        client.open_mailbox(f"listener@{subnet}")


def _median_seconds(call: Callable[[], object], *, rounds: int) -> float:
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def _seconds_to_send(client: Client, count: int) -> float:
    """Until all are settled: the last one is waited for, and its sequence is in order."""
    started = time.perf_counter()
    with client.sender("benchmark") as out:
        for _ in range(count):
            out.send("all@a.x", PAYLOAD)
    client.send("all@a.x", PAYLOAD, wait="settled", timeout=600)
    return time.perf_counter() - started


def _seconds_to_read(client: Client, count: int) -> float:
    started = time.perf_counter()
    with client.listen("listener@b.x") as messages:
        for _ in range(count):
            last = next(messages)
    last.acknowledge()
    return time.perf_counter() - started


def _seconds_to_arrive(clients: list[Client], count: int, *, rounds: int) -> list[float]:
    """Of single messages, to a listener that has read so many before."""
    found = []
    with clients[2].listen("listener@c.x") as messages:
        for _ in range(count + 1):
            next(messages)
        for number in range(rounds):
            payload = str(number).encode()
            started = time.perf_counter()
            clients[0].send("all@a.x", payload)
            assert next(messages).payload == payload
            found.append(time.perf_counter() - started)
    return found


async def _open_mailboxes(address: str, count: int) -> None:
    """Many at once, for each is durable before it is answered."""
    async with aio.Client(address) as client:
        for first in range(0, count, OPENED_AT_ONCE):
            names = [f"m{number}@c.x" for number in range(first, min(count, first + OPENED_AT_ONCE))]
            await asyncio.gather(*map(client.open_mailbox, names))


def _seconds_to_many(client: Client, address: str, *, mailboxes: int) -> float:
    """A message to a group of one server, after one that has its audience computed."""
    client.import_arcs(Arc("many@c.x", f"m{number}@c.x", "member") for number in range(mailboxes))
    asyncio.run(_open_mailboxes(address, mailboxes))
    sent = client.send("many@c.x", PAYLOAD, wait="settled", timeout=600)
    assert sent.mailboxes == mailboxes
    times = []
    for _ in range(10):
        started = time.perf_counter()
        client.send("many@c.x", PAYLOAD, wait="settled", timeout=600)
        times.append(time.perf_counter() - started)
    return statistics.median(times)
