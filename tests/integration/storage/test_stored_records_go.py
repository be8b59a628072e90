"""Databases of layout 0005, whose servers stored duplication-control records of one another's arcs, come to 0006.

`layout_0005.msgpack.xz` holds clusters of two to four servers, each killed at one moment: the rows of every table of
every server, and the groups and arcs in the end when servers of that layout went on from these rows. The first cluster
was at rest. The others were amid updates, some of them amid a change of view. Some had a limit for compression so low
that nearly all rows are compressed.

The clusters were made with the simulator of commit e87e12f: `SeedRun` with 10 to 40 updates, with and without faults,
ended by an exception at a step between the 40th and the 900th; then `Disk.read` of each server. Of 3,400 of these, few
were kept that together have all kinds of letters and of entries.
"""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random

import msgspec
import pytest
from alembic import command
from sqlalchemy import MetaData, create_engine, insert, text
from sqlalchemy.engine import Engine

from migrations.rows_without_stored_records import as_now
from namegraph import NodeIndex, NodeKind, ServerId, Subnet
from namegraph.model.priorities import Priority
from namegraph.model.rows import Records, StoredState
from namegraph.state.durable_maps import UPDATES
from namegraph.update.order_queue import COVER, ENTRY
from namegraph.wire.codec import decode, decode_in_view, decode_outcome
from namegraph.wire.inflation import COMPRESSED_FROM_BYTES, compressed
from namegraph.wire.message_parts import ArcColumns, PendingEntry, RecordColumns, UpdateId, ViewId
from namegraph.wire.update_messages import Abort, Drop, UpdateOutcome
from simulation.checks.cluster_invariants import check_all, check_quiet
from simulation.cluster.cluster import Cluster
from simulation.cluster.disk import Disk
from simulation.cluster.networks import RandomNetwork
from simulation.oracle.serial_model import TrueGraph
from storage import open_store
from storage.checksums import seal
from storage.errors import DatabaseDamagedError
from storage.urls import parse_database_url
from tests.integration.storage.test_upgrade import migrate

SCENES = msgspec.msgpack.decode(lzma.decompress(Path(__file__).with_name("layout_0005.msgpack.xz").read_bytes()))
ENCODE = msgspec.msgpack.encode

IS_READY, RELEASES_DUE = 3, 4
"""Fields of an entry in layout 0005."""
COVERED = 4
"""Field of the cover of an entry."""

UPDATE = UpdateId(ServerId("a.x"), 7)
FINAL = Priority(9, ServerId("a.x"))
NO_ARCS = ArcColumns((), b"", b"", b"", b"", b"", b"")
NO_RECORDS = RecordColumns((), b"", b"", (), b"", (), b"", b"", b"", b"", b"")


def write_layout_0005(engine: Engine, tables: Mapping[str, list]) -> None:
    """Make a database of that layout with these rows."""
    migrate(engine, command.upgrade, "0005")
    with engine.begin() as connection:
        layout = MetaData()
        layout.reflect(connection)
        for name, rows in tables.items():
            full = [(1, *rows)] if name == "server" else rows
            columns = layout.tables[name].columns.keys()
            if full:
                connection.execute(insert(layout.tables[name]), [dict(zip(columns, row, strict=False)) for row in full])
            if name == "server":
                connection.execute(text("UPDATE server SET commits = 0"))
            seal(connection, name)


def engine_of(url: str) -> Engine:
    return create_engine(parse_database_url(url))


def upgraded(url: str, tables: Mapping[str, list]) -> StoredState:
    """Return the state that a server of today reads from a database of that layout."""
    engine = engine_of(url)
    write_layout_0005(engine, tables)
    engine.dispose()
    store = open_store(url)
    state = store.load()
    found = StoredState(
        state.server,
        state.counter,
        list(state.nodes),
        list(state.virtual_nodes),
        list(state.arcs),
        list(state.outcomes),
        list(state.protocol),
    )
    store.close()
    return found


