"""Resolve: an answer of any size, in chunks.

Whatever is sent was fixed before the first chunk leaves, so an update between two chunks cannot tear the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from google.protobuf.message import Message

from namegraph import CoreQueries, NodeId, Reason, refuse
from nameserver.calls.adapters import Chunks, Context, deadline_of
from nameserver.calls.stable_listing import steady_chunks
from nameserver.driver.run_loop import RunLoop
from nameserver.reads.distributed_resolve import DistributedResolutions
from nameserver.routing.ownership import Routing
from nameserver.wire import conversion
from nameserver.wire.chunk_cache import ChunkCache, chunks_of
from resolver.membership import MembershipResolver
from resolver.plans import WalkStep
from shadowtree.v1 import name_service_pb2 as messages


class StreamCalls:
    """Answers Resolve, for groups that this server owns."""

    def __init__(
        self,
        *,
        core: CoreQueries,
        resolver: MembershipResolver,
        run_loop: RunLoop,
        routing: Routing,
        resolutions: DistributedResolutions,
    ) -> None:
        self._core = core
        self._resolver = resolver
        self._run_loop = run_loop
        self._routing = routing
        self._resolutions = resolutions
        self._known = core.graph.index
        self._cache = ChunkCache()

    async def resolve(self, request: messages.ResolveRequest, context: Context) -> Chunks:
        """All members of a group, each once."""
        if request.consistency not in messages.ResolveRequest.Consistency.values():
            raise refuse(Reason.INVALID_REQUEST, f"there is no consistency {request.consistency}", field="consistency")
        group = conversion.read_id(request.group, "group", self._known)
        if not self._routing.is_alone:
            return await self._resolve_over_servers(group, request, context)
        walk: list[bytes] = []
        if request.walk:
            walk = await steady_chunks(lambda: self._resolver.walk(group), _walk_chunk, self._run_loop)
        # No pause between here and the last step of the walk: plan, walk and revision are of one instant.
        plan = self._resolver.resolve(group)
        chunks = [self._cache.chunks(plan, "processes", plan.processes, _processes_chunk)]
        if request.groups:
            chunks.append(self._cache.chunks(plan, "groups", plan.groups, _groups_chunk))
        chunks.append(walk)
        return headed(messages.ResolveChunk(revision=self._core.revision), chain.from_iterable(chunks))

    async def _resolve_over_servers(self, group: NodeId, request: messages.ResolveRequest, context: Context) -> Chunks:
        is_ordered = request.consistency == messages.ResolveRequest.CONSISTENCY_ORDERED
        if is_ordered and request.walk:
            raise refuse(
                Reason.INVALID_REQUEST,
                "an ordered resolution does not walk: ask for the walk with datagram consistency",
                field="walk",
            )
        deadline = deadline_of(context, self._run_loop)
        if is_ordered:
            resolved, revision = await self._resolutions.resolve_ordered(group, deadline)
        else:
            resolved, revision = await self._resolutions.resolve(
                group, deadline, with_walk=request.walk, at_least_revision=request.at_least_revision
            )
        header = messages.ResolveChunk(
            revision=revision, unreachable=resolved.unreachable, in_transition=resolved.in_transition
        )
        chunks = [self._cache.chunks(resolved, "processes", resolved.processes, _processes_chunk)]
        if request.groups:
            chunks.append(self._cache.chunks(resolved, "groups", resolved.groups, _groups_chunk))
        chunks.append(chunks_of(resolved.walk, _walk_chunk))
        return headed(header, chain.from_iterable(chunks))


def headed(header: Message, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The chunks, the first one merged with the header: serialized messages merge by being joined."""
    iterator = iter(chunks)
    yield header.SerializeToString() + next(iterator, b"")
    yield from iterator


def _processes_chunk(processes: Sequence[NodeId]) -> bytes:
    return messages.ResolveChunk(processes=processes).SerializeToString()


def _groups_chunk(groups: Sequence[NodeId]) -> bytes:
    return messages.ResolveChunk(groups=groups).SerializeToString()


def _walk_chunk(steps: Sequence[WalkStep]) -> bytes:
    # `from` is a word of Python, so it cannot be written as a keyword.
    return messages.ResolveChunk(
        walk=[
            messages.ResolveChunk.WalkStep(
                **{"from": step.tail},
                to=step.head,
                kind=conversion.WIRE_KINDS[step.kind],
                state=conversion.WIRE_ARC_STATES[step.state],
            )
            for step in steps
        ]
    ).SerializeToString()
