"""Three name servers as processes, and a client that knows the address of one."""

import pytest

import shadowtree
from tests.integration.nameserver.server_process import wait_until

TOP, MIDDLE, LOW = "top@a.x", "middle@b.x", "low@c.x"
ANN, GUEST = "ann@a.x", "guest@elsewhere.example"


def all_connected(client):
    return {peer.state for peer in client.status().peers} == {"connected"}


@pytest.fixture
def clients(cluster):
    start_one = cluster("a.x", "b.x", "c.x")
    servers = [start_one(subnet) for subnet in ("a.x", "b.x", "c.x")]
    found = [shadowtree.Client(server.address, timeout=20) for server in servers]
    for client in found:
        wait_until(lambda client=client: all_connected(client), "a connection with every peer")
    yield servers, found
    for client in found:
        client.close()


def test_one_address_is_enough_for_everything(clients):
    _, (a, b, c) = clients
    for group in (TOP, MIDDLE, LOW):
        b.create_group(group)
    c.join(TOP, MIDDLE)
    a.join(MIDDLE, LOW)
    b.join(LOW, GUEST)
    revision = a.join(LOW, ANN).revision
    for names in (a, b, c):
        assert names.check(TOP, ANN, explain=True, at_least_revision=revision).pathname == (TOP, MIDDLE, LOW, ANN)
        assert names.check(TOP, GUEST, at_least_revision=revision)
        assert names.memberships(GUEST, at_least_revision=revision).groups == (LOW, MIDDLE, TOP)
        assert names.groups(at_least_revision=revision).groups == (LOW, MIDDLE, TOP)
        assert names.describe(MIDDLE, at_least_revision=revision).home == "b.x"
        assert [(arc.parent, arc.child) for arc in names.export()] == [
            (LOW, ANN),
            (LOW, GUEST),
            (MIDDLE, LOW),
            (TOP, MIDDLE),
        ]
    assert [client.status().arcs for client in (a, b, c)] == [1, 1, 2]
    summary = a.import_arcs([shadowtree.Arc("new@b.x", "newer@c.x", "group"), shadowtree.Arc("x@c.x", ANN, "process")])
    assert (summary.arcs, summary.groups_created) == (2, 3)
    assert c.check("new@b.x", "newer@c.x", at_least_revision=summary.revision)


def out_of_reach_for(names, group, member):
    with pytest.raises(shadowtree.Unavailable) as caught:
        names.check(group, member)
    return caught.value.unreachable


def test_what_a_killed_server_owns_is_named_and_the_rest_is_answered(clients):
    (_, _, third), (a, b, _) = clients
    for group in (TOP, MIDDLE, LOW):
        a.create_group(group)
    a.join(TOP, MIDDLE)
    a.join(MIDDLE, LOW)
    third.kill()
    for names in (a, b):
        wait_until(lambda names=names: not all_connected(names), "the silence of the killed server")
        # While those that are left agree on that, they may be named too.
        wait_until(lambda names=names: out_of_reach_for(names, TOP, GUEST) == ("c.x",), "an answer that names it alone")
        assert names.groups() == shadowtree.GroupList((MIDDLE, TOP), ("c.x",))
        assert names.check(TOP, MIDDLE)
        with pytest.raises(shadowtree.Unavailable):
            names.join(LOW, GUEST)
