"""Behaviour that the fake cannot show: layouts, failed transactions and refusals, on SQLite and PostgreSQL alike."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect, text
from sqlalchemy.exc import DataError, IntegrityError

from namegraph.model.rows import (
    ArcRecord,
    ChangeRecord,
    LogRecord,
    NodeRecord,
    OutcomeRecord,
    ProtocolRow,
    Records,
    VirtualNodeRecord,
)
from storage import open_store, sql_store
from storage.errors import DatabaseDamagedError, DatabaseVersionError, NotOurDatabaseError
from storage.models import ARCS, CHANGES, LOG, NODES, OUTCOMES, PROTOCOL_ROWS, VIRTUAL_NODES, Base
from storage.schema import NEWEST_REVISION, migrations_folder
from storage.store import LogWanted
from storage.urls import parse_database_url
from tests.integration.storage.rows import (
    ANNA,
    arc,
    contents,
    deleted_arc,
    log_record,
    node,
    outcome,
    protocol_row,
    whole_log,
)

ROOT = Path(__file__).parents[3]

LARGER_THAN_ANY_COLUMN = 2**80
"""Counter that makes a commit fail after all its rows are written."""


def run_sql(url: str, *statements: str) -> Sequence[tuple[object, ...]]:
    """Run statements as another program would, and return the rows of the last."""
    engine = create_engine(parse_database_url(url))
    with engine.begin() as connection:
        for statement in statements:
            result = connection.execute(text(statement))
        rows = [tuple(row) for row in result] if result.returns_rows else []
    engine.dispose()
    return rows


@pytest.mark.parametrize(
    ("table", "record"),
    [
        (NODES, NodeRecord),
        (ARCS, ArcRecord),
        (VIRTUAL_NODES, VirtualNodeRecord),
        (OUTCOMES, OutcomeRecord),
        (PROTOCOL_ROWS, ProtocolRow),
        (CHANGES, ChangeRecord),
        (LOG, LogRecord),
    ],
)
def test_the_columns_of_a_table_are_the_fields_of_its_record_and_a_checksum(table, record) -> None:
    assert tuple(table.columns.keys()) == (*record._fields, "checksum")


def test_migrations_and_models_agree(url) -> None:
    open_store(url, server=ANNA).close()
    engine = create_engine(parse_database_url(url))
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []
    engine.dispose()


def test_the_newest_revision_is_the_last_migration() -> None:
    assert ScriptDirectory(migrations_folder()).get_heads() == [NEWEST_REVISION]


def test_the_settings_in_pyproject_lead_to_the_migrations(monkeypatch) -> None:
    monkeypatch.chdir(ROOT)
    config = Config(toml_file=ROOT / "pyproject.toml")
    assert ScriptDirectory.from_config(config).get_heads() == [NEWEST_REVISION]


def test_alembic_works_from_its_command_line(url) -> None:
    def alembic(*arguments: str) -> str:
        command = [sys.executable, "-m", "alembic", "-x", f"url={url}", *arguments]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    alembic("upgrade", "head")
    assert NEWEST_REVISION in alembic("current")
    alembic("check")
    open_store(url, server=ANNA).close()


def test_every_migration_can_be_undone(url) -> None:
    open_store(url, server=ANNA).close()
    engine = create_engine(parse_database_url(url))
    with engine.begin() as connection:
        config = Config(attributes={"connection": connection})
        config.set_main_option("script_location", str(migrations_folder()))
        command.downgrade(config, "base")
        assert inspect(connection).get_table_names() == ["alembic_version"]
    engine.dispose()


def test_a_database_opens_from_any_folder(new_url, tmp_path) -> None:
    program = "import sys; from storage import open_store; open_store(sys.argv[1], server='anna').close()"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", program, new_url()], cwd=tmp_path, env=environment, check=True)


def test_a_database_from_a_newer_version_is_refused_and_left_as_it_was(url) -> None:
    open_store(url, server=ANNA).close()
    run_sql(url, "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(DatabaseVersionError, match=r"a newer shadowtree wrote it .*9999.*; run that newer"):
        open_store(url)
    assert run_sql(url, "SELECT version_num FROM alembic_version") == [("9999",)]


def test_a_database_without_its_version_is_refused(url) -> None:
    open_store(url, server=ANNA).close()
    run_sql(url, "DELETE FROM alembic_version")
    with pytest.raises(DatabaseDamagedError, match="0 versions"):
        open_store(url)


def test_a_database_of_another_program_is_refused_and_left_as_it_was(url) -> None:
    run_sql(url, "CREATE TABLE songs (title TEXT)")
    with pytest.raises(NotOurDatabaseError, match="tables of another program"):
        open_store(url, server=ANNA)
    assert run_sql(url, "SELECT count(*) FROM songs") == [(0,)]


def test_a_first_opening_that_fails_leaves_an_empty_database(url, monkeypatch) -> None:
    class Interrupted(BaseException):
        pass

    def interrupt(**_: object) -> None:
        raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr(sql_store, "settle_identity", interrupt)
        with pytest.raises(Interrupted):
            open_store(url, server=ANNA)
    engine = create_engine(parse_database_url(url))
    assert inspect(engine).get_table_names() == []
    engine.dispose()
    open_store(url, server=ANNA).close()


@pytest.mark.parametrize("rows", [1, 5_000])
def test_a_deletion_is_undone_with_the_commit_that_fails(url, rows) -> None:
    store = open_store(url, server=ANNA)
    before = Records(
        arcs=[arc(parent, 7) for parent in range(rows)], protocol=[protocol_row(f"{n:04}") for n in range(rows)]
    )
    store.commit(before)
    deletions = Records(
        nodes=[node(0)],
        arcs=[deleted_arc(parent, 7) for parent in range(rows)],
        protocol=[*(row._replace(value=None) for row in before.protocol), protocol_row("new")],
    )
    with pytest.raises((DataError, OverflowError)):
        store.commit(replace(deletions, counter=LARGER_THAN_ANY_COLUMN))
    found = contents(store)
    assert (found.nodes, found.arcs, found.protocol, found.counter) == ([], before.arcs, before.protocol, 0)
    store.commit(deletions)
    found = contents(store)
    assert (found.nodes, found.arcs, found.protocol) == ([node(0)], [], [protocol_row("new")])
    store.close()


@pytest.mark.parametrize("rows", [1, 5_000])
def test_a_row_that_cannot_be_stored_takes_its_whole_commit_with_it(url, rows) -> None:
    store = open_store(url, server=ANNA)
    store.commit(Records(nodes=[node(0)], counter=1))
    wrong = outcome("r", 1)._replace(digest=None)
    good = [arc(parent, 7) for parent in range(rows)]
    with pytest.raises((IntegrityError, sqlite3.IntegrityError), match=r"(?i)null"):
        store.commit(Records(nodes=[node(0, "changed@x"), node(1)], arcs=good, outcomes=[wrong], counter=2))
    assert contents(store).nodes == [node(0)]
    assert contents(store).arcs == []
    store.commit(Records(nodes=[node(1)], counter=3))
    assert contents(store).counter == 3
    store.close()


@pytest.mark.parametrize("rows", [1, 5_000])
def test_a_commit_that_fails_leaves_the_log_as_it_was_and_uncut(url, rows) -> None:
    store = open_store(url, server=ANNA)
    before = [log_record(1), log_record(2)]
    store.commit(Records(log=before))
    later = Records(log=[log_record(3 + row) for row in range(rows)], cut_log_through=1)
    with pytest.raises((DataError, OverflowError)):
        store.commit(replace(later, counter=LARGER_THAN_ANY_COLUMN))
    assert whole_log(store) == before
    store.commit(later)
    assert whole_log(store) == [before[1], *later.log]
    store.close()


def test_an_entry_of_the_log_that_is_not_what_was_written_is_refused_when_it_is_read_and_not_before(url) -> None:
    store = open_store(url, server=ANNA)
    store.commit(Records(log=[log_record(position) for position in (1, 2, 3)]))
    store.close()
    run_sql(url, "UPDATE log SET audience = 7 WHERE position = 2")
    store = open_store(url)
    store.load()
    assert store.read_log(LogWanted(0, through=1)) == [log_record(1)]
    assert store.read_log(LogWanted(2)) == [log_record(3)]
    with pytest.raises(DatabaseDamagedError, match=r"in the table log, the row with position 2 is not .*; restore"):
        store.read_log(LogWanted(0))
    store.commit(Records(log=[log_record(2)]))
    assert len(whole_log(store)) == 3
    store.close()


def test_no_more_of_the_log_is_fetched_than_is_given(url) -> None:
    store = open_store(url, server=ANNA)
    size = 256 * 1024
    store.commit(Records(log=[log_record(position, bytes(size)) for position in range(1, 65)]))
    tracemalloc.start()
    try:
        piece = store.read_log(LogWanted(0, bytes_limit=2 * size))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [record.position for record in piece] == [1, 2]
    assert peak < 8 * size
    store.close()


def test_a_missing_log_is_damage_that_reading_names(url) -> None:
    store = open_store(url, server=ANNA)
    run_sql(url, "DROP TABLE log")
    with pytest.raises(DatabaseDamagedError, match="tables are not as expected"):
        store.read_log(LogWanted(0))
    store.close()


def test_a_missing_node_is_damage_that_loading_names(url) -> None:
    store = open_store(url, server=ANNA)
    store.commit(Records(nodes=[node(0), node(2)]))
    with pytest.raises(DatabaseDamagedError, match="the row of node 1 is missing or wrong; restore"):
        contents(store)
    store.commit(Records(nodes=[node(1)]))
    assert len(contents(store).nodes) == 3
    store.close()


def test_a_missing_table_is_damage_that_loading_names(url) -> None:
    store = open_store(url, server=ANNA)
    run_sql(url, "DROP TABLE arcs")
    with pytest.raises(DatabaseDamagedError, match="tables are not as expected"):
        contents(store)
    store.close()


def test_a_state_that_was_read_in_part_does_not_hold_up_the_next_reading(url) -> None:
    store = open_store(url, server=ANNA)
    store.commit(Records(nodes=[node(number) for number in range(1_000)]))
    nodes = iter(store.load().nodes)
    next(nodes)
    del nodes
    store.commit(Records(nodes=[node(1_000)]))
    assert len(contents(store).nodes) == 1_001
    store.close()
