"""SQLite alone: the file, its folder, its lock, its room on the disk."""

from __future__ import annotations

import os
import pwd
import resource
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest
from sqlalchemy import create_engine

from namegraph.model.rows import Records
from storage import StorageError, Store, open_store
from storage.errors import (
    DatabaseDamagedError,
    DatabaseFullError,
    DatabaseInterruptedError,
    DatabaseInUseError,
    DatabaseLostError,
    DatabaseUnavailableError,
    NotOurDatabaseError,
    ServerNotNamedError,
)
from storage.models import Base
from tests.integration.storage.rows import ANNA, arc, contents, node, outcome

MANY_ARCS = Records(arcs=[arc(parent, 1) for parent in range(100_000)])


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "names.db"


@pytest.fixture
def store(path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{path}", server=ANNA)
    yield opened
    opened.close()


def pragma(store: Store, statement: str) -> object:
    """Ask the connection of a store; only tests reach into it."""
    connection = store._engine.connection  # type: ignore[attr-defined]
    with connection.begin():
        return connection.exec_driver_sql(f"PRAGMA {statement}").scalar()


@contextmanager
def without_privileges() -> Iterator[None]:
    """Make file permissions hold for this process as for any user, even if it runs as root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(pwd.getpwnam("nobody").pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)


def test_commits_are_flushed_to_the_disk_through_a_write_ahead_log(store) -> None:
    full = 2
    assert pragma(store, "journal_mode") == "wal"
    assert pragma(store, "synchronous") == full


def test_a_relative_url_names_a_file_in_the_working_folder(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store("sqlite:///here.db", server=ANNA)
    monkeypatch.chdir("/")
    store.commit(Records(nodes=[node(0)]))
    store.close()
    assert (tmp_path / "here.db").exists()


def test_a_file_name_may_hold_what_urls_and_databases_treat_specially(tmp_path) -> None:
    path = tmp_path / "q%20é 日 'x\".db"
    store = open_store(f"sqlite:///{quote(str(path))}", server=ANNA)
    store.commit(Records(nodes=[node(0)]))
    store.close()
    assert path.exists()


def test_the_migrated_tables_equal_those_of_the_models_to_the_letter(path, store, tmp_path) -> None:
    def layout(file: Path) -> list[tuple[str, str]]:
        with closing(sqlite3.connect(file)) as connection:
            rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name")
            return [(name, " ".join(sql.split())) for name, sql in rows if name != "alembic_version"]

    made = tmp_path / "made.db"
    engine = create_engine(f"sqlite:///{made}")
    Base.metadata.create_all(engine)
    engine.dispose()
    assert layout(path) == layout(made)


def test_protocol_rows_are_found_by_an_index_that_holds_no_values(path, store) -> None:
    """An import is under way in letters of megabytes, which a search would read as it passes them."""
    with closing(sqlite3.connect(path)) as reader:
        query = "EXPLAIN QUERY PLAN SELECT value FROM protocol_rows WHERE part = 'p' AND key = 'k'"
        (plan,) = reader.execute(query).fetchall()
    assert "USING INDEX" in plan[-1]


def test_another_program_may_read_while_the_server_runs(path, store) -> None:
    store.commit(Records(nodes=[node(0)]))
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM nodes").fetchall() == [(1,)]
        store.commit(Records(nodes=[node(1)]))
        assert reader.execute("SELECT count(*) FROM nodes").fetchall() == [(1,)]


def test_a_second_server_is_told_the_process_that_has_the_file(path, store) -> None:
    with pytest.raises(DatabaseInUseError, match=rf"process {os.getpid()}\) is using it; stop that server"):
        open_store(f"sqlite:///{path}")


def test_a_second_server_is_refused_under_another_name_of_the_file(path, store, tmp_path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(path)
    with pytest.raises(DatabaseInUseError):
        open_store(f"sqlite:///{link}")


def test_a_program_that_keeps_the_file_locked_is_named_as_the_cause(path, store, monkeypatch) -> None:
    pragma(store, "busy_timeout = 1")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseInUseError, match="another program has kept it locked"):
            store.commit(Records(nodes=[node(0)]))
    store.commit(Records(nodes=[node(0)]))
    assert contents(store).nodes == [node(0)]


def test_a_missing_folder_is_named(tmp_path) -> None:
    with pytest.raises(DatabaseUnavailableError, match=r"the folder .*/missing does not exist; create that folder"):
        open_store(f"sqlite:///{tmp_path}/missing/names.db", server=ANNA)


def test_a_file_where_a_folder_should_be_is_named(tmp_path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DatabaseUnavailableError, match=r"the folder .*/file does not exist"):
        open_store(f"sqlite:///{tmp_path}/file/names.db", server=ANNA)


def test_a_folder_in_place_of_the_file_is_refused(tmp_path) -> None:
    with pytest.raises(NotOurDatabaseError, match="it is a folder"):
        open_store(f"sqlite:///{tmp_path}", server=ANNA)


def test_a_read_only_folder_is_refused(store) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o555)
        with (
            without_privileges(),
            pytest.raises(DatabaseUnavailableError, match=r"cannot write .*names\.db\.lock: Permission denied"),
        ):
            open_store(f"sqlite:///{folder}/names.db", server=ANNA)
        assert list(folder.iterdir()) == []


def test_a_read_only_file_is_refused(path, store) -> None:
    store.close()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        copy = folder / "names.db"
        copy.write_bytes(path.read_bytes())
        copy.chmod(0o444)
        with without_privileges(), pytest.raises(DatabaseUnavailableError, match="cannot be written"):
            open_store(f"sqlite:///{copy}")


def test_a_folder_that_may_not_be_entered_is_refused(store) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "private"
        folder.mkdir(mode=0o000)
        Path(name).chmod(0o755)
        with (
            without_privileges(),
            pytest.raises(DatabaseUnavailableError, match=r"cannot be reached .Permission denied"),
        ):
            open_store(f"sqlite:///{folder}/names.db", server=ANNA)


def test_a_loop_of_symbolic_links_is_refused(tmp_path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(StorageError, match="symbolic links"):
        open_store(f"sqlite:///{tmp_path}/a", server=ANNA)


def test_a_name_that_is_too_long_is_refused_in_one_line(tmp_path) -> None:
    with pytest.raises(StorageError, match="File name too long") as refused:
        open_store(f"sqlite:///{tmp_path}/{'n' * 300}.db", server=ANNA)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_no_database_is_refused_and_left_as_it_was(path) -> None:
    text = b"Dear diary, this is no database.\n" * 100
    path.write_bytes(text)
    with pytest.raises(NotOurDatabaseError, match="no SQLite database"):
        open_store(f"sqlite:///{path}", server=ANNA)
    assert path.read_bytes() == text


def test_a_damaged_file_is_refused_with_the_page_and_the_way_back(path, store) -> None:
    store.commit(MANY_ARCS)
    store.close()
    with path.open("r+b") as file:
        file.seek(200 * 4096)
        file.write(b"\xff" * 50 * 4096)
    with pytest.raises(DatabaseDamagedError, match=r"the file is damaged \(.*[Pp]age \d+.*; restore it from a backup"):
        open_store(f"sqlite:///{path}")


def test_opening_without_a_name_makes_no_file(path) -> None:
    with pytest.raises(ServerNotNamedError, match="does not exist and no server is named"):
        open_store(f"sqlite:///{path}")
    assert list(path.parent.iterdir()) == []


def test_a_full_database_stores_nothing_of_the_commit_and_works_again_once_there_is_room(store) -> None:
    store.commit(Records(nodes=[node(0)], counter=1))
    pages = pragma(store, "page_count")
    pragma(store, f"max_page_count = {pages}")
    with pytest.raises(DatabaseFullError, match="the disk is full; make room"):
        store.commit(Records(nodes=[node(0, "changed@x")], arcs=MANY_ARCS.arcs, counter=2))
    assert contents(store).nodes == [node(0)]
    assert contents(store).arcs == []
    pragma(store, "max_page_count = 1000000")
    store.commit(MANY_ARCS)
    assert contents(store).arcs == MANY_ARCS.arcs


@pytest.mark.parametrize("records", [MANY_ARCS, Records(outcomes=[outcome("r", 1, answer="x" * 500_000)])])
def test_a_write_that_the_system_refuses_stores_nothing_and_a_later_one_works(path, store, records) -> None:
    store.commit(Records(nodes=[node(0)], counter=1))
    log = path.with_name("names.db-wal")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (log.stat().st_size + 100_000, limits[1]))
    try:
        with pytest.raises(StorageError, match="the disk"):
            store.commit(records)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert contents(store).arcs == []
    assert contents(store).outcomes == []
    store.commit(records)
    store.close()
    again = open_store(f"sqlite:///{path}")
    found = contents(again)
    assert (found.nodes, found.arcs, found.outcomes) == ([node(0)], records.arcs, records.outcomes)
    again.close()


@pytest.mark.parametrize("name", ["names.db", "names.db.lock"])
def test_a_file_that_is_removed_while_in_use_holds_the_store_up_until_it_is_back(path, store, name) -> None:
    store.commit(Records(nodes=[node(0)]))
    path.with_name(name).rename(path.with_name("away"))
    for _ in range(2):
        with pytest.raises(DatabaseInterruptedError, match="removed, renamed or replaced while in use; put it back"):
            store.commit(Records(nodes=[node(1)]))
        with pytest.raises(DatabaseInterruptedError):
            store.probe()
    path.with_name("away").rename(path.with_name(name))
    store.probe()
    store.commit(Records(nodes=[node(1)]))
    assert contents(store).nodes == [node(0), node(1)]


def test_a_file_that_is_replaced_while_in_use_is_not_written_to(path, store) -> None:
    content = path.read_bytes()
    path.rename(path.with_name("old.db"))
    path.write_bytes(content)
    with pytest.raises(DatabaseInterruptedError):
        store.commit(Records(nodes=[node(1)]))
    assert path.read_bytes() == content


def test_a_file_that_another_server_used_meanwhile_is_lost(path, store) -> None:
    store.commit(Records(nodes=[node(0)]))
    elsewhere = path.with_name("elsewhere.db")
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).rename(elsewhere.with_name(elsewhere.name + suffix))
    with pytest.raises(DatabaseInterruptedError):
        store.commit(Records(nodes=[node(1)]))
    other = open_store(f"sqlite:///{elsewhere}")
    other.commit(Records(nodes=[node(1, "others@x")]))
    for suffix in ("", "-wal", "-shm"):
        elsewhere.with_name(elsewhere.name + suffix).rename(path.with_name(path.name + suffix))
    for _ in range(2):
        with pytest.raises(DatabaseLostError, match="another server used it"):
            store.commit(Records(nodes=[node(1)]))
    other.close()


def test_a_read_only_database_refuses_a_commit_and_takes_it_later(store) -> None:
    store.commit(Records(nodes=[node(0)]))
    driver_connection = store._engine.connection.connection.driver_connection  # type: ignore[attr-defined]
    driver_connection.execute("PRAGMA query_only = ON")
    with pytest.raises(DatabaseUnavailableError, match=r"the file cannot be written .*; let this user write the file"):
        store.commit(Records(nodes=[node(1)]))
    driver_connection.execute("PRAGMA query_only = OFF")
    store.commit(Records(nodes=[node(1)]))
    assert contents(store).nodes == [node(0), node(1)]
