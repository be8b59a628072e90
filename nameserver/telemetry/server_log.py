"""Log lines about the server's own work: one line for each event that an operator wants to know the next morning.

    steps, answers, commits ---- at once -----------+
    state, once a second: what has changed since ---+--> lines

The only state kept here is the last report of each kind, so that nothing is reported twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from delivery.model.events import DeliveryEvent
from namegraph import (
    Command,
    Committed,
    Effects,
    Event,
    ImportCommand,
    Outcome,
    PeerLeaving,
    PeerLost,
    PeerMet,
    PeerRestored,
    Reason,
    Refusal,
    ServerId,
    UpdateCommand,
)
from nameserver.driver.observer import Observer
from nameserver.telemetry.log_lines import say

SLOW_STEP_SECONDS = 0.1
"""Duration of a slow step. A step holds up all callers of the server, and callers notice this delay."""

SLOW_COMMIT_SECONDS = 1.0
"""Duration of a slow commit: a hundred times the usual time of a disk."""

STUCK_SECONDS = 5.0
"""Duration after which a commit is reported while it still runs."""

STEP_STUCK_SECONDS = 30.0
"""Duration after which a step in a thread of its own is reported while it still runs. An import of half a million arcs
takes some seconds.
"""

DOUBT_SECONDS = 5.0
"""Age at which an update in doubt is reported. Doubt usually lasts milliseconds. Longer doubt means a silent
coordinator.
"""

FAULTS_QUIET_SECONDS = 60.0
"""Quiet time after a line about one kind of fault of one peer. Faults may come each second; the next line
counts them.
"""

LINES_OF_ONE_KIND = 10
"""Most lines of one kind in a second. Further lines are only counted."""

TROUBLES = (Reason.UNAVAILABLE, Reason.OUTCOME_UNKNOWN, Reason.DEADLINE_EXCEEDED, Reason.LIMIT_EXCEEDED)
"""Reasons of refusals that are not the caller's fault alone."""


class Watched(Protocol):
    """State that is looked at once a second, as readers see it."""

    @property
    def view(self) -> str:
        """Name of the view that this server is in."""

    @property
    def members(self) -> Sequence[ServerId]:
        """Servers of the view."""

    @property
    def is_healed(self) -> bool:
        """True if this server knows everything that was done while servers were apart."""

    @property
    def overdue(self) -> Sequence[ServerId]:
        """Servers that have been away for too long. Leaves of arcs are no longer kept for them."""

    @property
    def in_doubt(self) -> Sequence[object]:
        """Updates that this server is ready for and whose outcome it does not know."""

    def suspended_counts(self) -> tuple[int, int]:
        """Return the number of suspended arcs: waiting for servers, and rejected."""


@dataclass(slots=True)
class _UnderWay:
    """Work that must not take long."""

    since: float
    what: str = ""
    is_told: bool = False


