"""Real server processes to measure: name servers, and an echo server that does nothing."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

import psutil

from shadowtree import Client

EXAMPLE = Path(str(files("shadowtree"))) / "examples/debian-bookworm-people/arcs.tsv.gz"


class ServerProcess:
    """One running server."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.process = process
        self.address = address

    def resident_bytes(self) -> int:
        """Memory in use now."""
        return int(psutil.Process(self.process.pid).memory_info().rss)

    def peak_resident_bytes(self) -> int:
        """The most memory that was in use at any time (Linux)."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.kill()
        self.process.wait()


@contextmanager
def running(command: Sequence[str], ready: str) -> Iterator[ServerProcess]:
    """A process that prints a line matching `ready`, whose first group is its address; ended on the way out."""
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
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
                process.wait(timeout=30)
            finally:
                process.kill()
            process.stdout.close()


@contextmanager
def name_server(folder: Path, *, subnets: Sequence[str]) -> Iterator[ServerProcess]:
    """A name server on a SQLite database in a folder."""
    listed = folder / "subnets"
    listed.write_text("\n".join(subnets))
    database = f"sqlite:///{folder / 'names.db'}"
    command = [sys.executable, "-m", "shadowtree", "serve", "--listen", "127.0.0.1:0"]
    command += ["--database", database, "--subnet", f"@{listed}"]
    with running(command, r"serving .* on (\S+)$") as server:
        yield server


@contextmanager
def connected(folder: Path, *, subnets: Sequence[str]) -> Iterator[tuple[ServerProcess, Client]]:
    """A name server and a client of it."""
    with name_server(folder, subnets=subnets) as server, Client(server.address) as client:
        yield server, client


@contextmanager
def echo_server() -> Iterator[ServerProcess]:
    """A bare gRPC server whose one method returns what it is sent."""
    with running([sys.executable, "-m", "benchmarks.echo"], r"echo on (\S+)$") as server:
        yield server


def example_subnets() -> list[str]:
    """The subnets of the example graph."""
    listed = (EXAMPLE.parent / "domains.tsv").read_text().splitlines()
    return [line.split("\t")[0] for line in listed if line]
