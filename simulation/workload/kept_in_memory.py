"""Groups whose messages are kept in memory: who sets that, and how far what is in each server's memory has come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from delivery.model.events import SetPolicy
from delivery.model.words import Kept
from delivery.server import Server
from delivery.volatile.in_memory import Ring
from namegraph import LogRecord, ServerId, TargetSet, subnet_of
from simulation.cluster.cluster import Cluster

HAS_MEMORY = True
"""Whether some groups have messages that are kept in memory."""

MEMORY_RUNS_SHARE = 0.4
"""Of runs, those with such groups."""

MEMORY_SHARE = 0.6
"""Of sets of targets in such a run, those whose messages are kept in memory from then on, at each burst; the others are
durable from then on."""

SMALL_RINGS_SHARE = 0.3
SMALL_RING_BYTES = 1_000
"""In some of these runs what is in memory is overrun soon."""


class WatchedRing(Ring):
    """Tells of each entry: a small one may drop it at once."""

    def __init__(self, on_added: Callable[[LogRecord], None]) -> None:
        super().__init__()
        self._on_added = on_added

    def add(self, record: LogRecord) -> None:
        """As of any ring."""
        super().add(record)
        self._on_added(record)


class KeptInMemory:
    """What a run has to do with messages that are kept in memory."""

    def __init__(self, cluster: Cluster, chance: Random, new_ticket: Callable[[], int]) -> None:
        """Draws apart from `chance`, so that a run without memory is as if there were none with it."""
        self._cluster, self._new_ticket = cluster, new_ticket
        self._chance = own = Random(repr(chance.getstate()[1][:4]))  # noqa: S311 - a seed must replay
        self._is_there = HAS_MEMORY and own.random() < MEMORY_RUNS_SHARE
        self._has_small_rings = own.random() < SMALL_RINGS_SHARE
        self.ring_through: dict[ServerId, int] = {}
        """Through where what is in each server's memory may be handed out."""
        self._unsettled: dict[ServerId, dict[str, None]] = {}
        """Ids of what each server has accepted to be kept in memory, since it started."""

    def submit_burst(self, sets: list[TargetSet], spread: float) -> None:
        """Let somebody say of first targets, within so much time, where their messages are kept."""
        for targets in sets if self._is_there else ():
            kept = Kept.MEMORY if self._chance.random() < MEMORY_SHARE else Kept.DURABLE
            policy = SetPolicy(self._new_ticket(), targets[0].name, kept=kept)
            home = ServerId(subnet_of(targets[0].name))
            self._cluster.network.put(home, policy, delay=self._chance.random() * spread)

    def has_started(self, server: ServerId) -> bool:
        """Whether a server has started before."""
        return server in self.ring_through

    def starts(
        self, core: Server, on_given_up: Callable[[list[str]], None], on_added: Callable[[LogRecord], None]
    ) -> None:
        """A server starts with an empty memory.

        `on_given_up`: is told the ids of what it has no room for later. `on_added`: of each entry.
        """
        in_memory = core.delivery.in_memory
        self._unsettled[core.server] = {}
        self.ring_through[core.server] = in_memory.log.last
        in_memory.on_given_up = on_given_up
        in_memory.ring = WatchedRing(on_added)
        if self._has_small_rings:
            in_memory.ring_limit_bytes = SMALL_RING_BYTES
            in_memory.backlog_limit_bytes = SMALL_RING_BYTES

    def accepted(self, server: ServerId, message_id: str) -> None:
        """A server has accepted a message to be kept in memory."""
        self._unsettled[server][message_id] = None

    def settled(self) -> Iterator[list[str]]:
        """Of each server, the ids of what has settled since it was asked last."""
        for server, ids in self._not_all_settled():
            origin = self._cluster.servers[server].delivery.in_memory.origin
            settled = [message_id for message_id in ids if origin.is_settled(message_id)]
            for message_id in settled:
                del ids[message_id]
            yield settled

    def apart(self) -> Iterator[str]:
        """Ids of what has not settled, and was sent while servers were apart."""
        for server, ids in self._not_all_settled():
            origin = self._cluster.servers[server].delivery.in_memory.origin
            yield from filter(origin.is_sent_apart, ids)

    def _not_all_settled(self) -> list[tuple[ServerId, dict[str, None]]]:
        return [(server, ids) for server, ids in self._unsettled.items() if ids]