def started(states: Iterable[StoredState]) -> Cluster:
    """Servers that start from these states and have told one another all that they had kept."""
    disks = {}
    for state in states:
        disk = disks[state.server] = Disk(state.server)
        disk.write(
            Records(
                counter=state.counter,
                nodes=list(state.nodes),
                virtual_nodes=list(state.virtual_nodes),
                arcs=list(state.arcs),
                outcomes=list(state.outcomes),
                protocol=list(state.protocol),
            )
        )
    cluster = Cluster([Subnet(server) for server in disks], RandomNetwork(Random(0)))
    cluster.start_on(disks)
    cluster.run()
    return cluster


def groups_and_arcs(cluster: Cluster) -> tuple[list[str], dict[tuple[str, str], int]]:
    """Return the groups and arcs at the homes of groups and parents, with the costs of arcs."""
    groups, arcs = [], {}
    for server, core in cluster.servers.items():
        graph = core.graph
        for number, name in enumerate(graph.ids):
            if core.home_of(name) != server:
                continue
            if graph.kind(NodeIndex(number)) is NodeKind.GROUP:
                groups.append(name)
            arcs.update({(name, graph.ids[child]): arc.cost for child, arc in graph.children[number].items()})
    return sorted(groups), arcs


def require_finished(scene: Mapping[str, Mapping], states: Iterable[StoredState]) -> None:
    """Servers that start from these states come to what the servers of the layout before came to."""
    cluster = started(states)
    check_quiet(cluster.servers, {}, {})
    groups, arcs = groups_and_arcs(cluster)
    assert groups == scene["groups"]
    assert sorted(arcs) == [tuple(arc) for arc in scene["arcs"]]
    check_all(cluster.servers, TrueGraph(arcs), set(groups))
    for server, core in cluster.servers.items():
        assert not core.channels.faults, server


def require_whole(tables: Mapping[str, list], state: StoredState) -> None:
    """Require all rows except stored records, so that no channel has a gap. Outcomes are rows of their own."""
    before = {(part, key): value for part, key, value in tables["protocol_rows"]}
    after = {(row.part, row.key): row.value for row in state.protocol}
    coordinated = {key: msgspec.msgpack.decode(value) for (part, key), value in before.items() if part == "coordinated"}
    decided = {key for key, (_, is_decided, *_) in coordinated.items() if is_decided}
    kept = {row for row in before if row[0] not in ("boundary record", "releases")}
    assert after.keys() == kept | {("decided", key) for key in decided}
    for key in decided:
        assert decode_outcome(after["decided", key]).update_id == UPDATES.read(key)
    for part, key in before:
        if part == ENTRY and msgspec.msgpack.decode(before[part, key])[RELEASES_DUE]:
            _, _, final, is_ready, is_covered_as_asked, sinks = msgspec.msgpack.decode(after[part, key])
            assert final is not None
            assert (is_ready, is_covered_as_asked, sinks) == (False, False, None)
            cover = after[COVER, key]
            assert msgspec.msgpack.decode(zlib.decompress(cover) if cover[:1] == b"x" else cover)[COVERED] is None


@pytest.mark.parametrize("number", range(len(SCENES)))
def test_servers_finish_what_was_decided_before_the_upgrade_and_agree(tmp_path, number) -> None:
    states = []
    for server, tables in SCENES[number]["servers"].items():
        states.append(upgraded(f"sqlite:///{tmp_path}/{server}.db", tables))
        require_whole(tables, states[-1])
    require_finished(SCENES[number], states)


def test_so_they_do_on_every_engine(new_url) -> None:
    scene = SCENES[1]
    require_finished(scene, [upgraded(new_url(), tables) for tables in scene["servers"].values()])


def test_the_clusters_hold_what_is_to_be_brought_over() -> None:
    rows = [row for scene in SCENES for tables in scene["servers"].values() for row in tables["protocol_rows"]]
    parts = {part for part, _, _ in rows}
    assert parts >= {"boundary record", "releases", ENTRY, COVER, "update", "coordinated", "decided", "outbox", "view"}
    entries = [msgspec.msgpack.decode(value) for part, _, value in rows if part == ENTRY]
    assert any(entry[RELEASES_DUE] for entry in entries)
    assert any(entry[IS_READY] and not entry[RELEASES_DUE] for entry in entries)


