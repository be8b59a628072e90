"""A SQLite file, its write-ahead log and its mark belong together. Files that do not are refused, and left as they are.

Files that a crash or a loss of power can leave behind are never refused. They are copied as they are at many moments,
and as if only some pages of a checkpoint had reached the disk.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from zlib import crc32

import pytest
from alembic import command
from sqlalchemy import create_engine

from namegraph.model.names import ServerId
from namegraph.model.rows import Records
from storage import StorageError, Store, open_store
from storage import sqlite as storage_sqlite
from storage.errors import (
    DatabaseDamagedError,
    DatabaseInterruptedError,
    DatabaseUnavailableError,
    DatabaseVersionError,
    NotOurDatabaseError,
    ServerIdentityError,
)
from storage.urls import parse_database_url
from tests.integration.storage.rows import ANNA, BERTA, Contents, arc, contents, node, outcome
from tests.integration.storage.test_damage import change_a_value, found_in
from tests.integration.storage.test_upgrade import migrate

PAGE = 4096


def opened(path: Path, server: ServerId | None = ANNA) -> Store:
    return open_store(f"sqlite:///{path}", server=server)


def update(number: int) -> Records:
    """Return an update that touches some pages of earlier updates, and fills new ones. Odd numbers leave their member
    again.
    """
    return Records(
        nodes=[node(number, version=number)],
        arcs=[arc(number, 0), arc(number // 2, 1, present=number % 2 == 0)],
        outcomes=[outcome(f"request {number}", number, answer="x" * 300)],
        counter=number,
    )


def commit(store: Store, first: int, last: int) -> None:
    for number in range(first, last + 1):
        store.commit(update(number))


def killed(path: Path, folder: Path) -> Path:
    """Copy the files as the end of this process would leave them now, into another folder."""
    folder.mkdir()
    for file in path.parent.glob(f"{path.name}*"):
        shutil.copy(file, folder)
    return folder / path.name


def beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def checkpoint(path: Path, how: str) -> None:
    with closing(sqlite3.connect(path)) as other:
        assert other.execute(f"PRAGMA wal_checkpoint({how})").fetchone()[0] == 0


@pytest.fixture(scope="module", params=["cut off", "overwritten"])
def made(request, tmp_path_factory) -> Path:
    """The files that the tests combine, by how the log of the server begins anew.

    ended: after a clean stop with 100 updates. killed: the same server later, with 200, of which a log holds some 40.
    at_stop, running, vacuumed: copies made in between (running: 150 updates; vacuumed: 200, as VACUUM INTO lays it
    out). berta: another server, killed, with far more commits. new-berta: the same without commits.
    """
    folder = tmp_path_factory.mktemp("made")
    (folder / "work").mkdir()
    path = folder / "work" / "names.db"
    with closing(opened(path)) as store:
        commit(store, 0, 100)
    shutil.copytree(folder / "work", folder / "ended")
    shutil.copy(path, folder / "at_stop.db")
    with closing(opened(path)) as store, pytest.MonkeyPatch.context() as patch:
        commit(store, 101, 150)
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(folder / "running.db")) as target:
            source.backup(target)
        patch.setattr(storage_sqlite, "LOG_LIMIT_BYTES", 0)
        if request.param == "cut off":
            patch.setattr(storage_sqlite, "LOG_KEPT_BYTES", -1)
        commit(store, 151, 160)
        patch.undo()
        commit(store, 161, 200)
        killed(path, folder / "killed")
        with closing(sqlite3.connect(path)) as source:
            source.execute("VACUUM INTO ?", [str(folder / "vacuumed.db")])
    (folder / "work-of-berta").mkdir()
    path = folder / "work-of-berta" / "names.db"
    with closing(opened(path, BERTA)) as store:
        killed(path, folder / "new-berta")
        commit(store, 0, 300)
        killed(path, folder / "berta")
    return folder


@pytest.fixture
def expected(made, tmp_path) -> Contents:
    found = found_in(shutil.copytree(made / "killed", tmp_path / "expected") / "names.db")
    assert isinstance(found, Contents)
    assert found.counter == 200
    return found


Preparation = Callable[[Path, Path], None]
"""Gets the folder of what was made, and the file of the killed server, to do something to."""


def foreign_log(made: Path, path: Path) -> None:
    shutil.copy(made / "berta" / "names.db-wal", path.parent)
    beside(path, "-shm").unlink()


def log_of_a_new_server(made: Path, path: Path) -> None:
    shutil.copy(made / "new-berta" / "names.db-wal", path.parent)
    beside(path, "-shm").unlink()


def foreign_log_without_a_mark(made: Path, path: Path) -> None:
    foreign_log(made, path)
    beside(path, ".mark").unlink()


def all_files_of_another_server(made: Path, path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        shutil.copy(made / "berta" / f"names.db{suffix}", path.parent)


def log_cut_short(_made: Path, path: Path) -> None:
    log = beside(path, "-wal")
    log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])


def log_removed(_made: Path, path: Path) -> None:
    beside(path, "-wal").unlink()


def copy_of(name: str, *, mark: bool = True) -> Preparation:
    def put_back(made: Path, path: Path) -> None:
        shutil.copy(made / name, path)
        if not mark:
            beside(path, ".mark").unlink()

    return put_back


def older_log(made: Path, path: Path) -> None:
    """Use an older log. The file has gone on since."""
    log = beside(path, "-wal").read_bytes()
    with closing(opened(path)) as store:
        commit(store, 201, 210)
    beside(path, "-wal").write_bytes(log)
    beside(path, ".mark").unlink()


def older_layout(made: Path, path: Path) -> None:
    """Use a copy from before the upgrade to this version."""
    shutil.copy(made / "ended" / "names.db", path)
    shutil.move(path, path.with_name("old.db"))
    engine = create_engine(parse_database_url(f"sqlite:///{path.with_name('old.db')}"))
    migrate(engine, command.downgrade, "0004")
    engine.dispose()
    checkpoint(path.with_name("old.db"), "TRUNCATE")
    shutil.move(path.with_name("old.db"), path)
    for suffix in ("-wal", "-shm"):
        path.with_name(f"old.db{suffix}").unlink(missing_ok=True)


def changed(statement: str) -> Preparation:
    """Return a change by another program, which leaves the change in the log."""

    def change(_made: Path, path: Path) -> None:
        work = path.with_name("work.db")
        for suffix in ("", "-wal"):
            shutil.copy(beside(path, suffix), beside(work, suffix))
        with closing(sqlite3.connect(work)) as connection:
            connection.execute(statement)
            connection.commit()
            for suffix in ("", "-wal"):
                shutil.copy(beside(work, suffix), beside(path, suffix))
        work.unlink()

    return change


def damaged(_made: Path, path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[PAGE * 3 :] = b"\xff" * (len(content) - PAGE * 3)
    path.write_bytes(content)


def file_removed(_made: Path, path: Path) -> None:
    path.unlink()


def file_emptied_and_mark_removed(_made: Path, path: Path) -> None:
    path.write_bytes(b"")
    beside(path, ".mark").unlink()


def hard_link(_made: Path, path: Path) -> None:
    path.with_name("other.db").hardlink_to(path)


def nothing(_made: Path, _path: Path) -> None:
    pass


REFUSALS: list[tuple[Preparation, ServerId | None, type[StorageError], str]] = [
    (foreign_log, None, ServerIdentityError, "to the server 'anna', but names.db-wal to the server 'berta'"),
    (foreign_log, ANNA, ServerIdentityError, "but names.db-wal to the server 'berta'"),
    (foreign_log, BERTA, ServerIdentityError, "but names.db-wal to the server 'berta'"),
    (foreign_log_without_a_mark, None, ServerIdentityError, "but names.db-wal to the server 'berta'"),
    (log_of_a_new_server, None, ServerIdentityError, "but names.db-wal to the server 'berta'"),
    (all_files_of_another_server, None, ServerIdentityError, "'berta', but names.db.mark to the server 'anna'"),
    (nothing, BERTA, ServerIdentityError, "it belongs to the server 'anna', not to 'berta'"),
    (log_cut_short, None, DatabaseDamagedError, "names.db.mark tells of commit 202"),
    (log_removed, None, DatabaseDamagedError, "names.db.mark tells of commit 202"),
    (copy_of("at_stop.db"), None, DatabaseDamagedError, "names.db-wal belongs to another copy of it"),
    (copy_of("at_stop.db", mark=False), None, DatabaseDamagedError, "names.db-wal belongs to another copy of it"),
    (copy_of("running.db"), None, DatabaseDamagedError, "names.db-wal belongs to another copy of it"),
    (copy_of("running.db", mark=False), None, DatabaseDamagedError, "move names.db-wal and names.db.mark away"),
    (copy_of("vacuumed.db"), None, DatabaseDamagedError, r"\(the file was copied without a log\)"),
    (older_log, None, DatabaseDamagedError, "names.db-wal belongs to another copy of it"),
    (older_layout, None, DatabaseDamagedError, "names.db-wal belongs to another copy of it"),
    (changed("UPDATE alembic_version SET version_num = '9999'"), None, DatabaseVersionError, "a newer shadowtree"),
    (changed("ALTER TABLE nodes ADD COLUMN more INTEGER"), None, DatabaseDamagedError, "index nodes is not as it"),
    (changed("UPDATE nodes SET node_id = 'other@x' WHERE node = 7"), None, DatabaseDamagedError, "the table nodes"),
    (changed("UPDATE server SET counter = 9"), None, DatabaseDamagedError, "the table server"),
    (damaged, None, DatabaseDamagedError, "the file is damaged"),
    (file_removed, ANNA, DatabaseDamagedError, "names.db.mark tells of commit 202"),
    (file_emptied_and_mark_removed, ANNA, DatabaseDamagedError, "missing or empty, but names.db-wal is there"),
    (hard_link, None, NotOurDatabaseError, "it has another name"),
]


@pytest.mark.parametrize(("prepare", "server", "kind", "why"), REFUSALS)
def test_whatever_is_refused_is_left_as_it_is(made, tmp_path, prepare, server, kind, why) -> None:
    path = shutil.copytree(made / "killed", tmp_path / "copy") / "names.db"
    prepare(made, path)
    kept = {file: file.read_bytes() for file in path.parent.iterdir() if file.suffix != ".lock"}

    def start() -> None:
        with closing(opened(path, server)) as store:
            contents(store)

    for _ in range(2):
        with pytest.raises(kind, match=why) as refused:
            start()
        assert "\n" not in str(refused.value)
        for file, content in kept.items():
            # The index of the log is made from the log.
            assert file.read_bytes() == content or file.name == "names.db-shm"
        new = {file.name for file in path.parent.iterdir()} - {file.name for file in kept}
        assert new <= {"names.db.lock", "names.db-shm"}


@pytest.mark.parametrize("server", [ANNA, None])
def test_nothing_is_left_beside_the_file_of_another_program_which_keeps_its_kind_of_journal(tmp_path, server) -> None:
    path = tmp_path / "songs.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE songs (title TEXT)")
    before = path.read_bytes()
    with pytest.raises(NotOurDatabaseError, match="tables of another program"):
        opened(path, server)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_copy_of_the_commit_that_the_log_goes_on_from_is_as_good_as_the_file(made, tmp_path) -> None:
    path = tmp_path / "names.db"
    with closing(opened(path)) as store:
        commit(store, 0, 9)
    shutil.copy(path, tmp_path / "copy")
    with closing(opened(path)) as store:
        commit(store, 10, 19)
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(tmp_path / "later")) as target:
            source.backup(target)
        commit(store, 20, 29)
        expected = contents(store)
        for name in ("copy", "later"):
            again = killed(path, tmp_path / f"{name} again")
            shutil.copy(tmp_path / name, again)
            shutil.copy(tmp_path / name, again.with_name("names.db"))
            assert found_in(again.with_name("names.db")) == expected


def test_an_older_copy_without_its_log_and_mark_goes_on_by_itself(made, tmp_path) -> None:
    for name, counter in (("at_stop.db", 100), ("running.db", 150), ("vacuumed.db", 200)):
        path = tmp_path / name
        shutil.copy(made / name, path)
        with closing(opened(path, None)) as store:
            assert contents(store).counter == counter
            commit(store, counter + 1, counter + 9)
            again = killed(path, tmp_path / f"again {name}")
        for file in (path, again):
            found = found_in(file)
            assert isinstance(found, Contents)
            assert found.counter == counter + 9


def test_two_copies_that_went_on_apart_do_not_take_each_others_logs(made, tmp_path) -> None:
    left, right = (shutil.copytree(made / "killed", tmp_path / name) / "names.db" for name in ("left", "right"))
    for path in (left, right):
        with closing(opened(path)) as store:
            commit(store, 201, 205)
            killed(path, path.parent / "killed")
    mixed = left.parent / "killed" / "names.db"
    checkpoint(mixed, "PASSIVE")
    shutil.copy(right.parent / "killed" / "names.db-wal", mixed.parent)
    with closing(opened(left)) as store:
        commit(store, 206, 206)
    shutil.copy(left, mixed)
    assert "names.db-wal belongs to another copy of it" in str(found_in(mixed))


@pytest.mark.parametrize("kept_pages", [0, 1000])
def test_what_is_left_by_a_kill_at_any_moment_is_accepted(tmp_path, monkeypatch, kept_pages) -> None:
    """Also between the steps of a start, and of a checkpoint that a reader holds up."""
    monkeypatch.setattr(storage_sqlite, "LOG_LIMIT_BYTES", 20 * PAGE)
    monkeypatch.setattr(storage_sqlite, "LOG_KEPT_BYTES", kept_pages * PAGE)
    path = tmp_path / "names.db"
    moments = 0

    def look(counters: set[int]) -> None:
        nonlocal moments
        moments += 1
        found = found_in(killed(path, tmp_path / f"moment {moments}"))
        assert isinstance(found, Contents), (moments, str(found))
        assert found.counter in counters

    def at_each_step(method: str) -> None:
        real = getattr(storage_sqlite._SqliteEngine, method)

        def step(engine: object, *arguments: object) -> object:
            look({done, done + 1})
            result = real(engine, *arguments)
            look({done, done + 1})
            return result

        monkeypatch.setattr(storage_sqlite._SqliteEngine, method, step)

    at_each_step("_copy_log")
    at_each_step("acknowledge")
    done = 0
    with closing(opened(path)) as store:
        commit(store, 0, 0)
    with closing(sqlite3.connect(tmp_path / "nothing")) as reader:
        for life in range(6):
            with closing(opened(path)) as store:
                assert contents(store).counter == done
                for _ in range(8):
                    store.commit(update(done + 1))
                    done += 1
                    look({done})
                if life == 2:
                    reader.close()
                    reader = sqlite3.connect(path)  # noqa: PLW2901
                    reader.execute("BEGIN")
                    reader.execute("SELECT count(*) FROM nodes").fetchall()
                elif life == 4:
                    reader.close()
                again = killed(path, tmp_path / f"life {life}")
            if life % 2 and life != 3:
                # The next life begins with what a kill left; a reader would be of another file then.
                for suffix in ("", "-wal", "-shm"):
                    beside(path, suffix).unlink(missing_ok=True)
                    shutil.copy(beside(again, suffix), beside(path, suffix))


@pytest.mark.parametrize("seed", range(30))
def test_a_checkpoint_of_which_only_some_pages_reached_the_disk_is_accepted(made, expected, tmp_path, seed) -> None:
    chance = random.Random(seed)
    path = shutil.copytree(made / "killed", tmp_path / "copy") / "names.db"
    log = beside(path, "-wal").read_bytes()
    before = path.read_bytes()
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        after = path.read_bytes()
        assert after != before
    pages = range(len(after) // PAGE)
    written = [page for page in pages if chance.random() < 0.5]
    content = bytearray(before.ljust(len(after), b"\0"))
    for page in written:
        content[page * PAGE : (page + 1) * PAGE] = after[page * PAGE : (page + 1) * PAGE]
    path.write_bytes(content)
    beside(path, "-wal").write_bytes(log)
    assert found_in(path) == expected


def test_a_database_of_the_layout_before_opens_with_its_log(made, expected, tmp_path) -> None:
    path = tmp_path / "old" / "names.db"
    path.parent.mkdir()
    shutil.copytree(made / "killed", tmp_path / "killed")
    for suffix in ("", "-wal", ".mark"):
        shutil.copy(beside(tmp_path / "killed" / "names.db", suffix), beside(path, suffix))
    engine = create_engine(parse_database_url(f"sqlite:///{path}"))
    with engine.connect() as holder:
        holder.exec_driver_sql("SELECT count(*) FROM nodes").fetchall()
        migrate(engine, command.downgrade, "0004")
        beside(path, ".mark").write_bytes(b"202 %08x\n" % crc32(b"202"))
        again = killed(path, tmp_path / "again")
    engine.dispose()
    assert beside(again, "-wal").stat().st_size > 0
    for _ in range(2):
        assert found_in(again) == expected
    with closing(opened(again)) as store:
        commit(store, 201, 202)
        third = killed(again, tmp_path / "third")
    found = found_in(third)
    assert isinstance(found, Contents)
    assert found.counter == 202


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
def test_a_log_that_is_removed_while_in_use_stops_the_commits_and_is_saved_by_closing(tmp_path, suffix) -> None:
    path = tmp_path / "names.db"
    store = opened(path)
    commit(store, 0, 9)
    beside(path, suffix).unlink()
    for _ in range(2):
        with pytest.raises(DatabaseInterruptedError, match=rf"names\.db{suffix} was removed, renamed or replaced"):
            store.commit(update(10))
        with pytest.raises(DatabaseInterruptedError):
            store.probe()
    store.close()
    found = found_in(path)
    assert isinstance(found, Contents)
    assert found.counter == 9


def test_a_log_that_is_removed_before_the_first_commit_is_saved_by_closing(made, expected, tmp_path) -> None:
    path = shutil.copytree(made / "killed", tmp_path / "copy") / "names.db"
    store = opened(path)
    beside(path, "-wal").unlink()
    with pytest.raises(DatabaseInterruptedError, match=r"names\.db-wal was removed"):
        store.commit(update(201))
    store.close()
    assert found_in(path) == expected


def test_a_log_is_moved_away_and_put_back(tmp_path) -> None:
    path = tmp_path / "names.db"
    with closing(opened(path)) as store:
        commit(store, 0, 9)
        beside(path, "-wal").rename(tmp_path / "away")
        with pytest.raises(DatabaseInterruptedError):
            store.commit(update(10))
        (tmp_path / "away").rename(beside(path, "-wal"))
        commit(store, 10, 11)
        assert contents(store).counter == 11


def test_the_log_stays_short_and_commits_go_on_while_somebody_reads(tmp_path) -> None:
    path = tmp_path / "names.db"
    letter = "x" * 500_000
    with closing(opened(path)) as store:
        store.commit(Records(nodes=[node(0)]))
        for number in range(1, 30):
            store.commit(Records(outcomes=[outcome("r", number, answer=letter)]))
            assert beside(path, "-wal").stat().st_size < storage_sqlite.LOG_LIMIT_BYTES + 4 * len(letter)
        with closing(sqlite3.connect(path)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM nodes").fetchall()
            for number in range(30, 60):
                store.commit(Records(outcomes=[outcome("r", number, answer=letter)]))
            assert beside(path, "-wal").stat().st_size > storage_sqlite.LOG_LIMIT_BYTES + 4 * len(letter)
        store.commit(Records(nodes=[node(1)]))
        assert beside(path, "-wal").stat().st_size == 0
        store.commit(Records(nodes=[node(1)]))
        assert 0 < beside(path, "-wal").stat().st_size < storage_sqlite.LOG_LIMIT_BYTES


def test_a_log_that_begins_anew_is_overwritten_unless_it_is_very_long(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(storage_sqlite, "LOG_LIMIT_BYTES", 20 * PAGE)
    monkeypatch.setattr(storage_sqlite, "LOG_KEPT_BYTES", 40 * PAGE)
    path = tmp_path / "names.db"
    sizes, generations = [], set()
    with closing(opened(path)) as store, closing(sqlite3.connect(path)) as reader:
        for number in range(300):
            store.commit(update(number))
            sizes.append(beside(path, "-wal").stat().st_size)
            generations.update(reader.execute("SELECT generation FROM server"))
        assert len(generations) > 10
        assert max(sizes) < 50 * PAGE
        assert sizes.count(0) < len(generations) / 2
        assert sum(size == before for before, size in pairwise(sizes)) > 200

        store.commit(Records(outcomes=[outcome("r", 1, answer="x" * 100 * PAGE)]))
        assert beside(path, "-wal").stat().st_size == 0


def test_a_changed_value_is_found_without_a_log_too_and_nothing_is_written(made, tmp_path) -> None:
    path = shutil.copytree(made / "ended", tmp_path / "copy") / "names.db"
    change_a_value(path, "UPDATE nodes SET node_id = 'other@x' WHERE node = 7")
    before = path.read_bytes()
    assert "in the table nodes" in str(found_in(path))
    assert path.read_bytes() == before


@pytest.mark.parametrize("suffix", [".lock", ".mark"])
@pytest.mark.parametrize("kind", ["a link", "a link to nothing", "a second name", "a pipe", "a folder"])
def test_what_others_put_in_the_place_of_a_file_of_ours_is_not_touched(tmp_path: Path, suffix: str, kind: str) -> None:
    victim, place = tmp_path / "victim.txt", tmp_path / f"names.db{suffix}"
    if kind != "a link to nothing":
        victim.write_text("precious")
    match kind:
        case "a link" | "a link to nothing":
            place.symlink_to(victim)
        case "a second name":
            place.hardlink_to(victim)
        case "a pipe":
            os.mkfifo(place)
        case "a folder":
            place.mkdir()
    with pytest.raises(DatabaseUnavailableError, match=re.escape(str(place))) as caught:
        opened(tmp_path / "names.db")
    assert "\n" not in str(caught.value)
    assert victim.exists() is (kind != "a link to nothing")
    assert not victim.exists() or victim.read_text() == "precious"
