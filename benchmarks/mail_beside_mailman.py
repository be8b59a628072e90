"""A mail gateway beside Mailman 3, if a `mailman` is on the path: people a second, and three lists in a loop.

Both take the same message by LMTP and hand it to the same server. Mailman keeps its data in SQLite, in a folder of its
own. It has its default settings except for those in `CONFIG`. Runners without work here are not started, and its queues
are polled ten times as often, which favours Mailman.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.builds import NOW
from benchmarks.mail_distribution import DOMAIN, lmtp_session, running_gateway, wait_for, wait_until_quiet
from benchmarks.mail_relay import Relay, running_relay
from benchmarks.mail_sink import counted, reset
from benchmarks.report import Figure
from benchmarks.servers import connected, running
from shadowtree import Arc
from shadowtree.cli.support.free_ports import unused_ports

SUBNET = "ubc.example"
TIMES_AS_MANY = 10
LOOP = {
    "top": ("pat", "b", "c"),
    "b": ("ben", "eve"),
    "c": ("cy", "eve", "top"),
}
"""Members of each list. There are four people; Eve is in two lists."""
PEOPLE_OF_LOOP = 4
HOPS_OF_POSTFIX = 50
"""Postfix's `hopcount_limit`. A message with more Received fields is refused."""
PATIENCE_SECONDS = 300
POLL_SECONDS = 0.05
CONFIG = """\
[mailman]
layout: beside

[paths.beside]
var_dir: {folder}

[mta]
incoming: mailman.mta.null.NullMTA
smtp_host: 127.0.0.1
smtp_port: {smtp}
lmtp_host: 127.0.0.1
lmtp_port: {lmtp}
"""
IDLE = ("archive", "bounces", "command", "digest", "rest", "retry", "task", "virgin")
BUSY = ("in", "pipeline", "out")


def measure(*, quick: bool) -> list[Figure]:
    """Measure both. No figures without Mailman."""
    program = shutil.which("mailman")
    if program is None:
        print(
            "not compared: Mailman is not on the path (a virtual environment with `pip install mailman==3.3.10"
            " 'sqlalchemy<2.1'`, its bin at the end of PATH)",
            file=sys.stderr,
        )
        return []
    people, rounds, hops = (300, 1, 10) if quick else (2_000, 3, HOPS_OF_POSTFIX)
    return [*_people_a_second(Path(program), people, rounds), *_loop(Path(program), hops)]


def _people_a_second(program: Path, people: int, rounds: int) -> list[Figure]:
    """Measure one list, with one message at a time to each program, from acceptance to the last copy."""
    members = [f"person-{number:05}@people.example" for number in range(people)]
    with (
        tempfile.TemporaryDirectory() as folder,
        running([sys.executable, "-m", "benchmarks.mail_sink"], r"sink on 127.0.0.1:(\d+)$") as sink,
        connected(Path(folder), subnets=[SUBNET]) as (server, client),
        running_mailman(program, {f"all@{DOMAIN}": members}, int(sink.address)) as mailman,
    ):
        client.import_arcs(Arc(f"all@{SUBNET}", member, "process") for member in members)
        with running_gateway(Path(folder), server, int(sink.address), SUBNET, "central") as gateway:
            rates: dict[int, list[float]] = {int(gateway.address): [], mailman: []}
            for _ in range(rounds):
                for port, found in rates.items():
                    found.append(people / _seconds(port, int(sink.address), people))
    ours, theirs = (statistics.median(found) for found in rates.values())
    what = f"mail: a list of {people:,}, 10 kB, people a second"
    note = f"Mailman {theirs:,.0f}, the gateway {ours:,.0f}"
    return [Figure(f"{what}: times Mailman's", ours / theirs, TIMES_AS_MANY, "x", lower_is_better=False, note=note)]


def _seconds(port: int, sink: int, people: int) -> float:
    wait_until_quiet(sink)
    reset(sink)
    with lmtp_session(port) as session:
        session.seconds_until_safe("all")
        started = time.perf_counter()
        wait_for(sink, people)
        taken = time.perf_counter() - started
    assert counted(sink)[1] == people, f"{counted(sink)[1]} copies for {people} people"
    return taken


