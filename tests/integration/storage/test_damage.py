"""Damage to a SQLite database: refused when it is opened or loaded, or without effect on what is found.

A database as a server leaves it when it ends, and one as `kill -9` leaves it, with its write-ahead log, have bits
flipped, parts overwritten and ends cut off at random places.
"""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from namegraph.model.rows import Records
from storage import StorageError, open_store
from storage.errors import DatabaseDamagedError
from tests.integration.storage.rows import (
    ANNA,
    Contents,
    arc,
    contents,
    deleted_arc,
    log_record,
    node,
    outcome,
    protocol_row,
    virtual_node,
)

SEEDS = range(60)
SECTOR_BYTES = 512

Damage = Callable[[random.Random, Path], None]


def updates(chance: random.Random) -> Iterator[Records]:
    """Yield records such as a server commits, one update after another."""
    for number in range(1, 400):
        ends = chance.randrange(number), chance.randrange(number)
        yield Records(
            nodes=[node(number - 1, version=number), node(ends[0], version=number, version_server=ANNA)],
            virtual_nodes=[virtual_node(number, counter=number)] if number % 20 == 0 else [],
            arcs=[arc(*ends, version=number), deleted_arc(*reversed(ends)) if number % 7 == 0 else arc(*ends)],
            outcomes=[outcome(f"request {number}", number, answer="x" * chance.randrange(300))],
            protocol=[protocol_row(str(number), bytes(chance.randrange(200))), protocol_row(str(number - 9), None)],
            forget_outcomes_through=number - 200,
            log=[log_record(number, bytes(number))],
            cut_log_through=number - 200,
            counter=number,
        )


@pytest.fixture(scope="module")
def left_behind(tmp_path_factory) -> dict[str, tuple[Path, Contents]]:
    """A folder with the files, and their content, by the way in which the server ended."""
    ended, killed = tmp_path_factory.mktemp("ended"), tmp_path_factory.mktemp("killed")
    store = open_store(f"sqlite:///{ended}/names.db", server=ANNA)
    history = list(updates(random.Random(1)))
    for records in history[:-50]:
        store.commit(records)
    store.close()
    store = open_store(f"sqlite:///{ended}/names.db")
    for records in history[-50:]:
        store.commit(records)
    expected = contents(store)
    for file in ended.iterdir():
        # What is written is there for others, as it is after the end of the process that wrote it.
        shutil.copy(file, killed)
    store.close()
    assert (killed / "names.db-wal").stat().st_size > 100_000
    return {"ended": (ended, expected), "killed": (killed, expected)}


