"""A server's state of messages, as rows that are read piece by piece while it goes on."""

import pytest
from pyroaring import BitMap

from delivery import snapshot as snapshot_module
from delivery.model.events import Acknowledge, CloseMailbox
from delivery.model.words import Position
from delivery.snapshot import entries
from nameserver.wire.message_columns import encode_messages, encode_messages_end
from shadowtree.client.snapshots.messages import MessageCollector
from shadowtree.v1 import admin_pb2
from tests.unit.delivery.servers import Servers

GROUP = "staff@a.x"


@pytest.fixture
def servers():
    found = Servers("a.x", "b.x")
    found.create(GROUP)
    for process in ("ann@a.x", "bob@b.x", "eve@b.x"):
        found.join(GROUP, process)
        found.listen(process)
    return found


def read(servers, server, *, between=lambda: None):
    """Return the tables of a server, and their ends. `between`: called after each piece."""
    core, disk, collector = servers.servers[server], servers.disks[server], MessageCollector()
    reading, step = core.message_snapshot(), core.step

    def step_and_note(event, now):
        effects = step(event, now)
        reading.note(effects.records)
        return effects

    core.step = step_and_note
    for piece in reading.read():
        take(collector, encode_messages(piece))
        between()
    core.step = step
    ends, rest = reading.finish()
    for piece in rest:
        take(collector, encode_messages(piece))
    records = [disk.log[position] for position in sorted(disk.log) if ends.cut < position <= ends.last]
    take(collector, encode_messages(entries(records)))
    take(collector, encode_messages_end(ends))
    return collector.tables(), collector.ends()


def take(collector, encoded):
    collector.take(admin_pb2.SnapshotChunk.FromString(encoded))


def test_a_snapshot_tells_everything_of_messages_but_their_payloads(servers):
    servers.send(GROUP, payload=b"secret")
    tables, ends = read(servers, "b.x")
    (entry,) = tables["message_log"]
    assert entry[:9] == (1, [GROUP], 1, entry[3], 1, 1, 0, "fifo", 1)
    assert b"secret" not in repr(tables).encode()
    assert ends == {"log_last": 1, "log_cut": 0, "mailboxes_numbered": 2}
    assert tables["mailboxes"] == [(1, "bob@b.x", 1), (2, "eve@b.x", 1)]
    assert [BitMap.deserialize(mailboxes) for _, mailboxes in tables["audiences"]] == [BitMap([1, 2])]
    assert [(targets, BitMap.deserialize(found)) for targets, found in tables["reached"]] == [([GROUP], BitMap([1, 2]))]
    assert [row[:2] for row in tables["cursors"]] == [(1, ""), (2, "")]
    assert tables["unsettled"] == []
    (of_origin,) = read(servers, "a.x")[0]["message_log"]
    assert of_origin[-1] == entry[-1], "one content, one digest"


def test_a_digest_tells_contents_apart(servers):
    servers.send(GROUP, payload=b"one")
    servers.send(GROUP, payload=b"other")
    first, second = read(servers, "b.x")[0]["message_log"]
    assert first[-1] != second[-1]


def test_who_is_excepted_stands_behind_its_target(servers):
    servers.create("few@a.x")
    servers.join("few@a.x", "eve@b.x")
    servers.send(GROUP, excluding=["few@a.x"])
    assert read(servers, "b.x")[0]["message_log"][0][1] == [f"{GROUP} few@a.x"]


def test_a_parcel_that_is_not_settled_says_who_has_it(servers):
    servers.held |= {("b.x", "a.x")}
    servers.send(GROUP)
    (row,) = read(servers, "a.x")[0]["unsettled"]
    assert row[6:] == (["b.x"], [], [])


def test_what_changes_while_it_is_read_is_told_as_it_is_in_the_end(servers, monkeypatch):
    monkeypatch.setattr(snapshot_module, "PIECE_ROWS", 1)
    servers.send(GROUP)
    steps = iter(
        [
            lambda: servers.send(GROUP),
            lambda: servers.step("b.x", CloseMailbox(servers.ticket(), "bob@b.x")),
            lambda: servers.step("b.x", Acknowledge(2, "", 1, Position(2, 0))),
            lambda: servers.send(GROUP),
        ]
    )

    def take_next_step():
        for step in steps:
            step()
            return

    found = read(servers, "b.x", between=take_next_step)
    assert next(steps, None) is None
    assert found == read(servers, "b.x")
    assert [row[0] for row in found[0]["mailboxes"]] == [2]
    assert found[0]["cursors"] == [(2, "", 2, 0)]
    assert found[1]["log_last"] == 3
    assert found[1]["mailboxes_numbered"] == 2


def test_nothing_is_told_of_messages_where_their_end_is_missing(servers):
    servers.send(GROUP)
    collector = MessageCollector()
    for piece in servers.servers["b.x"].message_snapshot().read():
        take(collector, encode_messages(piece))
    assert (collector.tables(), collector.ends()) == ({}, None)
