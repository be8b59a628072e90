"""The audit's findings about messages: each planted fault is found and named, and nothing is found elsewhere.

All faults are planted in one collection of snapshots, each in a sequence of its own.
"""

import dataclasses

import pytest
from pyroaring import BitMap

from spark_graph_jobs.audits import messages
from spark_graph_jobs.compare.violations import collect_troubles
from spark_graph_jobs.finding import Severity
from spark_graph_jobs.snapshot.discovery import read_collection
from spark_graph_jobs.snapshot.schema import MESSAGE_TABLES
from spark_graph_jobs.snapshot.synthetic import SyntheticArc, snapshots_of, write
from spark_graph_jobs.snapshot.tables import load
from tests.integration.audit.clusters import OWNERS

FAULTS = {}
NUMBERED = 10
BOTH, FIRST, SECOND = 1, 2, 3
"""Audiences of each server."""


def fault(*found):
    """Register a function that plants a fault into a sequence; `found`: (id or server, message, beginning of where)."""

    def register(plant):
        FAULTS[plant.__name__] = (plant, found)
        return plant

    return register


class World:
    """Three servers. Three parcels of two messages were sent to each group `x-FAULT@a.x`, and all servers have logged
    them.
    """

    def __init__(self, faults=()):
        self.names = ["sound", *faults]
        processes = ("ann@a.x", "bob@b.x", "bill@b.x", "cat@c.x")
        arcs = [
            SyntheticArc(group, process, is_group=False)
            for group in map(self.group, self.names)
            for process in processes
        ]
        arcs += [SyntheticArc("few@a.x", "bill@b.x", is_group=False)]
        self.snapshots = snapshots_of(arcs, OWNERS)
        self.rows = {server: one.rows for server, one in self.snapshots.items()}
        for server, rows in self.rows.items():
            rows.update({table: [] for table in MESSAGE_TABLES})
            own = [process for process in processes if process.endswith(f"@{server}.x")]
            rows["mailboxes"] += [
                {"mailbox": number, "process": process, "opened_at": 1} for number, process in enumerate(own, start=1)
            ]
            for number, members in ((BOTH, range(1, len(own) + 1)), (FIRST, [1]), (SECOND, [7])):
                rows["audiences"].append({"audience": number, "mailboxes": BitMap(members).serialize()})
            rows["cursors"].append({"mailbox": 1, "subscription": "", "entry": 2, "item": 0})
        for sequence, name in enumerate(self.names, start=1):
            for server in self.rows:
                for serial in (1, 3, 5):
                    self.log(server, name, serial, sequence=sequence)
        self.reached("sound", "b", [1, 2])
        self.rows["b"]["reached"].append(
            {"targets": [f"{self.group('sound')} few@a.x", "bob@b.x"], "mailboxes": BitMap([1]).serialize()}
        )
        for name in faults:
            FAULTS[name][0](self, name)
        for server, one in self.snapshots.items():
            entries = self.rows[server]["message_log"]
            for position, row in enumerate(entries, start=1):
                row["position"] = position
            self.settle(server)
            ends = {"log_last": len(entries), "log_cut": 0, "mailboxes_numbered": NUMBERED}
            one.manifest["messages"] = ends

    def group(self, name):
        return f"x-{name.replace('_', '-')}@a.x"

    def log(self, server, name, serial, *, sequence=None, before=None, **more):
        sequence = self.names.index(name) + 1 if sequence is None else sequence
        row = {
            "position": 0,
            "targets": [self.group(name)],
            "sequence": sequence,
            "start": 1,
            "first_serial": serial,
            "messages": 2,
            "round": 0,
            "quality": "fifo",
            "audience": BOTH,
            "digest": f"{name} {serial}".encode(),
        }
        entries = self.rows[server]["message_log"]
        entries.insert(len(entries) if before is None else entries.index(before), row | more)

    def entry(self, server, name, serial):
        group = [self.group(name)]
        return next(
            row for row in self.rows[server]["message_log"] if (row["targets"], row["first_serial"]) == (group, serial)
        )

    def remove(self, server, name, serial):
        self.rows[server]["message_log"].remove(self.entry(server, name, serial))

    def unsettled(self, name, serial, delivered):
        """Record that the origin waits for another server than those that have confirmed a parcel."""
        entry = self.entry("a", name, serial)
        columns = ("sequence", "start", "first_serial", "messages", "round")
        posted = sorted({*delivered, "c"})
        about = {"entry": entry, "posted": posted, "confirmed": list(delivered), "delivered": list(delivered)}
        self.rows["a"]["unsettled"].append({column: entry[column] for column in columns} | about)

    def settle(self, server):
        """Give unsettled parcels the positions of their entries."""
        for row in self.rows[server]["unsettled"]:
            row["position"] = row.pop("entry")["position"]

    def reached(self, name, server, mailboxes):
        row = {"targets": [self.group(name)], "mailboxes": BitMap(mailboxes).serialize()}
        self.rows[server]["reached"].append(row)

    def write(self, folder):
        write(self.snapshots, folder)
        return read_collection(folder)


@fault(("3", "is not the same parcel everywhere"))
def another_content(world, name):
    world.entry("b", name, 3)["digest"] = b"another"