def _loop(program: Path, hops: int) -> list[Figure]:
    """Measure lists nested in a loop, with one message to the first."""
    theirs = _copies_by_mailman(program, hops)
    ours = _copies_by_gateway(hops)
    what = f"mail: {len(LOOP)} lists in a loop, copies of one message for {PEOPLE_OF_LOOP} people"
    note = f"ended by a limit of {hops} hops; one person got {max(theirs.values())}"
    return [
        Figure(f"{what}: Mailman", sum(theirs.values()), None, "", note=note),
        Figure(f"{what}: the gateway", sum(ours.values()), PEOPLE_OF_LOOP, ""),
    ]


def _copies_by_mailman(program: Path, hops: int) -> Mapping[str, int]:
    lists = {_address(name): [_address(each) for each in members] for name, members in LOOP.items()}
    with running_relay(DOMAIN, hops) as relay, running_mailman(program, lists, relay.port) as relay.lmtp_port:
        _write_to_top(relay)
        # The last accepted message comes from `top` and reaches two lists. Both messages of these lists are refused.
        _wait_until(lambda: relay.refused == len(LOOP) - 1)
        return dict(relay.copies)


def _copies_by_gateway(hops: int) -> Mapping[str, int]:
    with (
        tempfile.TemporaryDirectory() as folder,
        connected(Path(folder), subnets=[SUBNET]) as (server, client),
        running_relay(DOMAIN, hops) as relay,
    ):
        client.import_arcs(
            Arc(f"{name}@{SUBNET}", f"{each}@{SUBNET}", "group")
            if each in LOOP
            else Arc(f"{name}@{SUBNET}", _address(each), "process")
            for name, members in LOOP.items()
            for each in members
        )
        with running_gateway(Path(folder), server, relay.port, SUBNET, "central") as gateway:
            relay.lmtp_port = int(gateway.address)
            _write_to_top(relay)
            _wait_until(lambda: len(relay.copies) == PEOPLE_OF_LOOP)
        # The gateway has ended, so no more copies come.
        return dict(relay.copies)


def _write_to_top(relay: Relay) -> None:
    """Send a message to the top list through the mail server, as any sender would."""
    header = f"From: pat@people.example\r\nTo: {_address('top')}\r\nSubject: hello\r\nMessage-ID: <1@people.example>"
    assert relay.take("pat@people.example", [_address("top")], f"{header}\r\n\r\nHello.\r\n".encode())


def _address(name: str) -> str:
    return f"{name}@{DOMAIN}" if name in LOOP else f"{name}@people.example"


@contextmanager
def running_mailman(program: Path, lists: Mapping[str, Sequence[str]], smtp: int) -> Iterator[int]:
    """Run a Mailman with these lists, in a folder of its own, that sends to port `smtp`. Yields its LMTP port."""
    (lmtp,) = unused_ports(1)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        config = folder / "mailman.cfg"
        idle = "".join(f"\n[runner.{each}]\nstart: no\n" for each in IDLE)
        busy = "".join(f"\n[runner.{each}]\nsleep_time: 0.1s\n" for each in BUSY)
        config.write_text(CONFIG.format(folder=folder / "var", smtp=smtp, lmtp=lmtp) + idle + busy)
        (folder / "lists.json").write_text(json.dumps(lists))
        as_root = ["--run-as-root"] if os.geteuid() == 0 else []
        making = ["withlist", "--run", "benchmarks.mailman_lists.make", str(folder / "lists.json")]
        made = subprocess.run(
            [str(program), *as_root, "-C", str(config), *making],
            env=NOW.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert made.returncode == 0, f"{program} made no lists: {made.stderr}"
        master = program.resolve().with_name("master")
        with subprocess.Popen(
            [str(master), "-C", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            try:
                _wait_until(lambda: _is_greeted(lmtp))
                yield lmtp
            finally:
                process.terminate()


def _is_greeted(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
        return connection.recv(3) == b"220"
    return False


def _wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "Mailman took too long"
        time.sleep(POLL_SECONDS)
