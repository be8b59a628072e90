"""Messages through a mail gateway: time until they are safe, and until everyone in a large list has a copy.

Copies go to a sink that takes them at once, with a return path for each person. Members are on three name servers, in a
loop through two. In a second series each server owns the members of its groups, and has a gateway for them.
"""

from __future__ import annotations

import itertools
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.builds import NOW, Build
from benchmarks.mail_sink import counted, reset
from benchmarks.report import Figure
from benchmarks.servers import ServerProcess, running, several_connected
from shadowtree import Arc, Client

SUBNETS = ("ubc.example", "sfu.example", "uvic.example")
DOMAIN = "lists.ubc.example"
OVERLAPPING = ("all", "two", "three", "four")
MESSAGE_BYTES = 10_000
CLIENTS = 16
PATIENCE_SECONDS = 300
POLL_SECONDS = 0.02
CONFIG = """\
server = "{server}"
lmtp_listen = "127.0.0.1:0"
database = "sqlite:///{folder}/mail.db"
smtp = "127.0.0.1:{sink}"
click_listen = "127.0.0.1:0"
click_url = "https://lists.{subnet}"

[domains]
"lists.{subnet}" = "{subnet}"

[defaults]
post = "anyone"
hold_above = 1000000
unsubscribe = "shared"
fanout = "{fanout}"

[lists."personal@{subnet}"]
post = "anyone"
unsubscribe = "personal"
"""

_numbers = itertools.count()


def measure(*, quick: bool) -> list[Figure]:
    """Measure three name servers, one gateway and one sink."""
    people, messages, rounds = (2_000, 160, 1) if quick else (50_000, 1_600, 3)
    clicking = people // 10
    with (
        tempfile.TemporaryDirectory() as folder,
        several_connected([[subnet] for subnet in SUBNETS]) as (servers, clients),
        running([sys.executable, "-m", "benchmarks.mail_sink"], r"sink on 127.0.0.1:(\d+)$") as sink,
    ):
        fill(clients[0], people, clicking)
        with running_gateway(Path(folder), servers[0], int(sink.address), SUBNETS[0], "central") as gateway:
            figures = [
                *_how_soon_handed_over(gateway, int(sink.address), people, rounds),
                *_how_soon_safe(int(gateway.address), messages),
                _how_soon_personal(gateway, int(sink.address), clicking, rounds),
            ]
        with ExitStack() as stack:
            first, *_ = [
                stack.enter_context(running_gateway(Path(folder), server, int(sink.address), subnet, "shares"))
                for server, subnet in zip(servers, SUBNETS, strict=True)
            ]
            for client in clients:
                _wait_until_it_listens(client)
            return [*figures, _how_soon_by_shares(first, int(sink.address), people, rounds)]


@contextmanager
def running_gateway(
    folder: Path, server: ServerProcess, sink: int, subnet: str, fanout: str, *, build: Build = NOW
) -> Iterator[ServerProcess]:
    """Run a gateway for the lists of a subnet. Its address is its LMTP port. `sink`: the port that it sends to."""
    place = folder / f"{fanout} {subnet}"
    place.mkdir()
    config = place / "mail.toml"
    config.write_text(CONFIG.format(server=server.address, folder=place, sink=sink, subnet=subnet, fanout=fanout))
    command = [sys.executable, "-m", "shadowtree", "mail", "serve", "--config", str(config)]
    with running(command, r"lmtp 127.0.0.1:(\d+)", build=build) as gateway:
        yield gateway


