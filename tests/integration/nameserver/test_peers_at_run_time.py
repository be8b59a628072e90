"""Peers that are added while servers run, and servers of which one knows and another does not."""

import os
import pwd
import re
import signal
import socket
import socketserver
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

import shadowtree
from shadowtree import Arc, Join, UnknownServer
from shadowtree.cli.support.free_ports import unused_ports
from tests.integration.nameserver.server_process import wait_until
from tests.integration.nameserver.telling import lines_of


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


def test_an_address_at_which_another_server_is_is_refused_and_named_and_nothing_is_cut_off(servers, start, tmp_path):
    clients = servers({"a.x": ["a.x"], "b.x": ["b.x", "s.x"]}, {"a.x": [], "b.x": []})
    a, b = clients["a.x"], clients["b.x"]
    a.add_peer("b.x", b.address)
    b.add_peer("a.x", a.address)
    wait_until(lambda: {peer.state for peer in a.peers()} == {"connected"}, "b.x")
    before, (nobody,) = a.peers(), unused_ports(1)
    for subnet, address, why in (
        ("c.x", b.address, f"the server b.x at {b.address} does not own c.x, but b.x, s.x; nothing was changed"),
        ("b.x", a.address, f"the server a.x at {a.address} does not own b.x, but a.x; nothing was changed"),
        ("b.x", f"127.0.0.1:{nobody}", f"nobody answers at 127.0.0.1:{nobody}, and the server b.x of b.x is connected"),
    ):
        with pytest.raises(shadowtree.InvalidRequest, match=re.escape(why)):
            a.add_peer(subnet, address)
    assert [(peer.address, peer.subnets, peer.state) for peer in a.peers()] == [
        (peer.address, peer.subnets, peer.state) for peer in before
    ]
    a.create_group("top@a.x")
    assert a.join("top@a.x", "ann@b.x").revision


def test_another_server_of_the_same_name_takes_the_place_of_none_that_is_connected(servers, start, tmp_path):
    """A copy that somebody tries out beside the server, say. What is there of the server itself moves as before."""
    clients = servers({"a.x": ["a.x"], "b.x": ["b.x"]}, {"a.x": [], "b.x": []})
    a, b = clients["a.x"], clients["b.x"]
    copy = start(tmp_path / "copy.db", subnets=["b.x"])
    a.add_peer("b.x", b.address)
    b.add_peer("a.x", a.address)
    wait_until(lambda: {peer.state for peer in a.peers()} == {"connected"}, "b.x")
    why = f"the server b.x at {copy.address} is another one than b.x, which is connected at {b.address}"
    with pytest.raises(shadowtree.InvalidRequest, match=re.escape(why)):
        a.add_peer("b.x", copy.address)
    b.create_group("top@b.x")
    b.join("top@b.x", "ann@b.x")
    assert a.resolve("top@b.x").processes == ("ann@b.x",)
    elsewhere = b.address.replace("127.0.0.1", "localhost")
    assert [peer.address for peer in a.add_peer("b.x", elsewhere)] == [elsewhere]
    wait_until(lambda: {peer.state for peer in a.peers()} == {"connected"}, "b.x at its other address")
    assert a.resolve("top@b.x").processes == ("ann@b.x",)


def test_a_wrong_subnet_that_was_added_while_nobody_answered_cuts_nobody_off(start, tmp_path):
    (port,) = unused_ports(1)
    first = start(tmp_path / "a.db", subnets=["a.x"])
    a = shadowtree.Client(first.address, timeout=20)
    for subnet in ("b.x", "wrong.x"):
        a.add_peer(subnet, f"127.0.0.1:{port}")
    start(tmp_path / "b.db", subnets=["b.x"], listen=f"127.0.0.1:{port}", peers=[f"a.x={first.address}"])
    told = "connected, but b.x does not own wrong.x: correct the table of peers"
    wait_until(lambda: {peer.state for peer in a.peers()} == {told}, "b.x")
    a.create_group("top@a.x")
    assert a.join("top@a.x", "ann@b.x").revision
    with pytest.raises(shadowtree.Unavailable, match=re.escape(told)):
        a.create_group("new@wrong.x")
    a.remove_peer("wrong.x")
    wait_until(lambda: {peer.state for peer in a.peers()} == {"connected"}, "the table")


