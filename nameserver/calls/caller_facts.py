"""Facts on the caller of a call, for the judgement of its rights.

principal of this server, or of nobody's subnet    the core looks up its groups
principal of another server                        that server is asked for its groups that lead into groups here
"""

from __future__ import annotations

import grpc

from namegraph import (
    OPERATOR,
    CallerFacts,
    CoreQueries,
    NodeId,
    Principal,
    RefusedError,
    ServerId,
    are_canonical,
    is_identified,
    is_principal,
    subnet_of_principal,
)
from nameserver.access.caller import current_caller
from nameserver.calls.read_your_writes import PEER_SERVICE
from nameserver.routing.fan_out import ask_part
from nameserver.routing.forwarding import Forwarder
from shadowtree.v1 import peer_pb2 as messages

METHOD = f"/{PEER_SERVICE}/TellCallerGroups"

ASKED_SECONDS = 2.0
"""Wait for the server of a principal. Without its answer, the groups of the principal give no rights here."""


class FactsOfCallers:
    """Finder of the facts on callers, at one server."""

    def __init__(self, *, core: CoreQueries, forwarder: Forwarder) -> None:
        self._core = core
        self._forwarder = forwarder

    async def of_caller(self) -> CallerFacts | None:
        """Return the facts on the caller of the present call. None if this server judges no callers.

        A caller without a credential is an operator where only operators can connect, and on the machine of a server
        without encryption.
        """
        if self._core.server_policy is None:
            return None
        facts = self.known_here()
        return CallerFacts(facts.principal, await self._groups(facts.principal), facts.privileges)

    def known_here(self) -> CallerFacts:
        """Return the facts on the caller of the present call that need no other server."""
        caller = current_caller()
        principal = OPERATOR if caller.is_operator_here and not caller.credential else Principal(caller.principal)
        privileges = None if caller.privileges is None else tuple(sorted(caller.privileges))
        return CallerFacts(principal, (), privileges)

    def is_known_here(self, facts: CallerFacts) -> bool:
        """Return True if no other server has facts on a principal."""
        return self._home_elsewhere(facts.principal) is None

    def _home_elsewhere(self, principal: Principal) -> ServerId | None:
        """Return the server of a principal. None for this server, and for a principal of no server."""
        subnet = subnet_of_principal(principal) if is_principal(principal) else None
        home = None if subnet is None or not is_identified(principal) else self._core.owner_of(subnet)
        return None if home == self._core.server else home

    async def of_principal(self, principal: Principal) -> CallerFacts:
        """Return the facts on a principal for whom the caller speaks."""
        return CallerFacts(principal, await self._groups(principal))

    async def _groups(self, principal: Principal) -> tuple[NodeId, ...]:
        core = self._core
        home = self._home_elsewhere(principal)
        if home is None:
            return ()
        request = messages.TellCallerGroupsRequest(principal=principal)
        try:
            told = await ask_part(
                self._forwarder, home, METHOD, request, messages.TellCallerGroupsResponse, seconds=ASKED_SECONDS
            )
        except (RefusedError, grpc.aio.AioRpcError):
            # A server of an earlier version tells nothing. The word of any other gives no rights by a refusal, either.
            return ()
        names = () if told is None or not are_canonical(told.groups) else told.groups
        return tuple(group for group in map(NodeId, names) if core.owner_of_name(group) == home)
