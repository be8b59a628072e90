"""Import: a whole graph, received in columns, becomes one update of the core, at the home of its first parent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

from namegraph import Committed, ImportCommand, NameGraph, Reason, ServerId, refuse
from nameserver.access.caller import current_caller
from nameserver.access.origins import origin_of
from nameserver.calls.adapters import Context, deadline_of
from nameserver.calls.caller_facts import FactsOfCallers
from nameserver.calls.home_dispatch import NAME_SERVICE
from nameserver.calls.places import Places
from nameserver.driver.run_loop import RunLoop
from nameserver.routing.forwarding import Forwarder, working_seconds
from nameserver.routing.import_chunks import first_parent, piece_count, pieces, subnets_in
from nameserver.routing.ownership import OwnerKind, Routing
from nameserver.routing.planned_restarts import Restarting, outlast_restarts
from nameserver.routing.subnet_guard import SubnetGuard
from nameserver.wire import conversion
from nameserver.writes.import_columns import ImportColumns
from nameserver.writes.updates import RequestIds
from shadowtree.v1 import name_service_pb2 as messages

METHOD = f"/{NAME_SERVICE}/Import"

SENDING_SECONDS = 600.0
"""Longest time of the stream of one import, which holds one of few places."""

FORWARDED_WAITING_LIMIT = 16
"""Imports of other servers that may wait for a place."""

IMPORTS_AT_ONCE_LIMIT = 2
"""Imports at once.

An import waits in memory until its last chunk is there.

Imports that other servers forward have as many places of their own, for which they wait.
"""


class ImportCalls:
    """Servicer of Import."""

    def __init__(
        self,
        *,
        run_loop: RunLoop,
        graph: NameGraph,
        request_ids: RequestIds,
        routing: Routing,
        forwarder: Forwarder,
        listed: SubnetGuard,
        restarting: Restarting,
        facts: FactsOfCallers,
    ) -> None:
        self._facts = facts
        self._restarting = restarting
        self._listed = listed
        self._run_loop = run_loop
        self._graph = graph
        self._request_ids = request_ids
        self._routing = routing
        self._forwarder = forwarder
        self._under_way = 0
        self._places_for_forwarded = asyncio.Semaphore(IMPORTS_AT_ONCE_LIMIT)
        self._waiting = Places(FORWARDED_WAITING_LIMIT)

    async def import_graph(
        self, chunks: AsyncIterator[messages.ImportChunk], context: Context
    ) -> messages.ImportSummary:
        """Read the stream to its end, then add all of it or nothing."""
        if current_caller().is_forwarded:
            with self._waiting.one():
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
        try:
            async with asyncio.timeout(SENDING_SECONDS):
                async for chunk in chunks:
                    # A client should not send the rest of a large graph to a server that will refuse it.
                    self._run_loop.require_accepting()
                    columns.add(chunk)
        except TimeoutError:
            raise refuse(
                Reason.DEADLINE_EXCEEDED, f"an import has to be sent within {SENDING_SECONDS:g} seconds"
            ) from None
        request_id = self._request_ids.given_or_new(columns.request_id)
        # For a million arcs this takes a second, so it runs in a thread, and other calls are served meanwhile.
        return await asyncio.to_thread(
            columns.command,
            ticket=self._run_loop.new_ticket(),
            deadline=deadline_of(context, self._run_loop),
            origin=origin_of(request_id=request_id, server=self._routing.server),
        )

    async def _carry_out(self, command: ImportCommand) -> messages.ImportSummary:
        self._listed.require_for_import(command)
        run_loop = self._run_loop

        async def attempt() -> Committed:
            caller = await self._facts.of_caller()
            return await run_loop.carry_out(replace(command, ticket=run_loop.new_ticket(), caller=caller))

        seconds = None if command.deadline is None else command.deadline - run_loop.now()
        return conversion.import_summary(await outlast_restarts(attempt, self._restarting, seconds=seconds))

    async def _coordinator(self, command: ImportCommand) -> ServerId:
        """Return the coordinator.

        It is the same at whichever server the import comes in, so that a repetition is recognised.
        """
        routing = self._routing
        first = first_parent(command)
        if routing.is_alone or first is None:
            return routing.server
        for subnet in await asyncio.to_thread(subnets_in, command):
            if routing.owner_kind(subnet) is not OwnerKind.UNOWNED:
                # All servers must have been met before an update can name them.
                await routing.home_of(subnet)
        return routing.server if routing.owner_kind(first) is OwnerKind.UNOWNED else await routing.home_of(first)

    async def _forward(self, home: ServerId, command: ImportCommand, context: Context) -> messages.ImportSummary:
        answer = await self._forwarder.send(home, METHOD, _chunks(command), seconds=working_seconds(context))
        return messages.ImportSummary.FromString(answer)


async def _chunks(command: ImportCommand) -> AsyncIterator[bytes]:
    count = 1 + piece_count(command)
    yield messages.ImportChunk(request_id=command.request_id, chunk_count=count).SerializeToString()
    for piece in pieces(command):
        yield messages.ImportChunk(
            names=piece.names,
            parents=piece.parents,
            children=piece.children,
            kinds=piece.kinds,
            groups=piece.groups,
        ).SerializeToString()
