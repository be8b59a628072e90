"""Resolve, ListMemberships and Export: answers of any size, in chunks.

Whatever is sent was fixed before the first chunk leaves, so an update between two chunks cannot tear the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

from google.protobuf.message import Message

from namegraph.names import NodeId
from namegraph.refusals import Reason, refuse
from namegraph.server_core import ServerCore
from nameserver import wire
from nameserver.chunks import ChunkCache, chunks_of
from nameserver.run_loop import RunLoop
from resolver.membership import ExportRow, MembershipResolver
from resolver.plans import WalkStep
from shadowtree.v1 import name_service_pb2 as messages

UNDISTURBED_ATTEMPTS = 3
"""Collections that are begun again because an update came between; the next one is done without a pause."""

ROWS_OF_A_CHUNK = 8_000
"""Rows of two names; collecting so many takes some 10 ms, after which others are served."""


class StreamCalls:
    """Answers the calls whose answers come as streams."""

    def __init__(self, *, core: ServerCore, resolver: MembershipResolver, run_loop: RunLoop) -> None:
        self._core = core
        self._resolver = resolver
        self._run_loop = run_loop
        self._known = core.graph.index
        self._cache = ChunkCache()

    async def resolve(self, request: messages.ResolveRequest) -> Iterable[bytes]:
        """All members of a group, each once."""
        if request.at_least_revision:
            self._core.require_revision(request.at_least_revision)
        if request.consistency not in messages.ResolveRequest.Consistency.values():
            raise refuse(Reason.INVALID_REQUEST, f"there is no consistency {request.consistency}", field="consistency")
        group = wire.read_id(request.group, "group", self._known)
        walk: list[bytes] = []
        if request.walk:
            walk = await self._collect(lambda: chunks_of(self._resolver.walk(group), _walk_chunk, ROWS_OF_A_CHUNK))
        # No pause between here and the last step of the walk: plan, walk and revision are of one instant.
        plan = self._resolver.resolve(group)
        chunks = [self._cache.chunks(plan, "processes", plan.processes, _processes_chunk)]
        if request.groups:
            chunks.append(self._cache.chunks(plan, "groups", plan.groups, _groups_chunk))
        chunks.append(walk)
        return _headed(messages.ResolveChunk(revision=self._core.revision), chain.from_iterable(chunks))

    async def list_memberships(self, request: messages.ListMembershipsRequest) -> Iterable[bytes]:
        """All groups that a member is in."""
        if request.at_least_revision:
            self._core.require_revision(request.at_least_revision)
        groups = self._resolver.memberships(wire.read_id(request.member, "member", self._known))
        header = messages.ListMembershipsChunk(revision=self._core.revision)
        return _headed(header, chunks_of(groups, _memberships_chunk))

    async def export(self, request: messages.ExportRequest) -> Iterable[bytes]:
        """All groups and arcs of the external group view."""
        if request.at_least_revision:
            self._core.require_revision(request.at_least_revision)
        subnet = wire.read_subnet(request.subnet)
        return await self._collect(
            lambda: chunks_of(self._resolver.export(subnet=subnet), _export_chunk, ROWS_OF_A_CHUNK)
        )

    async def _collect(self, begin: Callable[[], Iterator[bytes]]) -> list[bytes]:
        """All chunks, read off one state of the graph, while others are served between them."""
        for _ in range(UNDISTURBED_ATTEMPTS):
            steps_before = self._run_loop.step_count
            collected: list[bytes] = []
            for chunk in begin():
                collected.append(chunk)
                if len(collected) > 1:
                    await asyncio.sleep(0)
                    if self._run_loop.step_count != steps_before:
                        break
            else:
                return collected
        return list(begin())


def _headed(header: Message, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The chunks, the first one merged with the header: serialized messages merge by being joined."""
    iterator = iter(chunks)
    yield header.SerializeToString() + next(iterator, b"")
    yield from iterator


def _processes_chunk(processes: Sequence[NodeId]) -> bytes:
    return messages.ResolveChunk(processes=processes).SerializeToString()


def _groups_chunk(groups: Sequence[NodeId]) -> bytes:
    return messages.ResolveChunk(groups=groups).SerializeToString()


def _memberships_chunk(groups: Sequence[NodeId]) -> bytes:
    return messages.ListMembershipsChunk(groups=groups).SerializeToString()


def _walk_chunk(steps: Sequence[WalkStep]) -> bytes:
    # `from` is a word of Python, so it cannot be written as a keyword.
    return messages.ResolveChunk(
        walk=[
            messages.ResolveChunk.WalkStep(
                **{"from": step.tail},
                to=step.head,
                kind=wire.WIRE_KINDS[step.kind],
                state=wire.WIRE_ARC_STATES[step.state],
            )
            for step in steps
        ]
    ).SerializeToString()


def _export_chunk(rows: Sequence[ExportRow]) -> bytes:
    parents, children, kinds = zip(*rows, strict=True)
    return messages.ExportChunk(parents=parents, children=children, kinds=bytes(kinds)).SerializeToString()
