"""Name servers as processes that are started on a backup of their database: they heal, and say so."""

import shutil
import sqlite3

import pytest

import shadowtree
from shadowtree import Arc
from tests.integration.nameserver.server_process import wait_until


@pytest.fixture
def three(start_several):
    return start_several([["a.x"], ["b.x"], ["c.x"]], log_level="warning")


def back_up(servers, number, folder):
    """Back up a server as docs/operators.md says."""
    copy = folder / f"copy-{number}.db"
    with sqlite3.connect(folder / f"{number}.db") as source, sqlite3.connect(copy) as target:
        source.backup(target)
    return copy


def put_back(servers, number, folder, copy):
    servers.kill(number)
    broken = folder / "broken"
    broken.mkdir(exist_ok=True)
    for path in folder.glob(f"{number}.db*"):
        path.rename(broken / path.name)
    if copy is not None:
        shutil.copy(copy, folder / f"{number}.db")
    servers.start_again(number)


def members(client, group):
    """Return all members of a group. None while the answer may be incomplete, or the group may be forgotten.

    A server without its database denies a group until a session with another server shows what it has lost.
    """
    try:
        found = client.resolve(group, groups=True)
    except (shadowtree.Unavailable, shadowtree.GroupNotFound):
        return None
    return None if found.unreachable or found.in_transition else {*found.processes, *found.groups}


def is_whole(servers):
    for client in servers.clients:
        status = client.status()
        if status.suspended or {peer.state for peer in status.peers} != {"connected"}:
            return False
    return True


def test_a_server_on_a_backup_heals_and_what_was_left_does_not_come_back(three, tmp_path):
    a, b, c = three.clients
    a.import_arcs([Arc("team@a.x", "sub@b.x", "group"), Arc("sub@b.x", "ann@b.x", "process")])
    c.import_arcs([Arc("all@c.x", "team@a.x", "group")])
    a.join("team@a.x", "eve@a.x")
    copy = back_up(three, 0, tmp_path)
    # Since then: one is left, one joined, a group made; one is known to nobody else.
    a.leave("team@a.x", "sub@b.x")
    b.join("sub@b.x", "team@a.x")
    a.create_group("new@a.x")
    a.join("new@a.x", "bob@b.x")
    lost = a.join("team@a.x", "lost@a.x").revision
    put_back(three, 0, tmp_path, copy)
    wait_until(lambda: is_whole(three), "a heal")
    for client in three.clients:
        wait_until(lambda client=client: members(client, "all@c.x") == {"team@a.x", "eve@a.x"}, "the same answer")
        wait_until(
            lambda client=client: members(client, "sub@b.x") == {"ann@b.x", "team@a.x", "eve@a.x"}, "the same answer"
        )
        wait_until(lambda client=client: members(client, "new@a.x") == {"bob@b.x"}, "the group that is made anew")
    with pytest.raises(shadowtree.ShadowtreeError, match=r"was lost when the server a\.x went back"):
        a.resolve("team@a.x", at_least_revision=lost)
    a.join("team@a.x", "lost@a.x")
    assert "lost@a.x" in members(b, "all@c.x")
    three.processes[0].process.terminate()
    _, said = three.processes[0].outcome()
    assert "the database is an older copy of itself" in said


def test_a_server_that_lost_its_database_gets_back_what_others_know(three, tmp_path):
    a, b, _ = three.clients
    a.import_arcs([Arc("team@a.x", "sub@b.x", "group"), Arc("sub@b.x", "ann@b.x", "process")])
    put_back(three, 0, tmp_path, None)
    wait_until(lambda: is_whole(three), "a heal")
    for client in (a, b):
        wait_until(lambda client=client: members(client, "team@a.x") == {"sub@b.x", "ann@b.x"}, "the same answer")
