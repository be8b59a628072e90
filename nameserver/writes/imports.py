"""Import: a whole graph, received in columns, becomes one update of the core, at the home of its first parent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from namegraph import ImportCommand, NameGraph, Reason, ServerId, refuse
from nameserver.calls.adapters import Context, deadline_of
from nameserver.calls.home_dispatch import NAME_SERVICE
from nameserver.driver.run_loop import RunLoop
from nameserver.routing.forwarding import Forwarder, is_forwarded, working_seconds
from nameserver.routing.import_chunks import first_parent, pieces, subnets_in
from nameserver.routing.ownership import OwnerKind, Routing
from nameserver.routing.subnet_guard import SubnetGuard
from nameserver.wire import conversion
from nameserver.writes.import_columns import ImportColumns
from nameserver.writes.updates import RequestIds
from shadowtree.v1 import name_service_pb2 as messages

METHOD = f"/{NAME_SERVICE}/Import"

IMPORTS_AT_ONCE_LIMIT = 2
"""An import waits in memory until its last chunk is there. Those that other servers forward have as many places of
their own, for which they wait."""


class ImportCalls:
    """Answers Import."""

    def __init__(
        self,
        *,
        run_loop: RunLoop,
        graph: NameGraph,
        request_ids: RequestIds,
        routing: Routing,
        forwarder: Forwarder,
        listed: SubnetGuard,
    ) -> None:
        self._listed = listed
        self._run_loop = run_loop
        self._graph = graph
        self._request_ids = request_ids
        self._routing = routing
        self._forwarder = forwarder
        self._under_way = 0
        self._places_for_forwarded = asyncio.Semaphore(IMPORTS_AT_ONCE_LIMIT)

    async def import_graph(
        self, chunks: AsyncIterator[messages.ImportChunk], context: Context
    ) -> messages.ImportSummary:
        """Read the stream to its end, then add all of it or nothing."""
        if is_forwarded(context):
            async with self._places_for_forwarded:
                return await self._carry_out(await self._receive(chunks, context))
        if self._under_way >= IMPORTS_AT_ONCE_LIMIT:
            raise refuse(
                Reason.LIMIT_EXCEEDED,
                f"{IMPORTS_AT_ONCE_LIMIT} imports are under way already; try again when one is done",
                limit=str(IMPORTS_AT_ONCE_LIMIT),
            )
        self._under_way += 1
        try:
            command = await self._receive(chunks, context)
            home = await self._coordinator(command)
            if home == self._routing.server:
                return await self._carry_out(command)
            return await self._forward(home, command, context)
        finally:
            self._under_way -= 1

    async def _receive(self, chunks: AsyncIterator[messages.ImportChunk], context: Context) -> ImportCommand:
        columns = ImportColumns(self._graph.index)
        async for chunk in chunks:
            # Nobody should send the rest of a large graph to a server that will refuse it.
            self._run_loop.require_accepting()
            columns.add(chunk)
        # Of a million arcs that takes a second: others are served meanwhile.
        return await asyncio.to_thread(
            columns.command,
            ticket=self._run_loop.new_ticket(),
            request_id=self._request_ids.given_or_new(columns.request_id),
            deadline=deadline_of(context, self._run_loop),
        )

    async def _carry_out(self, command: ImportCommand) -> messages.ImportSummary:
        self._listed.require_for_import(command)
        return conversion.import_summary(await self._run_loop.carry_out(command))

    async def _coordinator(self, command: ImportCommand) -> ServerId:
        """The same through whatever server the import comes, so that a repeated one is known."""
        routing = self._routing
        first = first_parent(command)
        if routing.is_alone or first is None:
            return routing.server
        for subnet in subnets_in(command):
            if routing.owner_kind(subnet) is not OwnerKind.UNOWNED:
                # All must have been met before an update can name them.
                await routing.home_of(subnet)
        return routing.server if routing.owner_kind(first) is OwnerKind.UNOWNED else await routing.home_of(first)

    async def _forward(self, home: ServerId, command: ImportCommand, context: Context) -> messages.ImportSummary:
        answer = await self._forwarder.send(home, METHOD, _chunks(command), seconds=working_seconds(context))
        return messages.ImportSummary.FromString(answer)


async def _chunks(command: ImportCommand) -> AsyncIterator[bytes]:
    yield messages.ImportChunk(request_id=command.request_id).SerializeToString()
    for piece in pieces(command):
        yield messages.ImportChunk(
            names=piece.names,
            parents=piece.parents,
            children=piece.children,
            kinds=piece.kinds,
            groups=piece.groups,
        ).SerializeToString()
