"""A server that moved is found where it says that it is, and nothing is said to work that does not."""

import pytest

import shadowtree
from shadowtree.cli.support.free_ports import unused_ports
from tests.integration.nameserver.server_process import wait_until

HERE, MOVED, BETWEEN = "a.x", "b.x", "c.x"
TOP, LOW, MEMBER = "top@a.x", "low@b.x", "ben@b.x"


class Federation:
    """Servers with fixed tables of peers, one of which starts again at another address."""

    def __init__(self, start, folder, names):
        self._start, self._folder = start, folder
        self.tables = dict(zip(names, unused_ports(len(names)), strict=True))
        self.processes, self.clients = {}, {}
        for name in names:
            self.start(name, self.tables[name])
        for client in self.clients.values():
            wait_until(lambda client=client: {peer.state for peer in client.peers()} == {"connected"}, "all")
        self.clients[HERE].create_group(TOP)
        self.clients[MOVED].create_group(LOW)
        self.clients[MOVED].join(LOW, MEMBER, kind="process")
        self.clients[HERE].join(TOP, LOW)

    def start(self, name, port, **settings):
        peers = [f"{other}=127.0.0.1:{at}" for other, at in self.tables.items() if other != name]
        listen = f"127.0.0.1:{port}"
        self.processes[name] = self._start(
            self._folder / f"{name}.db", subnets=[name], listen=listen, peers=peers, **settings
        )
        self.clients[name] = shadowtree.Client(listen, timeout=30)
        return listen

    def move(self, name, **settings):
        """Start it at another address, which no table has; returns the address in the tables, and the new one."""
        self.clients.pop(name).close()
        self.processes[name].terminate()
        (port,) = unused_ports(1)
        return f"127.0.0.1:{self.tables[name]}", self.start(name, port, **settings)

    def report(self, at, of):
        return next(peer for peer in self.clients[at].peers() if of in peer.subnets)

    def close(self):
        for client in self.clients.values():
            client.close()


@pytest.fixture
def federation(start, tmp_path):
    started = []

    def start_all(*names):
        started.append(Federation(start, tmp_path, names))
        return started[0]

    yield start_all
    for each in started:
        each.close()


def everything(client):
    """Ask what needs the server that moved."""
    return (
        client.resolve(TOP),
        client.check(TOP, MEMBER),
        client.memberships(MEMBER).groups,
        [child.id for child in client.describe(LOW).children],
    )


def test_calls_go_to_the_address_that_a_server_announces_which_has_moved(federation):
    servers = federation(HERE, MOVED, BETWEEN)
    old, new = servers.move(MOVED)
    wait_until(lambda: servers.report(HERE, MOVED).called_at == new, "the new address")
    report = servers.report(HERE, MOVED)
    assert (report.address, report.life) == (old, "up")
    assert report.state == f"connected at {new}, not at {old}: correct the table of peers"
    resolution, check, groups, children = everything(servers.clients[HERE])
    assert (resolution.processes, resolution.unreachable) == ((MEMBER,), ())
    assert bool(check)
    assert groups == (LOW, TOP)
    assert children == [MEMBER]


def test_a_server_that_moved_is_dialled_at_its_new_address_when_it_starts_again_there(federation):
    servers = federation(HERE, MOVED)
    _, new = servers.move(MOVED)
    wait_until(lambda: servers.report(HERE, MOVED).called_at == new, "the new address")
    servers.clients.pop(MOVED).close()
    servers.processes[MOVED].kill()
    # It does not know the other server by its address any more, so that only that one can dial.
    servers.tables[HERE] = unused_ports(1)[0]
    port = int(new.rpartition(":")[2])
    here = servers.clients[HERE]
    wait_until(lambda: servers.report(HERE, MOVED).life == "lost", "its loss")
    servers.start(MOVED, port)
    wait_until(lambda: servers.report(HERE, MOVED).state.startswith(f"connected at {new}"), "a session")
    assert here.describe(LOW).home == MOVED


def test_an_address_that_another_server_has_taken_over_gets_no_calls(federation):
    servers = federation(HERE, MOVED, BETWEEN)
    old, new = servers.move(MOVED, announced_address="none")
    servers.start("z.x", int(old.rpartition(":")[2]))
    # The server between finds it out by itself: until then it takes the address for the one of the server that moved.
    state = f"connected, but another server answers at {old}; no other server passes calls on to it"
    wait_until(lambda: servers.report(HERE, MOVED).state == state, "the wrong server, found by both")
    report = servers.report(HERE, MOVED)
    assert report.life == "one way"
    assert servers.clients[HERE].resolve(TOP).unreachable == (LOW,)
    assert new not in report.state


def test_a_server_that_nobody_can_dial_is_not_said_to_be_up_nor_to_be_reached_through_another(federation):
    servers = federation(HERE, MOVED, BETWEEN)
    old, _ = servers.move(MOVED, announced_address="none")
    state = f"connected, but cannot be dialled at {old}; no other server passes calls on to it"
    wait_until(lambda: servers.report(HERE, MOVED).state == state, "the end of attempts")
    assert servers.report(HERE, MOVED).life == "one way"
    assert servers.clients[HERE].resolve(TOP).unreachable == (LOW,)


def test_an_address_that_a_server_announces_leads_calls_to_no_other_server(federation):
    servers = federation(HERE, MOVED, BETWEEN)
    old, _ = servers.move(MOVED, announced_address=f"127.0.0.1:{servers.tables[BETWEEN]}")
    wait_until(lambda: servers.report(HERE, MOVED).life == "one way", "the end of attempts")
    assert servers.report(HERE, MOVED).state.startswith(f"connected, but cannot be dialled at {old}")
    assert servers.clients[HERE].resolve(TOP).unreachable == (LOW,)
