"""Joins of arcs whose parent is at a server that was killed, asked for through any server that is there."""

import pytest

import shadowtree
from tests.integration.nameserver.server_process import wait_until

TOP, LOW, NOBODY = "top@a.x", "low@b.x", "nobody@a.x"


@pytest.fixture
def servers(start_several):
    """Three servers, the first of which is dead, and lost to the others."""
    servers = start_several([["a.x"], ["b.x"], ["c.x"]])
    a, b, c = servers.clients
    a.create_group(TOP)
    b.create_group(LOW)
    b.join(LOW, "ann@b.x")
    servers.kill(0)
    wait_until(lambda: b.status().view == c.status().view == ("b.x", "c.x"), "a view without the server that is dead")
    return servers


def back(servers):
    """Start the dead server again, and wait until nothing is left to be healed."""
    servers.start_again(0)
    wait_until(lambda: all(len(client.status().view) == 3 for client in servers.clients), "a view of all")
    wait_until(
        lambda: all(
            arc.reason.startswith("rejected") for client in servers.clients for arc in client.status().suspended
        ),
        "the end of healing",
    )


def suspended(client):
    return [(arc.parent, arc.child, arc.reason) for arc in client.status().suspended]


def test_a_group_joins_once_the_server_of_its_parent_is_back(servers):
    a, b, c = servers.clients
    with pytest.raises(shadowtree.Unavailable):
        b.join(TOP, LOW)
    revision = c.join(TOP, LOW, "group", offline=True, request_id="once").revision
    assert suspended(b) == [(TOP, LOW, "the server a.x is out of reach")]
    assert [(parent.id, parent.state) for parent in c.describe(LOW).parents] == [(TOP, "suspended")]
    wait_until(lambda: b.memberships("ann@b.x").unreachable == ("a.x",), "a view in which all is healed")
    back(servers)
    assert not suspended(b)
    for client in servers.clients:
        assert client.check(TOP, "ann@b.x").is_member
    assert a.resolve(TOP).processes == ("ann@b.x",)
    # The server that accepted it remembers, though another one is the home of the parent.
    assert b.join(TOP, LOW, "group", offline=True, request_id="once").revision == revision
    with pytest.raises(shadowtree.AlreadyMember):
        b.join(TOP, LOW, "group", offline=True)


def test_a_group_whose_parent_is_not_there_is_rejected_and_can_be_left_where_it_was_joined(servers):
    _, b, _ = servers.clients
    b.join(NOBODY, LOW, offline=True)
    back(servers)
    assert suspended(b) == [(NOBODY, LOW, f"rejected: the group {NOBODY} is not there")]
    b.leave(NOBODY, LOW)
    assert not suspended(b)
    assert b.describe(LOW).parents == ()


def test_only_what_the_dead_server_knows_nothing_of_can_be_left_without_it(servers):
    back(servers)
    a, b, _ = servers.clients
    a.join(TOP, LOW)
    servers.kill(0)
    wait_until(lambda: suspended(b), "the suspended arc")
    with pytest.raises(shadowtree.Unavailable):
        b.leave(TOP, LOW)
    b.create_group("other@b.x")
    b.join(TOP, "other@b.x", offline=True)
    b.leave(TOP, "other@b.x")
    back(servers)
    assert [child.id for child in a.describe(TOP).children] == [LOW]
