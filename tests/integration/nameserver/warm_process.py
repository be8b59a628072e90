"""Processes that have imported all modules before they begin. Nine tenths of a server's or command's start are imports.

Each process of a test run keeps one idle process with all imports. Requested processes are forked from it. They behave
like a `subprocess.Popen`.
"""

from __future__ import annotations

import multiprocessing
import os
import selectors
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from multiprocessing.connection import Connection

OF_A_NEW_DATABASE = ["alembic.command", "encodings.idna", "migrations", "storage.sqlite"]
"""Modules that a server imports once it has a database to create."""

OF_METRICS = ["nameserver.telemetry.metrics", "nameserver.telemetry.state_metrics"]

OF_COMMANDS = [
    "shadowtree.cli.main",
    "shadowtree.client.synchronous.client",
    "shadowtree.client.snapshots_of_all",
    *(f"shadowtree.cli.commands.{name}" for name in ("group", "join_leave", "listen", "mailbox", "resolve", "send")),
]

IMPORTED = [
    "nameserver.server",
    *OF_A_NEW_DATABASE,
    *OF_METRICS,
    *OF_COMMANDS,
    "tests.integration.nameserver.warm_process",
]

COMMAND_SECONDS = 60

COMMAND = "from shadowtree.cli.main import run; run()"

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(IMPORTED)


class WarmProcess:
    """Runs a program, which is Python's text, with `arguments` as `sys.argv[1:]`, in an environment of its own.

    `standard_input`: all that it reads there.
    """

    def __init__(
        self, program: str, arguments: list[str], environment: dict[str, str], standard_input: bytes = b""
    ) -> None:
        readers, writers = zip(*(_CONTEXT.Pipe(duplex=False) for _ in range(2)), strict=True)
        source, fed = _CONTEXT.Pipe(duplex=False)
        self._process = _CONTEXT.Process(target=_run, args=(program, arguments, environment, source, *writers))
        self._process.start()
        for theirs in (source, *writers):
            theirs.close()
        threading.Thread(target=_feed, args=(fed, standard_input)).start()
        self.pid = self._process.pid
        self.stdout, self.stderr = (os.fdopen(os.dup(reader.fileno()), "rb") for reader in readers)
        for reader in readers:
            reader.close()

    @property
    def returncode(self) -> int | None:
        """Return the exit status, negative if a signal ended the process. None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """Return the same as `returncode`."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended; raises `subprocess.TimeoutExpired`."""
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("a server", timeout)
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[bytes, bytes]:
        """Return all output until the process ends."""
        found = {self.stdout: b"", self.stderr: b""}
        with selectors.DefaultSelector() as selector:
            for stream in found:
                if not stream.closed:
                    selector.register(stream, selectors.EVENT_READ)
            while selector.get_map():
                ready = selector.select(timeout)
                if not ready:
                    raise subprocess.TimeoutExpired("a server", timeout)
                for key, _ in ready:
                    part = key.fileobj.read1()
                    found[key.fileobj] += part
                    if not part:
                        selector.unregister(key.fileobj)
                        key.fileobj.close()
        self.wait(timeout)
        return found[self.stdout], found[self.stderr]

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send it SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send it SIGKILL."""
        self.send_signal(signal.SIGKILL)


def start_command(*arguments: object, standard_input: bytes = b"", **variables: str) -> WarmProcess:
    """Start `shadowtree`. Of its own environment variables it gets only the given ones."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SHADOWTREE_")}
    return WarmProcess(COMMAND, [str(one) for one in arguments], environment | variables, standard_input)


def run_command(*arguments: object, standard_input: bytes = b"", **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `shadowtree` to its end, with the same variables."""
    process = start_command(*arguments, standard_input=standard_input, **variables)
    output, errors = process.communicate(COMMAND_SECONDS)
    return subprocess.CompletedProcess(arguments, process.wait(), output.decode(), errors.decode())


def _feed(fed: Connection, data: bytes) -> None:
    with os.fdopen(os.dup(fed.fileno()), "wb") as stream, suppress(BrokenPipeError):
        fed.close()
        stream.write(data)


def _run(
    program: str,
    arguments: list[str],
    environment: dict[str, str],
    source: Connection,
    out: Connection,
    err: Connection,
) -> None:
    for place, end in ((0, source), (1, out), (2, err)):
        os.dup2(end.fileno(), place)
        end.close()
    sys.stdin = os.fdopen(0, closefd=False)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[1:] = arguments
    exec(compile(program, "<server>", "exec"), {"__name__": "__main__"})