def test_what_is_no_name_server_is_not_added(start, tmp_path):
    a = shadowtree.Client(start(tmp_path / "a.db", subnets=["a.x"]).address, timeout=20)
    other = grpc.server(ThreadPoolExecutor(max_workers=1))
    port = other.add_insecure_port("127.0.0.1:0")
    other.start()
    try:
        with pytest.raises(shadowtree.InvalidRequest, match="is not a name server; nothing was changed"):
            a.add_peer("b.x", f"127.0.0.1:{port}")
    finally:
        other.stop(None).wait()
    assert not list(a.peers())


class OldServer(socketserver.BaseRequestHandler):
    """Answers as a server of HTTP/1 does that knows no HTTP/2."""

    def handle(self):
        self.request.recv(100)
        self.request.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


class ClosingServer(socketserver.BaseRequestHandler):
    """Says nothing, and ends each connection."""


@pytest.mark.parametrize("handler", [OldServer, ClosingServer])
def test_a_server_of_another_kind_is_not_added(start, tmp_path, handler):
    a = shadowtree.Client(start(tmp_path / "a.db", subnets=["a.x"]).address, timeout=20)
    with socketserver.TCPServer(("127.0.0.1", 0), handler) as other:
        thread = threading.Thread(target=other.serve_forever)
        thread.start()
        try:
            with pytest.raises(shadowtree.InvalidRequest, match="is not a name server; nothing was changed"):
                a.add_peer("b.x", f"127.0.0.1:{other.server_address[1]}")
        finally:
            other.shutdown()
            thread.join()
    assert not list(a.peers())


def test_an_address_at_which_nothing_answers_yet_is_added(start, tmp_path):
    """Nobody listens at one, and at the other one a process hangs, which the system lets connect."""
    a = shadowtree.Client(start(tmp_path / "a.db", subnets=["a.x"]).address, timeout=20)
    (nobody,) = unused_ports(1)
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        a.add_peer("b.x", f"127.0.0.1:{nobody}")
        a.add_peer("c.x", f"127.0.0.1:{hanging.getsockname()[1]}")
    assert [peer.subnets for peer in sorted(a.peers(), key=lambda peer: peer.subnets)] == [("b.x",), ("c.x",)]


def test_the_log_says_who_adds_and_removes_peers_and_who_ends_the_server(start, tmp_path):
    server = start(tmp_path / "a.db", subnets=["a.x"], log_level="info", log_format="json")
    a = shadowtree.Client(server.address, timeout=20)
    (nobody,) = unused_ports(1)
    a.add_peer("b.x", f"127.0.0.1:{nobody}")
    a.remove_peer("b.x")
    a.drain()
    lines = lines_of(server)
    user = pwd.getpwuid(os.getuid()).pw_name
    for event in ("peer_added", "peer_removed", "draining"):
        assert lines[event]["user"] == user
        assert re.fullmatch(r"127\.0\.0\.1:\d+", lines[event]["asked_by"])
    assert (lines["peer_added"]["subnet"], lines["peer_added"]["address"]) == ("b.x", f"127.0.0.1:{nobody}")
    assert lines["peer_removed"]["subnet"] == "b.x"


def test_the_log_says_which_signal_ends_the_server(start, tmp_path):
    server = start(tmp_path / "a.db", subnets=["a.x"], log_level="info", log_format="json")
    server.process.send_signal(signal.SIGINT)
    line = lines_of(server)["draining"]
    assert (line["asked_by"], "user" in line) == ("SIGINT", False)


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


