"""Correct servers count no faults of one another, whatever happens between them: a letter may come again, no more."""

from __future__ import annotations

from namegraph import PeerFault, ServerCore, ServerId
from simulation.oracle.violation import InvariantViolatedError

LETTERS_THAT_COME_AGAIN = frozenset({PeerFault.REPEATED, PeerFault.OUT_OF_ORDER, PeerFault.UNEARNED_RECEIPT})
"""What is counted, too, where a connection was made anew."""


def require_no_fault(server: ServerId, core: ServerCore) -> None:
    """Raises `InvariantViolatedError` where a server has counted a fault of another one since it started."""
    for peer, fault in (*core.channels.faults, *core.posts.faults):
        if fault not in LETTERS_THAT_COME_AGAIN:
            raise InvariantViolatedError(f"blame: {server} counts a fault of {peer}, which {fault}")
