"""Costs of durable messages and of mail beside those of an earlier build: times, and the processor time of servers.

Each build has two name servers, and a mail gateway of the first. All builds are asked in turns, by the client of this
build, so that only the servers differ. A ratio is the median of the ratios of all turns.

A second series measures single messages with the client of each build, in a process of its own.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks import mail_distribution, message_asking
from benchmarks.builds import NOW, Build
from benchmarks.deliveries import seconds_to_read, seconds_to_send
from benchmarks.mail_distribution import fill, lmtp_session, running_gateway, wait_for, wait_until_quiet
from benchmarks.mail_sink import counted, reset
from benchmarks.message_asking import arriving, seconds_after_pause
from benchmarks.report import Figure
from benchmarks.servers import CALL_SECONDS, ServerProcess, name_servers, running
from shadowtree import Arc, Client

MOST = 1.03
"""Largest ratio to the cost of the earlier build."""

SHARES = (["a.x", "ubc.example"], ["b.x", "sfu.example", "uvic.example"])
"""Subnets of each server: those of the messages, and those of the lists of `mail_distribution`."""

SETTLING_SECONDS = 1.0
"""Time after which the background work of an import is over."""


@dataclass(frozen=True)
class Route:
    """A group of the first server with one listener."""

    name: str
    group: str
    listener: str
    reader: int
    """Number of the listener's server."""


ROUTES = (
    Route("one server", "here@a.x", "listener@a.x", reader=0),
    Route("two servers", "away@a.x", "listener@b.x", reader=1),
)


@dataclass(frozen=True)
class Amount:
    """Number of turns, and of things in each turn."""

    message_turns: int
    messages: int
    single_messages: int
    client_turns: int
    messages_of_client: int
    mails: int
    people: int


FULL = Amount(
    message_turns=40,
    messages=4_000,
    single_messages=400,
    client_turns=16,
    messages_of_client=40,
    mails=16,
    people=4_000,
)
QUICK = Amount(
    message_turns=2, messages=500, single_messages=10, client_turns=1, messages_of_client=10, mails=1, people=500
)


@dataclass(frozen=True)
class Side:
    """The processes of one build, and clients of both servers."""

    build: Build
    servers: Sequence[ServerProcess]
    clients: Sequence[Client]
    gateway: ServerProcess


Costs = Mapping[str, float]
"""Seconds of one message or of one person, by the name of the figure."""


def measure(*, quick: bool, builds: Sequence[Build]) -> list[Figure]:
    """Measure many messages, mail and single messages. The sides take turns in each."""
    amount = QUICK if quick else FULL
    with ExitStack() as stack:
        sink = int(
            stack.enter_context(
                running([sys.executable, "-m", "benchmarks.mail_sink"], r"sink on 127.0.0.1:(\d+)$")
            ).address
        )
        sides = [_side(stack, build, sink, amount.people) for build in builds]
        time.sleep(SETTLING_SECONDS)
        many = _in_turns(sides, lambda side: _many_messages(side, amount.messages), amount.message_turns)
        mail = _in_turns(sides, lambda side: _mail(side, sink, amount.people), amount.mails)
        arrivals = {side.build: _arrivals(stack, side) for side in sides}
        single = _in_turns(sides, lambda side: _single_messages(arrivals[side.build]), amount.single_messages)
        own = _in_turns(sides, lambda side: _by_own_client(side, amount.messages_of_client), amount.client_turns)
    return [figure for found in (many, single, own, mail) for figure in _figures(found)]


def _side(stack: ExitStack, build: Build, sink: int, people: int) -> Side:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    servers = stack.enter_context(name_servers(folder, SHARES, build=build))
    clients = [stack.enter_context(Client(server.address, timeout=CALL_SECONDS)) for server in servers]
    clients[0].import_arcs(Arc(route.group, route.listener, "member") for route in ROUTES)
    for route in ROUTES:
        clients[route.reader].open_mailbox(route.listener)
    fill(clients[0], people, clicking=0)
    subnet = mail_distribution.SUBNETS[0]
    gateway = stack.enter_context(running_gateway(folder, servers[0], sink, subnet, "central", build=build))
    return Side(build, servers, clients, gateway)


