"""Check that correct servers count no faults of one another, except for letters that come again."""

from __future__ import annotations

from namegraph import PeerFault, ServerCore, ServerId
from simulation.oracle.violation import InvariantViolatedError

LETTERS_THAT_COME_AGAIN = frozenset({PeerFault.REPEATED, PeerFault.OUT_OF_ORDER, PeerFault.UNEARNED_RECEIPT})
"""Faults that a new connection can cause too."""


def require_no_fault(server: ServerId, core: ServerCore) -> None:
    """Raise `InvariantViolatedError` if a server has counted a fault of a peer since it started."""
    for peer, fault in (*core.channels.faults, *core.posts.faults):
        if fault not in LETTERS_THAT_COME_AGAIN:
            raise InvariantViolatedError(f"blame: {server} counts a fault of {peer}, which {fault}")
