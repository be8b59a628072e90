"""Where ways went on from this server that may not any more.

On the way from a target to a member, each server names the next one as it confirms a parcel. The way may move then,
from a server where the parcel has not come yet to one that has confirmed it. So whoever confirms also names where ways
went on before. An origin posts all that is not settled to a server that it finds. So to name each once in a sequence is
enough: what is accepted later is accepted after the way was lost.

None of it is durable: at a start ways to all servers that were met count as lost.

Source: delivery.md section 4, whose argument holds for ways that stay.
"""

from __future__ import annotations

from collections.abc import Iterable

from namegraph import ServerId


class LostWays:
    """The servers to which ways led, and when that ended."""

    def __init__(self) -> None:
        self.count = 0
        """How often ways were lost since the start."""
        self._lost_at: dict[ServerId, int] = {}
        """For each server, the count with the last ways to it."""

    def note(self, servers: Iterable[ServerId]) -> None:
        """Ways to these servers may have been lost just now."""
        lost = dict.fromkeys(servers, self.count + 1)
        if lost:
            self.count += 1
            self._lost_at.update(lost)

    def since(self, count: int) -> list[ServerId]:
        """The servers to which ways were lost after so many times."""
        return [server for server, lost_at in self._lost_at.items() if lost_at > count]
