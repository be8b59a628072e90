"""Commands as whole processes, including the start of the interpreter."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.report import Figure, median_seconds
from benchmarks.servers import connected


def measure(*, quick: bool) -> list[Figure]:
    """Time `--help` and `check`."""
    repetitions = 5 if quick else 21
    command = str(Path(sys.executable).with_name("shadowtree"))
    with tempfile.TemporaryDirectory() as folder, connected(Path(folder), subnets=["a.example"]) as (server, client):
        client.create_group("g@a.example")
        client.join("g@a.example", "ann@b.example")
        check = [command, "--server", server.address, "check", "g@a.example", "ann@b.example"]
        return [
            Figure(
                "shadowtree --help",
                median_seconds(lambda: _run([command, "--help"]), repetitions=repetitions),
                0.25,
                "s",
            ),
            Figure("shadowtree check", median_seconds(lambda: _run(check), repetitions=repetitions), 0.4, "s"),
        ]


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
