"""A server that is killed without warning loses nothing that it acknowledged, and leaves no half of anything (I9)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import psycopg
import pytest

from namegraph.model.rows import Records
from storage import open_store
from storage.errors import DatabaseInUseError
from tests.integration.storage.committer import ROWS_PER_BATCH, batch
from tests.integration.storage.rows import ANNA, Contents, contents

ROOT = Path(__file__).parents[3]


@contextmanager
def committer(url: str) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """A process that commits batches, killed at the end of the block at the latest."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.integration.storage.committer", url],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "open\n"
        yield process, process.stdout
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def expected_contents(batches: int) -> Contents:
    every = [batch(number) for number in range(1, batches + 1)]
    last = every[-1] if every else Records()
    return Contents(
        server=ANNA,
        counter=batches,
        nodes=[record for part in every for record in part.nodes],
        virtual_nodes=[],
        arcs=sorted(record for record in last.arcs if record.version > 0),
        outcomes=[record for part in every for record in part.outcomes],
        protocol=sorted(record for record in last.protocol if record.value is not None),
        log=[record for part in every[-2:] for record in part.log],
    )


def test_a_killed_server_comes_back_with_all_it_acknowledged_and_no_half_batch(url) -> None:
    acknowledged = 0
    for batches_before_the_kill in (1, 3):
        with committer(url) as (process, output):
            for _ in range(batches_before_the_kill):
                acknowledged = int(output.readline())
            process.kill()
            process.wait()
            # What it printed between our last look and its end counts as well.
            acknowledged = max([acknowledged, *map(int, output.read().split())])
        store = open_store(url)
        found = contents(store)
        store.close()
        assert found.counter in (acknowledged, acknowledged + 1)
        assert len(found.nodes) == found.counter * ROWS_PER_BATCH
        assert found == expected_contents(found.counter)
        acknowledged = found.counter


def test_a_postgresql_database_is_free_soon_after_its_server_is_killed_within_a_long_commit(postgresql) -> None:
    url = postgresql.fresh_database()
    open_store(url, server=ANNA).close()
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("""
            CREATE SEQUENCE entered;
            CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN PERFORM nextval('entered'); PERFORM pg_sleep(3600); RETURN NULL; END $$;
            CREATE TRIGGER linger BEFORE INSERT ON arcs EXECUTE FUNCTION linger();
        """)
        with committer(url):
            other.execute("""
                DO $$ BEGIN
                    WHILE NOT (SELECT is_called FROM entered) LOOP PERFORM pg_sleep(0.01); END LOOP;
                END $$
            """)
    store = open_store(url)
    assert contents(store) == expected_contents(0)
    store.close()


def test_a_database_is_free_as_soon_as_its_server_is_killed(url) -> None:
    with committer(url) as (process, output):
        output.readline()
        with pytest.raises(DatabaseInUseError, match="another name server") as refused:
            open_store(url)
        if url.startswith("sqlite"):
            assert f"process {process.pid}" in str(refused.value)
    open_store(url).close()
