"""Databases and poolers that speak PostgreSQL's protocol and do not keep a lock of a session."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from namegraph.model.rows import Records
from shadowtree.cli.support.free_ports import unused_ports
from storage import open_store
from storage.errors import DatabaseInUseError, DatabaseLostError, NotOurDatabaseError
from storage.postgresql_kinds import kind_of
from tests.integration.nameserver.server_process import wait_until
from tests.integration.storage.rows import ANNA, contents, node
from tests.postgres import running_postgresql

COCKROACHDB = "CockroachDB CCL v23.2.4 (x86_64-pc-linux-gnu, built 2024/04/08 21:55:37, go1.21.5)"
YUGABYTEDB = "PostgreSQL 15.12-YB-2025.1.0.0-b168 on x86_64-pc-linux-gnu, compiled by clang version 17.0.6, 64-bit"
REDSHIFT = "PostgreSQL 8.0.2 on i686-pc-linux-gnu, compiled by GCC gcc (GCC) 3.4.2 20041017, Redshift 1.0.12103"

CREATE = "CREATE OR REPLACE FUNCTION pg_catalog."
LOCKS_NOTHING = (
    f"{CREATE}pg_advisory_lock(integer, integer) RETURNS void LANGUAGE sql AS $$ SELECT $$",
    f"{CREATE}pg_try_advisory_lock(integer, integer) RETURNS boolean LANGUAGE sql AS $$ SELECT true $$",
)
"""Stubs, as CockroachDB has them."""
NO_SUCH_FUNCTION = ("ALTER FUNCTION pg_catalog.pg_advisory_lock(integer, integer) RENAME TO was_pg_advisory_lock",)
NOT_SUPPORTED = (
    # PostgreSQL calls its own functions by their number, whatever replaced them.
    *NO_SUCH_FUNCTION,
    f"{CREATE}pg_advisory_lock(integer, integer) RETURNS void LANGUAGE plpgsql AS "
    "$$ BEGIN RAISE EXCEPTION 'advisory locks are not yet implemented' USING ERRCODE = '0A000'; END $$",
)


def says(version: str) -> str:
    return f"{CREATE}version() RETURNS text LANGUAGE sql AS $$ SELECT '{version}' $$"


def changed(url: str, *statements: str) -> str:
    """Return the URL of a database that replaces functions of the system by its own."""
    with psycopg.connect(f"{url}&options=-callow_system_table_mods%3Don", autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())
    return url


@pytest.fixture
def url(postgresql) -> str:
    return postgresql.fresh_database()


@pytest.mark.parametrize(
    "version",
    [
        "PostgreSQL 18.4 on x86_64-pc-linux-gnu, compiled by gcc (GCC) 14.2.1 20250110 (Red Hat 14.2.1-11), 64-bit",
        "PostgreSQL 15.14 (Debian 15.14-0+deb12u1) on x86_64-pc-linux-gnu, compiled by gcc 12.2.0, 64-bit",
        "PostgreSQL 16.2 on x86_64-pc-linux-musl, compiled by gcc (Alpine 13.2.1_git20231014) 13.2.1 20231014, 64-bit",
        "PostgreSQL 18beta1 on aarch64-apple-darwin, compiled by Apple clang version 14.0.0 (clang-1400), 64-bit",
        "PostgreSQL 13.4, compiled by Visual C++ build 1914, 64-bit",
    ],
)
def test_postgresql_itself_is_known_by_its_version(version) -> None:
    assert kind_of(version) is None


@pytest.mark.parametrize(
    ("version", "name"),
    [
        (COCKROACHDB, "CockroachDB"),
        (YUGABYTEDB, "YugabyteDB"),
        (REDSHIFT, "Amazon Redshift"),
        ("PostgreSQL 12.3, compiled by Visual C++ build 1914, 64-bit, QuestDB", "QuestDB"),
        ("PostgreSQL 9.4.26 (Greenplum Database 6.25.3) on x86_64-pc-linux-gnu, compiled by gcc, 64-bit", "Greenplum"),
        ("PostgreSQL 16", "a database that calls itself 'PostgreSQL 16'"),
    ],
)
def test_a_look_alike_is_named_by_its_version(version, name) -> None:
    assert kind_of(version) == name


def test_cockroachdb_is_refused_by_name_with_the_reason(url) -> None:
    changed(url, says(COCKROACHDB), *LOCKS_NOTHING)
    with pytest.raises(
        NotOurDatabaseError, match=r"this is CockroachDB: its session advisory locks lock nothing"
    ) as refused:
        open_store(url, server=ANNA)
    assert "\n" not in str(refused.value)


def test_a_database_that_is_no_postgresql_by_its_own_words_is_refused_in_one_line(url) -> None:
    changed(url, says("MagicDB 1.0"))
    with pytest.raises(NotOurDatabaseError, match=r"a database that calls itself 'MagicDB 1\.0', not PostgreSQL"):
        open_store(url, server=ANNA)


@pytest.mark.parametrize(
    ("statements", "reason"),
    [
        (LOCKS_NOTHING, "two sessions got the same lock"),
        (NOT_SUPPORTED, r"no session advisory locks \(advisory locks are not yet implemented\)"),
        (
            NO_SUCH_FUNCTION,
            r"no session advisory locks \(function pg_advisory_lock\(integer, integer\) does not exist\)",
        ),
    ],
    ids=["stubs", "not supported", "no such function"],
)
def test_a_database_whose_locks_do_not_lock_is_refused_whatever_it_calls_itself(url, statements, reason) -> None:
    changed(url, *statements)
    with pytest.raises(NotOurDatabaseError, match=reason) as refused:
        open_store(url, server=ANNA)
    assert "use PostgreSQL itself" in str(refused.value)


def test_a_look_alike_that_keeps_locks_is_opened_and_named_as_not_tested(url) -> None:
    changed(url, says(YUGABYTEDB))
    store = open_store(url, server=ANNA)
    assert store.cautions == ("not tested with YugabyteDB, only with PostgreSQL itself",)
    store.close()


def test_aurora_is_named_though_it_gives_the_version_of_postgresql(url) -> None:
    changed(url, f"{CREATE}aurora_version() RETURNS text LANGUAGE sql AS $$ SELECT '15.4.0' $$")
    store = open_store(url, server=ANNA)
    assert store.cautions == ("not tested with Amazon Aurora, only with PostgreSQL itself",)
    store.close()


def test_nothing_is_said_of_postgresql_itself(url) -> None:
    store = open_store(url, server=ANNA)
    assert store.cautions == ()
    store.close()


def test_a_user_with_one_session_only_is_let_in_and_told_that_the_lock_was_not_tried(postgresql, url) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE ROLE lonely LOGIN CONNECTION LIMIT 1")
        connection.execute("GRANT ALL ON SCHEMA public TO lonely")
    store = open_store(url.replace("postgres@", "lonely@"), server=ANNA)
    assert ["not tried out" in caution for caution in store.cautions] == [True]
    store.close()


def test_two_servers_that_both_believe_to_hold_the_lock_cannot_both_write(url) -> None:
    first = open_store(url, server=ANNA)
    first.commit(Records(nodes=[node(0)]))
    # The lock is let go behind the back of the first server, whose session goes on.
    engine = first._engine  # type: ignore[attr-defined]
    with engine.connection.begin():
        engine.connection.exec_driver_sql("SELECT pg_advisory_unlock_all()")
    second = open_store(url)
    second.commit(Records(nodes=[node(0, version=2)]))
    for _ in range(2):
        with pytest.raises(DatabaseLostError, match="another server used it"):
            first.commit(Records(nodes=[node(0, version=3)]))
    second.commit(Records(nodes=[node(1, "second@x")]))
    assert contents(second).nodes == [node(0, version=2), node(1, "second@x")]
    first.close()
    second.close()


def pgbouncer() -> str | None:
    return shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")


@pytest.fixture
def pooled(request) -> Iterator[str]:
    """The URL of a database behind a PgBouncer in the mode that the test names."""
    mode, fair = request.param
    port, pool_port = unused_ports(2)
    with running_postgresql(port=port) as postgresql, tempfile.TemporaryDirectory(prefix="pool-") as name:
        database = postgresql.fresh_database().split("/")[3].split("?")[0]
        folder = Path(name)
        folder.chmod(0o755)
        settings = folder / "pgbouncer.ini"
        lines = [
            "[databases]",
            f"{database} = host=127.0.0.1 port={port} user=postgres",
            "[pgbouncer]",
            "listen_addr = 127.0.0.1",
            f"listen_port = {pool_port}",
            "auth_type = any",
            f"pool_mode = {mode}",
            f"server_round_robin = {fair}",
            "unix_socket_dir =",
        ]
        settings.write_text("\n".join(lines))
        as_user = {}
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            as_user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        program = pgbouncer()
        assert program is not None
        pool = subprocess.Popen([program, "-q", str(settings)], stdout=subprocess.DEVNULL, **as_user)  # type: ignore[call-overload]
        url = f"postgresql://postgres@127.0.0.1:{pool_port}/{database}"
        try:
            wait_until(lambda: is_answered(url), "PgBouncer")
            yield url
        finally:
            pool.kill()
            pool.wait()


def is_answered(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True


@pytest.mark.skipif(pgbouncer() is None, reason="PgBouncer is not installed")
@pytest.mark.parametrize("pooled", [("transaction", 0), ("transaction", 1)], indirect=True)
def test_a_pooler_in_transaction_mode_is_refused_by_name(pooled) -> None:
    with pytest.raises(NotOurDatabaseError, match="a connection pooler in transaction mode is in front of it"):
        open_store(pooled, server=ANNA)


@pytest.mark.skipif(pgbouncer() is None, reason="PgBouncer is not installed")
@pytest.mark.parametrize("pooled", [("session", 0)], indirect=True)
def test_a_pooler_in_session_mode_keeps_the_lock(pooled) -> None:
    store = open_store(pooled, server=ANNA)
    with pytest.raises(DatabaseInUseError):
        open_store(pooled, server=ANNA)
    store.commit(Records(nodes=[node(0)]))
    store.close()
    again = open_store(pooled, server=ANNA)
    assert contents(again).nodes == [node(0)]
    again.close()
