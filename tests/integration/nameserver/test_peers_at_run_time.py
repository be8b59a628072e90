"""Peers that are added while servers run, and servers of which one knows and another does not."""

import pytest

import shadowtree
from shadowtree import UnknownServer
from shadowtree.cli.unused_ports import unused_ports
from tests.integration.nameserver.server_process import wait_until


@pytest.fixture
def servers(start, tmp_path):
    """Start servers, each of which knows others by their first subnets; returns their clients, by first subnet."""

    def start_all(subnets, knows):
        ports = dict(zip(subnets, unused_ports(len(subnets)), strict=True))
        clients = {}
        for name, owned in subnets.items():
            start(
                tmp_path / f"{name}.db",
                subnets=owned,
                listen=f"127.0.0.1:{ports[name]}",
                peers=[f"{other}=127.0.0.1:{ports[other]}" for other in knows[name]],
            )
            clients[name] = shadowtree.Client(f"127.0.0.1:{ports[name]}", timeout=20)
        for client in clients.values():
            wait_until(lambda client=client: {peer.state for peer in client.status().peers} <= {"connected"}, "all")
        return clients

    return start_all


def test_a_further_subnet_of_a_connected_server_is_there_once_it_is_added(servers):
    clients = servers({"a.x": ["a.x"], "b.x": ["b.x", "s.x"]}, {"a.x": ["b.x"], "b.x": ["a.x"]})
    a, b = clients["a.x"], clients["b.x"]
    a.create_group("top@a.x")
    b.create_group("low@s.x")
    a.add_peer("s.x", b.address)

    def is_joined():
        try:
            return a.join("top@a.x", "low@s.x", "group", timeout=5)
        except shadowtree.Unavailable:
            return False

    wait_until(is_joined, "the further subnet")
    a.create_group("new@s.x")
    assert [parent.id for parent in b.describe("low@s.x").parents] == ["top@a.x"]


def test_an_update_that_leads_to_a_server_that_its_coordinator_does_not_know_is_refused_and_holds_up_nobody(servers):
    knows = {"d.x": ["a.x"], "a.x": ["d.x", "b.x"], "b.x": ["a.x"]}
    clients = servers({name: [name] for name in knows}, knows)
    a, b, d = (clients[name] for name in ("a.x", "b.x", "d.x"))
    for client, group in ((a, "x@a.x"), (b, "y@b.x"), (d, "w@d.x"), (a, "other@a.x")):
        client.create_group(group)
    a.join("x@a.x", "y@b.x")
    with pytest.raises(shadowtree.Unavailable, match=r"b\.x .*not known to d\.x"):
        d.join("w@d.x", "x@a.x")
    a.join("x@a.x", "other@a.x", timeout=10)


def test_answers_of_a_server_that_does_not_know_all_others_say_whom_they_lack_until_it_does(servers):
    knows = {"a.x": ["b.x"], "b.x": ["a.x", "c.x"], "c.x": ["b.x"]}
    clients = servers({name: [name] for name in knows}, knows)
    a, b, c = (clients[name] for name in ("a.x", "b.x", "c.x"))
    wait_until(lambda: a.peers().unknown and c.peers().unknown, "what b.x says")
    assert a.peers().unknown == (UnknownServer("c.x", ("c.x",), ("b.x",)),)
    assert b.peers().unknown == ()
    for client, group in ((a, "top@a.x"), (b, "mid@b.x"), (c, "low@c.x")):
        client.create_group(group)
    b.join("mid@b.x", "low@c.x")
    c.join("low@c.x", "ann@elsewhere.x")
    assert b.check("mid@b.x", "ann@elsewhere.x")
    assert a.memberships("ann@elsewhere.x").unreachable == a.groups().unreachable == ("c.x",)
    assert a.resolve("mid@b.x").processes == ("ann@elsewhere.x",)  # The home of the group knows all that it needs.
    with pytest.raises(shadowtree.Unavailable, match=r"out of reach: c\.x"):
        a.check("mid@b.x", "ann@elsewhere.x")
    # Nobody but a.x can know what is below this one.
    assert not a.check("top@a.x", "ann@elsewhere.x")
    with pytest.raises(shadowtree.Unavailable, match=r"c\.x"):
        list(a.export())

    a.add_peer("c.x", c.address)
    c.add_peer("a.x", a.address)
    wait_until(lambda: {peer.state for peer in (*a.peers(), *c.peers())} == {"connected"}, "connections with all")
    assert a.check("mid@b.x", "ann@elsewhere.x")
    assert a.memberships("ann@elsewhere.x").groups == ("low@c.x", "mid@b.x")
    assert a.peers().unknown == c.peers().unknown == a.groups().unreachable == ()


def test_a_server_is_not_started_with_a_new_peer_whose_subnet_is_in_use(start, tmp_path):
    def started(**settings):
        server = start(tmp_path / "a.db", subnets=["a.x"], **settings)
        return server, shadowtree.Client(server.address, timeout=20)

    server, names = started()
    names.create_group("top@a.x")
    names.join("top@a.x", "ann@n.x")
    server.terminate()
    with pytest.raises(AssertionError, match=r"ann@n\.x of the subnet n\.x is in use here; .* by `shadowtree leave`"):
        started(peers=["n.x=127.0.0.1:9"])
    server, names = started()
    names.leave("top@a.x", "ann@n.x")
    server.terminate()
    started(peers=["n.x=127.0.0.1:9"])
