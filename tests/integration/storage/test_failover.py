"""A primary of PostgreSQL dies under a running name server, and its standby is promoted: two real databases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from threading import Event, Thread

import pytest

import shadowtree
from shadowtree import Client
from shadowtree.cli.support.free_ports import unused_ports
from storage import open_store
from storage.errors import DatabaseUnavailableError
from tests.integration.nameserver.server_process import ServerProcess, wait_until
from tests.integration.storage.rows import ANNA
from tests.postgres import PostgreSQL, running_postgresql, running_standby

GROUP, OTHERS_GROUP = "staff@ubc.example", "lab@sfu.example"
BEFORE_THE_FAILURE, AFTER_IT = 20, 40


@dataclass(frozen=True)
class Pair:
    """A primary and its standby, both at ports of this machine."""

    primary: PostgreSQL
    standby: PostgreSQL
    ports: tuple[int, int]
    url: str
    """Names both, the primary first."""

    def is_following(self) -> bool:
        return bool(self.primary.query("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"))

    def lag(self) -> int:
        """Bytes that the standby has not applied yet."""
        lag = "SELECT max(pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)) FROM pg_stat_replication"
        return int(self.primary.query(lag) or 0)

    def wait_for_standby(self) -> None:
        """Let the primary acknowledge nothing that the standby has not flushed."""
        self.primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        self.primary.execute("SELECT pg_reload_conf()")
        wait_until(
            lambda: self.primary.query("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == 1,
            "a synchronous standby",
        )

    def fail_over(self) -> None:
        self.primary.stop()
        self.standby.promote()


@pytest.fixture
def pair() -> Iterator[Pair]:
    first, second = unused_ports(2)
    with running_postgresql(port=first) as primary, running_standby(first, second) as standby:
        primary.execute("CREATE DATABASE names")
        url = f"postgresql://postgres@127.0.0.1:{first},127.0.0.1:{second}/names"
        found = Pair(primary, standby, (first, second), url)
        wait_until(found.is_following, "a standby that follows")
        yield found


@pytest.fixture
def start() -> Iterator[Callable[..., ServerProcess]]:
    started: list[ServerProcess] = []

    def start_server(database: object, subnet: str, port: int, **settings: object) -> ServerProcess:
        server = ServerProcess(database, subnets=[subnet], listen=f"127.0.0.1:{port}", log_level="warning", **settings)
        started.append(server)
        return server

    yield start_server
    for server in started:
        server.close()


def joined(client: Client, number: int) -> bool:
    """True if the server acknowledged the person of this number."""
    try:
        client.join(GROUP, f"p{number}@people.example", timeout=2)
    except shadowtree.ShadowtreeError:
        return False
    return True


def members(client: Client) -> set[str] | None:
    """Return the processes of the group. None if the server cannot say at present."""
    try:
        found = client.resolve(GROUP)
    except shadowtree.ShadowtreeError:
        return None
    return None if found.unreachable else set(found.processes)


def test_with_synchronous_replication_nothing_acknowledged_is_lost_and_the_server_goes_on(pair, start) -> None:
    pair.wait_for_standby()
    server = start(pair.url, "ubc.example", unused_ports(1)[0])
    acknowledged: set[str] = set()
    half, has_failed = Event(), Event()

    def write() -> None:
        after = 0
        with Client(server.address) as writer:
            for number in range(100_000):
                if joined(writer, number):
                    acknowledged.add(f"p{number}@people.example")
                    after += has_failed.is_set()
                if len(acknowledged) >= BEFORE_THE_FAILURE:
                    half.set()
                if after >= AFTER_IT:
                    return

    with Client(server.address) as client:
        client.create_group(GROUP)
        writing = Thread(target=write)
        writing.start()
        assert half.wait(60)
        pair.fail_over()
        has_failed.set()
        writing.join(120)
        assert not writing.is_alive()
        assert server.process.poll() is None
        found = members(client)
        assert found is not None
        assert acknowledged <= found
    assert pair.standby.query("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'shadowtree'") == 1


def test_without_it_the_server_ends_with_the_reason_and_heals_when_it_starts_again(pair, start, tmp_path) -> None:
    here, there = unused_ports(2)
    peers = [f"ubc.example=127.0.0.1:{here}", f"sfu.example=127.0.0.1:{there}"]

    def start_here(*, wait: bool = True) -> ServerProcess:
        return start(pair.url, "ubc.example", here, peers=peers[1:], wait=wait)

    server = start_here()
    start(tmp_path / "sfu.db", "sfu.example", there, peers=peers[:1])
    with Client(f"127.0.0.1:{here}") as client, Client(f"127.0.0.1:{there}") as other:
        other.create_group(OTHERS_GROUP)
        client.create_group(GROUP)
        assert joined(client, 0)
        wait_until(lambda: pair.lag() == 0, "the standby to have all of that")
        # From here on the standby misses what is acknowledged.
        pair.standby.stop()
        assert joined(client, 1)
        client.join(GROUP, OTHERS_GROUP)
        pair.primary.stop()
        pair.standby.start()
        pair.standby.promote()
        status, said = server.outcome()
        assert status == 4
        assert "an older copy was put in its place" in said.splitlines()[-1]
        assert "start this server again" in said.splitlines()[-1]

        again = start_here()
        wait_until(lambda: OTHERS_GROUP in known(client), "the arc that the other server knows of")
        assert members(client) == {"p0@people.example"}
        assert joined(client, 1)
        again.process.terminate()
        _, said = again.outcome()
        assert "the database is an older copy of itself" in said


def known(client: Client) -> list[str]:
    try:
        return list(client.resolve(GROUP, groups=True).groups)
    except shadowtree.ShadowtreeError:
        return []


def test_a_standby_is_refused_until_it_is_promoted(pair) -> None:
    open_store(pair.url, server=ANNA).close()
    wait_until(lambda: pair.lag() == 0, "the standby to have the tables")
    standby = f"postgresql://postgres@127.0.0.1:{pair.ports[1]}/names"
    with pytest.raises(DatabaseUnavailableError, match="this is a standby, which cannot be written") as refused:
        open_store(standby)
    assert "\n" not in str(refused.value)
    pair.fail_over()
    open_store(standby).close()


def test_the_primary_is_found_wherever_it_stands_in_the_list_of_hosts(pair) -> None:
    first, second = pair.ports
    open_store(f"postgresql://postgres@127.0.0.1:{second},127.0.0.1:{first}/names", server=ANNA).close()
