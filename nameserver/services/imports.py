"""Import: a whole graph, received in columns, becomes one update of the core, or one for each home of parents."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

import grpc

from namegraph.events import ImportCommand
from namegraph.graph import NameGraph
from namegraph.names import ServerId, Subnet
from namegraph.outcomes import REQUEST_ID_LENGTH_LIMIT
from namegraph.records import RequestId
from namegraph.refusals import Reason, Refusal, RefusedError, refuse
from nameserver import wire
from nameserver.failures import refusal_of
from nameserver.forwarding import Forwarder, is_forwarded, working_seconds
from nameserver.import_parts import ImportPart, pieces, split, subnets_in
from nameserver.routing import Routing, Whose
from nameserver.run_loop import RunLoop
from nameserver.services.calls import Context, deadline_of
from nameserver.services.homes import NAME_SERVICE
from nameserver.services.import_columns import ImportColumns
from nameserver.services.parts import newest
from nameserver.services.updates import RequestIds
from shadowtree.v1 import name_service_pb2 as messages

METHOD = f"/{NAME_SERVICE}/Import"

IMPORTS_AT_ONCE_LIMIT = 2
"""An import waits in memory until its last chunk is there. Parts that other servers send have as many places of their
own, for which they wait."""


class ImportCalls:
    """Answers Import."""

    def __init__(
        self, *, run_loop: RunLoop, graph: NameGraph, request_ids: RequestIds, routing: Routing, forwarder: Forwarder
    ) -> None:
        self._run_loop = run_loop
        self._graph = graph
        self._request_ids = request_ids
        self._routing = routing
        self._forwarder = forwarder
        self._under_way = 0
        self._places_for_parts = asyncio.Semaphore(IMPORTS_AT_ONCE_LIMIT)

    async def import_graph(
        self, chunks: AsyncIterator[messages.ImportChunk], context: Context
    ) -> messages.ImportSummary:
        """Read the stream to its end, then add all of it or nothing; over several servers, all or nothing of each."""
        if is_forwarded(context):
            async with self._places_for_parts:
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
            if self._routing.is_alone:
                return await self._carry_out(command)
            homes = await self._homes(command)
            parts = await asyncio.to_thread(split, command, server=self._routing.server, homes=homes)
            if not parts.keys() - {self._routing.server}:
                return await self._carry_out(command)
            return await self._carry_out_parts(command, parts, context)
        finally:
            self._under_way -= 1

    async def _receive(self, chunks: AsyncIterator[messages.ImportChunk], context: Context) -> ImportCommand:
        columns = ImportColumns(self._graph.index)
        async for chunk in chunks:
            # Nobody should send the rest of a large graph to a server that will refuse it.
            self._run_loop.require_accepting()
            columns.add(chunk)
        return columns.command(
            ticket=self._run_loop.new_ticket(),
            request_id=self._request_ids.given_or_new(columns.request_id),
            deadline=deadline_of(context, self._run_loop),
        )

    async def _carry_out(self, command: ImportCommand) -> messages.ImportSummary:
        return wire.import_summary(await self._run_loop.carry_out(command))

    async def _homes(self, command: ImportCommand) -> Mapping[Subnet, ServerId | None]:
        routing = self._routing
        return {
            subnet: None if routing.whose(subnet) is Whose.NOBODYS else await routing.home_of(subnet)
            for subnet in subnets_in(command)
        }

    async def _carry_out_parts(
        self, command: ImportCommand, parts: Mapping[ServerId, ImportPart], context: Context
    ) -> messages.ImportSummary:
        """One part after another, this server's first: they often meet in the same groups."""
        own = self._routing.server
        order = sorted(parts, key=lambda home: (home != own, home))
        request_ids = _request_ids_of_parts(command.request_id, order)
        for home in order:
            if home != own:
                await self._forwarder.require_reachable(home)
        summaries: list[messages.ImportSummary] = []
        for place, home in enumerate(order):
            try:
                if home == own:
                    summary = await self._carry_out(self._own_part(command, parts[home], request_ids[home]))
                else:
                    summary = await self._send(home, parts[home], request_ids[home], context)
            except (RefusedError, grpc.aio.AioRpcError) as error:
                if place == 0:
                    raise
                raise _stopped(error, done=order[:place], missing=order[place:]) from None
            summaries.append(summary)
        return messages.ImportSummary(
            arcs=sum(summary.arcs for summary in summaries),
            groups_created=sum(summary.groups_created for summary in summaries),
            already_there=sum(summary.already_there for summary in summaries),
            revision=newest(summary.revision for summary in summaries),
        )

    def _own_part(self, command: ImportCommand, part: ImportPart, request_id: RequestId) -> ImportCommand:
        return ImportCommand(
            ticket=self._run_loop.new_ticket(),
            request_id=request_id,
            names=part.names,
            parents=part.parents,
            children=part.children,
            kinds=bytes(part.kinds),
            groups=part.groups,
            deadline=command.deadline,
        )

    async def _send(
        self, home: ServerId, part: ImportPart, request_id: RequestId, context: Context
    ) -> messages.ImportSummary:
        answer = await self._forwarder.send(home, METHOD, _chunks(part, request_id), seconds=working_seconds(context))
        return messages.ImportSummary.FromString(answer)


def _request_ids_of_parts(request_id: RequestId, homes: list[ServerId]) -> dict[ServerId, RequestId]:
    """The same through whatever server the import comes; refuses an id that leaves no room for the servers' names."""
    if len(homes) == 1:
        return {homes[0]: request_id}
    found = {home: RequestId(f"{request_id}/{home}") for home in homes}
    longest = max(map(len, found.values()))
    if longest > REQUEST_ID_LENGTH_LIMIT:
        raise refuse(
            Reason.INVALID_REQUEST,
            f"the request id of an import over several servers has at most {REQUEST_ID_LENGTH_LIMIT} characters "
            f"together with a server's name, not {longest}",
            field="request_id",
        )
    return found


async def _chunks(part: ImportPart, request_id: RequestId) -> AsyncIterator[bytes]:
    yield messages.ImportChunk(request_id=request_id).SerializeToString()
    for piece in pieces(part):
        yield messages.ImportChunk(
            names=piece.names,
            parents=piece.parents,
            children=piece.children,
            kinds=piece.kinds,
            groups=piece.groups,
        ).SerializeToString()


def _stopped(
    error: RefusedError | grpc.aio.AioRpcError, *, done: list[ServerId], missing: list[ServerId]
) -> RefusedError:
    """What is told of an import of which some parts are done and one failed."""
    refusal: Refusal | None
    if isinstance(error, RefusedError):
        refusal = error.refusal
    else:
        refusal = refusal_of(error) or Refusal(Reason.OUTCOME_UNKNOWN, error.details() or error.code().name)
    return refuse(
        refusal.reason,
        f"the part of the server {missing[0]} failed: {refusal.message}; the parts of {', '.join(done)} are done, and "
        "repeating the import completes it",
        **{**refusal.facts, "server": missing[0], "done": ",".join(done), "missing": ",".join(missing)},
    )