@fault(("3", "is not the same parcel everywhere"))
def another_audience_of_targets(world, name):
    world.entry("c", name, 3)["targets"] = [world.group(name), "few@a.x"]


@fault(("5", "is logged twice"))
def logged_twice(world, name):
    world.log("b", name, 5)


@fault(("3", "is logged out of its sequence"))
def swapped(world, name):
    last = world.entry("c", name, 5)
    world.remove("c", name, 3)
    world.log("c", name, 3)
    assert world.rows["c"]["message_log"].index(last) < world.rows["c"]["message_log"].index(world.entry("c", name, 3))


@fault(("5", "is logged late for a mailbox that had it"))
def late_for_the_same(world, name):
    world.log("b", name, 5, round=1, audience=FIRST)


@fault()
def late_for_others(world, name):
    world.log("b", name, 1, round=1, audience=SECOND)


@fault(("3", "was never accepted by its home"))
def not_of_its_home(world, name):
    world.remove("a", name, 3)


@fault(("3", "is confirmed by a server that has not logged it"))
def confirmed_and_lost(world, name):
    world.unsettled(name, 3, ["b"])
    world.remove("b", name, 3)


@fault(("1", "is confirmed by a server that has not logged it"))
def the_first_one_lost(world, name):
    world.unsettled(name, 1, ["b"])
    world.remove("b", name, 1)


@fault()
def confirmed_and_perhaps_on_its_way(world, name):
    """Remove the last parcel from b. The home may have heard of it after b was read, so this is no finding."""
    world.unsettled(name, 5, ["b"])
    world.remove("b", name, 5)


@fault()
def for_nobody_in_between(world, name):
    """Remove a parcel from b. The gap is no finding, since no server said that b had a member for the parcel."""
    world.remove("b", name, 3)


@fault(("1", "is for an audience that is not there"))
def audience_that_is_not_there(world, name):
    world.entry("c", name, 1)["audience"] = 99


@fault(("c", "an audience names a mailbox that was never opened"))
def mailbox_that_was_never_opened(world, name):
    del name
    world.rows["c"]["audiences"].append({"audience": 50, "mailboxes": BitMap([NUMBERED + 1]).serialize()})


@fault(("b", "a subscription stands beyond the log"))
def cursor_beyond_the_log(world, name):
    del name
    world.rows["b"]["cursors"].append({"mailbox": 2, "subscription": "desk", "entry": 10_000, "item": 0})


@fault(("c", "a subscription is of a mailbox that is not there"))
def cursor_without_a_mailbox(world, name):
    del name
    world.rows["c"]["cursors"].append({"mailbox": 9, "subscription": "", "entry": 1, "item": -1})


@fault(("x-member-not-reached@a.x", "does not reach a mailbox that is below it"))
def member_not_reached(world, name):
    world.reached(name, "b", [1])


@fault(("few@a.x", "reaches a mailbox that is not below it"))
def stranger_reached(world, name):
    del name
    world.rows["b"]["reached"].append({"targets": ["few@a.x"], "mailboxes": BitMap([1, 2]).serialize()})


def found(spark, collection, folder):
    with load(spark, collection, folder) as tables:
        return {(one.texts[0], one.message) for one in collect_troubles(messages.audit(tables))}


def expected(world):
    for name in world.names[1:]:
        for subject, message in FAULTS[name][1]:
            if subject.isdigit():
                of_set = f"+{world.names.index(name) + 1}" if name == "another_audience_of_targets" else ""
                ids = {f"{subject}@{world.group(name)}#1", f"{subject}@{world.group(name)}{of_set}#1"}
                yield ids, message
            else:
                yield {subject}, message


def test_every_planted_fault_is_found_and_nothing_else(spark, tmp_path):
    world = World(FAULTS)
    seen = found(spark, world.write(tmp_path / "snapshots"), tmp_path / "work")
    wanted = list(expected(world))
    for subjects, message in wanted:
        assert any((subject, message) in seen for subject in subjects), (subjects, message, seen)
    assert seen <= {(subject, message) for subjects, message in wanted for subject in subjects}


def test_what_a_server_does_not_tell_is_named_and_the_others_are_judged(spark, tmp_path):
    world = World()
    world.rows["a"]["message_log"][1]["digest"] = b"another"
    silent = world.snapshots["b"]
    silent.manifest["messages"] = None
    for table in MESSAGE_TABLES:
        del silent.rows[table]
    collection = world.write(tmp_path / "silent")
    assert collection.is_partial
    assert [(one.severity, one.subject) for one in collection.findings] == [(Severity.WARNING, "b")]
    content = "is not the same parcel everywhere"
    assert found(spark, collection, tmp_path / "work") == {(f"3@{world.group('sound')}#1", content)}


@pytest.mark.parametrize("lacking", ["message_log", "reached"])
def test_a_snapshot_that_lacks_a_table_of_messages_is_left_out(tmp_path, lacking):
    collection = World().write(tmp_path)
    assert dataclasses.asdict(collection.snapshots[0].messages)["numbered"] == NUMBERED
    (tmp_path / "b" / f"{lacking}.parquet").unlink()
    collection = read_collection(tmp_path)
    assert [one.server for one in collection.snapshots] == ["a", "c"]
    assert f"{lacking}.parquet is missing" in collection.findings[0].message
