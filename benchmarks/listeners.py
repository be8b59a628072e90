"""Latency of listeners of one server: a thousand of them, and then two extremely slow ones among others.

    crowd:   1,000 listeners, one message a second to all of them
    others:  20 listeners, 50 messages a second; then beside them two more in processes of their own, as quick as they;
             then, in place of these, one that never acknowledges and one whose connection carries a byte a second

The listeners live in a process of their own. Each message carries the time at which it was sent, on the clock that all
processes share.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from benchmarks.report import Figure, p99
from benchmarks.servers import ServerProcess, connected
from shadowtree import Arc, Client, aio

SUBNET = "a.x"
CROWD, OTHERS = f"crowd@{SUBNET}", f"others@{SUBNET}"
OTHER_LISTENERS = 20
OTHER_RATE = 50
PAYLOAD_BYTES = 200
CLIENTS = 8
"""Number of connections of the listeners of one process."""

SLOW_SECONDS_A_BYTE = 1.0
NANOSECONDS = 1_000_000_000


def measure(*, quick: bool) -> list[Figure]:
    """Measure one server."""
    crowd, seconds = (100, 3) if quick else (1_000, 30)
    with (
        tempfile.TemporaryDirectory() as folder,
        connected(Path(folder), subnets=[SUBNET]) as (server, client),
    ):
        waits, share = _hear(server, client, CROWD, crowd, rate=1, seconds=seconds)
        figures = [
            Figure(f"p99 of a message a second to {crowd:,} listeners of one server", p99(waits) * 1e3, 300, "ms"),
            Figure("processor of that server", share, 0.2, "cores"),
        ]
        alone, _ = _hear(server, client, OTHERS, OTHER_LISTENERS, rate=OTHER_RATE, seconds=seconds)
        with _two_more(client, server.address, ("quick", "quick")):
            with_more, _ = _hear(server, client, OTHERS, OTHER_LISTENERS, rate=OTHER_RATE, seconds=seconds)
        with _two_more(client, server.address, ("never", "slow")):
            beside, _ = _hear(server, client, OTHERS, OTHER_LISTENERS, rate=OTHER_RATE, seconds=seconds)
    ratio = p99(beside) / p99(alone)
    note = (
        f"{p99(alone) * 1e3:.1f} ms alone, {p99(with_more) * 1e3:.1f} ms beside two quick ones more, "
        f"{p99(beside) * 1e3:.1f} ms beside the slow ones: {p99(beside) / p99(with_more):.2f} times that"
    )
    return [*figures, Figure("p99 of others beside two slow listeners", ratio, 1.2, "x", note=note)]


def _hear(
    server: ServerProcess, client: Client, group: str, count: int, *, rate: int, seconds: int
) -> tuple[list[float], float]:
    """Return the seconds of each message to each listener, and the share of a core that the server used."""
    names = [f"{number}-of-{group}" for number in range(count)]
    client.import_arcs(Arc(group, name, "member") for name in names)
    messages = rate * seconds
    with _listening(server.address, names, messages) as listeners:
        processor, began = server.processor_seconds(), time.monotonic()
        with client.sender(f"{group} {began}") as out:
            for number in range(messages):
                time.sleep(max(0.0, began + number / rate - time.monotonic()))
                out.send(group, time.monotonic_ns().to_bytes(PAYLOAD_BYTES, "big"))
        waits = json.loads(listeners.stdout.readline())
        share = (server.processor_seconds() - processor) / (time.monotonic() - began)
    assert len(waits) == count * messages
    return waits, share


@contextmanager
def _listening(address: str, names: Sequence[str], messages: int) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.listeners"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        process.stdin.write(json.dumps([address, list(names), messages]))
        process.stdin.close()
        assert process.stdout.readline() == "listening\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@contextmanager
def _two_more(client: Client, address: str, how: Sequence[str]) -> Iterator[None]:
    """Run two listeners in processes of their own: `quick`, `never` acknowledging, or `slow`, with a byte a second."""
    names = [f"{each}-{number}@{SUBNET}" for number, each in enumerate(how)]
    client.import_arcs(Arc(OTHERS, name, "member") for name in names)
    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", "benchmarks.listeners", each, address, name],
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for each, name in zip(how, names, strict=True)
        ]
        try:
            for process in processes:
                assert process.stdout.readline() == "listening\n"
            yield
        finally:
            for process in processes:
                process.kill()
    for name in names:
        client.leave(OTHERS, name)
        client.close_mailbox(name)


# -- the listening processes


async def _hear_all(address: str, names: Sequence[str], messages: int) -> list[float]:
    clients = [aio.Client(address, timeout=120) for _ in range(min(CLIENTS, len(names)))]
    waits: list[float] = []

    async def hear(number: int, begun: asyncio.Event, gate: asyncio.Semaphore) -> None:
        async with gate:
            listener = clients[number % len(clients)].listen(names[number])
            await listener.__aenter__()
        begun.set()
        for _ in range(messages):
            message = await anext(listener)
            waits.append((time.monotonic_ns() - int.from_bytes(message.payload, "big")) / NANOSECONDS)
            message.acknowledge()
        await listener.close()

    gate = asyncio.Semaphore(50)
    begun = [asyncio.Event() for _ in names]
    hearing = [asyncio.ensure_future(hear(number, begun[number], gate)) for number in range(len(names))]
    for each in begun:
        await each.wait()
    print("listening", flush=True)
    await asyncio.gather(*hearing)
    for client in clients:
        await client.close()
    return waits


def _take_all(address: str, name: str, *, acknowledging: bool) -> None:
    with Client(address) as client, client.listen(name) as messages:
        print("listening", flush=True)
        for message in messages:
            if acknowledging:
                message.acknowledge()


async def _crawl(address: str, name: str) -> None:
    """Listen over a connection that, once it is open, passes only a byte a second."""
    host, _, port = address.rpartition(":")
    is_slow = asyncio.Event()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 if is_slow.is_set() else 65_536):
            writer.write(data)
            await writer.drain()
            if is_slow.is_set():
                await asyncio.sleep(SLOW_SECONDS_A_BYTE)

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The buffer is small, so that the server is held up after little data.
        back, forth = await asyncio.open_connection(host, int(port), limit=1_024)
        # Either end closes a connection on which it hears too little, and a new connection is made.
        with suppress(ConnectionError):
            await asyncio.gather(carry(reader, forth), carry(back, writer))

    proxy = await asyncio.start_server(take, "127.0.0.1", 0)
    own = proxy.sockets[0].getsockname()
    async with aio.Client(f"{own[0]}:{own[1]}") as client, client.listen(name):
        is_slow.set()
        print("listening", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["never", address, name]:
            _take_all(address, name, acknowledging=False)
        case ["quick", address, name]:
            _take_all(address, name, acknowledging=True)
        case ["slow", address, name]:
            asyncio.run(_crawl(address, name))
        case _:
            print(json.dumps(asyncio.run(_hear_all(*json.loads(sys.stdin.read())))), flush=True)
            sys.stdin.close()
