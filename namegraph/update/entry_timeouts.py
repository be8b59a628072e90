"""Timeouts of entries at this server, and of attempts of the updates that this server coordinates.

    at each look, an entry of another coordinator is
    VOTED                   given up after a while without the coordinator's next word; the coordinator is told
    REFUSED                 removed, because the update cannot be decided any more
    HANDED_ON               given up at the end of its life; the coordinator is told
    PLACED                  left alone: it waits for the turn of earlier entries, which end
    READY, EXTENDED         the coordinator's fault: it does not decide

A participant that gave its entry up is never ready for the update. A coordinator decides with the answers of all
participants alone, so the update is not decided, and no other update can pass it. An entry after `Ready` cannot be
given up in this way: the coordinator may have decided. It ends with a view without the coordinator.

An attempt ends at its coordinator before any participant may blame the coordinator, whatever a third server does.

Source: docs/protocol-updates.md, "Bounded waits"; docs/decisions/0050-bounded-waits.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from namegraph.model.names import ServerId
from namegraph.state.context import ServerContext
from namegraph.state.wait_limits import WaitLimits
from namegraph.update.order_queue import Entries, Entry, EntryPhase
from namegraph.wire.message_parts import Cover, UpdateId

DOES_NOT_DECIDE = "does not decide"
"""Beginning of the reason of a coordinator that was given up."""


@dataclass(slots=True)
class _Watched:
    """An entry as it was at the last look, in seconds of the attentive clock."""

    begun: float
    phase: EntryPhase
    asked: Cover | None
    since: float
    """Time of the last change of `phase` or `asked`."""
    ready_since: float | None


class Overdue(NamedTuple):
    """Results of one look."""

    to_give_up: list[UpdateId]
    """Entries to give up, of which the coordinator must be told."""
    to_forget: list[UpdateId]
    """Entries of refused updates."""
    silent: dict[ServerId, str]
    """Coordinators that do not decide, with the reason."""


class EntryTimeouts:
    """The entries of one server, with their ages."""

    def __init__(self, context: ServerContext, entries: Entries) -> None:
        self._context = context
        self._entries = entries
        self._watched: dict[UpdateId, _Watched] = {}
        self.may_be_slow: Callable[[ServerId], bool] = lambda _coordinator: True
        """Callback that tells if large updates of a coordinator may take longer."""

    def forget_all(self) -> None:
        """Forget all ages: a view is being agreed on, which ends the entries or lets them begin anew."""
        self._watched.clear()

    def look(self, seconds: float, limits: WaitLimits) -> Overdue:
        """Judge all entries of other coordinators. `seconds`: time on the attentive clock."""
        overdue = Overdue([], [], {})
        watched_before, self._watched = self._watched, {}
        for entry in self._of_others():
            watched = self._watch(entry, watched_before.get(entry.update_id), seconds)
            self._watched[entry.update_id] = watched
            self._judge(entry, watched, seconds, limits, overdue)
        return overdue

    def _of_others(self) -> Iterator[Entry]:
        """Yield the entries of coordinators that are within reach."""
        context = self._context
        for update_id, entry in self._entries.by_update.items():
            if update_id.coordinator != context.server and update_id.coordinator not in context.lost:
                yield entry

    def _watch(self, entry: Entry, before: _Watched | None, seconds: float) -> _Watched:
        phase, asked = entry.phase, entry.asked
        if before is None:
            return _Watched(seconds, phase, asked, seconds, seconds if entry.is_ready else None)
        if phase is not before.phase or asked is not before.asked:
            before.phase, before.asked, before.since = phase, asked, seconds
        if entry.is_ready and before.ready_since is None:
            before.ready_since = seconds
        return before

    def _judge(self, entry: Entry, watched: _Watched, seconds: float, limits: WaitLimits, overdue: Overdue) -> None:
        update_id = entry.update_id
        allowance = self._allowance(update_id, limits)
        is_at_end = seconds - watched.begun >= limits.entry + allowance
        waited = seconds - watched.since
        match watched.phase:
            case EntryPhase.HANDED_ON:
                if is_at_end:
                    overdue.to_give_up.append(update_id)
            case EntryPhase.VOTED:
                if is_at_end or waited >= limits.before_ready + allowance:
                    overdue.to_give_up.append(update_id)
            case EntryPhase.REFUSED:
                if is_at_end or waited >= limits.before_ready:
                    overdue.to_forget.append(update_id)
            case EntryPhase.READY | EntryPhase.EXTENDED:
                ready_since = seconds if watched.ready_since is None else watched.ready_since
                if is_at_end or seconds - ready_since >= limits.after_ready + allowance:
                    why = f"{DOES_NOT_DECIDE}: its update {update_id.number} is undecided"
                    overdue.silent.setdefault(update_id.coordinator, why)
            case EntryPhase.PLACED:
                pass

    def _allowance(self, update_id: UpdateId, limits: WaitLimits) -> float:
        update = self._entries.updates.get(update_id)
        if update is None or not self.may_be_slow(update_id.coordinator):
            return 0.0
        return limits.allowance(update.size)


class AttemptTimeouts:
    """Attempts of the updates that one server coordinates, with the time of their beginning."""

    def __init__(self) -> None:
        self._begun: dict[UpdateId, float] = {}

    def forget_all(self) -> None:
        """Forget all attempts, because a view ends them."""
        self._begun.clear()

    def look(self, attempts: Iterator[tuple[UpdateId, float]], now: float) -> list[UpdateId]:
        """Return the attempts that take too long. `attempts`: updates under way, each with its limit in seconds.

        A pause of this server counts: its participants waited meanwhile.
        """
        begun_before, self._begun = self._begun, {}
        ended = []
        for update_id, limit in attempts:
            begun = self._begun[update_id] = begun_before.get(update_id, now)
            if now - begun >= limit:
                ended.append(update_id)
        return ended
