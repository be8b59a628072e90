"""Choice between two sessions of the same two servers.

Both servers keep the same session, whichever they hear of first.

Both servers may dial at the same time. A server may also dial again before the other one has noticed the lost
connection.
"""

from __future__ import annotations

from dataclasses import dataclass

from namegraph import ServerId


@dataclass(frozen=True, slots=True)
class SessionRank:
    """Facts that decide about a session: start of the peer, way, dialler, and number of the session."""

    start: int
    is_direct: bool
    """True if the session does not go through a third server."""
    is_dialled_here: bool
    number: int


def newcomer_stays(newcomer: SessionRank, standing: SessionRank, *, here: ServerId, peer: ServerId) -> bool:
    """Return True if a session that opens takes the place of the open one.

    The first rule that distinguishes the two decides:

        peer has started anew in between    the newcomer stays
        one is direct                       the direct one stays, not the one through a third server
        dialled by different servers        the one dialled by the server with the smaller name stays
        dialled by the same server          the one with the higher number stays
    """
    if newcomer.start != standing.start:
        return True
    if newcomer.is_direct != standing.is_direct:
        return newcomer.is_direct
    if newcomer.is_dialled_here != standing.is_dialled_here:
        return newcomer.is_dialled_here == (here < peer)
    return newcomer.number > standing.number


LEAP_LIMIT = 2**24
"""Least leap of a number that is no honest count.

The session keeps such a number, but later numbers ignore it.

Otherwise a peer that sends the highest number of all would leave none for the next session.
"""


class SessionNumbers:
    """Numbers for sessions. Each is higher than all that this server has seen, except leaps."""

    def __init__(self) -> None:
        self._highest = 0

    def propose(self) -> int:
        """Return the number that a server which dials proposes."""
        self._highest += 1
        return self._highest

    def settle(self, proposed: int) -> int:
        """Return the number that a server which was dialled gives the session."""
        self._highest += 1
        self.see(proposed)
        return max(self._highest, proposed)

    def see(self, settled: int) -> None:
        """Stay above a number that the other server has settled."""
        if settled - self._highest <= LEAP_LIMIT:
            self._highest = max(self._highest, settled)