def test_a_damaged_row_stays_damaged_and_is_named(new_url) -> None:
    tables = next(iter(SCENES[0]["servers"].values()))
    key = next(key for part, key, _ in tables["protocol_rows"] if part == "outbox")
    url = new_url()
    engine = engine_of(url)
    write_layout_0005(engine, tables)
    with engine.begin() as connection:
        connection.execute(
            text("UPDATE protocol_rows SET value = :value WHERE part = 'outbox' AND key = :key"),
            {"value": b"\xc1", "key": key},
        )
    engine.dispose()
    with pytest.raises(DatabaseDamagedError, match="protocol_rows"):
        list(open_store(url).load().protocol)


def test_a_server_that_has_spoken_with_others_cannot_go_back_to_the_layout_before(new_url) -> None:
    url = new_url()
    upgraded(url, next(iter(SCENES[0]["servers"].values())))
    engine = engine_of(url)
    with pytest.raises(RuntimeError, match="restore a backup"):
        migrate(engine, command.downgrade, "0005")
    engine.dispose()


@pytest.mark.parametrize(
    "gone",
    [
        ["Release", UPDATE, [[["a@a.x", "b@b.x"], ["c@c.x"]]], [FINAL, False]],
        ["Released", UPDATE],
        ["Block", [[["a@a.x", "b@b.x"], ["c@c.x"]]], [FINAL, True]],
        ["Recall", [["a@a.x", "b@b.x"]]],
    ],
    ids=lambda gone: gone[0],
)
def test_a_letter_about_stored_records_becomes_one_that_does_nothing(gone) -> None:
    nothing = Drop(UpdateId(ServerId("b.x"), 0))
    view = ViewId(3, ServerId("a.x"))
    letter = ENCODE(gone)
    enclosed = ENCODE(["Enclosed", view, zlib.compress(letter, 1)])
    assert decode(as_now("outbox", letter, server="b.x")) == nothing
    assert decode_in_view(as_now("outbox", enclosed, server="b.x")) == (view, nothing)
    early = as_now("early letter", ENCODE([view, "b.x", enclosed]), server="a.x")
    found_view, sender, encoded = msgspec.msgpack.decode(early)
    assert (found_view, sender) == ([3, "a.x"], "b.x")
    assert decode_in_view(encoded) == (view, nothing)


def test_an_abort_forgets_what_was_released() -> None:
    letter = ENCODE(["Abort", UPDATE, FINAL, [["a@a.x", "b@b.x"]]])
    assert decode(as_now("outbox", letter, server="a.x")) == Abort(UPDATE)


@pytest.mark.parametrize("is_large", [False, True])
@pytest.mark.parametrize("form", ["a part", "a part beside the whole", "the whole"])
def test_a_commit_holds_the_whole_outcome_or_else_the_part_without_what_was_released(form, is_large) -> None:
    groups = [["g@a.x", True]] * (COMPRESSED_FROM_BYTES // 5 if is_large else 1)
    records = [[["a@a.x", "b@b.x"], ["c@c.x"]]]
    of_outcome = ["Commit", UPDATE, FINAL, groups, NO_ARCS, [], NO_RECORDS, [], [], records, records]
    everything = compressed(ENCODE([*of_outcome, b"", False]))
    assert (everything[:1] == b"x") is is_large
    handed_on = [[["b.x", 3], FINAL, None]]
    nothing = ["Commit", UPDATE, FINAL, [], NO_ARCS, [], NO_RECORDS, []]
    letter = {
        "a part": compressed(ENCODE([*of_outcome[:8], handed_on, records, records, b"", False])),
        "a part beside the whole": ENCODE([*nothing, handed_on, records, records, everything, False]),
        "the whole": ENCODE([*nothing, handed_on, records, records, everything, True]),
    }[form]
    outcome = UpdateOutcome(UPDATE, FINAL, tuple(map(tuple, groups)), NO_ARCS, (), NO_RECORDS, ())
    found = decode(as_now("outbox", letter, server="a.x"))
    assert (found.update_id, found.is_shared) == (UPDATE, form != "a part")
    assert found.handed_on == (PendingEntry(UpdateId(ServerId("b.x"), 3), FINAL, None),)
    assert decode_outcome(found.outcome) == outcome
    assert decode_outcome(as_now("decided", everything, server="a.x")) == outcome
