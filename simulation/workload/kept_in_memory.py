"""Groups whose messages are kept in memory: the clients that choose this, and the progress of each server's memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from delivery.model.events import SetDelivery
from delivery.model.words import Kept
from delivery.server import Server
from delivery.volatile.in_memory import Ring
from namegraph import LogRecord, ServerId, TargetSet, subnet_of
from simulation.cluster.cluster import Cluster

HAS_MEMORY = True
"""True if some groups have messages that are kept in memory."""

MEMORY_RUNS_SHARE = 0.4
"""Share of runs with such groups."""

MEMORY_SHARE = 0.6
"""Share of target sets in such a run that each burst turns to messages kept in memory.

The other target sets turn to durable messages.
"""

SMALL_RINGS_SHARE = 0.3
SMALL_RING_BYTES = 1_000
"""Ring size in bytes in some of these runs, so small that entries are soon overwritten."""


class WatchedRing(Ring):
    """A ring that reports each entry, since a small ring may drop an entry at once."""

    def __init__(self, on_added: Callable[[LogRecord], None]) -> None:
        super().__init__()
        self._on_added = on_added

    def add(self, record: LogRecord) -> None:
        """Add an entry, and report it."""
        super().add(record)
        self._on_added(record)


class KeptInMemory:
    """The messages of a run that are kept in memory."""

    def __init__(self, cluster: Cluster, chance: Random, new_ticket: Callable[[], int]) -> None:
        """Draw from a generator of its own, so that a run without such messages is as if they did not exist."""
        self._cluster, self._new_ticket = cluster, new_ticket
        self._chance = own = Random(repr(chance.getstate()[1][:4]))  # noqa: S311 - a seed must replay
        self._is_there = HAS_MEMORY and own.random() < MEMORY_RUNS_SHARE
        self._has_small_rings = own.random() < SMALL_RINGS_SHARE
        self.ring_through: dict[ServerId, int] = {}
        """Last entry of each server's memory that may be handed out."""
        self._unsettled: dict[ServerId, dict[str, None]] = {}
        """Ids of the messages that each server has accepted into memory since it started."""

    def submit_burst(self, sets: list[TargetSet], spread: float) -> None:
        """Let clients choose, within `spread`, where the messages to each first target are kept."""
        for targets in sets if self._is_there else ():
            kept = Kept.MEMORY if self._chance.random() < MEMORY_SHARE else Kept.DURABLE
            policy = SetDelivery(self._new_ticket(), targets[0].name, kept=kept)
            home = ServerId(subnet_of(targets[0].name))
            self._cluster.network.put(home, policy, delay=self._chance.random() * spread)

    def has_started(self, server: ServerId) -> bool:
        """True if a server has started before."""
        return server in self.ring_through

    def starts(
        self, core: Server, on_given_up: Callable[[list[str]], None], on_added: Callable[[LogRecord], None]
    ) -> None:
        """Set up the empty memory of a server that starts.

        `on_given_up`: called later with the ids of messages for which memory has no room.
        `on_added`: called with each entry.
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
        """Note that a server has accepted a message into memory."""
        self._unsettled[server][message_id] = None

    def settled(self) -> Iterator[list[str]]:
        """Yield, for each server, the ids of the messages settled since the last call."""
        for server, ids in self._not_all_settled():
            origin = self._cluster.servers[server].delivery.in_memory.origin
            settled = [message_id for message_id in ids if origin.messages.is_settled(message_id)]
            for message_id in settled:
                del ids[message_id]
            yield settled

    def apart(self) -> Iterator[str]:
        """Yield the ids of unsettled messages that were sent while servers were apart."""
        for server, ids in self._not_all_settled():
            origin = self._cluster.servers[server].delivery.in_memory.origin
            yield from filter(origin.messages.is_sent_apart, ids)

    def _not_all_settled(self) -> list[tuple[ServerId, dict[str, None]]]:
        return [(server, ids) for server, ids in self._unsettled.items() if ids]
