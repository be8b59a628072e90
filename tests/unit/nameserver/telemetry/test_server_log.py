"""Each event of interest to an operator is logged once, with its facts, and no event floods the log."""

import logging

import pytest

from namegraph import (
    Committed,
    Effects,
    PeerLeaving,
    PeerLost,
    PeerMet,
    Reason,
    Records,
    Refusal,
    RequestId,
    ServerId,
    Tick,
    UpdateCommand,
)
from namegraph.events import Reply
from nameserver.telemetry.log_lines import LOGGER
from nameserver.telemetry.server_log import (
    DOUBT_SECONDS,
    FAULTS_QUIET_SECONDS,
    LINES_OF_ONE_KIND,
    SLOW_COMMIT_SECONDS,
    SLOW_STEP_SECONDS,
    STEP_STUCK_SECONDS,
    STUCK_SECONDS,
    ServerLog,
)

PEER = ServerId("b.x")
COMMAND = UpdateCommand(7, RequestId("once"), ())
NOTHING = Effects(Records())


class FakeCore:
    """The observed state."""

    view = ""
    members = ()
    is_healed = True
    in_doubt = ()
    overdue = ()
    counts = (0, 0)

    def suspended_counts(self):
        return self.counts


class Scene:
    """A log, what it looks at, and what it said."""

    def __init__(self, caplog):
        self.core, self.faults, self.time = FakeCore(), {}, 0.0
        self.log = ServerLog(core=self.core, faults=lambda: self.faults, clock=lambda: self.time)
        self._caplog = caplog

    def step(self, event, effects=NOTHING, seconds=0.0, *, was_long=False):
        self.log.stepped(event, effects, seconds, was_long=was_long)

    def said(self):
        found = [(record.levelname, record.event, record.fields) for record in self._caplog.records]
        self._caplog.clear()
        return found


@pytest.fixture
def scene(caplog, monkeypatch):
    monkeypatch.setattr(LOGGER, "propagate", True)
    caplog.set_level(logging.INFO, LOGGER.name)
    return Scene(caplog)


def test_peers_that_come_and_go_are_told_with_the_reason(scene):
    scene.step(PeerMet(PEER, (), 5))
    scene.step(PeerLeaving(PEER, "it is being stopped"))
    scene.step(PeerLost(PEER, "no heartbeat for 6.1 s"))
    assert scene.said() == [
        ("INFO", "peer_met", {"peer": PEER, "protocol": 5}),
        ("INFO", "peer_leaving", {"peer": PEER, "why": "it is being stopped"}),
        ("WARNING", "peer_lost", {"peer": PEER, "why": "no heartbeat for 6.1 s"}),
    ]


def test_a_view_is_told_once_with_the_one_before(scene):
    scene.core.view, scene.core.members = "1@a.x", ("a.x", "c.x")
    scene.step(Tick())
    scene.step(Tick())
    assert scene.said() == [("WARNING", "view_changed", {"view": "1@a.x", "before": ""})]


def test_suspended_and_healed_arcs_are_told_with_their_numbers(scene):
    scene.core.counts, scene.core.is_healed = (12, 0), False
    scene.log.look()
    scene.log.look()
    scene.core.counts, scene.core.is_healed = (0, 1), True
    scene.log.look()
    assert scene.said() == [
        ("WARNING", "arcs_suspended", {"suspended": 12, "rejected": 0}),
        ("WARNING", "healing", {}),
        ("WARNING", "arcs_suspended", {"suspended": 0, "rejected": 1}),
        ("INFO", "healed", {}),
    ]


def test_a_server_that_is_away_for_too_long_is_told_once(scene):
    scene.core.overdue = (PEER,)
    scene.log.look()
    scene.log.look()
    assert scene.said() == [("WARNING", "peer_overdue", {"peer": PEER})]


