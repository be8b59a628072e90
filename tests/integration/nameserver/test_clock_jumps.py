"""The wall clocks of live servers jump by hours, forward and back, under load: no server is lost, no call is late."""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from queue import SimpleQueue
from uuid import uuid4

import pytest

import shadowtree
from tests.integration.nameserver.server_process import PATIENCE_SECONDS, wait_until
from tests.integration.nameserver.several_servers import answered
from tests.integration.nameserver.wall_clock import WallClock

HOURS = 3600
JUMPS = (6 * HOURS, -6 * HOURS, 0, 300 * HOURS, -300 * HOURS, 0)
ROUNDS = 2
"""Rounds of calls of each client while the clocks stand at one of these."""
CALL_SECONDS = 60
"""Timeout of calls, far less than a jump. A server that took a jump for a lapse of time would end calls and
lose peers.
"""
SUBNETS = ("a.x", "b.x", "c.x")


@pytest.fixture
def start_with_clocks(start_several, tmp_path):
    """Start so many servers, each with a wall clock of its own."""

    def start(count):
        clocks = [WallClock(tmp_path / f"clock{number}") for number in range(count)]
        shares = [[subnet] for subnet in SUBNETS[:count]]
        servers = start_several(shares, environments=[clock.environment for clock in clocks])
        return servers, clocks

    return start


class Caller:
    """A client that makes calls until they are certain, and counts uncertain answers.

    gRPC for Python computes deadlines by the time of day. If the clock jumps in the same moment, the call reports that
    its time is up.
    """

    def __init__(self, client):
        self._client = client
        self.calls = self.attempts = 0

    def ask(self, method, *arguments, is_whole=lambda _: True, **options):
        def attempt():
            self.attempts += 1
            return getattr(self._client, method)(*arguments, timeout=CALL_SECONDS, **options)

        self.calls += 1
        return answered(attempt, not_yet=(shadowtree.DeadlineExceeded, shadowtree.Unavailable), is_whole=is_whole)


def call_again_and_again(caller, parent, child, over, rounds):
    """Join and leave a group of another server, with questions between; `rounds` takes True each time, then False."""
    try:
        while not over.is_set():
            caller.ask("join", parent, child, request_id=uuid4().hex)
            assert child in caller.ask("resolve", parent, groups=True, is_whole=attrgetter("is_complete")).groups
            assert caller.ask("check", parent, child)
            revision = caller.ask("leave", parent, child, request_id=uuid4().hex).revision
            assert not caller.ask("describe", parent, at_least_revision=revision).children
            rounds.put(True)
    finally:
        rounds.put(False)


def take(rounds, how_many):
    """Wait for so many rounds of a client; False if it has ended."""
    return all(rounds.get(timeout=PATIENCE_SECONDS + CALL_SECONDS) for _ in range(how_many))


def test_clocks_that_jump_under_load_lose_nobody_and_what_is_not_certain_says_so(start_with_clocks):
    servers, clocks = start_with_clocks(3)
    groups = [f"g@{subnet}" for subnet in SUBNETS]
    for client, group in zip(servers.clients, groups, strict=True):
        client.create_group(group)
    over, chance = threading.Event(), random.Random(1)
    all_rounds = [SimpleQueue() for _ in groups]
    callers = [Caller(client) for client in servers.clients]
    with ThreadPoolExecutor(len(groups)) as threads:
        living = [
            threads.submit(call_again_and_again, caller, groups[number], groups[number - 1], over, all_rounds[number])
            for number, caller in enumerate(callers)
        ]
        try:
            for jump in JUMPS:
                for clock in clocks:
                    clock.turn(jump + chance.randrange(HOURS))
                if not all(take(rounds, ROUNDS) for rounds in all_rounds):
                    break
        finally:
            over.set()
        for each in living:
            each.result()
    # Only what a jump meets in one moment: whoever took it for a lapse of time would end a call of each, at each.
    assert sum(caller.attempts - caller.calls for caller in callers) < len(JUMPS)
    for client in servers.clients:
        # A server that ever lost another one would be in a view that lists its members.
        assert client.status().view == ()
        assert {peer.life for peer in client.peers()} == {"up"}
        assert not [peer.faults for peer in client.peers() if peer.faults]


def test_calls_that_last_over_a_jump_keep_their_deadlines(start_with_clocks):
    servers, clocks = start_with_clocks(2)
    a, b = servers.clients
    a.create_group("top@a.x")
    b.create_group("low@b.x")
    a.join("top@a.x", "ann@elsewhere.x")

    def pairs():
        for jump in JUMPS:
            yield "top@a.x", "ann@elsewhere.x"
            for clock in clocks:
                clock.turn(jump)

    assert [bool(check) for check in a.check_many(pairs(), timeout=CALL_SECONDS)] == [True] * len(JUMPS)
    for jump in (6 * HOURS, -6 * HOURS):
        # Only time ends a call that needs a server which is stopped.
        with servers.stopped(1), ThreadPoolExecutor(1) as threads:
            begun = time.monotonic()
            joining = threads.submit(a.join, "top@a.x", "low@b.x", timeout=3)
            wait_until(lambda: a.peers().peers[0].letters_waiting, "an update that is under way")
            clocks[0].turn(jump)
            with pytest.raises(shadowtree.ShadowtreeError):
                joining.result()
            assert 2 < time.monotonic() - begun < PATIENCE_SECONDS
        wait_until(lambda: a.peers().peers[0].life == "up", "a server that is up")


def test_only_what_operators_are_shown_goes_by_the_wall_clock(start_with_clocks):
    servers, clocks = start_with_clocks(2)
    clocks[0].turn(24 * HOURS)
    servers.kill(1)
    a = servers.clients[0]
    wait_until(lambda: a.peers().peers[0].state.startswith("silent since"), "the loss of a server")
    shown = a.peers().peers[0].state.split()[2]
    since = datetime.strptime(shown, "%Y-%m-%dT%H:%M:%SZ:").replace(tzinfo=UTC)
    assert abs(since - datetime.now(UTC) - timedelta(hours=24)) < timedelta(minutes=10)
