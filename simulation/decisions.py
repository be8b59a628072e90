"""When each update was decided: the order in which updates happen to somebody who watches all servers at once.

A coordinator's entry goes in the step in which it decides; an update that concerns one server alone is decided in the
step that answers it. Updates that affect a common node are decided in the order of their final priorities, so this
order gives the same graph, and every instant has a graph of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from namegraph.events import Committed, UpdateCommand
from namegraph.messages import UpdateId
from namegraph.priorities import Priority
from simulation.cluster import Cluster
from simulation.serial import ArcName, carry_out


class Decisions:
    """Watches a cluster, step by step."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._open: dict[UpdateId, Priority] = {}
        self._decided_at: dict[Priority, int] = {}
        """The instant by final priority; of updates that were aborted too."""
        self._places_seen = 0
        self._answers_taken = 0
        self._arcs: dict[ArcName, int] = {}
        self.instant = 0
        """How many steps were watched."""

    def watch(self) -> None:
        """Call after every step."""
        self.instant += 1
        servers = self._cluster.servers
        for update_id in [held for held in self._open if held not in servers[held.coordinator].entries.by_update]:
            self._decided_at[self._open.pop(update_id)] = self.instant
        for server, core in servers.items():
            for update_id, entry in core.entries.by_update.items():
                if update_id.coordinator == server and entry.final is not None:
                    self._open[update_id] = entry.final
        decided = self._cluster.decided
        for place in islice(decided, self._places_seen, None):
            self._decided_at.setdefault(place, self.instant)
        self._places_seen = len(decided)

    def take_graphs(self, commands: Mapping[int, UpdateCommand]) -> list[tuple[int, dict[ArcName, int]]]:
        """The graphs there were since this was last asked: first an instant, then the arcs from then on.

        Call when nothing is under way. The first one is what there was at the last call.
        """
        answers, places = self._cluster.answers, self._cluster.places
        in_order = sorted(
            (self._decided_at[places[ticket]], places[ticket], ticket)
            for ticket in list(answers)[self._answers_taken :]
            if ticket in commands and isinstance(answers[ticket], Committed)
        )
        self._answers_taken = len(answers)
        graphs = [(0, dict(self._arcs))]
        for instant, _, ticket in in_order:
            carry_out(self._arcs, commands[ticket].operations)
            graphs.append((instant, dict(self._arcs)))
        return graphs
