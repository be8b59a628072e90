"""PostgreSQL alone: its connection, which carries the exclusive use, and how it refuses."""

from __future__ import annotations

import subprocess
import sys

import psycopg
import pytest

from namegraph.model.rows import Records
from storage import open_store
from storage.errors import (
    DatabaseFullError,
    DatabaseInterruptedError,
    DatabaseInUseError,
    DatabaseLostError,
    DatabaseUnavailableError,
    DriverMissingError,
    NotOurDatabaseError,
)
from storage.postgresql import COPY_FROM_ROWS
from tests.integration.storage.rows import ANNA, BERTA, arc, contents, node
from tests.postgres import copied, find_binaries

END_ALL_SESSIONS = """
    SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


@pytest.fixture
def url(postgresql) -> str:
    return postgresql.fresh_database()


@pytest.mark.parametrize("program", ["initdb", "pg_ctl", "postgres"])
def test_a_copy_of_the_programs_runs_without_the_original(tmp_path, program) -> None:
    copy = copied(find_binaries(), tmp_path)
    said = subprocess.run([copy / program, "--version"], capture_output=True, text=True, check=True)
    assert "(PostgreSQL)" in said.stdout


def run_sql(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())


@pytest.mark.parametrize("rows", [1, COPY_FROM_ROWS])
def test_a_store_whose_connection_is_lost_says_so_and_takes_the_same_commit_when_it_comes_again(url, rows) -> None:
    store = open_store(url, server=ANNA)
    store.commit(Records(nodes=[node(0)]))
    for number in range(1, 3):
        run_sql(url, END_ALL_SESSIONS)
        records = Records(nodes=[node(0, version=number)], arcs=[arc(parent, number) for parent in range(rows)])
        with pytest.raises(DatabaseInterruptedError, match=r"the connection was lost.*see that PostgreSQL") as refused:
            store.commit(records)
        assert "\n" not in str(refused.value)
        store.commit(records)
    assert contents(store).nodes == [node(0, version=2)]
    assert len(contents(store).arcs) == 2 * rows
    with pytest.raises(DatabaseInUseError):
        open_store(url)
    store.close()


def test_a_probe_notices_a_lost_connection_and_makes_a_new_one(url) -> None:
    store = open_store(url, server=ANNA)
    store.probe()
    run_sql(url, END_ALL_SESSIONS)
    with pytest.raises(DatabaseInterruptedError):
        store.probe()
    store.probe()
    store.commit(Records(nodes=[node(0)]))
    store.close()


def test_a_commit_that_was_made_though_its_answer_was_lost_is_made_again_without_harm(url) -> None:
    store = open_store(url, server=ANNA)
    before = store._state  # type: ignore[attr-defined]
    records = Records(nodes=[node(0)], arcs=[arc(0, 0)], counter=7)
    store.commit(records)
    store._state = before  # type: ignore[attr-defined]
    run_sql(url, END_ALL_SESSIONS)
    with pytest.raises(DatabaseInterruptedError):
        store.commit(records)
    store.commit(records)
    assert (contents(store).nodes, contents(store).counter) == ([node(0)], 7)
    store.close()


def test_a_server_that_lost_its_connection_cannot_write_beside_or_after_its_successor(url) -> None:
    first = open_store(url, server=ANNA)
    run_sql(url, END_ALL_SESSIONS)
    second = open_store(url)
    with pytest.raises(DatabaseInterruptedError):
        first.commit(Records(nodes=[node(0, "stale@x")]))
    with pytest.raises(DatabaseInUseError):
        first.commit(Records(nodes=[node(0, "stale@x")]))
    second.commit(Records(nodes=[node(0)]))
    assert contents(second).nodes == [node(0)]
    second.close()
    for _ in range(2):
        with pytest.raises(DatabaseLostError, match="another server used it"):
            first.commit(Records(nodes=[node(0, "stale@x")]))
    first.close()
    again = open_store(url)
    assert contents(again).nodes == [node(0)]
    again.close()


def test_a_connection_lost_while_loading_says_so(url) -> None:
    store = open_store(url, server=ANNA)
    store.commit(Records(arcs=[arc(parent, 1) for parent in range(100_000)]))
    arcs = iter(store.load().arcs)
    next(arcs)
    run_sql(url, END_ALL_SESSIONS)
    with pytest.raises(DatabaseInterruptedError):
        list(arcs)
    store.close()


def test_servers_in_different_schemas_of_one_database_do_not_meet(url) -> None:
    run_sql(url, "CREATE SCHEMA s")
    first = open_store(url, server=ANNA)
    second = open_store(f"{url}&options=-csearch_path%3Ds", server=BERTA)
    first.commit(Records(nodes=[node(0)]))
    assert contents(second).nodes == []
    first.close()
    second.close()


def test_a_plain_url_uses_the_third_psycopg_also_where_the_second_is_the_default(url, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg2", None)
    open_store(url, server=ANNA).close()


def test_a_missing_driver_is_named_with_the_command_that_installs_it(url, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(DriverMissingError, match=r"pip install '\.\[postgres\]'"):
        open_store(url, server=ANNA)


def test_a_database_that_does_not_exist_is_named_in_one_line(postgresql) -> None:
    with pytest.raises(DatabaseUnavailableError, match='database "nowhere" does not exist') as refused:
        open_store(postgresql.url("nowhere"), server=ANNA)
    assert "\n" not in str(refused.value)


def test_a_server_that_does_not_answer_is_named_in_one_line_without_the_password(tmp_path) -> None:
    with pytest.raises(DatabaseUnavailableError, match=r"cannot connect") as refused:
        open_store(f"postgresql://me:secret@/names?host={tmp_path}", server=ANNA)
    assert "\n" not in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_database_whose_encoding_cannot_hold_every_name_is_refused(postgresql) -> None:
    url = postgresql.fresh_database("ENCODING 'SQL_ASCII' TEMPLATE template0")
    with pytest.raises(NotOurDatabaseError, match=r"its encoding is SQL_ASCII.*; create a database with ENCODING"):
        open_store(url, server=ANNA)


def test_commits_wait_for_the_disk_even_where_the_database_says_otherwise(url) -> None:
    name = url.split("/")[3].split("?")[0]
    run_sql(url, f"ALTER DATABASE {name} SET synchronous_commit = off")
    store = open_store(url, server=ANNA)
    connection = store._engine.connection  # type: ignore[attr-defined]
    with connection.begin():
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"
    store.close()


def test_a_user_who_may_not_create_tables_is_told(postgresql, url) -> None:
    run_sql(url, "CREATE ROLE guest LOGIN")
    with pytest.raises(DatabaseUnavailableError, match=r"cannot be written .*permission denied"):
        open_store(url.replace("postgres@", "guest@"), server=ANNA)
    open_store(url, server=ANNA).close()


def test_a_full_disk_stores_nothing_of_the_commit_and_works_again_once_there_is_room(url) -> None:
    store = open_store(url, server=ANNA)
    run_sql(
        url,
        """
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'No space left on device' USING ERRCODE = 'disk_full'; END $$;
        CREATE TRIGGER refuse BEFORE INSERT ON arcs EXECUTE FUNCTION refuse();
        """,
    )
    for rows in (1, COPY_FROM_ROWS):
        with pytest.raises(DatabaseFullError, match=r"the disk of PostgreSQL is full"):
            store.commit(Records(nodes=[node(0)], arcs=[arc(parent, 1) for parent in range(rows)], counter=1))
    assert (contents(store).nodes, contents(store).counter) == ([], 0)
    run_sql(url, "DROP TRIGGER refuse ON arcs")
    store.commit(Records(nodes=[node(0)], arcs=[arc(0, 1)], counter=1))
    assert (contents(store).arcs, contents(store).counter) == ([arc(0, 1)], 1)
    store.close()


def test_a_program_that_keeps_a_table_locked_is_named_as_the_cause(url) -> None:
    store = open_store(url, server=ANNA)
    with psycopg.connect(url) as other:
        other.execute("LOCK TABLE nodes")
        with pytest.raises(DatabaseInUseError, match=r"another program has kept its tables locked"):
            store.commit(Records(nodes=[node(0)]))
    store.commit(Records(nodes=[node(0)]))
    assert contents(store).nodes == [node(0)]
    store.close()


def test_a_read_only_database_is_refused_when_it_is_opened(url) -> None:
    open_store(url, server=ANNA).close()
    with pytest.raises(DatabaseUnavailableError, match=r"cannot be written .*read-only") as refused:
        open_store(f"{url}&options=-cdefault_transaction_read_only%3Don")
    assert "\n" not in str(refused.value)
