"""Cost of the audit log for a join: beside rows without hashes, and beside an earlier build.

The processor time of a server differs from run to run by more than the audit log costs. Therefore the steps and commits
of joins are also measured without calls, and their difference is compared with the processor time of a whole join.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.builds import NOW, Build
from benchmarks.report import Figure
from benchmarks.servers import ServerProcess, name_servers
from shadowtree import Client, aio

SUBNET = "bench.example"
CLIENTS = 16
SHARE_TARGET = 0.05

WITHOUT_HASHES = "import namegraph.state.change_log as log; log.chained = lambda row, before: row; "

STEPS = """
import sys, time, tempfile
from pathlib import Path
from namegraph import JoinArc, CreateGroup, NodeId, RequestId, ServerId, Subnet, UpdateCommand, Origin, Records
from namegraph.core import ServerCore
from storage.open import open_store
joins = int(sys.argv[1])
with tempfile.TemporaryDirectory(dir=sys.argv[2]) as folder:
    store = open_store(f"sqlite:///{Path(folder) / 'names.db'}", server=ServerId("bench.example"))
    core = ServerCore(server=ServerId("bench.example"), subnets=[Subnet("bench.example")])
    group = NodeId("g@bench.example")
    origin = Origin(RequestId("r"), 1_700_000_000_000, "127.0.0.1:50000", ServerId("bench.example"))
    def step(number, operation):
        command = UpdateCommand(number, RequestId(f"request-{number}"), (operation,), origin=origin)
        return core.step(command, 0.0).records
    store.commit(step(0, CreateGroup(group)))
    begin = time.process_time()
    for first in range(1, joins + 1, 16):
        records = Records()
        for number in range(first, first + 16):
            records.extend(step(number, JoinArc(group, NodeId(f"member-{number}@people.example"))))
        store.commit(records)
    print((time.process_time() - begin) / joins)
    store.close()
"""
"""Program that prints the processor seconds of the step and the share in a commit of one join."""


def measure(*, quick: bool, builds: Sequence[Build]) -> list[Figure]:
    """Measure joins at a server, and steps and commits alone in turns."""
    rounds, joins = (3, 800) if quick else (15, 8_000)
    variants = {"rows without hashes": (NOW, WITHOUT_HASHES + STEPS)}
    variants |= {build.name: (build, STEPS) for build in builds}
    found: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(rounds):
        for name, (build, program) in variants.items():
            found[name].append(_seconds_of_steps(build, program, joins))
    whole = _seconds_of_a_join(each=20 if quick else 300)
    here = found.pop(NOW.name)
    figures = []
    for name, others in found.items():
        differences = [now - other for now, other in zip(here, others, strict=True)]
        more = statistics.median(differences)
        note = f"{more * 1e6:.1f} us of {whole * 1e6:,.0f}; step and commit {statistics.median(here) * 1e6:.0f} us"
        figures.append(Figure(f"share of a join beyond {name}", more / whole, SHARE_TARGET, "", note=note))
    return figures


def _seconds_of_steps(build: Build, program: str, joins: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", program, str(joins), folder]
        done = subprocess.run(
            command, env=build.environment(), cwd=build.folder, capture_output=True, text=True, check=True
        )
    return float(done.stdout)


def _seconds_of_a_join(*, each: int) -> float:
    """Return the processor time of a server for one join, many clients asking at once."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (server,) = stack.enter_context(name_servers(folder, [[SUBNET]]))
        with Client(server.address) as client:
            for number in range(CLIENTS):
                client.create_group(f"busy-{number}@{SUBNET}")
        before = server.processor_seconds()
        asyncio.run(_join_at_once(server, each))
        return (server.processor_seconds() - before) / (CLIENTS * each)


async def _join_at_once(server: ServerProcess, each: int) -> None:
    async def one_client(client: int) -> None:
        async with aio.Client(server.address) as names:
            for member in range(each):
                await names.join(f"busy-{client}@{SUBNET}", f"m-{member}@people.example", kind="process")

    await asyncio.gather(*map(one_client, range(CLIENTS)))
