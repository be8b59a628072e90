"""Decision order: the order of updates for an observer who watches all servers at once.

The coordinator's entry ends in the step in which the coordinator decides, unless it leaves its own part of the outcome
for later. An update of one server alone is decided in the step that answers it. Updates that affect a common node are
decided in the order of their final priorities. So the decision order gives the same graph, and every instant has a
graph of its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from namegraph import Committed, Priority, ServerId, UpdateCommand, UpdateId
from simulation.cluster.cluster import Cluster, Undone
from simulation.oracle.serial_model import ArcName, carry_out_command


class Decisions:
    """Observer of decisions, called after every step of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._open: dict[UpdateId, Priority] = {}
        self._decided_at: dict[Priority, tuple[int, ServerId]] = {}
        """Instant of the decision and the server that decided, by final priority. Includes aborted updates."""
        self._places_seen = 0
        self._answers_taken = 0
        self._arcs: dict[ArcName, int] = {}

    @property
    def instant(self) -> int:
        """Number of steps that all servers have taken."""
        return self._cluster.instant

    def watch(self) -> None:
        """Note the decisions of the last step. Call this after every step."""
        servers = self._cluster.servers
        places = self._cluster.decided[self._places_seen :]
        self._places_seen += len(places)
        for undone in places:
            if isinstance(undone, Undone):
                self._forget(undone)
        for update_id in [held for held in self._open if not self._is_open(held)]:
            self._decided_at[self._open.pop(update_id)] = (self.instant, update_id.coordinator)
        for server, core in servers.items():
            for update_id, entry in core.entries.by_update.items():
                if update_id.coordinator != server or entry.final is None:
                    continue
                if core.has_decided(update_id):
                    self._decided_at.setdefault(entry.final, (self.instant, server))
                else:
                    self._open[update_id] = entry.final
        for decided in places:
            if not isinstance(decided, Undone):
                server, place = decided
                self._decided_at.setdefault(place, (self.instant, server))

    def _is_open(self, update_id: UpdateId) -> bool:
        core = self._cluster.servers[update_id.coordinator]
        return update_id in core.entries.by_update and not core.has_decided(update_id)

    def _forget(self, undone: Undone) -> None:
        """Forget decisions that a crash has undone. The server decides anew, and may use a place again."""
        for place, (instant, server) in list(self._decided_at.items()):
            if server == undone.server and instant >= undone.since:
                del self._decided_at[place]
        for update_id in [held for held in self._open if held.coordinator == undone.server]:
            del self._open[update_id]

    def take_graphs(self, commands: Mapping[int, UpdateCommand]) -> list[tuple[int, dict[ArcName, int]]]:
        """Return the graphs since the last call, each as its first instant and its arcs.

        Call this while no update is under way. The first graph is the one at the last call.
        """
        answers, places = self._cluster.answers, self._cluster.places
        in_order = sorted(
            (self._decided_at[places[ticket]][0], places[ticket], ticket)
            for ticket in list(answers)[self._answers_taken :]
            # An update with no arc to leave has no place.
            if ticket in commands and isinstance(answers[ticket], Committed) and ticket in places
        )
        self._answers_taken = len(answers)
        graphs = [(0, dict(self._arcs))]
        for instant, _, ticket in in_order:
            carry_out_command(self._arcs, commands[ticket])
            graphs.append((instant, dict(self._arcs)))
        return graphs