def test_an_arc_between_two_servers_that_do_not_know_each_other_is_refused_at_a_third_one_and_holds_up_nobody(servers):
    knows = {"a.x": ["b.x"], "b.x": ["a.x", "c.x"], "c.x": ["b.x"]}
    clients = servers({name: [name] for name in knows}, knows)
    a, b = clients["a.x"], clients["b.x"]
    a.create_group("lab@a.x")
    b.create_group("mid@b.x")
    with pytest.raises(
        shadowtree.Unavailable, match=r"the server [ac]\.x is at fault: .*are all servers in its table of peers"
    ):
        b.apply([shadowtree.Join("mid@b.x", "ann@b.x"), shadowtree.Join("lab@a.x", "bob@c.x")])
    b.join("mid@b.x", "ann@b.x")
    a.join("lab@a.x", "ann@a.x")
    assert b.resolve("lab@a.x").processes == ("ann@a.x",)


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
    # The home of the group knows all that it needs.
    assert a.resolve("mid@b.x").processes == ("ann@elsewhere.x",)
    assert a.check("mid@b.x", "ann@elsewhere.x")
    assert not a.check("mid@b.x", "eve@elsewhere.x")
    # Nobody but a.x can know what is below this one.
    assert not a.check("top@a.x", "ann@elsewhere.x")
    # A path through the missing server is told by that one alone.
    with pytest.raises(shadowtree.Unavailable, match=r"out of reach: c\.x"):
        a.check("mid@b.x", "ann@elsewhere.x", explain=True)
    with pytest.raises(shadowtree.Unavailable, match=r"c\.x"):
        list(a.export())

    a.add_peer("c.x", c.address)
    c.add_peer("a.x", a.address)
    wait_until(lambda: {peer.state for peer in (*a.peers(), *c.peers())} == {"connected"}, "connections with all")
    assert a.check("mid@b.x", "ann@elsewhere.x")
    assert a.check("mid@b.x", "ann@elsewhere.x", explain=True).pathname == ("mid@b.x", "low@c.x", "ann@elsewhere.x")
    assert a.memberships("ann@elsewhere.x").groups == ("low@c.x", "mid@b.x")
    assert a.peers().unknown == c.peers().unknown == a.groups().unreachable == ()


def lacks(subnet, *, owner="c.x", said_by="b.x"):
    """Return the refusal of a.x, whose table lacks a subnet."""
    told = f"the server {owner} owns the subnet {subnet} (says {said_by}), which the table of a.x lacks: "
    told += f"add it there with `shadowtree peers add {subnet}=HOST:PORT`"
    return pytest.raises(shadowtree.Unavailable, match=re.escape(told))


@pytest.fixture
def with_a_hole(servers):
    """The clients of a.x, b.x and c.x, where a and c do not know one another."""
    knows = {"a.x": ["b.x"], "b.x": ["a.x", "c.x"], "c.x": ["b.x"]}
    clients = servers({name: [name] for name in knows}, knows)
    wait_until(lambda: clients["a.x"].peers().unknown and clients["c.x"].peers().unknown, "what b.x says")
    clients["a.x"].create_group("lab@a.x")
    clients["c.x"].create_group("team@c.x")
    return clients.values()


def test_no_update_takes_a_name_of_a_server_that_is_missing_in_the_table_for_one_of_nobody(with_a_hole):
    a, b, c = with_a_hole
    b.create_group("mid@b.x")
    for update in (
        lambda: a.join("lab@a.x", "bob@c.x"),
        lambda: a.join("lab@a.x", "bob@C.X"),
        lambda: a.join("lab@a.x", "bob@c.x", offline=True, kind="process"),
        lambda: a.join("lab@a.x", "team@c.x"),
        lambda: a.join("lab@a.x", "team@c.x", "group"),
        lambda: a.join("team@c.x", "ann@a.x"),
        lambda: b.join("lab@a.x", "bob@c.x"),
        lambda: a.apply([Join("lab@a.x", "ann@a.x"), Join("lab@a.x", "bob@c.x")]),
        lambda: a.import_arcs([Arc("lab@a.x", "ann@a.x", "process"), Arc("lab@a.x", "bob@c.x", "process")]),
        lambda: b.import_arcs([Arc("lab@a.x", "bob@c.x", "process")]),
        lambda: a.create_group("new@c.x"),
        lambda: a.delete_group("team@c.x"),
        lambda: a.leave("team@c.x", "ann@a.x"),
    ):
        with lacks("c.x") as caught:
            update()
        assert (caught.value.facts["subnet"], caught.value.unreachable) == ("c.x", ("c.x",))
    assert a.resolve("lab@a.x").processes == ()
    # The server that is known to both knows both.
    assert b.join("mid@b.x", "bob@c.x").revision
    assert c.check("mid@b.x", "bob@c.x")


