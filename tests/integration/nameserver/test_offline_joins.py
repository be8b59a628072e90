"""Joins of arcs whose parent is at a server that was killed, asked for through any server that is there."""

import pytest

import shadowtree
from tests.integration.nameserver.server_process import wait_until

TOP, LOW, NOBODY = "top@a.x", "low@b.x", "nobody@a.x"
UPPER = "upper@b.x"
"""Above the group in which something is rejected."""


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
    for member in (LOW, "ann@b.x"):
        found = b.memberships(member)
        assert (found.groups, found.unreachable) == ((LOW,) if member != LOW else (), ())
        with pytest.raises(shadowtree.GroupNotFound):
            b.check(NOBODY, member)
    with pytest.raises(shadowtree.GroupNotFound):
        b.join(NOBODY, LOW)
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


def told(client, member):
    """Return all answers about a member of the lower group, which must be complete."""
    found = [client.resolve(UPPER, groups=True, consistency=way) for way in ("datagram", "ordered")]
    above = client.memberships(member)
    assert not any(answer.unreachable for answer in (*found, above))
    members = {(*answer.processes, *answer.groups) for answer in found}
    exported = [(arc.parent, arc.child) for arc in client.export() if arc.child]
    return members, client.check(UPPER, member).is_member, above.groups, exported


@pytest.fixture(params=[(TOP, "process", shadowtree.WrongKind), (NOBODY, "group", shadowtree.GroupNotFound)])
def rejected(servers, request):
    """Return a member of the lower group that is of another kind, or missing, and the refusal of its join."""
    member, kind, error = request.param
    _, b, _ = servers.clients
    b.create_group(UPPER)
    b.join(UPPER, LOW)
    b.join(LOW, member, kind, offline=True)
    back(servers)
    ((parent, child, reason),) = suspended(b)
    assert (parent, child, reason.split(":")[0]) == (LOW, member, "rejected")
    return member, kind, error


def test_a_rejected_member_is_in_no_answer_and_a_join_says_why_it_cannot_be(servers, rejected):
    member, kind, error = rejected
    _, b, c = servers.clients
    assert (member, "suspended") in [(child.id, child.state) for child in c.describe(LOW).children]
    for client in servers.clients:
        assert told(client, member) == ({("ann@b.x", LOW)}, False, (), [(LOW, "ann@b.x"), (UPPER, LOW)])
        with pytest.raises(error):
            client.join(LOW, member, kind)
    b.leave(LOW, member)
    assert not suspended(b)


def test_a_rejected_member_joins_as_what_it_is_or_once_it_is_there(servers, rejected):
    member, _, error = rejected
    a, b, _ = servers.clients
    if error is shadowtree.GroupNotFound:
        a.create_group(member)
        wait_until(lambda: not suspended(b), "the join of what was created")
    else:
        b.join(LOW, member)
        assert not suspended(b)
    for client in servers.clients:
        members, is_member, above, exported = told(client, member)
        assert (members, is_member, above) == ({("ann@b.x", LOW, member)}, True, (LOW, UPPER))
        assert (LOW, member) in exported
