"""The audit log of real servers: who asked, events besides updates, and one chain over kill -9 and restarts."""

import signal
from contextlib import closing

import pytest

import shadowtree
from namegraph import UPDATE, chained, decode_facts
from shadowtree.cli.support.free_ports import unused_ports
from storage.open import open_store
from storage.store import ChangesWanted
from tests.integration.nameserver.server_process import wait_until

CALL_SECONDS = 30
KILLS = 3


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'names.db'}"


def rows_of(url):
    """Return all rows of the database of a stopped server, the oldest first."""
    with closing(open_store(url)) as store:
        rows = []
        while page := store.read_changes(
            ChangesWanted(1_000, rows[-1].number if rows else 0, with_events=True)
        ).records:
            rows += page
        return rows


def require_chain(rows):
    before = bytes(32)
    for number, row in enumerate(rows, start=1):
        assert (row.number, row) == (number, chained(row, before))
        before = row.hash


def test_events_are_rows_of_the_same_chain_with_who_asked(start, url):
    server = start()
    (port,) = unused_ports(1)
    with shadowtree.Client(server.address, timeout=CALL_SECONDS) as names:
        names.create_group("g@b.c", request_id="r1")
        names.set_group("g@b.c", description="robots")
        names.set_delivery("g@b.c", senders="members")
        names.add_peer("d.e", f"127.0.0.1:{port}")
        names.open_mailbox("ann@b.c")
        names.open_mailbox("ann@b.c")
        names.close_mailbox("ann@b.c")
        names.remove_peer("d.e")
        following = names.watch("g@b.c")
        names.join("g@b.c", "ann@b.c")
        assert [change.member for change in next(following).changes] == ["ann@b.c"]
        assert [len(update.changes) for update in names.changes()] == [1, 1]
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(CALL_SECONDS) == 0
    rows = rows_of(url)
    require_chain(rows)
    assert [row.kind for row in rows] == [
        UPDATE,
        "details_set",
        "delivery_set",
        "peer_added",
        "mailbox_opened",
        "mailbox_closed",
        "peer_removed",
        UPDATE,
        "drain",
    ]
    for row in rows[:-1]:
        assert (row.principal, row.how, row.decision, row.server) == ("anonymous", "loopback", "allowed", "b.c")
        assert row.caller.startswith("127.0.0.1:")
        assert row.told_at > 0
    assert decode_facts(rows[3].changes) == {"subnet": "d.e", "address": f"127.0.0.1:{port}", "before": None}
    assert decode_facts(rows[5].changes) == {"mailbox": "ann@b.c", "messages_lost": 0}


@pytest.fixture(params=["sqlite", "postgresql"])
def any_url(request, url):
    return url if request.param == "sqlite" else request.getfixturevalue("postgresql").fresh_schema()


def test_the_chain_goes_on_after_the_server_was_killed(start, any_url):
    (port,) = unused_ports(1)
    joined = 0
    for _ in range(KILLS):
        server = start(any_url, listen=f"127.0.0.1:{port}")
        with shadowtree.Client(server.address, timeout=CALL_SECONDS) as names:
            names.create_group("g@b.c", if_missing=True)
            for _ in range(20):
                names.join("g@b.c", f"p{joined}@b.c")
                joined += 1
        server.process.kill()
        server.process.wait(CALL_SECONDS)
    rows = rows_of(any_url)
    require_chain(rows)
    assert len(rows) == joined + 1


def test_readers_of_changes_pass_over_a_long_run_of_events(start):
    server = start(changes_kept=100)
    with shadowtree.Client(server.address, timeout=CALL_SECONDS) as names:
        names.create_group("g@b.c")
        following = names.watch("g@b.c")
        for _ in range(75):
            names.open_mailbox("ann@b.c")
            names.close_mailbox("ann@b.c")
        revision = names.join("g@b.c", "ann@b.c").revision
        assert next(following).revision == revision
        wait_until(lambda: [update.revision for update in names.changes()] == [revision], "only the newest rows")