def test_nothing_definite_is_said_of_a_group_of_a_server_that_is_missing_in_the_table(with_a_hole):
    a, b, c = with_a_hole
    c.join("team@c.x", "y@foreign.x")
    for question in (
        lambda: a.check("team@c.x", "y@foreign.x"),
        lambda: a.check("none@c.x", "ann@a.x"),
        lambda: a.describe("team@c.x"),
        lambda: a.resolve("team@c.x"),
        lambda: a.groups(subnet="c.x"),
        lambda: list(a.export(subnet="c.x")),
    ):
        with lacks("c.x"):
            question()
    answers = a.check_many([("lab@a.x", "ann@a.x"), ("team@c.x", "y@foreign.x"), ("lab@a.x", "bob@c.x")])
    assert [(answer.is_member, answer.unreachable) for answer in answers] == [
        (False, ()),
        (None, ("c.x",)),
        (False, ()),
    ]
    assert b.check("team@c.x", "y@foreign.x")
    with pytest.raises(shadowtree.GroupNotFound):
        a.check("team@nobody.x", "y@foreign.x")


def test_what_was_joined_before_its_server_was_heard_of_can_be_left_and_that_server_be_added(cluster):
    start_one = cluster("a.x", "b.x", "c.x")
    a = shadowtree.Client(start_one("a.x", peers=["b.x"]).address, timeout=20)
    a.create_group("lab@a.x")
    before = a.join("lab@a.x", "bob@c.x", request_id="before")
    b = shadowtree.Client(start_one("b.x").address, timeout=20)
    c = shadowtree.Client(start_one("c.x", peers=["b.x"]).address, timeout=20)
    wait_until(lambda: a.peers().unknown, "what b.x says")
    with lacks("c.x"):
        a.join("lab@a.x", "eve@c.x")
    b.create_group("other@b.x")
    a.create_group("over@a.x")
    for below in ("lab@a.x", "other@b.x"):
        a.join("over@a.x", below)
    # What was taken for a process may be a group, whose members that server knows.
    with pytest.raises(shadowtree.Unavailable) as caught:
        a.check("over@a.x", "y@foreign.x")
    assert caught.value.unreachable == ("c.x",)
    assert a.join("lab@a.x", "bob@c.x", request_id="before").revision == before.revision
    assert a.leave("lab@a.x", "bob@c.x").revision
    assert not a.check("over@a.x", "y@foreign.x")
    a.add_peer("c.x", c.address)
    c.add_peer("a.x", a.address)
    wait_until(lambda: {peer.state for peer in (*a.peers(), *c.peers())} == {"connected"}, "connections with all")
    assert a.join("lab@a.x", "bob@c.x").revision
    assert c.check("lab@a.x", "bob@c.x")


def test_a_further_subnet_of_a_connected_server_is_no_subnet_of_nobody(servers):
    clients = servers({"a.x": ["a.x"], "b.x": ["b.x", "s.x"]}, {"a.x": ["b.x"], "b.x": ["a.x"]})
    a, b = clients["a.x"], clients["b.x"]
    a.create_group("top@a.x")
    with lacks("s.x", owner="b.x"):
        a.join("top@a.x", "bob@s.x")
    a.add_peer("s.x", b.address)
    wait_until(lambda: {peer.state for peer in a.peers()} == {"connected"}, "the further subnet")
    a.join("top@a.x", "bob@s.x")
    assert b.check("top@a.x", "bob@s.x")


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
