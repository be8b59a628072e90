"""The effect of signals on `shadowtree serve`, and refusals at the start."""

import os
import selectors
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.integration.nameserver.server_process import wait_until

PATIENCE_SECONDS = 60


class ServedByCommand:
    """`shadowtree serve --config FILE` in a process of its own; its standard error is read as it comes."""

    def __init__(self, process):
        self._process = process
        self.lines = []

    def send(self, number):
        self._process.send_signal(number)

    def hang_up(self):
        self.send(signal.SIGHUP)

    def wait_for_line(self, part):
        """Read lines until one has this in it that was not waited for before."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stderr, selectors.EVENT_READ)
            while True:
                assert selector.select(max(0, deadline - time.monotonic())), f"no line with {part}"
                self.lines.append(self._process.stderr.readline().decode().rstrip("\n"))
                if part in self.lines[-1]:
                    return

    def end(self):
        """SIGTERM; returns all lines."""
        self._process.terminate()
        _, rest = self._process.communicate(timeout=PATIENCE_SECONDS)
        assert self._process.returncode == 0
        return [*self.lines, *rest.decode().splitlines()]


def started(config, **environment):
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("SHADOWTREE_")}
    return subprocess.Popen(
        [sys.executable, "-m", "shadowtree", "serve", "--config", config],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        env={**inherited, **environment},
    )


@contextmanager
def served_by_command(config, **environment):
    process = started(config, **environment)
    try:
        assert process.stdout.readline().startswith(b"serving ")
        yield ServedByCommand(process)
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE_SECONDS)


@pytest.fixture
def config(tmp_path):
    file = tmp_path / "names.toml"
    file.write_text(f'database = "sqlite:///{tmp_path}/n.db"\nsubnets = ["a.x"]\nlisten = "127.0.0.1:0"\n')
    return file


def test_a_variable_that_is_none_is_refused_with_the_nearest_name(config):
    process = started(config, SHADOWTREE_DRAIN_SECOND="1")
    _, errors = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 2
    assert errors.decode() == (
        "shadowtree: SHADOWTREE_DRAIN_SECOND: there is no such variable; the nearest one is SHADOWTREE_DRAIN_SECONDS\n"
    )


def test_variables_of_the_command_line_and_of_containers_are_no_mistakes(config):
    with served_by_command(config, SHADOWTREE_SERVER="h:1", SHADOWTREE_DATABASE_PASSWORD="p") as server:
        server.wait_for_line(" serving_operators ")
        events = ["starting", "settings", "serving", "serving_operators", "draining", "ended"]
        assert [line.split()[3] for line in server.end()] == events


def ignores_hang_ups(process):
    """True if a process ignores SIGHUP, according to its operating system."""
    (line,) = [line for line in Path(f"/proc/{process.pid}/status").read_text().splitlines() if "SigIgn" in line]
    return bool(int(line.split()[1], 16) >> (signal.SIGHUP - 1) & 1)


def ended_in_spite_of_a_hang_up(process):
    process.send_signal(signal.SIGHUP)
    with suppress(subprocess.TimeoutExpired):
        process.wait(0.005)
    return process.returncode is not None


def test_sighup_ends_no_server_that_is_starting_or_ending(config):
    process = started(config)
    try:
        wait_until(lambda: ignores_hang_ups(process), "the command that starts the server")
        process.send_signal(signal.SIGHUP)
        assert process.stdout.readline().startswith(b"serving ")
        process.terminate()
        wait_until(lambda: ended_in_spite_of_a_hang_up(process), "the end of the server")
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE_SECONDS)


def test_signals_that_other_daemons_take_for_orders_end_no_server(config):
    with served_by_command(config) as server:
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            server.send(number)
        server.hang_up()
        server.wait_for_line("settings_read_again")
        assert server.end()[-1].split()[3] == "ended"


def test_all_lines_of_a_start_name_the_server_and_the_first_one_says_that_it_starts(config):
    with served_by_command(config) as server:
        server.wait_for_line(" serving_operators ")
        lines = [line.split()[2:4] for line in server.end()]
    events = ["starting", "settings", "serving", "serving_operators", "draining", "ended"]
    assert lines == [["a.x", event] for event in events]
