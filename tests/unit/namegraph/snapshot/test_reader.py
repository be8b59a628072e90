"""A snapshot is the state at which its reading began, whatever happened while it was read."""

import random

import pytest
from pyroaring import BitMap

from namegraph.events import SetDetails
from namegraph.model.names import parse_name
from namegraph.model.operations import CreateGroup, DeleteGroup, JoinArc, LeaveArc, SetPolicy
from namegraph.model.outcomes import Committed
from namegraph.model.policies import Preset
from namegraph.model.rows import RequestId
from namegraph.snapshot import reader as snapshot_module
from nameserver.wire.snapshot_columns import encode_end, encode_piece, encode_together
from shadowtree.client.snapshots.tables import SnapshotCollector
from shadowtree.v1 import admin_pb2
from tests.cores import CoreUnderTest
from tests.rights_scene import policy
from tests.snapshots import tables_of


@pytest.fixture
def core():
    return CoreUnderTest("a.x", "b.x", forgets_at_once=False)


def names(tables):
    return {row["node"]: row["id"] for row in tables["nodes"]}


def arcs_by_name(tables):
    of = names(tables)
    return {(of[row["parent"]], of[row["child"]]): row for row in tables["arcs"]}


def test_a_server_without_anything_has_an_empty_snapshot(core):
    manifest, tables = tables_of(core.core)
    assert manifest["server"] == "a.x"
    assert manifest["subnets"] == ["a.x", "b.x"]
    assert manifest["revision"] == ""
    assert all(rows == [] for rows in tables.values())


def test_arcs_have_their_states_and_tombstones_have_none(core):
    core.create("p@a.x", "q@a.x", "r@a.x", "s@a.x")
    for parent, child in ("pq", "qr", "rp", "rq", "rs"):
        core.join(f"{parent}@a.x", f"{child}@a.x")
    core.join("s@a.x", "ann@b.x")
    core.leave("s@a.x", "ann@b.x")
    _, tables = tables_of(core.core)
    states = {(parent[0], child[0]): row["state"] for (parent, child), row in arcs_by_name(tables).items()}
    assert states == {
        ("p", "q"): "shadow",
        ("q", "r"): "shadow",
        ("r", "p"): "fade",
        ("r", "q"): "fade",
        ("r", "s"): "normal",
        ("s", "a"): None,
    }
    left = arcs_by_name(tables)["s@a.x", "ann@b.x"]
    assert (left["present"], left["version"], left["is_truth"], left["is_record"]) == (False, 2, True, True)
    assert {row["id"]: row["kind"] for row in tables["nodes"]}["ann@b.x"] == "absent"


def test_levels_are_the_sizes_of_ancestor_sets_which_hold_the_node_itself(core):
    core.create("p@a.x", "q@a.x", "r@a.x")
    core.join("p@a.x", "q@a.x")
    core.join("q@a.x", "p@a.x")
    core.join("q@a.x", "r@a.x")
    core.join("r@a.x", "ann@b.x")
    _, tables = tables_of(core.core)
    of = names(tables)
    assert {row["id"][0]: row["level"] for row in tables["nodes"]} == {"p": 2, "q": 2, "r": 3, "a": 4}
    sets = {
        of[row["node"]][0]: {of[node][0] for node in BitMap.deserialize(row["ancestors"])}
        for row in tables["ancestors"]
    }
    assert sets == {"p": set("pq"), "r": set("pqr"), "a": set("pqra")}
    (loop,) = tables["virtual_nodes"]
    assert loop["smallest"] == "p@a.x"
    assert {row["id"]: row["vnid"] for row in tables["nodes"]} == {
        "p@a.x": loop["vnid"],
        "q@a.x": loop["vnid"],
        "r@a.x": None,
        "ann@b.x": None,
    }


@pytest.mark.parametrize("seed", range(30))
def test_reading_while_updates_go_on_gives_what_reading_at_rest_gave_before(core, monkeypatch, seed):
    monkeypatch.setattr(snapshot_module, "PIECE_ROWS", 3)
    chance = random.Random(seed)
    groups = [parse_name(f"{letter}@{subnet}") for letter in "pqrstuvw" for subnet in ("a.x", "b.x")]
    core.do(*(CreateGroup(group) for group in groups))
    present = set()

    def operation():
        if present and chance.random() < 0.45:
            parent, child = chance.choice(sorted(present))
            present.discard((parent, child))
            return LeaveArc(parent, child)
        if chance.random() < 0.1:
            group = chance.choice(groups)
            present.difference_update({arc for arc in present if group in arc})
            return DeleteGroup(group, force=True)
        parent, child = (
            chance.choice(groups),
            chance.choice([*groups, parse_name("ann@b.x"), parse_name("bob@no.where")]),
        )
        present.add((parent, child))
        return JoinArc(parent, child)

    def change():
        for _ in range(chance.randrange(4)):
            core.ask(operation())

    for _ in range(30):
        core.ask(operation())
    before = tables_of(core.core)
    assert tables_of(core.core, between=change) == before
    assert tables_of(core.core) != before


