"""Calls a name server with the imported client, which may be that of an earlier build, beside bare echoes.

`client_calls.py` starts this file by its path. The file imports no module of the benchmarks, which would be those of
another build.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from itertools import cycle

import grpc

from shadowtree import Client, aio

SEED = 7
SUBNET = "bench.example"
GROUPS = 2_000
PEOPLE = 10_000

ECHO = "/benchmark.Echo/Echo"
ECHO_BYTES = 60
ROUNDS = 1_500
TASKS = (1, 2, 8, 64)
CHECKS = 16_000
"""Number of checks that many tasks make together."""

LEAST_SHARED = 8
"""Smallest number of tasks among which the checks are divided. With fewer tasks, each task makes as many checks."""


def group_id(number: int) -> str:
    """Return the id of a group."""
    return f"g{number}@{SUBNET}"


def person_id(number: int) -> str:
    """Return the id of a person."""
    return f"p{number}@{SUBNET}"


def ask(address: str, echo_address: str, fewer: str) -> None:
    """Measure the calls of the imported client, and print the result."""
    found = _one_at_a_time(address, echo_address, ROUNDS // int(fewer))
    found |= asyncio.run(_at_once(address, CHECKS // int(fewer)))
    print(json.dumps(found))


def _one_at_a_time(address: str, echo_address: str, rounds: int) -> dict[str, float]:
    pairs = cycle(_pairs())
    with Client(address) as client, grpc.insecure_channel(echo_address) as channel:
        echo, message = channel.unary_unary(ECHO), b"x" * ECHO_BYTES
        asked = {
            "echo": lambda: echo(message),
            "check": lambda: client.check(*next(pairs)),
            "resolve": lambda: client.resolve(group_id(1)),
            "memberships": lambda: client.memberships(person_id(1)),
        }
        times: dict[str, list[float]] = {what: [] for what in asked}
        for number in range(rounds):
            for what in asked if number % 2 else reversed(asked):
                started = time.perf_counter()
                asked[what]()
                times[what].append(time.perf_counter() - started)
    found = {}
    for name, share in (("p50", 0.5), ("p95", 0.95)):
        of_share = {what: sorted(each)[int(len(each) * share)] for what, each in times.items()}
        found |= {f"{what} {name}": seconds / of_share["echo"] for what, seconds in of_share.items() if what != "echo"}
    return found


async def _at_once(address: str, checks: int) -> dict[str, float]:
    pairs = _pairs()
    found = {}
    async with aio.Client(address) as client:
        await client.check(*pairs[0])
        for tasks in TASKS:
            # A run of few tasks makes fewer checks, so that it takes as long as the others.
            each = max(checks // max(tasks, LEAST_SHARED), 1)

            async def check(each: int = each) -> None:
                for place in range(each):
                    await client.check(*pairs[place % len(pairs)])

            started = time.perf_counter()
            await asyncio.gather(*(check() for _ in range(tasks)))
            found[f"{tasks} tasks"] = tasks * each / (time.perf_counter() - started)
    return found


def _pairs() -> list[tuple[str, str]]:
    chance = random.Random(SEED)
    return [(group_id(chance.randrange(GROUPS)), person_id(chance.randrange(PEOPLE))) for _ in range(2_000)]


if __name__ == "__main__":
    ask(*sys.argv[1:])
