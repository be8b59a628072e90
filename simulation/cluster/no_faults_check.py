"""Check that correct servers count no faults of one another, except for letters that come again."""

from __future__ import annotations

from collections.abc import Container

from namegraph import ServerCore, ServerId
from namegraph.model.peer_faults import MAY_COME_AGAIN
from simulation.oracle.violation import InvariantViolatedError


def require_no_fault(server: ServerId, core: ServerCore, *, but: Container[ServerId] = ()) -> None:
    """Raise `InvariantViolatedError` if a server has counted a fault of a peer since it started. `but`: peers that are
    at fault."""
    for peer, fault in (*core.channels.faults, *core.posts.faults):
        if fault not in MAY_COME_AGAIN and peer not in but:
            raise InvariantViolatedError(f"blame: {server} counts a fault of {peer}, which {fault}")