def test_an_update_in_doubt_is_told_once_it_has_been_for_long(scene):
    scene.core.in_doubt = ("3@b.x",)
    scene.log.look()
    scene.time = DOUBT_SECONDS - 1
    scene.log.look()
    assert scene.said() == []
    scene.time = DOUBT_SECONDS
    scene.log.look()
    scene.log.look()
    assert scene.said() == [("WARNING", "updates_in_doubt", {"count": 1})]


def test_refused_and_repeated_updates_are_told_with_their_request_id(scene):
    scene.log.answered(COMMAND, Refusal(Reason.UNAVAILABLE, "b.x is out of reach"))
    scene.log.answered(COMMAND, Refusal(Reason.ALREADY_MEMBER, "the caller's own"))
    scene.step(COMMAND, Effects(Records(), [Reply(7, Committed("1"))]))
    assert scene.said() == [
        ("WARNING", "update_refused", {"reason": "UNAVAILABLE", "request_id": "once"}),
        ("INFO", "update_repeated", {"request_id": "once"}),
    ]


def test_a_flood_of_one_kind_is_cut_and_counted(scene):
    for _ in range(LINES_OF_ONE_KIND + 990):
        scene.log.answered(COMMAND, Refusal(Reason.UNAVAILABLE, "busy"))
    assert len(scene.said()) == LINES_OF_ONE_KIND
    scene.log.look()
    assert scene.said() == [("WARNING", "lines_left_out", {"kind": "update_refused", "count": 990})]
    scene.log.answered(COMMAND, Refusal(Reason.UNAVAILABLE, "busy"))
    assert len(scene.said()) == 1


def test_slow_steps_and_commits_are_told(scene):
    scene.step(Tick(), seconds=SLOW_STEP_SECONDS / 2)
    scene.log.committed(SLOW_COMMIT_SECONDS / 2)
    assert scene.said() == []
    scene.step(Tick(), seconds=SLOW_STEP_SECONDS)
    scene.step(Tick(), seconds=2.0, was_long=True)
    scene.log.committed(SLOW_COMMIT_SECONDS)
    assert scene.said() == [
        ("WARNING", "slow_step", {"kind": "Tick", "seconds": SLOW_STEP_SECONDS}),
        ("INFO", "long_step", {"kind": "Tick", "seconds": 2.0}),
        ("WARNING", "slow_commit", {"seconds": SLOW_COMMIT_SECONDS}),
    ]


def test_a_commit_that_does_not_end_is_told_while_it_lasts(scene):
    scene.log.commit_began(5)
    scene.time = STUCK_SECONDS
    scene.log.look()
    scene.log.look()
    assert [event for _, event, _ in scene.said()] == ["commit_stuck"]


def test_a_long_step_that_does_not_end_is_told_while_it_lasts(scene):
    scene.log.long_step_began(Tick())
    scene.time = STEP_STUCK_SECONDS - 1
    scene.log.look()
    assert scene.said() == []
    scene.time = STEP_STUCK_SECONDS
    scene.log.look()
    scene.log.look()
    assert scene.said() == [("WARNING", "step_stuck", {"kind": "Tick"})]
    scene.log.long_step_began(Tick())
    scene.step(Tick(), seconds=0.01, was_long=True)
    scene.time += 2 * STEP_STUCK_SECONDS
    scene.log.look()
    assert scene.said() == []


def test_faults_of_a_peer_are_reported_at_once_and_then_each_minute_with_their_count(scene):
    scene.faults = {("b.x", "garbage"): 2}
    scene.log.look()
    scene.faults = {("b.x", "garbage"): 5, ("c.x", "garbage"): 1}
    scene.log.look()
    scene.time = FAULTS_QUIET_SECONDS
    scene.log.look()
    scene.log.look()
    assert scene.said() == [
        ("WARNING", "peer_fault", {"peer": "b.x", "kind": "garbage", "count": 2}),
        ("WARNING", "peer_fault", {"peer": "c.x", "kind": "garbage", "count": 1}),
        ("WARNING", "peer_fault", {"peer": "b.x", "kind": "garbage", "count": 3}),
    ]
