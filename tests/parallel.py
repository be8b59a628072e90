"""Tests of a parallel run that stay in one process, because they share something that takes long to start."""

from xdist.scheduler import LoadScopeScheduling

TOGETHER = {
    "tests/integration/audit/": "one Spark session",
    "tests/integration/storage/": "one PostgreSQL",
    "tests/integration/nameserver/test_on_postgresql.py": "one PostgreSQL",
    "tests/integration/nameserver/test_stored_snapshot.py": "one PostgreSQL",
}
"""Beginnings of test names, and the resource that these tests share. The first match counts."""

BY_FILE = ("tests/integration/", "tests/project/")
"""Folders whose files have fixtures of their own that start servers or build packages."""


def group_of(nodeid):
    """Return the unit of tests that a process takes as a whole: some files, a file, or this one test."""
    for start, shared in TOGETHER.items():
        if nodeid.startswith(start):
            return shared
    return nodeid.partition("::")[0] if nodeid.startswith(BY_FILE) else nodeid


class GroupScheduling(LoadScopeScheduling):
    """Gives groups to processes, those of most tests first, so that single tests fill up the end."""

    def _split_scope(self, nodeid):
        return group_of(nodeid)
