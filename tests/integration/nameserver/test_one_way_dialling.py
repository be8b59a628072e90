"""A server that dials another one, but cannot be dialled by it: letters pass, and calls go through a common peer."""

import time

import pytest

import shadowtree
from shadowtree.cli.support.free_ports import unused_ports
from tests.fakes.tcp_proxy import NetworkInThread, Passage
from tests.integration.nameserver.server_process import wait_until

HERE, THERE, BETWEEN = "a.x", "b.x", "c.x"
TOP, LOW = "top@a.x", "low@b.x"
THROUGH = f"; calls go through {BETWEEN}"


class Servers:
    """Processes, each of which dials each other one on a way that can be broken."""

    def __init__(self, start, folder, network, names):
        ports = dict(zip(names, unused_ports(len(names)), strict=True))
        self.network = network
        self.ways = {
            (one, other): network.way(one, other, f"127.0.0.1:{ports[other]}")
            for one in names
            for other in names
            if one != other
        }
        self.processes = {
            name: start(
                folder / f"{name}.db",
                subnets=[name],
                listen=f"127.0.0.1:{ports[name]}",
                # All ways are to lead through the network that a test breaks.
                announced_address="none",
                peers=[f"{other}={self.ways[name, other]}" for other in names if other != name],
            )
            for name in names
        }
        self.clients = {name: shadowtree.Client(f"127.0.0.1:{ports[name]}", timeout=30) for name in names}
        for name in names:
            wait_until(lambda name=name: set(self.states(name)) == {"connected"}, "connections with all")
        self.clients[HERE].create_group(TOP)
        self.clients[THERE].create_group(LOW)
        self.clients[HERE].join(TOP, LOW)
        self.clients[THERE].join(LOW, "ben@b.x", kind="process")

    def states(self, name):
        return [peer.state for peer in self.clients[name].status().peers]

    def bar_dialling(self, passage):
        self.network.set_dialling(HERE, THERE, passage)
        self.wait_for_state(f"connected, but cannot be dialled at {self.ways[HERE, THERE]}")

    def wait_for_state(self, beginning):
        wait_until(lambda: any(state.startswith(beginning) for state in self.states(HERE)), beginning)

    def close(self):
        for client in self.clients.values():
            client.close()


@pytest.fixture
def start_all(start, tmp_path):
    with NetworkInThread() as network:
        started = []

        def start_servers(*names):
            started.append(Servers(start, tmp_path, network, names))
            return started[0]

        yield start_servers
        for servers in started:
            servers.close()
            for process in servers.processes.values():
                process.close()


def ask_everything(client):
    """Return the answers to questions that need the undiallable server. All must be complete."""
    return {
        "resolve": client.resolve(TOP),
        "resolve there": client.resolve(LOW).processes,
        "check": client.check(TOP, "ben@b.x", explain=True).pathname,
        "memberships": client.memberships("ben@b.x"),
        "groups": client.groups(),
        "describe": client.describe(LOW).children,
    }


def without_revisions(answers):
    return {name: getattr(answer, "processes", getattr(answer, "groups", answer)) for name, answer in answers.items()}


@pytest.mark.parametrize("passage", [Passage.CUT, Passage.STALL])
def test_calls_go_through_a_common_peer_and_directly_again_when_that_is_possible(start_all, passage):
    servers = start_all(HERE, THERE, BETWEEN)
    client = servers.clients[HERE]
    before = without_revisions(ask_everything(client))
    servers.bar_dialling(passage)
    wait_until(lambda: any(state.endswith(THROUGH) for state in servers.states(HERE)), THROUGH)
    answers = ask_everything(client)
    assert without_revisions(answers) == before
    assert answers["resolve"].unreachable == answers["memberships"].unreachable == ()
    assert answers["groups"].unreachable == ()
    client.join(LOW, "guest@nowhere.x", kind="process")
    assert client.resolve(TOP).processes == ("ben@b.x", "guest@nowhere.x")
    (peer,) = [peer for peer in client.peers() if THERE in peer.subnets]
    assert (peer.life, peer.why, peer.faults) == ("up", "", ())
    servers.network.heal()
    wait_until(lambda: set(servers.states(HERE)) == {"connected"}, "direct calls")
    servers.clients[BETWEEN].close()
    servers.processes[BETWEEN].kill()
    client.leave(LOW, "guest@nowhere.x")
    assert client.resolve(TOP).processes == ("ben@b.x",)


def test_a_way_that_falls_silent_is_missed_though_nobody_uses_it(start_all):
    """The letters go over the session that the other server dialled; the channel for calls is open, and rests."""
    servers = start_all(HERE, THERE, BETWEEN)
    servers.bar_dialling(Passage.CUT)
    servers.network.heal()
    wait_until(lambda: set(servers.states(HERE)) == {"connected"}, "direct calls")
    servers.bar_dialling(Passage.STALL)
    wait_until(lambda: any(state.endswith(THROUGH) for state in servers.states(HERE)), THROUGH)
    assert servers.clients[HERE].resolve(TOP).processes == ("ben@b.x",)


def test_without_a_common_peer_what_is_missing_is_said_at_once_and_why(start_all):
    servers = start_all(HERE, THERE)
    client = servers.clients[HERE]
    servers.bar_dialling(Passage.CUT)
    servers.wait_for_state(
        f"connected, but cannot be dialled at {servers.ways[HERE, THERE]}; no other server passes calls on to it"
    )
    started = time.monotonic()
    assert client.resolve(TOP).unreachable == (LOW,)
    assert client.memberships("ben@b.x").unreachable == (THERE,)
    with pytest.raises(shadowtree.Unavailable, match=r"cannot be dialled at .*, and no other server passes calls on"):
        client.describe(LOW)
    with pytest.raises(shadowtree.Unavailable, match="cannot be dialled at"):
        client.join(LOW, "guest@nowhere.x", kind="process")
    # Each of these would have taken two seconds or more.
    assert time.monotonic() - started < 4
    # What needs letters alone goes on: the stream is up.
    client.join(TOP, "ben@b.x", kind="process")
    servers.network.heal()
    wait_until(lambda: set(servers.states(HERE)) == {"connected"}, "direct calls")
    assert client.describe(LOW).children[0].id == "ben@b.x"