def fill(names: Client, people: int, clicking: int) -> None:
    """Create the lists: all people are in `all` and `two`, a fifth in `three`, some in `four`, `clicking` in
    `personal`.
    """
    members = [f"person-{number:05}@people.example" for number in range(people)]
    homes = ("all@ubc.example", "lab@sfu.example", "choir@uvic.example", "lab@sfu.example", "all@ubc.example")
    nested = [
        ("all@ubc.example", "lab@sfu.example"),
        ("lab@sfu.example", "all@ubc.example"),
        ("lab@sfu.example", "choir@uvic.example"),
        ("two@ubc.example", "lab@sfu.example"),
        ("three@ubc.example", "choir@uvic.example"),
    ]
    names.import_arcs(
        [
            *(Arc(parent, child, "group") for parent, child in nested),
            *(Arc(homes[at % len(homes)], member, "process") for at, member in enumerate(members)),
            *(Arc("four@ubc.example", member, "process") for member in members[: people // 50]),
            *(Arc("personal@ubc.example", member, "process") for member in members[:clicking]),
            Arc("one@ubc.example", members[0], "process"),
            *(Arc("every@ubc.example", f"every@{subnet}", "group") for subnet in SUBNETS[1:]),
            Arc("every@sfu.example", "every@ubc.example", "group"),
            *(
                Arc(f"every@{subnet}", f"person-{number:05}@{subnet}", "process")
                for subnet, number in zip(itertools.cycle(SUBNETS), range(people))
            ),
        ]
    )


def _how_soon_safe(port: int, messages: int) -> list[Figure]:
    with lmtp_session(port) as session:
        alone = [session.seconds_until_safe("one") for _ in range(messages // 4)]

    def some(_: int) -> None:
        with lmtp_session(port) as session:
            for _ in range(messages // CLIENTS):
                session.seconds_until_safe("one")

    with ThreadPoolExecutor(CLIENTS) as clients:
        started = time.perf_counter()
        list(clients.map(some, range(CLIENTS)))
        seconds = time.perf_counter() - started
    rate = messages // CLIENTS * CLIENTS / seconds
    return [
        Figure("mail: 10 kB are safe after, one client, p50", 1_000 * statistics.median(alone), 20, "ms"),
        Figure(f"mail: 10 kB are safe, {CLIENTS} clients", rate, 200, "a second", lower_is_better=False),
    ]


def _how_soon_handed_over(gateway: ServerProcess, sink: int, people: int, rounds: int) -> list[Figure]:
    seconds: dict[int, list[float]] = {1: [], len(OVERLAPPING): []}
    with lmtp_session(int(gateway.address)) as session:
        for _ in range(rounds):
            for count, taken in seconds.items():
                wait_until_quiet(sink)
                reset(sink)
                session.seconds_until_safe(*OVERLAPPING[:count])
                started = time.perf_counter()
                wait_for(sink, people)
                taken.append(time.perf_counter() - started)
                wait_until_quiet(sink)
                _, copies, transactions, size = counted(sink)
                assert copies == people, f"{copies} copies for {people} people"
    one, several = (statistics.median(each) for each in seconds.values())
    what = f"mail: {people:,} people over {len(SUBNETS)} name servers"
    note = f"{transactions} transactions, {people / one:,.0f} people a second"
    return [
        Figure(f"{what} are handed over", one, 20, "s", note=note),
        Figure(f"{what}: bytes over SMTP", size / 1_000_000, 5, "MB"),
        Figure(f"{what}: most memory of the gateway", gateway.peak_resident_bytes() / 1_000_000, 200, "MB"),
        Figure(f"{what}: {len(OVERLAPPING)} overlapping lists against one", several / one, 1.3, "x"),
    ]


def _how_soon_personal(gateway: ServerProcess, sink: int, people: int, rounds: int) -> Figure:
    rates, processor = [], []
    with lmtp_session(int(gateway.address)) as session:
        for _ in range(rounds):
            wait_until_quiet(sink)
            reset(sink)
            used = gateway.processor_seconds()
            session.seconds_until_safe("personal")
            started = time.perf_counter()
            wait_for(sink, people)
            rates.append(people / (time.perf_counter() - started))
            wait_until_quiet(sink)
            processor.append((gateway.processor_seconds() - used) / people)
            _, copies, transactions, _ = counted(sink)
            assert copies == transactions == people, f"{copies} copies in {transactions} transactions"
    note = f"{1_000 * statistics.median(processor):.2f} ms of the gateway's processor time each"
    return Figure(
        "mail: copies of 10 kB for one person each", statistics.median(rates), 300, "a second", False, note=note
    )


def _wait_until_it_listens(client: Client) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not any(each.is_listening for mailbox in client.mailboxes() for each in mailbox):
        assert time.monotonic() < deadline, "a gateway takes no shares"
        time.sleep(POLL_SECONDS)


def _how_soon_by_shares(gateway: ServerProcess, sink: int, people: int, rounds: int) -> Figure:
    seconds = []
    with lmtp_session(int(gateway.address)) as session:
        for _ in range(rounds):
            wait_until_quiet(sink)
            reset(sink)
            session.seconds_until_safe("every")
            started = time.perf_counter()
            wait_for(sink, people)
            seconds.append(time.perf_counter() - started)
            wait_until_quiet(sink)
            _, copies, _, _ = counted(sink)
            assert copies == people, f"{copies} copies for {people} people"
    taken = statistics.median(seconds)
    what = f"mail: {people:,} people by shares to {len(SUBNETS)} gateways"
    return Figure(what, taken, 20, "s", note=f"{people / taken:,.0f} people a second")


def wait_for(sink: int, people: int) -> None:
    """Wait until this number of people have a copy at the sink of a port."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while counted(sink)[0] < people:
        assert time.monotonic() < deadline, f"{counted(sink)} of {people} people"
        time.sleep(POLL_SECONDS)


def wait_until_quiet(sink: int) -> None:
    """Wait until no copy has come for a while, so that earlier messages are over."""
    before = None
    while (now := counted(sink)) != before:
        before = now
        time.sleep(0.5)


class Session:
    """A mail server's connection to the gateway."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._replies = connection.makefile("rb")

    def seconds_until_safe(self, *lists: str) -> float:
        """Send one message with an id of its own to lists. Return the seconds until it is safe."""
        addressed = [f"{each}@{DOMAIN}" for each in lists]
        fields = (f"<{next(_numbers)}@people.example>", "ann@people.example", ", ".join(addressed))
        head = "Message-ID: {}\r\nFrom: {}\r\nTo: {}\r\nSubject: hello\r\n\r\n".format(*fields).encode()
        line = b"x" * 70 + b"\r\n"
        message = head + line * ((MESSAGE_BYTES - len(head)) // len(line))
        started = time.perf_counter()
        self.say("MAIL FROM:<ann@people.example>")
        for each in addressed:
            self.say(f"RCPT TO:<{each}>")
        self.say("DATA")
        self._connection.sendall(message + b".\r\n")
        for _ in lists:
            self.hear()
        return time.perf_counter() - started

    def say(self, command: str) -> None:
        self._connection.sendall(f"{command}\r\n".encode())
        self.hear()

    def hear(self) -> None:
        while (line := self._replies.readline())[3:4] == b"-":
            pass
        assert line[:1] in b"23", line


@contextmanager
def lmtp_session(port: int) -> Iterator[Session]:
    """Connect by LMTP."""
    with ExitStack() as stack:
        connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        session = Session(connection)
        session.hear()
        session.say("LHLO benchmark")
        yield session
        session.say("QUIT")
