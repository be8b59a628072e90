"""A database is tried without a trace, on each engine that has files or tables."""

from __future__ import annotations

import psycopg
import pytest

from storage import open_store
from storage.checking import check_database
from storage.errors import DatabaseUnavailableError, NotOurDatabaseError, ServerIdentityError
from tests.integration.storage.rows import ANNA, BERTA

OWNERS = "subnet owner"


def tables_of(url):
    with psycopg.connect(url) as connection:
        return connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()").fetchone()[0]


def test_a_new_database_is_good_and_stays_empty(postgresql) -> None:
    url = postgresql.fresh_database()
    assert check_database(url, server=ANNA, owner_part=OWNERS).server is None
    assert tables_of(url) == 0
    # The check has let it go.
    open_store(url, server=ANNA).close()


def test_a_database_in_use_is_told_with_its_server(url) -> None:
    store = open_store(url, server=ANNA)
    try:
        found = check_database(url, server=None, owner_part=OWNERS)
        assert found.server == ANNA
        assert found.in_use is not None
    finally:
        store.close()
    assert check_database(url, server=ANNA, owner_part=OWNERS).in_use is None


def test_the_database_of_another_server_is_refused_whether_it_runs_or_not(url) -> None:
    store = open_store(url, server=ANNA)
    with pytest.raises(ServerIdentityError):
        check_database(url, server=BERTA, owner_part=OWNERS)
    store.close()
    with pytest.raises(ServerIdentityError):
        check_database(url, server=BERTA, owner_part=OWNERS)


def test_tables_of_another_program_are_refused(postgresql) -> None:
    url = postgresql.fresh_database()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE theirs (key int)")
    with pytest.raises(NotOurDatabaseError):
        check_database(url, server=ANNA, owner_part=OWNERS)


def test_a_database_that_takes_no_writes_is_refused(postgresql) -> None:
    url = postgresql.fresh_database()
    with pytest.raises(DatabaseUnavailableError, match="it takes no writes"):
        check_database(f"{url}&options=-cdefault_transaction_read_only%3Don", server=ANNA, owner_part=OWNERS)
