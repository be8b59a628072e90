"""Spark reads the databases of servers by JDBC, in ranges, at one instant, and gets the rows that psycopg reads."""

import subprocess
import sys
from types import SimpleNamespace

import psycopg
import pyarrow.parquet as pq
import pytest

import shadowtree
from namegraph.model.rows import ArcRecord, NodeIndex, NodeKind, NodeRecord, Records
from shadowtree.cli.support.free_ports import unused_ports
from shadowtree.client.snapshots.schema import TABLES
from spark_graph_jobs import database_copy
from spark_graph_jobs.database_copy import CopyRequest, copy_database
from storage import copied, open_store
from storage.copied import copied_state, java_database
from storage.errors import DatabaseUrlError, StorageError
from storage.open import reading_state
from tests.integration.nameserver.conftest import start  # noqa: F401 - a fixture
from tests.postgres import running_postgresql

SECONDS = 600
"""Starting Spark takes ten on a machine that has nothing else to do."""


@pytest.fixture(scope="module")
def postgresql():
    with running_postgresql(port=unused_ports(1)[0]) as running:
        yield running


@pytest.fixture
def stored(postgresql):
    """A database with some rows, and a writer of more."""
    url = postgresql.fresh_database()
    store = open_store(url, server="a.x")

    def add(numbers):
        nodes = [NodeRecord(NodeIndex(n), f"g{n}@a.x", NodeKind.GROUP, None, n, "a.x") for n in numbers]
        arcs = [ArcRecord(n - 1, n, 1, 1, n, True, False) for n in numbers if n]
        store.commit(Records(nodes=nodes, arcs=arcs, counter=max(numbers)))

    add(range(50))
    yield SimpleNamespace(url=url, add=add)
    store.close()


def request_for(url, folder):
    database = java_database(url)
    return CopyRequest(database.url, database.properties, copied.TABLES, str(folder))


def contents(state):
    return [
        list(rows) if name in ("nodes", "arcs", "virtual_nodes", "outcomes", "protocol") else rows
        for name, rows in ((name, getattr(state, name)) for name in state.__slots__)
    ]


@pytest.mark.usefixtures("needs_driver")
def test_all_ranges_are_of_one_instant_and_hold_every_row_once(spark, stored, tmp_path, monkeypatch):
    monkeypatch.setattr(database_copy, "ROWS_OF_RANGE", 7)
    with reading_state(stored.url) as state:
        before = contents(state)
    copy_database(spark, request_for(stored.url, tmp_path), at_instant=lambda: stored.add(range(50, 90)))
    with reading_state(stored.url) as state:
        after = contents(state)
    assert len(list((tmp_path / "nodes").glob("*.parquet"))) == 8
    found = contents(copied_state(tmp_path, stored.url))
    assert [sorted(rows) if isinstance(rows, list) else rows for rows in found] == before
    assert found != after


@pytest.mark.usefixtures("needs_driver")
def test_a_row_that_is_not_what_was_written_is_refused(spark, stored, tmp_path):
    with psycopg.connect(stored.url) as connection:
        connection.execute("UPDATE arcs SET cost = 7 WHERE child = 3")
    copy_database(spark, request_for(stored.url, tmp_path))
    with pytest.raises(StorageError, match="arcs, the row with parent 2, child 3"):
        list(copied_state(tmp_path, stored.url).arcs)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("sqlite:///names.db", "PostgreSQL alone"),
        ("postgresql://me@/names", "Unix socket"),
        ("postgresql://me@/names?host=/run/postgresql", "Unix socket"),
    ],
)
def test_what_java_cannot_reach_is_said(url, why):
    with pytest.raises(DatabaseUrlError, match=why):
        java_database(url)


def test_the_url_of_java_keeps_its_secrets_apart():
    found = java_database("postgresql://me:secret@db.example:7000/names?sslmode=require")
    assert found.url == "jdbc:postgresql://db.example:7000/names"
    assert found.properties == {"user": "me", "password": "secret", "sslmode": "require"}


def test_java_is_given_all_hosts_and_told_to_find_the_primary():
    found = java_database("postgresql://me@db1.example:7000,[::1]/names?target_session_attrs=read-write")
    assert found.url == "jdbc:postgresql://db1.example:7000,[::1]:5432/names"
    assert found.properties == {"user": "me", "targetServerType": "primary"}


@pytest.mark.usefixtures("needs_driver")
def test_the_command_writes_by_jdbc_what_it_writes_by_psycopg_and_names_what_cannot_be_read(
    postgresql,
    start,  # noqa: F811
    tmp_path,
):
    url = postgresql.fresh_database()
    server = start(url, subnets=["b.c"])
    with shadowtree.Client(server.address) as names:
        for group in ("a@b.c", "d@b.c", "e@b.c"):
            names.create_group(group)
        for parent, child in (("a@b.c", "d@b.c"), ("d@b.c", "a@b.c"), ("d@b.c", "e@b.c"), ("e@b.c", "ann@e.f")):
            names.join(parent, child)
        names.leave("e@b.c", "ann@e.f")
    configs = {"used": url, "unused": postgresql.fresh_database(), "gone": "postgresql://me@127.0.0.1:1/none"}
    for name, database in configs.items():
        (tmp_path / f"{name}.toml").write_text(f'database = "{database}"\nsubnets = ["b.c"]\n')

    assert snapshot(tmp_path / "psycopg", "--config", tmp_path / "used.toml").returncode == 0
    done = snapshot(
        tmp_path / "jdbc", "--jdbc", *(word for name in configs for word in ("--config", tmp_path / f"{name}.toml"))
    )
    assert done.returncode == 3, done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 2, done.stderr
    assert "unused.toml" in lines[0]
    assert "does not exist" in lines[0]
    assert "gone.toml" in lines[1]
    assert "refused" in lines[1]
    expected = tables(tmp_path / "psycopg" / "b.c")
    assert len(expected["arcs"]) == 4
    assert tables(tmp_path / "jdbc" / "b.c") == expected


def test_by_jdbc_no_server_is_asked(tmp_path):
    done = snapshot(tmp_path / "out", "--jdbc")
    assert done.returncode == 2
    assert "--config" in done.stderr


def snapshot(out, *options):
    command = [sys.executable, "-m", "shadowtree", "audit", "snapshot", "--out", out, *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)


def tables(folder):
    return {name: pq.read_table(folder / f"{name}.parquet").to_pylist() for name in TABLES}
