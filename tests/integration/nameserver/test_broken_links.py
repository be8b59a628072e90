"""Name servers as processes, some of which cannot reach each other: updates and questions go through one that can."""

import pytest

import shadowtree
from shadowtree import Arc
from shadowtree.cli.support.free_ports import unused_ports
from tests.fakes.tcp_proxy import NetworkInThread, Passage
from tests.integration.nameserver.server_process import wait_until

NAMES = ("a.x", "b.x", "c.x")
TOP, MIDDLE, LOW = "top@a.x", "middle@b.x", "low@c.x"


class Servers:
    """Three processes, each of which dials each other one on a way that can be broken."""

    def __init__(self, start, folder, network):
        ports = dict(zip(NAMES, unused_ports(len(NAMES)), strict=True))
        self.network = network
        self.processes = {
            name: start(
                folder / f"{name}.db",
                subnets=[name],
                listen=f"127.0.0.1:{ports[name]}",
                # All ways are to lead through the network that a test breaks.
                announced_address="none",
                peers=[
                    f"{other}={network.way(name, other, f'127.0.0.1:{ports[other]}')}"
                    for other in NAMES
                    if other != name
                ],
            )
            for name in NAMES
        }
        self.clients = {name: shadowtree.Client(f"127.0.0.1:{ports[name]}", timeout=30) for name in NAMES}

    def peer(self, name, other):
        return next(peer for peer in self.clients[name].peers() if other in peer.subnets)

    def wait_until_direct(self):
        wait_until(
            lambda: all(
                (peer.life, peer.via) == ("up", "") for client in self.clients.values() for peer in client.peers()
            ),
            "direct connections with every peer",
        )

    def wait_until_tunnelled(self, one, other, via):
        wait_until(
            lambda: (
                {(self.peer(*pair).life, self.peer(*pair).via) for pair in ((one, other), (other, one))}
                == {("up", via)}
            ),
            f"a connection between {one} and {other} through {via}",
        )

    def close(self):
        for client in self.clients.values():
            client.close()


@pytest.fixture
def servers(start, tmp_path):
    with NetworkInThread() as network:
        servers = Servers(start, tmp_path, network)
        servers.wait_until_direct()
        yield servers
        servers.close()
        for process in servers.processes.values():
            process.close()


def ask_everything(servers, asked):
    """Return the answers of one server to questions that need all three."""
    client = servers.clients[asked]
    return {
        "resolve": client.resolve(TOP, groups=True),
        "tree": client.resolve(MIDDLE, groups=True).processes,
        "check": [client.check(group, "ann@a.x").is_member for group in (TOP, MIDDLE, LOW)],
        "memberships": client.memberships("ann@a.x").groups,
        "foreign": client.memberships("guest@nowhere.x").groups,
        "groups": client.groups().groups,
        "arcs": sorted((arc.parent, arc.child) for arc in client.export() if arc.child),
        "loop": client.describe(MIDDLE).virtual_node.components,
    }


@pytest.mark.parametrize("passage", [Passage.CUT, Passage.DROP])
def test_all_is_done_and_answered_while_a_link_is_broken_and_after(servers, passage):
    clients, network = servers.clients, servers.network
    clients["a.x"].create_group(TOP)
    network.part("a.x", "b.x", passage)
    servers.wait_until_tunnelled("a.x", "b.x", "c.x")
    clients["a.x"].create_group(MIDDLE)
    clients["b.x"].create_group(LOW)
    clients["b.x"].join(TOP, MIDDLE)
    clients["a.x"].apply([shadowtree.Join(MIDDLE, LOW), shadowtree.Join(LOW, TOP)])
    clients["a.x"].import_arcs(
        [Arc(MIDDLE, "guest@nowhere.x", "process"), Arc(TOP, "ann@a.x", "process"), Arc("more@b.x", MIDDLE, "group")]
    )
    with pytest.raises(shadowtree.AlreadyMember):
        clients["a.x"].join(MIDDLE, LOW)
    with pytest.raises(shadowtree.GroupNotFound):
        clients["a.x"].describe("nobody@b.x")
    broken = [ask_everything(servers, name) for name in NAMES]
    assert broken[0]["resolve"].processes == ("ann@a.x", "guest@nowhere.x")
    assert broken[0]["resolve"].unreachable == ()
    assert broken[0]["check"] == [True, True, True]
    assert broken[0]["groups"] == tuple(sorted((TOP, MIDDLE, LOW, "more@b.x")))
    assert servers.peer("c.x", "a.x").relayed > 0
    network.heal()
    servers.wait_until_direct()
    clients["b.x"].join(TOP, "ben@b.x", kind="process")
    clients["b.x"].leave(TOP, "ben@b.x")
    assert [each["arcs"] for each in (ask_everything(servers, name) for name in NAMES)] == [broken[0]["arcs"]] * 3
    assert not [peer.faults for client in clients.values() for peer in client.peers() if peer.faults]


def test_when_the_server_between_is_killed_too_what_it_led_to_is_out_of_reach(servers):
    clients, network = servers.clients, servers.network
    clients["a.x"].create_group(TOP)
    clients["b.x"].create_group(MIDDLE)
    clients["a.x"].join(TOP, MIDDLE)
    network.part("a.x", "b.x", Passage.CUT)
    servers.wait_until_tunnelled("a.x", "b.x", "c.x")
    assert clients["a.x"].resolve(TOP).unreachable == ()
    servers.processes["c.x"].kill()
    wait_until(lambda: servers.peer("a.x", "b.x").life == "lost", "the loss of what was reached through another")
    assert clients["a.x"].resolve(TOP).unreachable == (MIDDLE,)
    with pytest.raises(shadowtree.Unavailable):
        clients["a.x"].join(TOP, "ben@b.x", kind="process")
    # What leads there can be left without it.
    clients["a.x"].leave(TOP, MIDDLE)
    assert clients["a.x"].resolve(TOP).unreachable == ()
