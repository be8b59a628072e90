"""Name servers that are killed and started on files of which one is another server's, or older than the rest."""

import shutil

import pytest

import shadowtree
from shadowtree import Arc
from shadowtree.v1 import name_service_pb2 as m


def processes(server, group):
    return [process for chunk in server.names.Resolve(m.ResolveRequest(group=group)) for process in chunk.processes]


def files(path):
    return {
        file.name: file.read_bytes()
        for file in path.parent.glob(f"{path.name}*")
        if file.suffix not in (".lock", ".db-shm")
    }


def refusal(start, path, **settings):
    """Return the message of a server that refuses to start on these files. It must leave them as they are."""
    before = files(path)
    status, errors = start(path, wait=False, **settings).outcome()
    assert status == 4
    assert errors.count("\n") == 1
    assert files(path) == before
    return errors


@pytest.mark.parametrize("settings", [{}, {"name": "b.x"}])
def test_the_log_of_another_server_is_refused_and_nothing_is_lost_by_that(start, tmp_path, settings):
    paths = [tmp_path / "s0.db", tmp_path / "s1.db"]
    subnets = [["a.x"], ["b.x"]]
    for path, (subnet,), members in zip(paths, subnets, (1, 9), strict=True):
        server = start(path, subnets=[subnet])
        server.names.CreateGroup(m.CreateGroupRequest(group=f"g@{subnet}"))
        for number in range(members):
            server.names.Join(m.JoinRequest(parent=f"g@{subnet}", child=f"p{number}@people"))
        server.kill()
    shutil.copy(tmp_path / "s0.db-wal", tmp_path / "kept")
    shutil.copy(tmp_path / "s1.db-wal", tmp_path / "s0.db-wal")
    (tmp_path / "s0.db-shm").unlink()
    said = refusal(start, paths[0], subnets=subnets[0], **settings)
    assert "it belongs to the server 'a.x', but s0.db-wal to the server 'b.x'" in said
    shutil.copy(tmp_path / "kept", tmp_path / "s0.db-wal")
    assert processes(start(paths[0], subnets=subnets[0]), "g@a.x") == ["p0@people"]
    assert len(processes(start(paths[1], subnets=subnets[1]), "g@b.x")) == 9


def test_of_another_servers_file_under_ones_own_mark_it_is_said_what_to_do(start, tmp_path):
    for subnet in ("sfu.x", "ubc.x"):
        server = start(tmp_path / f"{subnet}.db", subnets=[subnet])
        server.names.CreateGroup(m.CreateGroupRequest(group=f"g@{subnet}"))
        server.terminate()
    shutil.copy(tmp_path / "sfu.x.db", tmp_path / "ubc.x.db")
    said = refusal(start, tmp_path / "ubc.x.db", subnets=["ubc.x"])
    assert "to the server 'sfu.x', but ubc.x.db.mark to the server 'ubc.x'" in said
    assert said.endswith("put the files of 'ubc.x' back; to let 'sfu.x' go on here, remove ubc.x.db.mark\n")


def test_an_older_file_under_a_newer_log_does_not_bring_a_removed_member_back(start, tmp_path):
    path = tmp_path / "names.db"
    server = start()
    server.names.CreateGroup(m.CreateGroupRequest(group="a@b.c"))
    server.names.Join(m.JoinRequest(parent="a@b.c", child="ann@e.f"))
    server.terminate()
    shutil.copy(path, tmp_path / "backup")
    server = start()
    server.names.Leave(m.LeaveRequest(parent="a@b.c", child="ann@e.f"))
    with shadowtree.Client(server.address) as client:
        for part in range(3):
            client.import_arcs([Arc(f"big{part}@b.c", f"p{number}@e.f", "process") for number in range(50_000)])
    server.names.Join(m.JoinRequest(parent="a@b.c", child="bob@e.f"))
    server.kill()
    shutil.copy(path, tmp_path / "newest")
    assert path.stat().st_size > 2 * (tmp_path / "backup").stat().st_size, "the log did not begin anew"
    shutil.copy(tmp_path / "backup", path)
    assert "names.db-wal belongs to another copy of it" in refusal(start, path)
    shutil.copy(tmp_path / "newest", path)
    assert processes(start(), "a@b.c") == ["bob@e.f"]


def test_a_copy_of_another_servers_database_is_not_served_in_the_place_of_ones_own(start_several, start, tmp_path):
    servers = start_several([["sfu.x"], ["ubc.x"]])
    for client, group in zip(servers.clients, ("lab@sfu.x", "staff@ubc.x"), strict=True):
        client.create_group(group)
    # sfu knows a group of ubc's, as a parent and as a member.
    servers.clients[0].join("lab@sfu.x", "staff@ubc.x")
    servers.clients[1].join("staff@ubc.x", "lab@sfu.x")
    servers.kill(0)
    copy = tmp_path / "copy.db"
    for suffix in ("", "-wal"):
        shutil.copy(tmp_path / f"0.db{suffix}", tmp_path / f"copy.db{suffix}")
    assert refusal(start, copy, subnets=["ubc.x"]) == (
        f"database sqlite:///{copy}: it belongs to the server 'sfu.x', whose groups are in sfu.x, and none in ubc.x; "
        'serve it with its own subnets, or say name = "sfu.x" in the configuration if it is meant\n'
    )
    served = start(copy, subnets=["ubc.x"], name="sfu.x")
    assert served.serving_line.startswith("serving ubc.x on ")
