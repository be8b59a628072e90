"""FindSpellings: names in use that equal given names but for letter case, of this server and of all others.

Every other call compares names with case. Mail and directories write one mailbox in several ways. The mail gateway and
the command line use this call to find the spellings that are members.

A server that judges its callers tells its own groups that the caller may view. It tells a process to a gateway for mail
of this server, to the process itself, and to who may read a group that has it as a direct member.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import grpc

from namegraph import (
    CallerFacts,
    CallerRights,
    CoreQueries,
    NodeId,
    NodeIndex,
    NodeKind,
    Privilege,
    Reason,
    ServerId,
    SubnetPrivilege,
    refuse,
)
from nameserver.access.caller import current_caller
from nameserver.calls.adapters import Context
from nameserver.calls.home_dispatch import NAME_SERVICE
from nameserver.calls.judging import Judging
from nameserver.routing.fan_out import ask_part, newest
from nameserver.routing.forwarding import Forwarder, part_seconds
from nameserver.routing.ownership import Routing
from nameserver.wire import conversion
from shadowtree.v1 import name_service_pb2 as messages

METHOD = f"/{NAME_SERVICE}/FindSpellings"

NAMES_LIMIT = 10_000
"""Most names of one request. A request and its answer stay far below 8 MiB."""


class SpellingCalls:
    """Servicer of FindSpellings."""

    def __init__(self, *, core: CoreQueries, routing: Routing, forwarder: Forwarder, judging: Judging) -> None:
        self._judging = judging
        self._core = core
        self._routing = routing
        self._forwarder = forwarder

    async def find_spellings(
        self, request: messages.FindSpellingsRequest, context: Context
    ) -> messages.FindSpellingsResponse:
        """Return the spellings in use of each name, and the servers that may know of more."""
        if not 1 <= len(request.names) <= NAMES_LIMIT:
            raise refuse(
                Reason.INVALID_REQUEST,
                f"{len(request.names)} names: a request holds 1 to {NAMES_LIMIT:,}",
                field="names",
            )
        known = self._core.graph.index
        names = [conversion.read_id(name, "names", known) for name in request.names]
        groups, processes = self._known_here(names, await self._judging.all_facts())
        revisions, silent = [self._core.revision], set[str]()
        if not (self._routing.is_alone or current_caller().is_forwarded):
            servers, never_met = await self._routing.others()
            silent.update(never_met)
            parts = await asyncio.gather(*(self._ask(server, request, context) for server in servers))
            for server, part in zip(servers, parts, strict=True):
                if part is None or len(part.found) != len(names):
                    silent.add(server)
                    continue
                revisions.append(part.revision)
                for place, found in enumerate(part.found):
                    groups[place].update(found.groups)
                    processes[place].update(found.processes)
        return messages.FindSpellingsResponse(
            found=(
                # A server may have met the name of a group before it heard of the group.
                messages.FindSpellingsResponse.Spellings(groups=sorted(of_groups), processes=sorted(rest - of_groups))
                for of_groups, rest in zip(groups, processes, strict=True)
            ),
            revision=newest(revisions),
            unreachable=sorted(silent),
        )

    def _known_here(self, names: Sequence[NodeId], facts: CallerFacts | None) -> tuple[list[set[str]], list[set[str]]]:
        """Return the spellings that are groups, and those that are processes, of each name.

        `facts`: the caller. None if all may be told.
        """
        graph = self._core.graph
        rights = None if facts is None else self._core.rights_of(facts)
        groups, processes = list[set[str]](), list[set[str]]()
        for name in names:
            of_groups, of_processes = set[str](), set[str]()
            for node in graph.spellings(name):
                kind = graph.kind(node)
                if rights is not None and not self._is_told(rights, node, kind):
                    continue
                if kind is NodeKind.GROUP:
                    of_groups.add(graph.ids[node])
                elif kind is NodeKind.PROCESS or node in graph.suspended_into:
                    of_processes.add(graph.ids[node])
            groups.append(of_groups)
            processes.append(of_processes)
        return groups, processes

    def _is_told(self, rights: CallerRights, node: NodeIndex, kind: NodeKind) -> bool:
        """Return True if a caller may know that a name is in use, as far as this server can say so."""
        core, graph = self._core, self._core.graph
        name = graph.ids[node]
        home = core.owner_of_name(name)
        if home not in (core.server, None):
            return False  # Its home tells it.
        if kind is NodeKind.GROUP:
            return rights.has(Privilege.VIEW, name)
        if name == NodeId(rights.facts.principal) or rights.decide_subnet(SubnetPrivilege.MAIL).is_allowed:
            return True
        parents = [*graph.parents[node], *(core.suspended_parents(node) if graph.suspended else ())]
        return any(core.owns(parent) and rights.has(Privilege.READ, graph.ids[parent]) for parent in parents)

    async def _ask(
        self, server: ServerId, request: messages.FindSpellingsRequest, context: Context
    ) -> messages.FindSpellingsResponse | None:
        """Return the part of one server. None if it is unreachable, or of a version before this call."""
        asked = messages.FindSpellingsRequest(names=request.names)
        try:
            return await ask_part(
                self._forwarder,
                server,
                METHOD,
                asked,
                messages.FindSpellingsResponse,
                seconds=part_seconds(context),
            )
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
                raise
            return None
