"""`shadowtree top` on a live server: once, as JSON, and again and again on a terminal."""

import json
import os
import pty
import selectors
import signal
import subprocess
import sys
import time

import pytest

import shadowtree
from tests.integration.nameserver.server_process import ServerProcess

PATIENCE_SECONDS = 60
PROGRAM = [sys.executable, "-m", "shadowtree"]


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """The address of a server with one group, and a peer that never answers."""
    server = ServerProcess(tmp_path_factory.mktemp("top") / "names.db", subnets=["a.x"], peers=["b.x=127.0.0.1:1"])
    with shadowtree.Client(server.address) as client:
        client.create_group("staff@a.x")
        client.join("staff@a.x", "ann@a.x")
    yield server.address
    server.close()


def once(address, *options):
    found = subprocess.run(
        [*PROGRAM, "top", "--once", "--server", address, *options],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_SECONDS,
    )
    return found.stdout


def test_a_pipe_gets_one_fact_a_line(address):
    lines = [line.split("\t") for line in once(address).splitlines()]
    facts = {line[0]: line[1] for line in lines}
    assert {facts[name] for name in ("groups", "processes", "arcs")} == {"1"}
    assert (facts["server"], facts["in_doubt"], facts["suspended"], facts["letters_waiting"]) == ("a.x", "0", "0", "0")
    assert lines[-1] == ["peer", "-", "127.0.0.1:1", "never met", "0", "-"]


def test_json_has_what_status_and_peers_say(address):
    found = json.loads(once(address, "--format", "json"))
    assert found["status"]["groups"] == 1
    assert [peer["life"] for peer in found["peers"]] == ["never met"]


def test_a_terminal_gets_a_screen_that_lives_until_ctrl_c(address):
    outside, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
    process = subprocess.Popen(
        [*PROGRAM, "top", "--server", address], stdin=terminal, stdout=terminal, stderr=terminal, env=environment
    )
    os.close(terminal)
    try:
        wait_for_text(outside, "never met", times=2)
        process.send_signal(signal.SIGINT)
        read_to_the_end(outside)
        assert process.wait(PATIENCE_SECONDS) == 130
    finally:
        process.kill()
        process.wait()
        os.close(outside)


def wait_for_text(terminal, text, *, times):
    """Read until it was drawn so often."""
    seen, deadline = "", time.monotonic() + PATIENCE_SECONDS
    with selectors.DefaultSelector() as selector:
        selector.register(terminal, selectors.EVENT_READ)
        while seen.count(text) < times:
            assert selector.select(max(0, deadline - time.monotonic())), seen
            seen += os.read(terminal, 65536).decode(errors="replace")


def read_to_the_end(terminal):
    """Read until the end, since unread output would keep the writer from ending."""
    try:
        while os.read(terminal, 65536):
            pass
    except OSError:
        return  # So Linux says that the other end is closed.
