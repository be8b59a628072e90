"""Messages over three servers: messages a second, latency, and messages a second to a listener that is behind."""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import pairwise

import grpc

from benchmarks.bare_servers import bare_message
from benchmarks.echo import echo_call, medians_in_turns, stream_rate
from benchmarks.message_asking import PAUSE_SECONDS, PAYLOAD, arriving
from benchmarks.report import Figure
from benchmarks.servers import ServerProcess, echo_server, open_mailboxes, several_connected
from shadowtree import Arc, Client

SUBNETS = ("a.x", "b.x", "c.x")
ECHO_BYTES = 200
FLUSHED_BYTES = 4_096
FROM = {"durable": "from", "memory": "quick"}
"""Names of the groups, by where their messages are kept."""


def measure(*, quick: bool) -> list[Figure]:
    """Measure one sender and one listener at each server, with durable messages and with messages in memory."""
    count = 2_000 if quick else 40_000
    rounds = 20 if quick else 200
    with ExitStack() as stack:
        servers, clients = stack.enter_context(several_connected([[subnet] for subnet in SUBNETS]))
        nested(clients[0])
        echo = stack.enter_context(echo_server())
        channel = stack.enter_context(grpc.insecure_channel(echo.address))
        calls = echo_call(channel, ECHO_BYTES), stack.enter_context(_flush())
        bare, flushed = medians_in_turns(calls, rounds=50 if quick else 500)
        figures = _of_all_senders(servers, clients, count, echo=echo.address)
        sent = len(SUBNETS) * (count // len(SUBNETS) + 1)
        read = seconds_to_read(clients[1], "listener@b.x", sent)
        for kept, group in FROM.items():
            arrived = statistics.median(_seconds_to_arrive(clients, group, rounds=rounds))
            note = f"{arrived * 1e3:.1f} ms; echo {bare * 1e3:.2f} ms, a flush of the disk {flushed * 1e3:.2f} ms"
            what = f"p50 to one of three listeners, of three servers, message upon message, {kept}"
            figures.append(Figure(what, arrived / bare, None, "x echo", note=note))
        figures += _at_low_load(calls[0], rounds=rounds)
        large = _seconds_to_many(clients[2], servers[2].address, mailboxes=1_000 if quick else 100_000)
    return [
        *figures,
        Figure("read a second by a listener so far behind", sent / read, 50_000, "/s", lower_is_better=False),
        Figure("one message to the mailboxes of a large group", large * 1e3, 50, "ms"),
    ]


@contextmanager
def _flush() -> Iterator[Callable[[], object]]:
    """Yield a call that flushes the disk once. Two servers flush one after the other before a durable message is handed
    over.
    """
    with tempfile.TemporaryFile() as file:

        def flush() -> None:
            file.write(bytes(FLUSHED_BYTES))
            file.flush()
            os.fdatasync(file.fileno())

        yield flush


def _of_all_senders(servers: list[ServerProcess], clients: list[Client], count: int, *, echo: str) -> list[Figure]:
    """Measure messages of 200 B a second, one sender a server, beside a bare stream that echoes as many."""
    stream = asyncio.run(stream_rate(echo, messages=count, size=len(PAYLOAD)))
    figures = [Figure("messages of 200 B a second through a bare stream and back", stream, None, "/s")]
    for kept, target in (("durable", 20_000), ("memory", 40_000)):
        before = [server.processor_seconds() for server in servers]
        targets = [f"{FROM[kept]}@{subnet}" for subnet in SUBNETS]
        rate = count / seconds_to_send(clients, targets, count // len(SUBNETS))
        used = sum(server.processor_seconds() - begun for server, begun in zip(servers, before, strict=True))
        note = f"{rate / stream:.2f} of the stream; {1e6 * used / count:.0f} us of processor of all three servers each"
        what = f"messages of 200 B a second, 3 servers, one sender each, {kept}"
        figures.append(Figure(what, rate, target, "/s", lower_is_better=False, note=note))
    return figures


def nested(client: Client) -> None:
    """Create a group on each server, each nested in the one before, with a listener each, and groups above all of
    these.
    """
    groups = [Arc(f"all@{parent}", f"all@{child}", "group") for parent, child in pairwise(SUBNETS)]
    groups += [Arc(f"{name}@{subnet}", "all@a.x", "group") for name in FROM.values() for subnet in SUBNETS]
    client.import_arcs([*groups, *(Arc(f"all@{subnet}", f"listener@{subnet}", "member") for subnet in SUBNETS)])
    for subnet in SUBNETS:
        client.open_mailbox(f"listener@{subnet}")
        client.set_delivery(f"{FROM['memory']}@{subnet}", kept="memory")


def seconds_to_send(clients: Sequence[Client], targets: Sequence[str], count: int) -> float:
    """Return the seconds until all messages of all senders are settled. Each client sends to a target of its own.

    The last message of each sender is waited for.
    """

    def send(client: Client, target: str) -> None:
        with client.sender("benchmark") as out:
            for _ in range(count):
                out.send(target, PAYLOAD)
        client.send(target, PAYLOAD, wait="settled", timeout=600)

    started = time.perf_counter()
    with ThreadPoolExecutor(len(clients)) as senders:
        list(senders.map(send, clients, targets))
    return time.perf_counter() - started


def seconds_to_read(client: Client, process: str, count: int) -> float:
    """Return the seconds until a listener has been handed this number of messages. The last is acknowledged."""
    started = time.perf_counter()
    with client.listen(process) as messages:
        for _ in range(count):
            last = next(messages)
    last.acknowledge()
    return time.perf_counter() - started


def _seconds_to_arrive(clients: list[Client], group: str, *, rounds: int) -> list[float]:
    """Return the seconds of single messages to a listener that is handed new messages only."""
    found = []
    with clients[2].listen("listener@c.x", subscription=group, from_="now") as messages:
        for number in range(rounds):
            payload = str(number).encode()
            started = time.perf_counter()
            clients[0].send(f"{group}@a.x", payload)
            assert next(messages).payload == payload
            found.append(time.perf_counter() - started)
    return found


def _at_low_load(echo: Callable[[], object], *, rounds: int) -> list[Figure]:
    """Measure single messages with pauses between servers, beside echoes and bare messages at the same pace."""
    figures = []
    with several_connected([["a.x"], ["c.x"]]) as (_, clients):
        groups = [Arc(f"{name}@a.x", "all@c.x", "group") for name in FROM.values()]
        clients[0].import_arcs([*groups, Arc("all@c.x", "listener@c.x", "member")])
        clients[1].open_mailbox("listener@c.x")
        clients[0].set_delivery(f"{FROM['memory']}@a.x", kept="memory")
        for kept, target in (("durable", 6), ("memory", 3)):
            with (
                arriving(clients[0], f"{FROM[kept]}@a.x", clients[1], "listener@c.x") as arrive,
                bare_message(PAYLOAD, is_durable=kept == "durable") as arrive_bare,
            ):
                calls = (arrive, arrive_bare, echo)
                arrived, least, bare = medians_in_turns(calls, rounds=rounds, pause_seconds=PAUSE_SECONDS)
            note = f"{arrived * 1e3:.1f} ms; echo {bare * 1e3:.2f} ms; hops and flushes alone {least / bare:.1f} x echo"
            what = f"p50 from a sender to a listener of another server, at low load, {kept}"
            figures.append(Figure(what, arrived / bare, target, "x echo", note=note))
    return figures


def _seconds_to_many(client: Client, address: str, *, mailboxes: int) -> float:
    """Return the seconds of a message to a large group of one server, after a first message computed its audience."""
    client.import_arcs(Arc("many@c.x", f"m{number}@c.x", "member") for number in range(mailboxes))
    asyncio.run(open_mailboxes(address, [f"m{number}@c.x" for number in range(mailboxes)]))
    sent = client.send("many@c.x", PAYLOAD, wait="settled", timeout=600)
    assert sent.mailboxes == mailboxes
    times = []
    for _ in range(10):
        started = time.perf_counter()
        client.send("many@c.x", PAYLOAD, wait="settled", timeout=600)
        times.append(time.perf_counter() - started)
    return statistics.median(times)