class ServerLog(Observer):
    """Observer that writes log lines. The owner calls `look` once a second."""

    def __init__(
        self, *, core: Watched, faults: Callable[[], Mapping[tuple[str, str], int]], clock: Callable[[], float]
    ) -> None:
        """`faults` returns the number of faults of peers, by server and kind."""
        self._core = core
        self._overdue = core.overdue
        self._faults = faults
        self._clock = clock
        self._view = core.view
        self._suspended = core.suspended_counts()
        self._is_healed = core.is_healed
        self._faults_told: dict[tuple[str, str], tuple[int, float]] = {}
        """Number of reported faults and the time of the report, by server and kind."""
        self._in_doubt: dict[object, _UnderWay] = {}
        self._commit: _UnderWay | None = None
        self._long_step: _UnderWay | None = None
        self._said: dict[str, int] = {}
        """Lines of each kind in this second."""

    # -- at once

    def stepped(self, event: Event | DeliveryEvent, effects: Effects, seconds: float, *, was_long: bool) -> None:
        """Log peers that came or went, views, repeated requests, and slow steps."""
        if was_long:
            self._long_step = None
        match event:
            case PeerMet(peer, _, version):
                say(logging.INFO, "peer_met", f"{peer} is there", peer=peer, protocol=version)
            case PeerLeaving(peer, why):
                say(logging.INFO, "peer_leaving", f"{peer} says: {why}", peer=peer, why=why)
            case PeerLost(peer, why):
                say(logging.WARNING, "peer_lost", f"{peer} is out of reach: {why}", peer=peer, why=why)
            case PeerRestored(peer):
                say(logging.WARNING, "peer_restored", f"{peer} goes on from an older copy of its database", peer=peer)
            case UpdateCommand() | ImportCommand():
                self._say_if_repeated(event, effects)
        self._look_at_view()
        if seconds >= SLOW_STEP_SECONDS:
            kind = type(event).__name__
            level, name = (logging.INFO, "long_step") if was_long else (logging.WARNING, "slow_step")
            self._say(level, name, f"a step took {seconds:.2f} s: {kind}", kind=kind, seconds=round(seconds, 3))

    def _say_if_repeated(self, command: UpdateCommand | ImportCommand, effects: Effects) -> None:
        for reply in effects.replies:
            if reply.ticket == command.ticket and isinstance(reply.outcome, Committed) and effects.records.is_empty():
                request_id = command.request_id
                self._say(
                    logging.INFO, "update_repeated", "an update was asked for again, and told", request_id=request_id
                )

    def _look_at_view(self) -> None:
        view = self._core.view
        if view != self._view:
            before, self._view = self._view, view
            members = ",".join(self._core.members)
            say(logging.WARNING, "view_changed", f"the view is {view}: {members}", view=view, before=before)

    def answered(self, command: Command, outcome: Outcome) -> None:
        """Log a refusal. Refusals for reasons in `TROUBLES` are warnings."""
        if isinstance(outcome, Refusal):
            level = logging.WARNING if outcome.reason in TROUBLES else logging.DEBUG
            facts: dict[str, object] = {"reason": outcome.reason.value}
            if isinstance(command, UpdateCommand | ImportCommand):
                facts["request_id"] = command.request_id
            self._say(level, "update_refused", outcome.message, **facts)

    def long_step_began(self, event: Event | DeliveryEvent) -> None:
        """Start the watch over a long step."""
        self._long_step = _UnderWay(self._clock(), type(event).__name__)

    def commit_began(self, rows: int) -> None:
        """Start the watch over a commit."""
        del rows
        self._commit = _UnderWay(self._clock())

    def committed(self, seconds: float) -> None:
        """Log a slow commit, and a new view."""
        self._commit = None
        self._look_at_view()
        if seconds >= SLOW_COMMIT_SECONDS:
            self._say(logging.WARNING, "slow_commit", f"the database took {seconds:.1f} s", seconds=round(seconds, 3))

    # -- once a second

    def look(self) -> None:
        """Log the changes since the last look."""
        for kind, count in self._said.items():
            if count > LINES_OF_ONE_KIND:
                more = count - LINES_OF_ONE_KIND
                say(
                    logging.WARNING,
                    "lines_left_out",
                    f"{more} more lines of {kind} were left out",
                    kind=kind,
                    count=more,
                )
        self._said = {}
        self._look_at_view()
        self._look_at_suspended()
        self._look_at_absences()
        self._look_at_doubts()
        self._look_at_faults()
        commit = self._commit
        if commit is not None and not commit.is_told and self._clock() - commit.since >= STUCK_SECONDS:
            commit.is_told = True
            say(logging.WARNING, "commit_stuck", f"the database has not answered for {STUCK_SECONDS:g} s")
        step = self._long_step
        if step is not None and not step.is_told and self._clock() - step.since >= STEP_STUCK_SECONDS:
            step.is_told = True
            message = f"a step has taken {STEP_STUCK_SECONDS:g} s so far, and updates wait for it: {step.what}"
            say(logging.WARNING, "step_stuck", message, kind=step.what)

    def _look_at_suspended(self) -> None:
        waiting, rejected = now = self._core.suspended_counts()
        before, self._suspended = self._suspended, now
        if now != before:
            level = logging.WARNING if waiting > before[0] or rejected > before[1] else logging.INFO
            message = f"{waiting} arcs are suspended ({before[0]} before), {rejected} are rejected ({before[1]} before)"
            say(level, "arcs_suspended", message, suspended=waiting, rejected=rejected)
        is_healed = self._core.is_healed
        if is_healed != self._is_healed:
            self._is_healed = is_healed
            if is_healed:
                say(logging.INFO, "healed", "all is known that was done while servers were apart")
            else:
                say(logging.WARNING, "healing", "servers were apart: what each did is not known everywhere yet")

    def _look_at_absences(self) -> None:
        before, self._overdue = self._overdue, self._core.overdue
        for server in self._overdue:
            if server not in before:
                message = f"{server} is away for too long: what is left here from now on is not kept for it"
                say(logging.WARNING, "peer_overdue", message, peer=server)

    def _look_at_doubts(self) -> None:
        now, in_doubt = self._clock(), self._core.in_doubt
        self._in_doubt = {update: self._in_doubt.get(update) or _UnderWay(now) for update in in_doubt}
        late = [one for one in self._in_doubt.values() if not one.is_told and now - one.since >= DOUBT_SECONDS]
        for one in late:
            one.is_told = True
        if late:
            message = f"{len(late)} updates have been in doubt for {DOUBT_SECONDS:g} s: their coordinators are silent"
            say(logging.WARNING, "updates_in_doubt", message, count=len(in_doubt))

    def _look_at_faults(self) -> None:
        now = self._clock()
        for (server, kind), count in self._faults().items():
            told, since = self._faults_told.get((server, kind), (0, -FAULTS_QUIET_SECONDS))
            if count > told and now - since >= FAULTS_QUIET_SECONDS:
                self._faults_told[server, kind] = count, now
                more = count - told
                self._say(logging.WARNING, "peer_fault", f"{server}: {kind}", peer=server, kind=kind, count=more)

    def _say(self, level: int, event: str, message: str, **fields: object) -> None:
        """Log a line, unless this second already has enough lines of its kind."""
        self._said[event] = self._said.get(event, 0) + (1 if level > logging.DEBUG else 0)
        if self._said[event] <= LINES_OF_ONE_KIND:
            say(level, event, message, **fields)
