"""The programs that a demo starts: each a process with what it says in one folder, gone when the demo ends."""

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
"""A server drains within ten seconds; after this it is killed."""


@dataclass(frozen=True, slots=True)
class DemoProcess:
    """A program of ours that runs, in a folder."""

    name: str
    folder: Path
    running: subprocess.Popen[str]

    @classmethod
    def launch(
        cls, folder: Path, name: str, arguments: Sequence[str], variables: Mapping[str, str] | None = None
    ) -> DemoProcess:
        """Start `python -m ARGUMENTS`, with `variables` in its environment; what it reports goes to a log."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith("SHADOWTREE_")}
        with (folder / f"{name}.log").open("a", encoding="utf-8") as log:
            running = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-m", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**environment, **(variables or {})},
                # The path of a socket may be too long from elsewhere.
                cwd=folder,
                # Ctrl-C is for the demo, which then ends what it has started; what is kept outlives the terminal.
                start_new_session=True,
            )
        return cls(name, folder, running)

    @property
    def pid(self) -> int:
        """Its number."""
        return self.running.pid

    def first_line(self) -> str:
        """Its first line, once it says it: then it runs. Raises `click.ClickException` where it ends before."""
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
        """End it as a crash would."""
        self.running.kill()
        self.running.wait()

    def terminate(self) -> None:
        """Ask it to end."""
        self.running.terminate()

    def stop(self) -> None:
        """End it, and wait until it is gone."""
        self.terminate()
        try:
            self.running.wait(STOP_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.kill()
