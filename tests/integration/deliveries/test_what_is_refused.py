"""Invalid sends and listens are refused in one clear line, without any effect."""

import shutil
import sqlite3

import pytest

import shadowtree
from tests.integration.deliveries.groups_in_a_loop import (
    FLAT,
    LAST,
    LOW,
    SUBNETS,
    TOP,
    build,
    command,
    payloads,
    until_last,
)
from tests.integration.nameserver.server_process import wait_until


@pytest.fixture(scope="module")
def servers(start_shared):
    servers = build(start_shared([[subnet] for subnet in SUBNETS]))
    servers.clients[0].create_group("gone@b.x")
    servers.clients[0].delete_group("gone@b.x")
    return servers


def refused(servers, *arguments, status=4, standard_input=b"x"):
    """Return the one line that a command has written to standard error."""
    found, output, errors = command(servers, 0, *arguments, standard_input=standard_input)
    assert (found, output) == (status, "")
    assert errors.startswith("shadowtree: ")
    assert errors.count("\n") == 1
    return errors.removeprefix("shadowtree: ").rstrip("\n")


@pytest.mark.parametrize(
    ("target", "server"),
    [("nothing@a.x", "a.x"), ("nothing@b.x", "b.x"), ("gone@b.x", "b.x"), ("nobody@nowhere.example", "a.x")],
)
def test_a_target_that_is_not_there_is_told_by_its_home(servers, target, server):
    wanted = f"there is no group or member {target} at the server {server}"
    with pytest.raises(shadowtree.TargetNotFound, match=wanted) as caught:
        servers.clients[0].send(target, b"x")
    assert caught.value.facts == {"target": target, "server": server}
    assert refused(servers, "send", target) == wanted
    assert refused(servers, "send", target, "--lines") == wanted
    with pytest.raises(shadowtree.TargetNotFound), servers.clients[0].sender("x") as out:
        out.send(target, b"x")


@pytest.mark.parametrize("name", ["no-domain", "two@at@a.x", ""])
def test_what_is_no_name_is_wrong_usage(servers, name):
    assert name in refused(servers, "send", name, status=2)
    assert name in refused(servers, "send", FLAT, "--excluding", name, status=2)
    assert name in refused(servers, "listen", name, status=2)
    assert name in refused(servers, "mailbox", "open", name, status=2)


def test_a_message_that_is_too_large_is_refused_and_the_largest_is_not(servers):
    largest = bytes(1024 * 1024)
    a = servers.clients[1]
    with pytest.raises(shadowtree.LimitExceeded, match="a payload has at most 1048576 bytes, not 1048577"):
        a.send(FLAT, largest + b"x")
    with pytest.raises(shadowtree.LimitExceeded, match="headers have at most 8192 bytes"):
        a.send(FLAT, b"x", headers={"h": "v" * 8192})
    with pytest.raises(shadowtree.LimitExceeded, match="1 to 64 targets"):
        a.send([f"p{number}@a.x" for number in range(65)], b"x")
    assert refused(servers, "send", FLAT, standard_input=largest + b"x") == (
        "a payload has at most 1048576 bytes, not 1048577"
    )
    assert refused(servers, "send", FLAT, "--lines", standard_input=b"fits\n" + largest + b"x\n") == (
        "a payload has at most 1048576 bytes, not 1048577; accepted before it: 1"
    )
    assert a.send(FLAT, largest, wait="settled").mailboxes == 4
    with a.listen("cyd@c.x", subscription="large") as messages:
        sizes = [len(next(messages).payload) for _ in range(2)]
    # Of the lines, the one before was accepted.
    assert sizes == [len(b"fits"), len(largest)]


@pytest.mark.parametrize("position", ["made up", "1.0", "1.0@c.x", "-1.0@c.x#0", "1.0@c.x#0 ", "١.0@c.x#0"])
def test_a_position_that_is_made_up_is_refused(servers, position):
    assert "is no position" in refused(servers, "listen", "cyd@c.x", "--from", position, status=2)
    with pytest.raises(shadowtree.InvalidRequest, match="is no position"):
        servers.clients[2].listen("cyd@c.x", from_=position)


def test_a_position_behind_the_log_or_of_another_server_is_refused(servers):
    assert refused(servers, "listen", "cyd@c.x", "--from", "999999.0@c.x#0") == (
        "the position is behind the end of the log"
    )
    assert refused(servers, "listen", "cyd@c.x", "--from", "1.0@a.x#0") == (
        "the position is of the server a.x, and means nothing at c.x"
    )


def test_a_group_whose_archive_is_not_open_cannot_be_listened_to(servers):
    assert refused(servers, "listen", LOW) == (
        f"{LOW} has no mailbox at the server c.x; `shadowtree mailbox open {LOW}` opens one"
    )


def test_a_mailbox_that_is_not_there_cannot_be_closed(servers):
    assert refused(servers, "mailbox", "close", "zoe@b.x") == (
        "zoe@b.x has no mailbox at the server b.x; `shadowtree mailbox open zoe@b.x` opens one"
    )


def test_what_needs_a_server_out_of_reach_is_refused_and_nothing_is_done(start_several):
    servers = build(start_several([[subnet] for subnet in SUBNETS]))
    servers.kill(1)
    wait_until(lambda: servers.clients[0].status().view == ("a.x", "c.x"), "the loss of b")
    for arguments in (("send", "middle@b.x"), ("mailbox", "open", "zoe@b.x")):
        assert "the server b.x at" in refused(servers, *arguments)
    errors = refused(servers, "listen", "bob@b.x", status=3)
    assert "the server b.x at" in errors


def test_a_position_of_before_an_older_copy_is_refused_and_listening_goes_on(start_several, tmp_path):
    servers = build(start_several([[subnet] for subnet in SUBNETS]))
    a, _, c = servers.clients
    a.send(FLAT, b"before", wait="settled")
    copy = tmp_path / "copy.db"
    with sqlite3.connect(tmp_path / "2.db") as source, sqlite3.connect(copy) as target:
        source.backup(target)
    a.send(TOP, b"after", wait="settled")
    a.create_group("newer@c.x")
    with c.listen("cyd@c.x") as messages:
        positions = [next(messages).position for _ in range(2)]
    servers.kill(2)
    for path in tmp_path.glob("2.db*"):
        path.unlink()
    shutil.copy(copy, tmp_path / "2.db")
    servers.start_again(2)
    servers.wait_for_connections()
    wait_until(lambda: not any(client.status().suspended for client in servers.clients), "a heal")
    for position in positions:
        assert refused(servers, "listen", "cyd@c.x", "--from", position) == (
            "the position is of a time before this server went back to an older copy of its database"
        )
    a.send(FLAT, LAST, wait="settled")
    heard = payloads(until_last(a, "cyd@c.x"))
    assert heard[0] == b"before"
    assert heard[-1] == LAST