def set_details(core, group, text):
    """Change the details of a group."""
    request = RequestId(f"{group} {text}")
    effects = core.core.step(SetDetails(0, request, {parse_name(group): {"description": text}}), 0.0)
    assert isinstance(effects.replies[0].outcome, Committed)


def test_descriptions_are_those_of_the_step_at_which_the_snapshot_begins(core, monkeypatch):
    monkeypatch.setattr(snapshot_module, "PIECE_ROWS", 1)
    core.create(*(f"{name}@a.x" for name in ("kept", "changed", "removed", "deleted", "plain", "late")))
    for name in ("kept", "changed", "removed", "deleted"):
        set_details(core, f"{name}@a.x", name)

    def change_all():
        for name, text in (("changed", "anew"), ("removed", ""), ("late", "in time")):
            set_details(core, f"{name}@a.x", text)
        core.ask(DeleteGroup(parse_name("deleted@a.x")))

        changes.clear()

    changes = [change_all]
    found = tables_of(core.core, between=lambda: [change() for change in changes])[1]["details"]
    assert found == [
        {"group": f"{name}@a.x", "description": name} for name in ("changed", "deleted", "kept", "removed")
    ]
    assert tables_of(core.core)[1]["details"] == [
        {"group": "changed@a.x", "description": "anew"},
        {"group": "kept@a.x", "description": "kept"},
        {"group": "late@a.x", "description": "in time"},
    ]


def test_policies_are_those_of_the_step_at_which_the_snapshot_begins(core, monkeypatch):
    monkeypatch.setattr(snapshot_module, "PIECE_ROWS", 1)
    core.create(*(f"{name}@a.x" for name in ("kept", "changed", "deleted", "open")))
    for name in ("kept", "changed", "deleted"):
        core.ask(SetPolicy(parse_name(f"{name}@a.x"), policy(f"{name}@a.x", Preset.HIDDEN)))

    def change_all():
        core.ask(SetPolicy(parse_name("changed@a.x"), policy("changed@a.x", Preset.SECRET)))
        core.ask(DeleteGroup(parse_name("deleted@a.x")))
        changes.clear()

    changes = [change_all]
    found = tables_of(core.core, between=lambda: [change() for change in changes])[1]["policies"]
    assert [(row["group"], row["preset"], row["check"]) for row in found] == [
        (f"{name}@a.x", "hidden", ["members"]) for name in ("changed", "deleted", "kept")
    ]
    assert [(row["group"], row["preset"]) for row in tables_of(core.core)[1]["policies"]] == [
        ("changed@a.x", "secret"),
        ("kept@a.x", "hidden"),
    ]


def test_pieces_may_be_sent_together(core, monkeypatch):
    monkeypatch.setattr(snapshot_module, "PIECE_ROWS", 1)
    core.create("top@a.x", "sub@b.x")
    core.join("top@a.x", "sub@b.x")
    snapshot = core.core.snapshot()
    pieces = [encode_piece(piece) for piece in snapshot.pieces()]
    end = encode_end(snapshot.closing(), revision=core.core.revision, database_failure="")
    collector = SnapshotCollector()
    for encoded in (encode_together(pieces), end):
        collector.add(admin_pb2.SnapshotChunk.FromString(encoded))
    found = collector.finish().tables
    assert len(pieces) > 3
    assert {name: table.to_pylist() for name, table in found.items()} == tables_of(core.core)[1]


def test_others_get_their_turn_while_nodes_without_children_and_without_sets_are_looked_at(core, monkeypatch):
    monkeypatch.setattr(snapshot_module, "PIECE_ROWS", 10)
    monkeypatch.setattr(snapshot_module, "LOOKED_AT_ONCE", 10)
    core.create("crowd@a.x", "here@a.x")
    core.do(*(JoinArc(parse_name("crowd@a.x"), parse_name(f"p{number}@no.where")) for number in range(100)))
    core.do(*(JoinArc(parse_name("crowd@a.x"), parse_name(f"p{number}@a.x")) for number in range(100)))
    pieces = list(core.core.snapshot().pieces())
    assert max(len(piece.nodes) + len(piece.arcs) for piece in pieces) <= 11
    assert sum(not (piece.nodes or piece.arcs) for piece in pieces) > 20
