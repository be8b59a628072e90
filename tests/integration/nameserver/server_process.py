"""A real name server in a process of its own, for tests that talk to it over gRPC and kill it."""

from __future__ import annotations

import os
import re
import resource
import selectors
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import grpc

from shadowtree.v1.admin_pb2_grpc import AdminServiceStub
from shadowtree.v1.name_service_pb2_grpc import NameServiceStub
from tests.integration.nameserver.warm_process import WarmProcess

PATIENCE_SECONDS = 60

LOOK_SECONDS = 0.02
"""Seconds between two looks at an awaited state. Without a pause the looks would take the processor from it."""

LONGEST_LOOK_SECONDS = 0.25
"""Longest pause between two looks at a slow state. A look is a call, and mostly one that a server answers."""

WRITABLE_BYTES = 4096
"""Bytes that can be written to each file while a disk is full: less than any commit needs."""

QUIET = {"log_level": "error", "restart_grace_seconds": "0", "listen_local": "none"}
"""Settings for tests of other features: hardly a log line, and peers that are missed as soon as they end."""

PROGRAM = """
import json, os, sys
from nameserver.server import StartError, run
from nameserver.config.declared import SettingsError
from nameserver.config.settings import load_settings
if "LOOP_REPORT" in os.environ:
    from tests.loop_watch import CallsMeter, watch_server
    watch_server(os.environ["LOOP_REPORT"], CallsMeter())
if "BACKLOGS" in os.environ:
    from tests.integration.deliveries.changed_server import change_server
    change_server(os.environ["BACKLOGS"])
try:
    sys.exit(run(load_settings(None, json.loads(sys.argv[1]), os.environ)))
except (SettingsError, StartError) as error:
    sys.stderr.write(f"{error}\\n")
    sys.exit(4)
"""


class ServerProcess:
    """Starts at once; `address` is set when calls are accepted."""

    def __init__(
        self, database, *, subnets=("b.c", "x.y"), listen="127.0.0.1:0", wait=True, environment=None, **settings
    ):
        """`environment`: variables that only this process has."""
        import json

        url = database if "://" in str(database) else f"sqlite:///{database}"
        values = {**QUIET, "database": url, "subnets": list(subnets), "listen": listen, **settings}
        usual = {key: value for key, value in os.environ.items() if not key.startswith("SHADOWTREE_")}
        # `shadowtree serve` sets this too: gRPC must not report ended peers by itself.
        usual["GRPC_VERBOSITY"] = "NONE"
        own = usual | (environment or {})
        if not own.keys() & {"LD_PRELOAD", "LOOP_REPORT"}:
            self.process = WarmProcess(PROGRAM, [json.dumps(values)], own)
        else:
            # A forked process has not what is loaded before Python, and does not do what is left for its exit.
            self.process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, json.dumps(values)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=own,
            )
        self.serving_line = None
        self.address = None
        self._channels = []
        if wait:
            self.serving_line = self._read_line()
            self.address = re.fullmatch(r"serving \S+ on (\S+:\d+)", self.serving_line)[1]

    def _read_line(self):
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            assert selector.select(PATIENCE_SECONDS), "the server said nothing"
        line = self.process.stdout.readline().decode().rstrip("\n")
        assert line, self.process.stderr.read().decode()
        return line

    def channel(self):
        channel = grpc.insecure_channel(self.address, options=[("grpc.use_local_subchannel_pool", 1)])
        self._channels.append(channel)
        return channel

    @property
    def names(self):
        return NameServiceStub(self.channel())

    @property
    def admin(self):
        return AdminServiceStub(self.channel())

    def terminate(self):
        """SIGTERM; return the exit status and what was written to standard error."""
        self.process.send_signal(signal.SIGTERM)
        return self.outcome()

    def kill(self):
        self.process.kill()
        return self.outcome()

    def outcome(self):
        _, errors = self.process.communicate(timeout=PATIENCE_SECONDS)
        return self.process.returncode, errors.decode()

    def close(self):
        for channel in self._channels:
            channel.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate(timeout=PATIENCE_SECONDS)


@contextmanager
def full_disk_of(process):
    """Give a process, by its id, a full disk: it can write next to nothing to files. All else of it goes on."""
    unlimited = resource.prlimit(process, resource.RLIMIT_FSIZE)
    resource.prlimit(process, resource.RLIMIT_FSIZE, (WRITABLE_BYTES, unlimited[1]))
    try:
        yield
    finally:
        resource.prlimit(process, resource.RLIMIT_FSIZE, unlimited)


def wait_until(condition, what, *, patience_seconds=PATIENCE_SECONDS):
    """Ask now and then until it holds: less often the longer it takes, so that it is seen a fifth too late at most."""
    began = time.monotonic()
    while not condition():
        waited = time.monotonic() - began
        assert waited < patience_seconds, f"never came: {what}"
        time.sleep(min(max(LOOK_SECONDS, waited / 5), LONGEST_LOOK_SECONDS))
