"""Real servers: a group's home judges who may send to it, by the members of any group, whichever server is asked."""

import itertools

import pytest

import shadowtree
from tests.integration.deliveries.groups_in_a_loop import LOW, MIDDLE, SIDE, SUBNETS, TOP, build, command
from tests.integration.nameserver.server_process import wait_until

EVE = "eve@c.x"


@pytest.fixture(scope="module")
def servers(start_shared):
    return build(start_shared([[subnet] for subnet in SUBNETS]))


def may_send(client, group, process):
    try:
        client.send(group, b"x", as_=process)
    except shadowtree.NotASender:
        return False
    return True


def test_members_and_those_of_another_servers_group_may_send_from_everywhere(servers):
    a, _, c = servers.clients
    assert c.set_delivery(TOP, senders="members").senders == "members"
    for client, process in itertools.product(servers.clients, ("ann@a.x", "bea@b.x", EVE)):
        assert may_send(client, TOP, process) == (process != EVE)
    a.set_delivery(TOP, senders=SIDE)
    for client, process in itertools.product(servers.clients, ("ann@a.x", "bea@b.x", EVE)):
        assert may_send(client, TOP, process) == (process == "bea@b.x")
    assert [client.delivery(TOP).senders for client in servers.clients] == [SIDE] * 3
    a.join(SIDE, EVE)
    assert may_send(c, TOP, EVE)
    a.leave(SIDE, EVE)
    assert not may_send(c, TOP, EVE)
    a.set_delivery(TOP, senders="anyone")
    assert a.send(TOP, b"x").state == "accepted"


def test_the_command_line_says_what_holds_and_why_somebody_may_not(servers):
    status, output, _ = command(servers, 2, "group", "deliver", MIDDLE, "--senders", LOW)
    assert (status, output) == (0, f"quality\tfifo\nsenders\t{LOW}\nkept\tdurable\n")
    status, _, errors = command(servers, 0, "send", MIDDLE, standard_input=b"x")
    assert (status, errors.count("\n")) == (4, 1)
    assert f"only members of {LOW} may send to {MIDDLE}" in errors and "--as PROCESS" in errors
    assert command(servers, 0, "send", MIDDLE, "--as", "cyd@c.x", standard_input=b"x")[0] == 0
    status, _, errors = command(servers, 0, "group", "deliver", MIDDLE, "--senders", "nothing@c.x")
    assert (status, errors) == (
        4,
        "shadowtree: there is no group nothing@c.x (asked the server c.x)\n",
    )
    assert servers.clients[1].set_delivery(MIDDLE, senders="anyone").senders == "anyone"


def test_each_home_says_whether_a_target_is_there_and_who_may_send_to_it(servers):
    a, _, c = servers.clients
    for client in servers.clients:
        for first, missing in ((TOP, "nothing@c.x"), (LOW, "nothing@a.x")):
            with pytest.raises(shadowtree.TargetNotFound) as caught:
                client.send([first, SIDE, missing], b"x")
            assert caught.value.facts == {"target": missing, "server": missing.partition("@")[2]}
    a.set_delivery(SIDE, senders="members")
    with pytest.raises(shadowtree.NotASender) as caught:
        c.send([LOW, SIDE], b"x", as_="cyd@c.x")
    assert (caught.value.facts["group"], caught.value.facts["server"]) == (SIDE, "b.x")
    sent = c.send([LOW, SIDE], b"x", as_="bea@b.x", wait="settled")
    assert (sent.state, sent.mailboxes) == ("settled", 4)
    a.set_delivery(SIDE, senders="anyone")


def test_a_policy_goes_with_its_group(servers):
    a, b, _ = servers.clients
    a.create_group("short@b.x")
    a.set_delivery("short@b.x", senders=TOP)
    a.delete_group("short@b.x")
    with pytest.raises(shadowtree.GroupNotFound):
        b.delivery("short@b.x")
    a.create_group("short@b.x")
    assert a.delivery("short@b.x").senders == "anyone"


def test_where_a_server_that_knows_is_away_the_answer_is_neither_yes_nor_no(start_several):
    servers = build(start_several([[subnet] for subnet in SUBNETS]))
    a = servers.clients[0]
    a.create_group("quiet@a.x")
    a.set_delivery("quiet@a.x", senders=LOW)
    a.set_delivery(LOW, senders="members")
    servers.kill(2)
    wait_until(lambda: a.status().view == ("a.x", "b.x"), "the loss of c")
    with pytest.raises(shadowtree.Unavailable) as caught:
        a.send("quiet@a.x", b"x", as_="cyd@c.x")
    assert "c.x" in caught.value.unreachable
    for ask in (
        lambda: a.send(["quiet@a.x", LOW], b"x", as_="ann@a.x"),
        lambda: a.send([TOP, LOW], b"x"),
        lambda: a.delivery(LOW),
        lambda: a.set_delivery("quiet@a.x", senders=LOW),
    ):
        with pytest.raises(shadowtree.Unavailable, match=r"c\.x"):
            ask()
    # What was laid down before holds, and is still there after the home was killed.
    servers.start_again(2)
    servers.wait_for_connections()
    wait_until(lambda: not any(client.status().suspended for client in servers.clients), "a heal")
    assert a.delivery(LOW).senders == "members"
    assert may_send(a, "quiet@a.x", "cyd@c.x")


def test_on_postgresql_a_policy_is_there_after_a_kill(postgresql, start, tmp_path):
    url = postgresql.fresh_database()
    server = start(url)
    with shadowtree.Client(server.address) as names:
        names.create_group("staff@b.c")
        names.set_delivery("staff@b.c", senders="members")
    server.kill()
    with shadowtree.Client(start(url).address) as names:
        assert names.delivery("staff@b.c").senders == "members"
        with pytest.raises(shadowtree.NotASender):
            names.send("staff@b.c", b"x")
        names.set_delivery("staff@b.c", senders="anyone")
        assert names.send("staff@b.c", b"x").state == "accepted"
