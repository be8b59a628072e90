"""Two sessions between the same two servers: both servers keep the same one, whatever they hear of first.

Both may dial at the same time, or one may dial again before the other has noticed that the connection was lost.
"""

from __future__ import annotations

from dataclasses import dataclass

from namegraph import ServerId


@dataclass(frozen=True, slots=True)
class Standing:
    """What decides about a session: the peer's start, the way, who dialled, and the session's number."""

    start: int
    is_direct: bool
    """Not through a third server."""
    is_dialled_here: bool
    number: int


def newcomer_stays(newcomer: Standing, standing: Standing, *, here: ServerId, peer: ServerId) -> bool:
    """Whether a session that opens takes the place of the one that is open.

    It does where the peer has started anew in between; else a direct one stays rather than one through a third server,
    then the one dialled by the server with the smaller name, and of two dialled by the same server the one with the
    higher number.
    """
    if newcomer.start != standing.start:
        return True
    if newcomer.is_direct != standing.is_direct:
        return newcomer.is_direct
    if newcomer.is_dialled_here != standing.is_dialled_here:
        return newcomer.is_dialled_here == (here < peer)
    return newcomer.number > standing.number


LEAP_LIMIT = 2**24
"""A number this far above all others is no honest count. The session keeps it, but later numbers ignore it.

Otherwise a peer that says the highest number of all would leave none for the next session.
"""


class SessionNumbers:
    """Numbers for sessions: each is higher than all that this server has seen, but for leaps."""

    def __init__(self) -> None:
        self._highest = 0

    def propose(self) -> int:
        """The number that a server which dials proposes."""
        self._highest += 1
        return self._highest

    def settle(self, proposed: int) -> int:
        """The number that a server which was dialled gives the session."""
        self._highest += 1
        self.see(proposed)
        return max(self._highest, proposed)

    def see(self, settled: int) -> None:
        """Stay above a number that the other server has settled."""
        if settled - self._highest <= LEAP_LIMIT:
            self._highest = max(self._highest, settled)
