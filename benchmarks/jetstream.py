"""Three servers of NATS JetStream that replicate one stream, with a publisher at one and a consumer at another."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import nats
from nats.errors import NoServersError
from nats.js import JetStreamContext
from nats.js.api import StreamConfig
from nats.js.errors import APIError, ServiceUnavailableError

from shadowtree.cli.support.free_ports import unused_ports

PAYLOAD = bytes(200)
UNDER_WAY = 1_000
SINGLE = 200
PATIENCE_SECONDS = 60
SUBJECT = "all"


class Rates(NamedTuple):
    """Measured times."""

    publish_seconds: float
    """Seconds until all of many messages are acknowledged, which means that a majority of servers has them."""
    arrive_seconds: float
    """Median seconds of single messages from publishing to the consumer at another server."""


def measure(server_program: str, *, count: int, sync_always: bool) -> Rates:
    """Run the servers and measure. `sync_always`: True if a message is on disk before it is acknowledged."""
    with _servers(server_program, sync_always=sync_always) as addresses:
        return asyncio.run(_measure(addresses, count))


@contextmanager
def _servers(program: str, *, sync_always: bool) -> Iterator[list[str]]:
    ports, routes = unused_ports(3), unused_ports(3)
    flush = ", sync_interval: always" if sync_always else ""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for number, (port, route) in enumerate(zip(ports, routes, strict=True)):
            config = folder / f"{number}.conf"
            listed = ", ".join(f'"nats://127.0.0.1:{other}"' for other in routes)
            config.write_text(
                f'server_name: "n{number}"\nlisten: "127.0.0.1:{port}"\n'
                f'jetstream {{ store_dir: "{folder / str(number)}"{flush} }}\n'
                f'cluster {{ name: "beside", listen: "127.0.0.1:{route}", routes: [{listed}] }}\n'
            )
            quiet = subprocess.DEVNULL
            process = subprocess.Popen([program, "--config", str(config)], stdout=quiet, stderr=quiet)
            stack.callback(process.wait)
            stack.callback(process.terminate)
        yield [f"nats://127.0.0.1:{port}" for port in ports]


async def _measure(addresses: list[str], count: int) -> Rates:
    publisher = await _connect(addresses[0])
    subscriber = await _connect(addresses[1])
    try:
        # A request that comes before the servers have a leader is never answered.
        await _make_stream(publisher.jetstream(timeout=1))
        stream = publisher.jetstream(timeout=PATIENCE_SECONDS, publish_async_max_pending=UNDER_WAY)
        await stream.publish(SUBJECT, PAYLOAD)
        started = time.perf_counter()
        pending = [await stream.publish_async(SUBJECT, PAYLOAD, wait_stall=PATIENCE_SECONDS) for _ in range(count)]
        await asyncio.gather(*pending)
        published = time.perf_counter() - started
        return Rates(published, await _arrival(stream, subscriber.jetstream()))
    finally:
        await publisher.close()
        await subscriber.close()


async def _arrival(stream: JetStreamContext, other: JetStreamContext) -> float:
    arrived: asyncio.Queue[bytes] = asyncio.Queue()

    async def take(message: nats.aio.msg.Msg) -> None:
        arrived.put_nowait(message.data)
        await message.ack()

    await other.subscribe(SUBJECT, cb=take, deliver_policy="new", manual_ack=True)
    times = []
    for number in range(SINGLE):
        payload = str(number).encode()
        started = time.perf_counter()
        await stream.publish(SUBJECT, payload)
        assert await arrived.get() == payload
        times.append(time.perf_counter() - started)
    return statistics.median(times)


async def _is_raised_too(_error: Exception) -> None:
    """Ignore an error that is raised as well. Without a callback the client library prints it."""


async def _connect(address: str) -> nats.NATS:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return await nats.connect(address, allow_reconnect=False, error_cb=_is_raised_too)
        except (OSError, NoServersError):
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.05)


async def _make_stream(stream: JetStreamContext) -> None:
    """Create the stream once the servers have met and one of them leads."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            await stream.add_stream(StreamConfig(name="beside", subjects=[SUBJECT], num_replicas=3))
        except (ServiceUnavailableError, APIError, TimeoutError):
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.1)
        else:
            return