def _in_turns(sides: Sequence[Side], turn: Callable[[Side], Costs], turns: int) -> dict[Build, list[Costs]]:
    """Return the costs of each turn, by build. The order of the sides is reversed every other turn."""
    found: dict[Build, list[Costs]] = {side.build: [] for side in sides}
    for number in range(turns):
        for side in sides if number % 2 else reversed(sides):
            found[side.build].append(turn(side))
    return found


def _many_messages(side: Side, count: int) -> Costs:
    """Send numbered messages by each route, read and acknowledge them.

    The time ends when all are settled. The processor time is that of the whole turn.
    """
    costs = {}
    for route in ROUTES:
        before = [server.processor_seconds() for server in side.servers]
        seconds = seconds_to_send(side.clients[:1], [route.group], count - 1)
        seconds_to_read(side.clients[route.reader], route.listener, count)
        used = [server.processor_seconds() - begun for server, begun in zip(side.servers, before, strict=True)]
        what = f"fifo messages of 200 B, {route.name}"
        costs[f"{what}: time of each"] = seconds / count
        costs[f"{what}: processor of the origin"] = used[0] / count
        if route.reader:
            costs[f"{what}: processor of the other server"] = used[route.reader] / count
    return costs


def _mail(side: Side, sink: int, people: int) -> Costs:
    """Send one mail to a list of all people, and wait until everyone has a copy."""
    # The servers' part is about a tenth, too little beside their heartbeats for a ratio of its own.
    processes = {"the gateway": [side.gateway], "gateway and servers": [side.gateway, *side.servers]}
    wait_until_quiet(sink)
    reset(sink)
    before = {name: _processor_seconds(each) for name, each in processes.items()}
    with lmtp_session(int(side.gateway.address)) as session:
        started = time.perf_counter()
        session.seconds_until_safe("all")
        wait_for(sink, people)
        seconds = time.perf_counter() - started
    wait_until_quiet(sink)
    _, copies, _, _ = counted(sink)
    assert copies == people, f"{copies} copies for {people} people"
    what = f"mail to {people:,} people"
    return {f"{what}: time of each person": seconds / people} | {
        f"{what}: processor of {name}": (_processor_seconds(each) - before[name]) / people
        for name, each in processes.items()
    }


def _processor_seconds(processes: Sequence[ServerProcess]) -> float:
    return sum(process.processor_seconds() for process in processes)


def _arrivals(stack: ExitStack, side: Side) -> dict[str, Callable[[], object]]:
    """Return calls that send one message, by the name of the route."""
    sender = side.clients[0]
    return {
        route.name: stack.enter_context(arriving(sender, route.group, side.clients[route.reader], route.listener))
        for route in ROUTES
    }


def _single_messages(arrivals: Mapping[str, Callable[[], object]]) -> Costs:
    return {f"p50 from send to the listener, {name}": seconds_after_pause(arrive) for name, arrive in arrivals.items()}


def _by_own_client(side: Side, count: int) -> Costs:
    """Measure single messages with the client of the same build."""
    costs = {}
    for route in ROUTES:
        command = [sys.executable, "-P", message_asking.__file__, side.servers[0].address, route.group]
        command += [side.servers[route.reader].address, route.listener, str(count)]
        said = subprocess.run(
            command, env=side.build.environment(), cwd=side.build.folder, check=True, stdout=subprocess.PIPE, text=True
        )
        costs[f"p50 from send to the listener, {route.name}, own client"] = json.loads(said.stdout)
    return costs


def _figures(found: Mapping[Build, Sequence[Costs]]) -> list[Figure]:
    """Return the median cost of this build, or the ratio to each earlier build."""
    now, figures = found[NOW], []
    for what in now[0]:
        ms = {build: 1e3 * statistics.median(costs[what] for costs in turns) for build, turns in found.items()}
        if len(found) == 1:
            figures.append(Figure(what, ms[NOW], None, "ms"))
        for build, turns in found.items():
            if build is not NOW:
                ratio = statistics.median(one[what] / other[what] for one, other in zip(now, turns, strict=True))
                note = f"{ms[build]:,.4g} ms, now {ms[NOW]:,.4g}"
                figures.append(Figure(what, ratio, MOST, "x", note=note))
    return figures
