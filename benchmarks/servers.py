"""Real server processes for measurements: name servers, and an echo server."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.resources import files
from pathlib import Path

import psutil

from benchmarks.builds import NOW, Build
from shadowtree import Client, aio
from shadowtree.cli.support.free_ports import unused_ports

CONNECTION_PATIENCE_SECONDS = 30
CALL_SECONDS = 600
OPENED_AT_ONCE = 500
END_PATIENCE_SECONDS = 120
"""Time that a server gets to end. It may still write a large import."""

SERVING = r"serving .* on (\S+)$"
"""Line that a name server prints once it accepts calls."""
SHADOWTREE = (sys.executable, "-m", "shadowtree")
EXAMPLE = Path(str(files("shadowtree"))) / "examples/debian-bookworm-people/arcs.tsv.gz"


class ServerProcess:
    """A running server."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.process = process
        self.address = address

    def resident_bytes(self) -> int:
        """Return the memory in use now."""
        return int(psutil.Process(self.process.pid).memory_info().rss)

    def peak_resident_bytes(self) -> int:
        """Return the peak memory (Linux)."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024

    def processor_seconds(self) -> float:
        """Return the processor time used so far, of all threads (Linux)."""
        # This is the clock id of another process as clock_getcpuclockid(3) computes it, which Python does not offer.
        return time.clock_gettime((~self.process.pid << 3) | 2)

    def kill(self) -> None:
        """End the process as a crash would."""
        self.process.kill()
        self.process.wait()


@contextmanager
def running(command: Sequence[str], ready: str, *, build: Build = NOW) -> Iterator[ServerProcess]:
    """Run a process that prints a line matching `ready`, whose first group is its address. End it with the context."""
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env=build.environment(), cwd=build.folder
        )
        try:
            line = process.stdout.readline()
            match = re.search(ready, line)
            if match is None:
                process.wait(timeout=30)
                errors.seek(0)
                raise RuntimeError(f"{command[:4]} did not start: {line}{errors.read()}")
            yield ServerProcess(process, match[1])
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=END_PATIENCE_SECONDS)
            finally:
                process.kill()
            process.stdout.close()


@contextmanager
def name_server(folder: Path, *, subnets: Sequence[str], build: Build = NOW) -> Iterator[ServerProcess]:
    """Run a name server on a SQLite database in a folder."""
    listed = folder / "subnets"
    listed.write_text("\n".join(subnets))
    database = f"sqlite:///{folder / 'names.db'}"
    command = [sys.executable, "-m", "shadowtree", "serve", "--listen", "127.0.0.1:0"]
    command += ["--database", database, "--subnet", f"@{listed}"]
    with running(command, SERVING, build=build) as server:
        yield server


@contextmanager
def name_servers(
    folder: Path,
    shares: Sequence[Sequence[str]],
    *,
    build: Build = NOW,
    settings: str = "",
    program: Sequence[str] = SHADOWTREE,
) -> Iterator[list[ServerProcess]]:
    """Run a name server for each share of subnets, all connected with one another.

    The database of each server is named by its number, with `.db`.
    `settings`: further settings of all servers, as TOML.
    `program`: the command line to which `serve` is added.
    """
    (folder / "settings.toml").write_text(settings)
    addresses = [f"127.0.0.1:{port}" for port in unused_ports(len(shares))]
    for number, (subnets, address) in enumerate(zip(shares, addresses, strict=True)):
        (folder / f"{number}-subnets").write_text("\n".join(subnets))
        (folder / f"{number}-as-peer").write_text("\n".join(f"{subnet}={address}" for subnet in subnets))
    with ExitStack() as stack:
        servers = []
        for number, address in enumerate(addresses):
            command = [*program, "serve", "--listen", address]
            command += ["--database", f"sqlite:///{folder / f'{number}.db'}"]
            command += ["--subnet", f"@{folder / f'{number}-subnets'}", "--config", str(folder / "settings.toml")]
            for other in range(len(shares)):
                if other != number:
                    command += ["--peer", f"@{folder / f'{other}-as-peer'}"]
            servers.append(stack.enter_context(running(command, SERVING, build=build)))
        for server in servers:
            _wait_for_peers(server)
        yield servers


def _wait_for_peers(server: ServerProcess) -> None:
    deadline = time.monotonic() + CONNECTION_PATIENCE_SECONDS
    with Client(server.address) as client:
        while not all(peer.state == "connected" for peer in client.status().peers):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{server.address} did not meet its peers: {client.status().peers}")
            time.sleep(0.05)


@contextmanager
def several_connected(
    shares: Sequence[Sequence[str]], *, build: Build = NOW
) -> Iterator[tuple[list[ServerProcess], list[Client]]]:
    """Run a server for each share of subnets, all connected, with a client of each."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers = stack.enter_context(name_servers(folder, shares, build=build))
        yield servers, [stack.enter_context(Client(server.address, timeout=CALL_SECONDS)) for server in servers]


@contextmanager
def connected(folder: Path, *, subnets: Sequence[str]) -> Iterator[tuple[ServerProcess, Client]]:
    """Run a name server and a client of it."""
    with name_server(folder, subnets=subnets) as server, Client(server.address) as client:
        yield server, client


async def open_mailboxes(address: str, processes: Sequence[str]) -> None:
    """Open mailboxes, many at once, since each is durable before it is answered."""
    async with aio.Client(address) as client:
        for first in range(0, len(processes), OPENED_AT_ONCE):
            await asyncio.gather(*map(client.open_mailbox, processes[first : first + OPENED_AT_ONCE]))


@contextmanager
def echo_server() -> Iterator[ServerProcess]:
    """Run a bare gRPC server whose one method returns its input."""
    with running([sys.executable, "-m", "benchmarks.echo"], r"echo on (\S+)$") as server:
        yield server


def example_subnets() -> list[str]:
    """Return the subnets of the example graph."""
    return list(example_weights())


def example_weights() -> dict[str, int]:
    """Return the subnets of the example graph, with the number of groups of each."""
    listed = (EXAMPLE.parent / "domains.tsv").read_text().splitlines()
    return {subnet: int(count) for subnet, count in (line.split("\t")[:2] for line in listed if line)}
