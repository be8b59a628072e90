"""The programs that a demo starts. Each is a process with its log in one folder, and ends with the demo."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

STOP_PATIENCE_S: Final = 15
"""Time for a server to drain, which takes up to ten seconds, before it is killed."""


@dataclass(frozen=True, slots=True)
class DemoProcess:
    """A running program of this project, in a folder."""

    name: str
    folder: Path
    running: subprocess.Popen[str]

    @classmethod
    def launch(
        cls, folder: Path, name: str, arguments: Sequence[str], variables: Mapping[str, str] | None = None
    ) -> DemoProcess:
        """Start `python -m ARGUMENTS` with `variables` in its environment; standard error goes to a log."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith("SHADOWTREE_")}
        with (folder / f"{name}.log").open("a", encoding="utf-8") as log:
            running = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-m", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**environment, **(variables or {})},
                # The path of a socket could be too long from another folder.
                cwd=folder,
                # Ctrl-C is for the demo, which then ends its processes. With --keep they outlive the terminal.
                start_new_session=True,
            )
        return cls(name, folder, running)

    @property
    def pid(self) -> int:
        """Process id."""
        return self.running.pid

    def first_line(self) -> str:
        """Return the program's first line of output, after which it runs.

        Raises `click.ClickException` if it ends before.
        """
        try:
            line = self.running.stdout.readline() if self.running.stdout is not None else ""
        except BaseException:
            # The demo was ended meanwhile.
            self.kill()
            raise
        if not line:
            lines = (self.folder / f"{self.name}.log").read_text(encoding="utf-8", errors="replace").splitlines()
            raise click.ClickException(f"{self.name} did not start: {lines[-1] if lines else 'it said nothing'}")
        return line.rstrip("\n")

    def kill(self) -> None:
        """Kill the program, like a crash."""
        self.running.kill()
        self.running.wait()

    def terminate(self) -> None:
        """Ask the program to end."""
        self.running.terminate()

    def stop(self) -> None:
        """End the program, and wait until it is gone."""
        self.terminate()
        try:
            self.running.wait(STOP_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.kill()
