"""FindSpellings: names in use that equal given names but for letter case, of this server and of all others.

Every other call compares names with case. Mail and directories write one mailbox in several ways. The mail gateway and
the command line use this call to find the spellings that are members.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import grpc

from namegraph import CoreQueries, NodeId, NodeKind, Reason, ServerId, refuse
from nameserver.access.caller import current_caller
from nameserver.calls.adapters import Context
from nameserver.calls.home_dispatch import NAME_SERVICE
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

    def __init__(self, *, core: CoreQueries, routing: Routing, forwarder: Forwarder) -> None:
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
        groups, processes = self._known_here(names)
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

    def _known_here(self, names: Sequence[NodeId]) -> tuple[list[set[str]], list[set[str]]]:
        """Return the spellings that are groups, and those that are processes, of each name."""
        graph = self._core.graph
        groups, processes = list[set[str]](), list[set[str]]()
        for name in names:
            of_groups, of_processes = set[str](), set[str]()
            for node in graph.spellings(name):
                kind = graph.kind(node)
                if kind is NodeKind.GROUP:
                    of_groups.add(graph.ids[node])
                elif kind is NodeKind.PROCESS or node in graph.suspended_into:
                    of_processes.add(graph.ids[node])
            groups.append(of_groups)
            processes.append(of_processes)
        return groups, processes

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
