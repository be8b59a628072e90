"""Export: all groups and arcs, merged from all servers as their parts come in.

Each server's part is of one state of its graph. The parts are not all of one instant. The home of an arc's parent
reports the arc. If a server that is away may have deleted the arc's child, the answer names that server.

A chunk has the details of its groups, as their homes give them.

A server that judges its callers tells the groups that the caller may read.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from functools import partial

from namegraph import NO_DETAILS, CallerFacts, CoreQueries, NodeId, Privilege, ServerId
from nameserver.access.caller import current_caller
from nameserver.calls.adapters import Chunks, Context
from nameserver.calls.home_dispatch import NAME_SERVICE
from nameserver.calls.judging import Judging
from nameserver.calls.stable_listing import groups_sorted, in_chunks
from nameserver.reads.sorted_merge import merged
from nameserver.routing.fan_out import stream_part
from nameserver.routing.forwarding import Forwarder, working_seconds
from nameserver.routing.ownership import Routing
from nameserver.wire import conversion
from nameserver.wire.chunk_cache import chunks_of
from resolver.membership import MembershipResolver
from shadowtree.v1 import name_service_pb2 as messages
from shadowtree.v1 import names_pb2 as values

METHOD = f"/{NAME_SERVICE}/Export"

Row = tuple[str, str, int]
"""Parent, child, kind: an arc, or a group without members. Each server gives the rows of its own groups."""

_Details = dict[str, values.DetailedGroup]
"""Details of groups whose rows came, and were not all sent, by group."""


class ExportCalls:
    """Servicer of Export, for all servers or for the one requested subnet."""

    def __init__(
        self,
        *,
        core: CoreQueries,
        resolver: MembershipResolver,
        routing: Routing,
        forwarder: Forwarder,
        judging: Judging,
    ) -> None:
        self._judging = judging
        self._core = core
        self._resolver = resolver
        self._routing = routing
        self._forwarder = forwarder

    async def export(self, request: messages.ExportRequest, context: Context) -> Chunks:
        """Return all groups and arcs of the external group view."""
        subnet = conversion.read_subnet(request.subnet)
        self._routing.require_owned(subnet)
        facts = await self._judging.all_facts()
        await groups_sorted(self._resolver.group_order)
        with self._core.kept() as state:
            # No pause until the first row: readers still see the kept state.
            apart, details = self._resolver.uncertainty().of_own_arcs(), partial(_details_in, state)
            rows = self._resolver.export(subnet=subnet, state=state, is_told=_readable_in(state, facts))
            own = await in_chunks(rows, lambda some: _chunk(some, details))
        if request.subnet or self._routing.is_alone or current_caller().is_forwarded:
            return [*own, _closing_chunk(apart)] if apart else own
        return self._united(own, apart, request, context)

    async def _united(
        self, own: list[bytes], apart: Iterable[str], request: messages.ExportRequest, context: Context
    ) -> AsyncGenerator[bytes, None]:
        servers, never_met = await self._routing.others()
        silent = {*apart, *never_met}
        details: _Details = {}
        parts = [self._part_of(server, request, context, silent, details) for server in servers]
        async for rows in merged([_own_part(own, details), *parts]):
            for chunk in chunks_of(rows, lambda some: _chunk(some, details.get)):
                yield chunk
            _forget_before(rows, details)
        if silent:
            yield _closing_chunk(silent)

    async def _part_of(
        self,
        server: ServerId,
        request: messages.ExportRequest,
        context: Context,
        silent: set[str],
        details: _Details,
    ) -> AsyncIterator[list[Row]]:
        async for chunk in stream_part(
            self._forwarder,
            server,
            METHOD,
            request,
            messages.ExportChunk,
            seconds=working_seconds(context),
            on_silence=silent.add,
        ):
            silent.update(chunk.unreachable)
            yield _rows(chunk, details)


def _readable_in(core: CoreQueries, facts: CallerFacts | None) -> Callable[[NodeId], bool] | None:
    """Return a function that tells if a caller may read a group. None if every caller may."""
    if facts is None:
        return None
    rights = core.rights_of(facts)
    return lambda group: rights.has(Privilege.READ, group)


def _details_in(core: CoreQueries, group: str) -> values.DetailedGroup | None:
    details = core.details_of(NodeId(group))
    return None if details is NO_DETAILS else conversion.detailed_group(NodeId(group), details)


async def _own_part(chunks: Iterable[bytes], details: _Details) -> AsyncIterator[list[Row]]:
    for chunk in chunks:
        yield _rows(messages.ExportChunk.FromString(chunk), details)


def _closing_chunk(silent: Iterable[str]) -> bytes:
    return messages.ExportChunk(unreachable=sorted(silent)).SerializeToString()


def _rows(chunk: messages.ExportChunk, details: _Details) -> list[Row]:
    """Return the rows of a chunk. Its details are added to `details`."""
    details.update((each.group, each) for each in chunk.details)
    return list(zip(chunk.parents, chunk.children, chunk.kinds, strict=False))


def _forget_before(rows: Sequence[Row], details: _Details) -> None:
    """Forget the details of groups whose rows were all sent."""
    last = rows[-1][0]
    for group in [group for group in details if group < last]:
        del details[group]


def _chunk(rows: Sequence[Row], details_of: Callable[[str], values.DetailedGroup | None]) -> bytes:
    parents, children, kinds = zip(*rows, strict=True)
    found = map(details_of, dict.fromkeys(parents))
    return messages.ExportChunk(
        parents=parents,
        children=children,
        kinds=bytes(kinds),
        details=[each for each in found if each is not None],
    ).SerializeToString()
