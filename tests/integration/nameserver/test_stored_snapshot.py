"""A snapshot of a PostgreSQL database says what its server says, while that runs and when it does not."""

import pyarrow.parquet as pq
import pytest

import shadowtree
from shadowtree.client.snapshots.schema import DETAILS_TABLE, POLICIES_TABLE, TABLES
from tests.integration.nameserver.warm_process import run_command


def snapshot(out, *options):
    return run_command("audit", "snapshot", "--out", out, *options)


def tables(folder):
    names = (*TABLES, DETAILS_TABLE, POLICIES_TABLE)
    return {name: pq.read_table(folder / f"{name}.parquet").to_pylist() for name in names}


def test_database_and_server_tell_the_same(postgresql, start, tmp_path):
    url = postgresql.fresh_database()
    server = start(url, subnets=["b.c"])
    with shadowtree.Client(server.address) as names:
        for group in ("a@b.c", "d@b.c", "e@b.c"):
            names.create_group(group)
        for parent, child in (("a@b.c", "d@b.c"), ("d@b.c", "a@b.c"), ("d@b.c", "e@b.c"), ("e@b.c", "ann@e.f")):
            names.join(parent, child)
        names.leave("e@b.c", "ann@e.f")
        names.set_group("d@b.c", description="Robots 🤖")
        names.set_policy("d@b.c", "secret", privileges={"manage": ["ann@e.f"], "admin": ["it@b.c"]})
        told = names.snapshot(tmp_path / "told")
    config = tmp_path / "names.toml"
    config.write_text(f'database = "{url}"\nsubnets = ["b.c"]\n')

    assert snapshot(tmp_path / "beside", "--config", config).returncode == 0
    server.kill()
    assert snapshot(tmp_path / "after", "--config", config).returncode == 0
    expected = tables(tmp_path / "told" / told.server)
    assert len(expected["arcs"]) == 4
    assert expected[DETAILS_TABLE] == [{"group": "d@b.c", "description": "Robots 🤖"}]
    (policy,) = expected[POLICIES_TABLE]
    assert (policy["group"], policy["preset"], policy["view"]) == ("d@b.c", "secret", ["members"])
    assert (policy["refer"], policy["manage"], policy["admin"]) == ([], ["ann@e.f"], ["it@b.c"])
    assert tables(tmp_path / "beside" / told.server) == expected
    assert tables(tmp_path / "after" / told.server) == expected


@pytest.mark.parametrize(
    ("database", "why"),
    [("sqlite:///names.db", "SQLite"), ("postgresql://nobody@127.0.0.1:1/none", "cannot connect")],
)
def test_a_database_that_cannot_be_read_is_named(tmp_path, database, why):
    config = tmp_path / "names.toml"
    config.write_text(f'database = "{database}"\nsubnets = ["b.c"]\n')
    done = snapshot(tmp_path / "out", "--config", config)
    assert done.returncode == 3
    assert why in done.stderr


def test_a_database_that_no_server_has_used_is_named(postgresql, tmp_path):
    config = tmp_path / "names.toml"
    config.write_text(f'database = "{postgresql.fresh_database()}"\nsubnets = ["b.c"]\n')
    done = snapshot(tmp_path / "out", "--config", config)
    assert done.returncode == 3
    assert "no tables of a name server" in done.stderr
