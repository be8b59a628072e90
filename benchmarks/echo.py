"""A bare gRPC echo, server and caller: the yardstick for everything that costs a call."""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Callable

import grpc

METHOD = "/benchmark.Echo/Echo"


async def _serve() -> None:
    async def echo(request: bytes, _context: object) -> bytes:
        return request

    server = grpc.aio.server()
    handler = grpc.unary_unary_rpc_method_handler(echo)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("benchmark.Echo", {"Echo": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"echo on 127.0.0.1:{port}", flush=True)
    await server.wait_for_termination()


def echo_call(channel: grpc.Channel, size: int) -> Callable[[], object]:
    """A call that sends and gets back `size` bytes."""
    echo = channel.unary_unary(METHOD)
    message = b"x" * size
    return lambda: echo(message)


def paired_medians(first: Callable[[], object], second: Callable[[], object], *, rounds: int) -> tuple[float, float]:
    """Median seconds of two calls, made in turns so that a noisy moment meets both."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for call, kept in zip((first, second), times, strict=True):
            started = time.perf_counter()
            call()
            kept.append(time.perf_counter() - started)
    return statistics.median(times[0]), statistics.median(times[1])


async def echo_rate(address: str, *, clients: int, calls: int, size: int) -> float:
    """Calls a second of several clients at once, each with a connection of its own and one call at a time."""

    async def one_client() -> None:
        async with grpc.aio.insecure_channel(address) as channel:
            echo = channel.unary_unary(METHOD)
            for _ in range(calls):
                await echo(b"x" * size)

    started = time.perf_counter()
    await asyncio.gather(*(one_client() for _ in range(clients)))
    return clients * calls / (time.perf_counter() - started)


if __name__ == "__main__":
    sys.exit(asyncio.run(_serve()))
