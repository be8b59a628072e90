"""The server of the demo: a process of its own, on a free port, with a database in a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

STOP_PATIENCE_S: Final = 15
"""A server drains within ten seconds; after this it is killed."""


@dataclass(frozen=True, slots=True)
class DemoServer:
    """A server that runs."""

    process: subprocess.Popen[str]
    address: str
    database: Path

    @classmethod
    def start(cls, folder: Path, subnets: Sequence[str]) -> DemoServer:
        """Start the server; returns once it takes calls."""
        subnets_file, log_file, database = folder / "subnets.txt", folder / "server.log", folder / "names.db"
        subnets_file.write_text("\n".join(subnets) + "\n", encoding="utf-8")
        command = [sys.executable, "-m", "shadowtree", "serve", "--listen", "127.0.0.1:0"]
        command += ["--subnet", f"@{subnets_file}", "--database", f"sqlite:///{database}"]
        with log_file.open("w", encoding="utf-8") as log:
            process = subprocess.Popen(  # noqa: S603 - our own program
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={key: value for key, value in os.environ.items() if not key.startswith("SHADOWTREE_")},
                # Ctrl-C is for the demo, which then ends the server; a kept one outlives the terminal.
                start_new_session=True,
            )
        try:
            line = process.stdout.readline() if process.stdout is not None else ""
        except KeyboardInterrupt:
            process.kill()
            process.wait()
            raise
        _, on, address = line.rstrip("\n").rpartition(" on ")
        if not on:
            process.kill()
            process.wait()
            log_lines = log_file.read_text(encoding="utf-8", errors="replace").splitlines()
            raise click.ClickException(f"the server did not start: {log_lines[-1] if log_lines else 'it said nothing'}")
        return cls(process, address, database)

    @property
    def pid(self) -> int:
        """The id of its process."""
        return self.process.pid

    def stop(self) -> None:
        """End the server and wait until it is gone."""
        self.process.terminate()
        try:
            self.process.wait(STOP_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