def flip_bits(chance: random.Random, path: Path) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(chance.choice((1, 1, 1, 5))):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def flip_in_the_first_page(chance: random.Random, path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[chance.randrange(4096)] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def overwrite_a_sector(chance: random.Random, path: Path) -> None:
    content = bytearray(path.read_bytes())
    start = chance.randrange(len(content) // SECTOR_BYTES) * SECTOR_BYTES
    content[start : start + SECTOR_BYTES] = chance.choice((bytes(SECTOR_BYTES), chance.randbytes(SECTOR_BYTES)))
    path.write_bytes(content)


def cut_off(chance: random.Random, path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: chance.choice((chance.randrange(len(content)), 4096 * (len(content) // 8192)))])


def found_in(path: Path) -> Contents | StorageError:
    """Return the state that a server starting on the database would find, or its refusal."""
    try:
        store = open_store(f"sqlite:///{path}", server=ANNA)
    except StorageError as error:
        return error
    try:
        return contents(store)
    except StorageError as error:
        return error
    finally:
        store.close()


def copy(folder: Path, target: Path) -> Path:
    shutil.copytree(folder, target)
    return target / "names.db"


@pytest.mark.parametrize(
    ("how", "file", "damage"),
    [
        ("ended", "names.db", flip_bits),
        ("ended", "names.db", flip_in_the_first_page),
        ("ended", "names.db", overwrite_a_sector),
        ("ended", "names.db", cut_off),
        ("killed", "names.db", flip_bits),
        ("killed", "names.db", overwrite_a_sector),
        ("killed", "names.db", cut_off),
        ("killed", "names.db-wal", flip_bits),
        ("killed", "names.db-wal", overwrite_a_sector),
        ("killed", "names.db-wal", cut_off),
    ],
)
def test_damage_is_refused_in_one_line_or_changes_nothing(left_behind, tmp_path, how, file, damage) -> None:
    folder, expected = left_behind[how]
    refusals = 0
    for seed in SEEDS:
        path = copy(folder, tmp_path / str(seed))
        damage(random.Random(f"{seed} {damage.__name__} {how} {file}"), path.with_name(file))
        found = found_in(path)
        if isinstance(found, StorageError):
            refusals += 1
            assert str(path) in str(found), seed
            assert "\n" not in str(found), seed
        else:
            assert found == expected, seed
        shutil.rmtree(path.parent)
    assert refusals > 0


@pytest.mark.parametrize("how", ["ended", "killed"])
def test_an_emptied_or_missing_file_is_no_new_database(left_behind, tmp_path, how) -> None:
    folder, _ = left_behind[how]
    path = copy(folder, tmp_path / "emptied")
    path.write_bytes(b"")
    path.with_name("names.db-wal").unlink(missing_ok=True)
    assert "it ends with commit 0, but names.db.mark tells of commit 400" in str(found_in(path))
    path = copy(folder, tmp_path / "missing")
    path.unlink()
    assert "names.db.mark" in str(found_in(path))


def test_a_missing_write_ahead_log_is_noticed(left_behind, tmp_path) -> None:
    path = copy(left_behind["killed"][0], tmp_path / "copy")
    path.with_name("names.db-wal").unlink()
    assert "it ends with commit 349, but names.db.mark tells of commit 400" in str(found_in(path))


def test_an_older_copy_is_taken_once_the_mark_is_removed(left_behind, tmp_path) -> None:
    path = copy(left_behind["killed"][0], tmp_path / "copy")
    path.with_name("names.db-wal").unlink()
    path.with_name("names.db.mark").unlink()
    found = found_in(path)
    assert isinstance(found, Contents)
    assert found.counter == 349
    assert found_in(path) == found


@pytest.mark.parametrize("mark", [b"", b"\0" * 64, b"500 00000000\n", b"no mark at all"])
def test_a_mark_that_a_loss_of_power_spoilt_says_nothing(left_behind, tmp_path, mark) -> None:
    folder, expected = left_behind["killed"]
    path = copy(folder, tmp_path / "copy")
    path.with_name("names.db.mark").write_bytes(mark)
    assert found_in(path) == expected


def test_a_refused_file_and_its_log_stay_as_they_are(left_behind, tmp_path) -> None:
    path = copy(left_behind["killed"][0], tmp_path / "copy")
    content = bytearray(path.read_bytes())
    content[100:] = b"\xff" * (len(content) - 100)
    path.write_bytes(content)
    log = path.with_name("names.db-wal").read_bytes()
    assert isinstance(found_in(path), DatabaseDamagedError)
    assert path.read_bytes() == content
    assert path.with_name("names.db-wal").read_bytes() == log


def change_a_value(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)


@pytest.mark.parametrize(
    ("statement", "row"),
    [
        ("UPDATE arcs SET cost = cost + 1 WHERE (parent, child) IN (SELECT parent, child FROM arcs LIMIT 1)", "arcs"),
        (
            "UPDATE arcs SET present = 0 WHERE present = 1 AND parent > 9",
            "arcs",
        ),
        ("UPDATE arcs SET writer = 'x' WHERE (parent, child) IN (SELECT parent, child FROM arcs LIMIT 1)", "arcs"),
        ("UPDATE nodes SET node_id = 'other@x' WHERE node = 7", "nodes"),
        ("UPDATE nodes SET version_server = NULL WHERE version_server IS NOT NULL", "nodes"),
        ("UPDATE virtual_nodes SET present = 0 WHERE number = 20", "virtual_nodes"),
        ("UPDATE outcomes SET outcome = outcome || ' ' WHERE request_id = 'request 390'", "outcomes"),
        ("UPDATE protocol_rows SET value = x'00ff' WHERE key = '395'", "protocol_rows"),
        ("UPDATE log SET encoded = x'00ff' WHERE position = 395", "log"),
        ("UPDATE server SET counter = counter - 1", "server"),
        ("UPDATE server SET checksum = NULL", "server"),
    ],
)
def test_a_changed_value_is_refused_with_its_table_and_row(left_behind, tmp_path, statement, row) -> None:
    path = copy(left_behind["ended"][0], tmp_path / "copy")
    change_a_value(path, statement)
    found = found_in(path)
    assert isinstance(found, DatabaseDamagedError)
    assert f"in the table {row}, the row with " in str(found)
    assert "its checksum is wrong" in str(found)


def test_a_changed_layout_is_refused_with_the_table(left_behind, tmp_path) -> None:
    path = copy(left_behind["ended"][0], tmp_path / "copy")
    change_a_value(path, "ALTER TABLE nodes ADD COLUMN more INTEGER")
    assert "the table or index nodes is not as it was made" in str(found_in(path))
