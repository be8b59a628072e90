"""Refusal of names of a subnet that the table here lacks, although other servers know its owner.

See `transport/peer_gossip.py`. An update would take such a name for a foreign process. The owner of the subnet, which
is asked about the name, would never hear of the update. Leaving or deleting a known name is allowed all the same: an
operator has to end the memberships from before the owner was known, and only then can add the owner to the table.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from namegraph import (
    CoreQueries,
    CreateGroup,
    DeleteGroup,
    ImportCommand,
    JoinArc,
    LeaveArc,
    NodeId,
    Operation,
    SetPolicy,
    subnet_of,
)
from nameserver.routing.import_chunks import subnets_in
from nameserver.routing.ownership import Routing
from nameserver.wire.metadata import asking_principal


class SubnetGuard:
    """Guard of the names in updates."""

    def __init__(self, *, core: CoreQueries, routing: Routing) -> None:
        self._core = core
        self._routing = routing

    def require_for(self, operations: Iterable[Operation], request_id: str) -> None:
        """Raise `RefusedError` (UNAVAILABLE) if an update names a node of a subnet that is missing here.

        An update that was answered before passes, and is answered again.
        """
        if self._routing.refuses_no_update or self._core.has_answered(request_id, asking_principal()):
            return
        for operation in operations:
            for name in self._named(operation):
                self._routing.require_named(subnet_of(name))

    def require_for_import(self, command: ImportCommand) -> None:
        """Do as `require_for`, for a whole graph."""
        if self._routing.refuses_no_update or self._core.has_answered(command.request_id, asking_principal()):
            return
        for subnet in subnets_in(command):
            self._routing.require_named(subnet)

    def _named(self, operation: Operation) -> tuple[NodeId, ...]:
        known = self._core.graph.index
        match operation:
            case CreateGroup(group):
                return (group,)
            case JoinArc(parent, child):
                return (parent, child)
            case DeleteGroup(name) | LeaveArc(name, _) | SetPolicy(name):
                return () if name in known else (name,)
            case _:
                assert_never(operation)
