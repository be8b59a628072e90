"""A planned restart of a server costs no answer: callers that need it wait for it, and all other calls go on."""

import threading
import time
from functools import partial
from itertools import count

import pytest

import shadowtree
from tests.integration.nameserver.server_process import wait_until

TOP, MIDDLE, LOW = "top@a.x", "middle@b.x", "low@c.x"
AWAY_SECONDS, PROMISED_SECONDS = 3.0, 3.5
"""Limit on the slowest call if a server was away no longer than that. The call also waits for the next attempt
to dial.
"""

PAUSE_SECONDS = 0.05
"""Seconds between two calls of one kind. Calls are under way at each moment of a restart, and servers keep up."""


@pytest.fixture
def servers(start_several):
    """top at a, in it middle at b, in it low at c, in it a person."""
    servers = start_several([["a.x"], ["b.x"], ["c.x"]], restart_grace_seconds=10, log_level="error")
    for group in (TOP, MIDDLE, LOW):
        servers.clients[0].create_group(group)
    for parent, child in ((TOP, MIDDLE), (MIDDLE, LOW), (LOW, "ann@c.x")):
        servers.clients[0].join(parent, child)
    return servers


class Load:
    """Asks one call again and again, in a thread of its own, and notes how long each took."""

    def __init__(self, name, call):
        self.name, self.seconds, self.wrong = name, [], []
        self._call, self._is_over = call, threading.Event()
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()

    def _ask(self):
        while not self._is_over.wait(PAUSE_SECONDS):
            began = time.monotonic()
            try:
                self._call()
            except Exception as error:  # noqa: BLE001 (whatever is wrong is what the test is about)
                self.wrong.append(f"{type(error).__name__}: {error}")
            self.seconds.append(time.monotonic() - began)

    def end(self):
        self._is_over.set()
        self._thread.join()


def loads_on(servers):
    """Reads and updates through a, all of which need b, c, or both."""
    numbers = count()

    def resolve(client):
        found = client.resolve(TOP)
        assert (found.processes[0], found.unreachable) == ("ann@c.x", ())

    def check(client, member):
        assert client.check(TOP, member).is_member == member.startswith("ann")

    def join(client, group):
        client.join(group, f"m{next(numbers)}@outside.example", "process")

    calls = {
        "resolve": resolve,
        "check yes": lambda client: check(client, "ann@c.x"),
        "check no": lambda client: check(client, "nobody@b.x"),
        "check outside": lambda client: check(client, "nobody@outside.example"),
        "join there": lambda client: join(client, LOW),
        "join here": lambda client: join(client, TOP),
    }
    return [Load(name, partial(call, servers.new_client(0))) for name, call in calls.items()]


@pytest.mark.parametrize("restarted", [1, 2])
def test_a_planned_restart_costs_nobody_an_answer(servers, restarted):
    loads = loads_on(servers)
    wait_until(lambda: all(len(load.seconds) > 10 for load in loads), "answers before the restart")
    began = time.monotonic()
    status, errors = servers.processes[restarted].terminate()
    servers.start_again(restarted)
    away = time.monotonic() - began
    so_far = {load.name: len(load.seconds) for load in loads}
    wait_until(lambda: all(len(load.seconds) > so_far[load.name] + 10 for load in loads), "answers after it")
    for load in loads:
        load.end()
    assert (status, errors) == (0, "")
    assert {load.name: load.wrong for load in loads} == {load.name: [] for load in loads}
    assert servers.clients[0].status().view == ()
    slowest = {load.name: max(load.seconds) for load in loads}
    assert away < AWAY_SECONDS
    assert max(slowest.values()) < PROMISED_SECONDS, slowest


def test_a_server_that_does_not_come_back_in_time_is_lost_and_its_absence_told(start_several):
    servers = start_several([["a.x"], ["b.x"]], restart_grace_seconds=2, log_level="error")
    a = servers.clients[0]
    a.create_group(TOP)
    a.create_group(MIDDLE)
    a.join(TOP, MIDDLE)
    assert servers.processes[1].terminate()[0] == 0
    (peer,) = a.peers().peers
    assert peer.life == "restarting"
    found = a.resolve(TOP)
    assert found.unreachable == (MIDDLE,)
    (peer,) = a.peers().peers
    assert (peer.life, peer.why) == ("stopped", "b.x is shutting down, and is not back")


def test_reads_that_need_no_other_server_do_not_wait_for_one_that_restarts(start_several):
    servers = start_several([["a.x"], ["b.x"]], restart_grace_seconds=30, log_level="error")
    a = servers.clients[0]
    a.create_group(TOP)
    a.join(TOP, "ann@a.x")
    assert servers.processes[1].terminate()[0] == 0
    began = time.monotonic()
    assert a.check(TOP, "ann@a.x").is_member
    assert a.resolve(TOP).unreachable == ()
    a.join(TOP, "bob@a.x")
    assert time.monotonic() - began < 5


def test_a_deadline_ends_the_wait_for_a_server_that_restarts(start_several):
    servers = start_several([["a.x"], ["b.x"]], restart_grace_seconds=30, log_level="error")
    a = servers.clients[0]
    a.create_group(TOP)
    a.create_group(MIDDLE)
    assert servers.processes[1].terminate()[0] == 0
    with pytest.raises((shadowtree.Unavailable, shadowtree.DeadlineExceeded), match=r"b\.x.*nothing was done"):
        a.join(TOP, MIDDLE, timeout=2)
    with pytest.raises(shadowtree.Unavailable, match="has not come back in the time given"):
        a.resolve(MIDDLE, timeout=2)
