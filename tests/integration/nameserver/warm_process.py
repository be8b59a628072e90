"""Processes that have imported the server before they begin: nine tenths of what a start takes is imports.

Each process of a test run keeps one process that has imported all and does nothing; those that are asked for are forked
from it. Whoever has one cannot tell it from a `subprocess.Popen`.
"""

from __future__ import annotations

import multiprocessing
import os
import selectors
import signal
import subprocess
import sys
from multiprocessing.connection import Connection

OF_A_NEW_DATABASE = ["alembic.command", "encodings.idna", "migrations", "storage.sqlite"]
"""What a server imports once it has a database to create."""

IMPORTED = ["nameserver.server", *OF_A_NEW_DATABASE, "tests.integration.nameserver.warm_process"]

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(IMPORTED)


class WarmProcess:
    """Runs a program, which is Python's text, with `arguments` as `sys.argv[1:]`, in an environment of its own."""

    def __init__(self, program: str, arguments: list[str], environment: dict[str, str]) -> None:
        readers, writers = zip(*(_CONTEXT.Pipe(duplex=False) for _ in range(2)), strict=True)
        self._process = _CONTEXT.Process(target=_run, args=(program, arguments, environment, *writers))
        self._process.start()
        for writer in writers:
            writer.close()
        self.pid = self._process.pid
        self.stdout, self.stderr = (os.fdopen(os.dup(reader.fileno()), "rb") for reader in readers)
        for reader in readers:
            reader.close()

    @property
    def returncode(self) -> int | None:
        """The exit status, negative where a signal ended it; None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """As `returncode`."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended; raises `subprocess.TimeoutExpired`."""
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("a server", timeout)
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[bytes, bytes]:
        """All that it still writes until it ends."""
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


def _run(program: str, arguments: list[str], environment: dict[str, str], out: Connection, err: Connection) -> None:
    for place, writer in ((1, out), (2, err)):
        os.dup2(writer.fileno(), place)
        writer.close()
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[1:] = arguments
    exec(compile(program, "<server>", "exec"), {"__name__": "__main__"})
