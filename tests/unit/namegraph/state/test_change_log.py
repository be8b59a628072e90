"""The audit log is bounded by bytes, forgets what is old, and is one chain, also over restarts."""

from namegraph import FORGET_EVERY, ROW_BYTES, Priority, Records, RequestId, ServerId, change_sizes
from namegraph.model.audit_chain import (
    CHAIN_BEGINNING,
    FACT_LENGTH_LIMIT,
    FACTS_LIMIT,
    chained,
    decode_facts,
    encode_facts,
)
from namegraph.model.changes import NO_ORIGIN, Origin, change_set
from namegraph.model.names import NodeId
from namegraph.state.change_log import ChangeLog

SERVER = ServerId("a.example")
LARGE = change_set([(NodeId(f"group-of-a-long-name-{number}@a.example"), True) for number in range(30)], [], [])
SMALL = change_set([(NodeId("g@a.example"), True)], [], [])


class KeptChanges:
    """A record of changes, and what a database has of it. It begins with what it says of updates before it: 1 and 2."""

    def __init__(self, *, size=10**9):
        self.limit = size
        self.rows = {}
        self.restart()

    def restart(self):
        self.log = ChangeLog()
        self.log.kept_bytes = self.limit
        last = max(self.rows, default=0)
        last_hash = self.rows[last].hash if last else b""
        sizes = change_sizes(self.rows.values())
        self.log.restore(last, sizes, newest=Priority(1, SERVER), last_hash=last_hash)

    def note(self, changes, times):
        for _ in range(times):
            self.log.note(Priority(1, SERVER), SERVER, NO_ORIGIN, changes)
            self.flush()

    def flush(self):
        records = Records()
        self.log.take_rows(records)
        self.rows.update((row.number, row) for row in records.changes)
        for number in [each for each in self.rows if each <= (records.forget_changes_through or 0)]:
            del self.rows[number]

    @property
    def size(self):
        return sum(ROW_BYTES + len(row.changes) for row in self.rows.values())


def test_fewer_are_kept_where_they_changed_much():
    large = ROW_BYTES + len(LARGE.encode())
    limit = 250 * large
    kept = KeptChanges(size=limit)
    kept.note(SMALL, 700)
    assert len(kept.rows) >= 700
    for _ in range(10):
        kept.note(LARGE, 90)
        kept.restart()
    assert limit - (FORGET_EVERY + 1) * large <= kept.size <= limit + FORGET_EVERY * large
    kept.note(SMALL, 5_000)
    assert kept.size <= limit
    assert len(kept.rows) > 1_000


def test_the_newest_are_kept_however_large_they_are():
    kept = KeptChanges(size=1)
    kept.note(LARGE, 250)
    assert max(kept.rows) == 252
    assert 50 <= len(kept.rows) <= FORGET_EVERY + 50


def test_rows_are_one_chain_over_restarts_and_events():
    kept = KeptChanges()
    for _ in range(3):
        kept.note(SMALL, 3)
        kept.log.note_event("peer_added", {"subnet": "b.example", "port": 1, "is_new": True, "why": None})
        kept.flush()
        kept.restart()
    before = CHAIN_BEGINNING
    for row in kept.rows.values():
        assert (row.previous, row) == (before, chained(row, before))
        before = row.hash
    assert [row.kind for row in kept.rows.values()] == ["update"] + 3 * ["update", "update", "update", "peer_added"]


def test_the_chain_begins_behind_a_row_that_has_no_hash():
    log = ChangeLog()
    log.restore(7, [(0, 100)], newest=Priority(9, SERVER))
    log.note(Priority(10, SERVER), SERVER, NO_ORIGIN, SMALL)
    records = Records()
    log.take_rows(records)
    assert (records.changes[0].number, records.changes[0].previous) == (8, CHAIN_BEGINNING)


def test_rows_that_are_too_old_are_forgotten_but_never_the_newest():
    kept = KeptChanges()
    kept.note(SMALL, 250)
    kept.log.forget_through(130)
    kept.flush()
    assert min(kept.rows) == 131
    kept.restart()
    kept.log.forget_through(10**6)
    kept.flush()
    assert list(kept.rows) == [252]
    kept.restart()
    kept.note(SMALL, 1)
    assert kept.rows[253].previous == kept.rows[252].hash


def test_facts_are_bounded_and_printable():
    facts = decode_facts(
        encode_facts({"text": "a\n" + 5_000 * "b", "yes": True, "none": None, **{f"x{n}": n for n in range(50)}})
    )
    assert len(facts) == FACTS_LIMIT
    assert facts["text"] == "a?" + (FACT_LENGTH_LIMIT - 2) * "b"


def test_the_caller_of_an_update_is_in_its_row():
    log = ChangeLog()
    origin = Origin(RequestId("r"), 5, "127.0.0.1:9", SERVER, "ann@a.example", "key", "k1", "b.example")
    log.note(Priority(1, SERVER), SERVER, origin, SMALL)
    records = Records()
    log.take_rows(records)
    (row,) = records.changes
    assert (row.principal, row.how, row.credential, row.via) == ("ann@a.example", "key", "k1", "b.example")
    assert (row.decision, row.kind, row.server, row.told_at) == ("allowed", "update", SERVER, 5)
