"""The record of changes is bounded, by updates and by bytes, also over restarts."""

from namegraph import FORGET_EVERY, Priority, Records, ServerId, change_sizes
from namegraph.model.changes import NO_ORIGIN, change_set
from namegraph.model.names import NodeId
from namegraph.state.change_log import ChangeLog

SERVER = ServerId("a.example")
LARGE = change_set([(NodeId(f"group-of-a-long-name-{number}@a.example"), True) for number in range(30)], [], [])
SMALL = change_set([(NodeId("g@a.example"), True)], [], [])


class KeptChanges:
    """A record of changes, and what a database has of it. It begins with what it says of updates before it: 1 and 2."""

    def __init__(self, *, updates=10_000, size=10**9):
        self.limits = updates, size
        self.rows = {}
        self.restart()

    def restart(self):
        self.log = ChangeLog()
        self.log.kept, self.log.kept_bytes = self.limits
        self.log.restore(max(self.rows, default=0), change_sizes(self.rows.values()), newest=Priority(1, SERVER))

    def note(self, changes, times):
        for _ in range(times):
            self.log.note(Priority(1, SERVER), SERVER, NO_ORIGIN, changes)
            records = Records()
            self.log.take_rows(records)
            self.rows.update((row.number, row) for row in records.changes)
            for number in [each for each in self.rows if each <= (records.forget_changes_through or 0)]:
                del self.rows[number]

    @property
    def size(self):
        return sum(len(row.changes) for row in self.rows.values())


def test_so_many_updates_are_kept_and_up_to_a_hundred_more():
    kept = KeptChanges(updates=300)
    for _ in range(10):
        kept.note(SMALL, 77)
        kept.restart()
    assert 300 <= len(kept.rows) <= 300 + FORGET_EVERY
    assert max(kept.rows) == 772


def test_fewer_are_kept_where_they_changed_much():
    limit = 250 * len(LARGE.encode())
    kept = KeptChanges(size=limit)
    kept.note(SMALL, 1_000)
    assert len(kept.rows) >= 1_000
    for _ in range(10):
        kept.note(LARGE, 90)
        kept.restart()
    assert limit - (FORGET_EVERY + 1) * len(LARGE.encode()) <= kept.size <= limit + FORGET_EVERY * len(LARGE.encode())
    kept.note(SMALL, 5_000)
    assert kept.size <= limit
    assert len(kept.rows) > 5_000


def test_the_newest_are_kept_however_large_they_are():
    kept = KeptChanges(size=1)
    kept.note(LARGE, 250)
    assert max(kept.rows) == 252
    assert 50 <= len(kept.rows) <= FORGET_EVERY + 50
