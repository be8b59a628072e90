"""The caller of a command, as the shell hands it to the core."""

from __future__ import annotations

from msgspec import Struct

from namegraph.model.names import NodeId
from namegraph.model.policies import Principal


class CallerFacts(Struct, frozen=True, array_like=True):
    """The principal of a caller, and what its own server says about it."""

    principal: Principal
    groups: tuple[NodeId, ...] = ()
    """Groups of the principal's own server that contain the principal, as that server says. Empty for a principal of
    this server, whose groups are looked up."""
