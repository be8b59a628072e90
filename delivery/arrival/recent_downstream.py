"""Downstream servers to which paths from this server may have ended.

On the path from a target to a member, each server names the next one when it confirms a parcel. The path may then move,
from a server that does not have the parcel yet to one that has confirmed it. A confirmation therefore also names the
servers to which paths led before. The origin posts all unsettled parcels to each server that it finds. Naming a server
once in a sequence is enough, because later parcels are accepted after the path was lost.

The state is not durable: at a start, paths to all servers that were met count as lost.

See docs/protocol-messages.md, "Who is below" (paths that were lost).
"""

from __future__ import annotations

from collections.abc import Iterable

from namegraph import ServerId


class RecentDownstream:
    """Servers to which paths led, and the count at which the last path ended."""

    def __init__(self) -> None:
        self.count = 0
        """Number of times that paths were lost since the start."""
        self._lost_at: dict[ServerId, int] = {}
        """Count at which the last paths to a server were lost, by server."""

    def note(self, servers: Iterable[ServerId]) -> None:
        """Note that paths to these servers may have been lost just now."""
        lost = dict.fromkeys(servers, self.count + 1)
        if lost:
            self.count += 1
            self._lost_at.update(lost)

    def since(self, count: int) -> list[ServerId]:
        """Return the servers to which paths were lost after a count."""
        return [server for server, lost_at in self._lost_at.items() if lost_at > count]
