"""A bare gRPC echo, server and caller: the yardstick for everything that costs a call."""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import grpc

METHOD = "/benchmark.Echo/Echo"
STREAM = "/benchmark.Echo/Stream"


async def _serve() -> None:
    async def echo(request: bytes, _context: object) -> bytes:
        return request

    async def stream(requests: AsyncIterator[bytes], _context: object) -> AsyncIterator[bytes]:
        async for request in requests:
            yield request

    handlers = {
        "Echo": grpc.unary_unary_rpc_method_handler(echo),
        "Stream": grpc.stream_stream_rpc_method_handler(stream),
    }
    await serve_bare("benchmark.Echo", handlers, "echo")


async def serve_bare(service: str, handlers: Mapping[str, Any], what: str) -> None:
    """Serve these methods until the process ends. A printed line names the service and its address."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"{what} on 127.0.0.1:{port}", flush=True)
    await server.wait_for_termination()


def echo_call(channel: grpc.Channel, size: int) -> Callable[[], object]:
    """Return a call that sends `size` bytes and gets them back."""
    echo = channel.unary_unary(METHOD)
    message = b"x" * size
    return lambda: echo(message)


def paired_medians(first: Callable[[], object], second: Callable[[], object], *, rounds: int) -> tuple[float, float]:
    """Return the median seconds of two calls, made in turns so that a noisy moment meets both."""
    found = medians_in_turns((first, second), rounds=rounds)
    return found[0], found[1]


def medians_beside(
    several: Sequence[Callable[[], object]], yardstick: Callable[[], object], *, rounds: int
) -> list[float]:
    """Return the median seconds of each call, and last those of the yardstick. A yardstick call follows each call.

    A call right after a call of its own kind finds caches warm and threads awake. An echo then takes half as long.
    """
    times: list[list[float]] = [[] for _ in (*several, yardstick)]
    for number in range(rounds):
        order = range(len(several))
        for place in order if number % 2 == 0 else reversed(order):
            for call, kept in ((several[place], times[place]), (yardstick, times[-1])):
                started = time.perf_counter()
                call()
                kept.append(time.perf_counter() - started)
    return list(map(statistics.median, times))


def medians_in_turns(
    several: Sequence[Callable[[], object]], *, rounds: int, pause_seconds: float = 0.0
) -> list[float]:
    """Return the median seconds of several calls, made in turns. The order is reversed every other round.

    So each call follows each other call. A pause before each call lets the effects of the call before end, and leaves
    no cache warm.
    """
    times: list[list[float]] = [[] for _ in several]
    forwards = list(zip(several, times, strict=True))
    for number in range(rounds):
        for call, kept in forwards if number % 2 == 0 else reversed(forwards):
            time.sleep(pause_seconds)
            started = time.perf_counter()
            call()
            kept.append(time.perf_counter() - started)
    return list(map(statistics.median, times))


async def echo_rate(address: str, *, clients: int, calls: int, size: int) -> float:
    """Return the calls a second of several clients at once, each with a connection of its own and one call at a
    time.
    """

    async def one_client() -> None:
        async with grpc.aio.insecure_channel(address) as channel:
            echo = channel.unary_unary(METHOD)
            for _ in range(calls):
                await echo(b"x" * size)

    started = time.perf_counter()
    await asyncio.gather(*(one_client() for _ in range(clients)))
    return clients * calls / (time.perf_counter() - started)


async def stream_rate(address: str, *, messages: int, size: int) -> float:
    """Return the messages a second through one stream and back, with as many under way as the windows of the stream
    take.
    """
    message = b"x" * size
    async with grpc.aio.insecure_channel(address) as channel:
        call = channel.stream_stream(STREAM)()

        async def write() -> None:
            for _ in range(messages):
                await call.write(message)
            await call.done_writing()

        started = time.perf_counter()
        writing = asyncio.create_task(write())
        async for _ in call:
            pass
        await writing
        return messages / (time.perf_counter() - started)


if __name__ == "__main__":
    sys.exit(asyncio.run(_serve()))
