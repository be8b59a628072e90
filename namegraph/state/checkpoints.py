"""Checkpoints of audit logs: those of this server, and the newest ones of other servers.

A checkpoint outlives its row. It shows later that the end of an audit log was cut off, or that the log was computed
anew. A server whose database is an older copy of itself goes on with another chain. Other servers then keep the
checkpoints of both.

Source: docs/audit-log.md, "Checkpoints".
"""

from __future__ import annotations

from enum import Enum

from namegraph.model.audit_chain import Checkpoint
from namegraph.model.names import ServerId
from namegraph.state.durable_maps import NUMBERS, SERVERS, DurableMap, DurableState, packed

OWN_CHECKPOINTS_LIMIT = 10_000
"""Most own checkpoints: a year of one an hour. Beyond it, every second one of the older half is forgotten."""

BRANCHES_LIMIT = 16
"""Most checkpoints of another server. More than one is kept if that server went back to an older copy."""


class Heard(Enum):
    """Relation of a checkpoint of another server to the checkpoint that is kept of it."""

    NEW = "new"
    KNOWN = "known"
    CONTRADICTS = "contradicts"


class Checkpoints:
    """Durable checkpoints."""

    def __init__(self, durable: DurableState) -> None:
        self._own = DurableMap(durable, "checkpoint", NUMBERS, packed(Checkpoint))
        self._of_peers = DurableMap(durable, "checkpoint of peer", SERVERS, packed(list[Checkpoint]))

    @property
    def own(self) -> list[Checkpoint]:
        """Checkpoints of this server, the oldest first."""
        return [self._own[sequence] for sequence in sorted(self._own)]

    @property
    def newest(self) -> Checkpoint | None:
        """Newest checkpoint of this server. None if there is none."""
        return self._own[max(self._own)] if self._own else None

    def of_peers(self) -> list[Checkpoint]:
        """Return the checkpoints of other servers, by server. Of one server, the newest branch comes last."""
        return [each for server in sorted(self._of_peers) for each in self._of_peers[server]]

    def keep(self, checkpoint: Checkpoint) -> None:
        """Keep a checkpoint of this server."""
        self._own[checkpoint.sequence] = checkpoint
        if len(self._own) > OWN_CHECKPOINTS_LIMIT:
            older = sorted(self._own)[: OWN_CHECKPOINTS_LIMIT // 2]
            for sequence in older[1::2]:
                del self._own[sequence]

    def older_than(self, at: int) -> int:
        """Return the number of the newest row that is older than a time, by the checkpoints. 0 if none is known."""
        return max((each.sequence for each in self._own.values() if each.at < at), default=0)

    def heard(self, peer: ServerId, checkpoint: Checkpoint) -> Heard:
        """Keep the newest checkpoint of another server.

        Each checkpoint names the one before it. A server that names an earlier one than is kept here does not know of
        the kept one: it went back to an older copy of its database. Both are then kept, as long as there is room: a
        server could contradict itself without end.
        """
        kept = self._of_peers.get(peer, [])
        if any((each.sequence, each.hash) == (checkpoint.sequence, checkpoint.hash) for each in kept):
            return Heard.KNOWN
        if not kept or checkpoint.before >= kept[-1].sequence:
            self._of_peers[peer] = [*kept[:-1], checkpoint]
            return Heard.NEW
        if len(kept) >= BRANCHES_LIMIT:
            return Heard.KNOWN
        self._of_peers[peer] = [*kept, checkpoint]
        return Heard.CONTRADICTS
