"""Descriptions of groups outlive kills, full disks and exports, on both databases."""

import pytest

import shadowtree
from tests.integration.nameserver.server_process import full_disk_of, wait_until

LAB, STAFF = "lab@a.x", "staff@b.x"


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request, tmp_path):
    if request.param == "sqlite":
        return tmp_path / "names.db"
    return request.getfixturevalue("postgresql").fresh_database()


def test_a_server_that_is_killed_has_its_descriptions_when_it_starts_again(start, database):
    server = start(database, subnets=["a.x"])
    with shadowtree.Client(server.address) as names:
        names.create_group(LAB, description="Robots 🤖")
        names.create_group("other@a.x", description="gone")
        names.create_group("third@a.x")
        names.set_group("other@a.x", description="")
        set_once = names.set_group("third@a.x", description="日本 'quoted' \\ %s", request_id="once")
    server.kill()
    again = start(database, subnets=["a.x"])
    with shadowtree.Client(again.address) as names:
        assert names.describe(LAB).description == "Robots 🤖"
        assert names.describe("other@a.x").description == ""
        assert names.describe("third@a.x").description == "日本 'quoted' \\ %s"
        assert names.groups(contains="robots").groups == (LAB,)
        assert names.set_group("third@a.x", description="日本 'quoted' \\ %s", request_id="once") == set_once


def test_while_the_disk_is_full_no_description_is_changed_and_none_is_shown_that_is_not_kept(start):
    server = start(subnets=["a.x"])
    with shadowtree.Client(server.address, timeout=30) as names:
        names.create_group(LAB, description="before")
        with full_disk_of(server.process.pid):
            with pytest.raises((shadowtree.OutcomeUnknown, shadowtree.Unavailable), match="database"):
                names.set_group(LAB, description="during", request_id="during")
            wait_until(lambda: names.status().database_failure, "the failure")
            with pytest.raises(shadowtree.Unavailable, match="database"):
                names.set_group(LAB, description="later")
            assert names.describe(LAB).description == "before"
        wait_until(lambda: not names.status().database_failure, "the end of the failure")
        names.set_group(LAB, description="during", request_id="during")
        assert names.describe(LAB).description == "during"
        server.kill()
    again = start(subnets=["a.x"])
    with shadowtree.Client(again.address) as names:
        assert names.describe(LAB).description == "during"


def test_an_export_of_several_servers_is_imported_with_its_descriptions_through_any_of_them(start_several, tmp_path):
    servers = start_several([["a.x"], ["b.x"]])
    names = servers.clients[0]
    names.create_group(LAB, description="Robots")
    names.create_group(STAFF, description="Everybody")
    names.create_group("plain@b.x")
    names.join(LAB, STAFF)
    names.join(STAFF, "ann@b.x")
    file = tmp_path / "graph.jsonl"
    servers.clients[1].export_file(file)
    for client in servers.clients:
        for group in (LAB, STAFF):
            client.delete_group(group, force=True)
        client.import_file(file)
        for other in servers.clients:
            assert [other.describe(group).description for group in (LAB, STAFF, "plain@b.x")] == [
                "Robots",
                "Everybody",
                "",
            ]
        again = tmp_path / "again.jsonl"
        client.export_file(again)
        assert again.read_bytes() == file.read_bytes()
    servers.clients[0].set_group(STAFF, description="changed since")
    servers.clients[1].import_file(file)
    assert servers.clients[0].describe(STAFF).description == "changed since"
    of_b = tmp_path / "b.jsonl"
    servers.clients[0].export_file(of_b, subnet="b.x")
    assert "Robots" not in of_b.read_text()
    assert "changed since" in of_b.read_text()
