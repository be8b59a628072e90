"""The counter of a database whose server does not run can be raised, and nothing else be done to it."""

import pytest

from namegraph import Records, ServerId, chained, decode_facts
from nameserver.driver.counter_repair import RAISED_LIMIT
from storage.open import open_store
from storage.store import ChangesWanted


@pytest.fixture
def database(tmp_path):
    url = f"sqlite:///{tmp_path / 'names.db'}"
    store = open_store(url, server=ServerId("a.x"))
    store.commit(Records(counter=7))
    store.close()
    (tmp_path / "names.toml").write_text(f'database = "{url}"\nsubnets = ["a.x"]\n')
    return url


def counter_of(database):
    store = open_store(database)
    try:
        return store.load().counter
    finally:
        store.close()


def repair(shadowtree, tmp_path, number):
    return shadowtree("repair", "counters", "--config", tmp_path / "names.toml", "--raise-to", number)


def test_the_counter_is_raised_durably(shadowtree, tmp_path, database):
    ended = repair(shadowtree, tmp_path, 5_000_000_000_000)
    assert (ended.status, ended.out) == (0, "the counter was 7 and is 5000000000000\n")
    assert counter_of(database) == 5_000_000_000_000


def test_the_repair_is_in_the_audit_log(shadowtree, tmp_path, database):
    repair(shadowtree, tmp_path, 100)
    repair(shadowtree, tmp_path, 200)
    store = open_store(database)
    *_, first, second = store.read_changes(ChangesWanted(10, with_events=True)).records
    store.close()
    assert [(row.kind, row.principal, row.how) for row in (first, second)] == [
        ("counter_raised", "operator@local", "database")
    ] * 2
    assert decode_facts(second.changes) == {"before": 100, "to": 200}
    assert second == chained(second, first.hash)


@pytest.mark.parametrize(("number", "why"), [(7, "cannot be lowered"), (3, "cannot be lowered"), (2**62, "export")])
def test_it_is_neither_lowered_nor_brought_near_its_end(shadowtree, tmp_path, database, number, why):
    ended = repair(shadowtree, tmp_path, number)
    assert (ended.status, len(ended.err.splitlines())) == (4, 1)
    assert why in ended.err
    assert counter_of(database) == 7
    assert 7 + RAISED_LIMIT < 2**62


def test_a_server_that_runs_keeps_its_counter(shadowtree, tmp_path, database):
    running = open_store(database)
    try:
        ended = repair(shadowtree, tmp_path, 100)
    finally:
        running.close()
    assert (ended.status, len(ended.err.splitlines())) == (4, 1)
    assert "is using it" in ended.err
    assert counter_of(database) == 7


def test_wrong_settings_are_wrong_usage(shadowtree, tmp_path):
    (tmp_path / "names.toml").write_text("nonsense = 1\n")
    assert repair(shadowtree, tmp_path, 100).status == 2
