"""A command whose server is only starting waits for it, and tells a person at a terminal why."""

from contextlib import ExitStack

import pytest

from shadowtree.cli.support import waiting
from shadowtree.cli.support.free_ports import unused_ports
from shadowtree.cli.support.options import Session
from shadowtree.client import retry
from shadowtree.errors import ServerUnreachable
from tests.server_in_thread import ServerInThread

REFUSED = ServerUnreachable("cannot reach the name server at h:1: Connection refused")


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until a test sets it, and a terminal."""
    now = [100.0]
    monkeypatch.setattr(waiting.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(waiting, "is_watched", lambda: True)
    return now


def test_a_person_is_told_once_and_not_before_a_second_is_over(clock, capsys):
    wait = waiting.WaitNotice()
    said = []
    for clock[0] in (100.0, 100.9, 101.1, 105.0):
        wait(REFUSED)
        said.append(capsys.readouterr().err)
    assert said == ["", "", f"shadowtree: {REFUSED.message}; trying again ...\n", ""]


def test_a_script_is_told_nothing_but_the_outcome(clock, capsys, monkeypatch):
    monkeypatch.setattr(waiting, "is_watched", lambda: False)
    wait = waiting.WaitNotice()
    clock[0] = 105.0
    wait(REFUSED)
    assert capsys.readouterr().err == ""


def test_a_command_is_answered_by_a_server_that_comes_up_while_it_waits(monkeypatch):
    address = f"127.0.0.1:{unused_ports(1)[0]}"
    pause_after = retry.Attempts.pause_after
    failures = []
    with ExitStack() as cleanup:

        def start_then_pause(self, failure, now):
            if not failures:
                cleanup.enter_context(ServerInThread("x.example", listen=address))
            failures.append(failure)
            return pause_after(self, failure, now)

        monkeypatch.setattr(retry.Attempts, "pause_after", start_then_pause)
        with Session(server=address).connect() as names:
            assert names.status().server == "x.example"
    assert failures
