"""Checkpoints outlive rows: own ones are bounded, and those of other servers show that a server went back."""

import pytest

from namegraph import Checkpoint, CheckpointCame, KeepCheckpoint, NoteEvents, PeerFault, Records, ServerId, decode_facts
from namegraph.events import AuditEntry
from namegraph.state import checkpoints as checkpoints_module
from namegraph.state.checkpoints import BRANCHES_LIMIT, Checkpoints, Heard
from namegraph.state.durable_maps import DurableState
from tests.cores import CoreUnderTest

PEER = ServerId("b.example")


def told(sequence, digest=b"a", *, before=0, at=1, server=PEER):
    return Checkpoint(server, sequence, digest * 32, at, before)


@pytest.fixture
def kept():
    return Checkpoints(DurableState())


def test_a_checkpoint_that_follows_the_kept_one_takes_its_place(kept):
    assert kept.heard(PEER, told(1_000)) is Heard.NEW
    assert kept.heard(PEER, told(1_000)) is Heard.KNOWN
    assert kept.heard(PEER, told(4_000, before=3_000)) is Heard.NEW
    assert kept.of_peers() == [told(4_000, before=3_000)]


@pytest.mark.parametrize(
    "later", [told(900), told(1_000, b"b"), told(2_000, b"b"), told(2_000, b"b", before=999), told(1, b"b")]
)
def test_a_checkpoint_of_a_server_that_went_back_stands_beside_the_kept_one(kept, later):
    kept.heard(PEER, told(1_000))
    assert kept.heard(PEER, later) is Heard.CONTRADICTS
    assert kept.of_peers() == [told(1_000), later]
    follower = told(5_000, before=later.sequence)
    assert kept.heard(PEER, follower) is Heard.NEW
    assert kept.of_peers() == [told(1_000), follower]


def test_a_server_that_contradicts_itself_without_end_fills_no_memory(kept):
    for number in range(1_000):
        kept.heard(PEER, told(number + 1, bytes([number % 256])))
    assert len(kept.of_peers()) == BRANCHES_LIMIT


def test_of_many_own_checkpoints_the_older_half_is_thinned(kept, monkeypatch):
    monkeypatch.setattr(checkpoints_module, "OWN_CHECKPOINTS_LIMIT", 10)
    for number in range(1, 200):
        kept.keep(told(number, at=number))
        assert len(kept.own) <= 10
    sequences = [each.sequence for each in kept.own]
    assert sequences[-5:] == [195, 196, 197, 198, 199]
    assert sequences[0] == 1
    assert kept.newest == told(199, at=199)


def test_the_newest_row_that_is_older_than_a_time_is_known_by_the_checkpoints(kept):
    kept.keep(told(1_000, at=50))
    kept.keep(told(2_000, at=60))
    assert [kept.older_than(at) for at in (50, 51, 60, 61)] == [0, 1_000, 1_000, 2_000]


@pytest.fixture
def server():
    return CoreUnderTest("a.example")


def rows_of(effects):
    return [(row.kind, decode_facts(row.changes)) for row in effects.records.changes]


def test_events_of_the_shell_are_rows_in_the_step_that_takes_them(server):
    entries = tuple(AuditEntry("refusal", {"number": number}, decision="refused") for number in range(3))
    effects = server.core.step(NoteEvents(entries), 0.0)
    assert rows_of(effects) == [("refusal", {"number": number}) for number in range(3)]
    assert [row.decision for row in effects.records.changes] == ["refused"] * 3


def test_a_checkpoint_that_goes_back_is_noted_in_the_audit_log_of_who_hears_it(server):
    step = server.core.step
    assert rows_of(step(CheckpointCame(PEER, told(1_000)), 0.0)) == []
    went_back = rows_of(step(CheckpointCame(PEER, told(900)), 0.0))
    assert went_back == [("checkpoint_went_back", {"server": PEER, "sequence": 900, "hash": "61" * 32})]
    assert rows_of(step(CheckpointCame(PEER, told(900)), 0.0)) == []


@pytest.mark.parametrize(
    "bad",
    [
        told(1_000, server=ServerId("c.example")),
        told(0),
        told(2**63),
        told(5, before=5),
        told(5, at=-1),
        Checkpoint(PEER, 1, b"short", 1),
        Checkpoint(PEER, 1, b"a" * 32, 1, 0, b"k" * 32),
        Checkpoint(PEER, 1, b"a" * 32, 1, 0, b"k" * 32, b"s" * 63),
    ],
)
def test_a_checkpoint_that_no_correct_server_sends_is_a_fault(server, bad):
    effects = server.core.step(CheckpointCame(PEER, bad), 0.0)
    assert effects.records.is_empty()
    assert server.core.channels.faults[PEER, PeerFault.NOT_LEGAL] == 1
    assert server.core.checkpoints.of_peers() == []


def test_rows_older_than_a_time_are_forgotten_by_checkpoints_and_these_stay(server):
    own = ServerId("a.example")
    for number in range(150):
        server.core.step(NoteEvents((AuditEntry("k", {"number": number}),)), 0.0)
    server.core.step(KeepCheckpoint(told(120, at=10, server=own)), 0.0)
    effects = server.core.step(KeepCheckpoint(told(150, at=20, server=own), forget_before=15), 0.0)
    assert effects.records.forget_changes_through == 120
    assert [each.sequence for each in server.core.checkpoints.own] == [120, 150]
    effects = server.core.step(KeepCheckpoint(told(151, at=30, server=own), forget_before=10**15), 0.0)
    assert effects.records.forget_changes_through == 149


def test_checkpoints_are_there_after_a_restart(server):
    own = told(7, server=ServerId("a.example"))
    for event in (KeepCheckpoint(own), CheckpointCame(PEER, told(1_000)), CheckpointCame(PEER, told(3))):
        records = server.core.step(event, 0.0).records
        server.records.extend(records)
    server.restart()
    assert server.core.checkpoints.newest == own
    assert server.core.checkpoints.of_peers() == [told(1_000), told(3)]


def test_a_clock_that_leaps_ahead_forgets_no_more_rows_at_once_than_the_limit(server, monkeypatch):
    monkeypatch.setattr("namegraph.core.FORGOTTEN_AT_ONCE", 100)
    for number in range(500):
        server.core.step(NoteEvents((AuditEntry("k", {"number": number}),)), 0.0)
    own = ServerId("a.example")
    server.core.step(KeepCheckpoint(told(450, at=10, server=own)), 0.0)
    records = Records()
    for place in range(1, 4):
        keep = KeepCheckpoint(told(450 + place, at=20, server=own), forget_before=10**15)
        records.extend(server.core.step(keep, 0.0).records)
        assert records.forget_changes_through == 100 * place
