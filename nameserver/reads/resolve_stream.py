"""Resolve: an answer of any size, in chunks.

The whole answer is fixed before the first chunk leaves, so an update between two chunks cannot tear the answer.

A server that judges its callers needs `read` of each group that it is asked for. Below one group:

    all groups are readable, as each home says    the answer, as for every caller
    some group is closed to the caller            the members over readable groups of this server; closed groups, and
                                                  those of other servers, are named as hidden

Source: docs/security.md, "What callers are told".
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from google.protobuf.message import Message

from namegraph import (
    SLICE_ITEMS,
    CallerFacts,
    CoreQueries,
    NodeId,
    Privilege,
    Reason,
    RefusedError,
    ServerId,
    Slices,
    Subnet,
    TargetSet,
    in_slices,
    is_plain,
    named_in,
    only,
    refuse,
    subnet_of,
)
from nameserver.calls.adapters import Chunks, Context, deadline_of
from nameserver.calls.judging import Judging
from nameserver.calls.stable_listing import filled, made
from nameserver.driver.run_loop import RunLoop
from nameserver.reads.confirmations import basis_of
from nameserver.reads.distributed_resolve import ClosedBelowError, DistributedResolutions, ResolveAnswer
from nameserver.routing.forwarding import is_out_of_reach
from nameserver.routing.ownership import OwnerKind, Routing
from nameserver.wire import conversion
from nameserver.wire.chunk_cache import CHUNK_STEPS, ChunkCache, chunks_of
from nameserver.wire.target_sets import read_targets
from resolver.membership import MembershipResolver
from resolver.parts import Parts
from resolver.plans import PlanStep, ResolvePlan
from resolver.resolution import ResolvedIds
from resolver.told_members import members_told
from shadowtree.v1 import name_service_pb2 as messages

_CONSISTENCIES = frozenset(messages.ResolveRequest.Consistency.values())


READABLE_AT_ONCE = 500
"""Groups that are judged in one slice, in some milliseconds."""


class StreamCalls:
    """Servicer of Resolve, for groups that this server owns, and for sets of groups of any servers."""

    def __init__(
        self,
        *,
        core: CoreQueries,
        resolver: MembershipResolver,
        run_loop: RunLoop,
        routing: Routing,
        resolutions: DistributedResolutions,
        parts: Parts,
        judging: Judging,
    ) -> None:
        self._judging = judging
        self._core = core
        self._parts = parts
        self._resolver = resolver
        self._run_loop = run_loop
        self._routing = routing
        self._resolutions = resolutions
        self._known = core.graph.index
        self._cache = ChunkCache()

    async def resolve(self, request: messages.ResolveRequest, context: Context) -> Chunks:
        """Return all members of a group, or of a set of groups, each once."""
        if request.consistency not in _CONSISTENCIES:
            raise refuse(Reason.INVALID_REQUEST, f"there is no consistency {request.consistency}", field="consistency")
        targets = self._targets(request)
        facts = await self._judging.all_facts()
        if facts is not None:
            for name in named_in(targets):
                if self._routing.owner_kind(name) is OwnerKind.OURS:
                    await self._judging.require(Privilege.READ, name)
        if request.direct:
            return await self._direct(targets, request)
        if facts is not None:
            return await self._resolve_for_caller(targets, request, context, facts)
        if request.counts or not is_plain(targets):
            return await self._resolve_set(targets, request, context)
        group = targets[0].name
        if not self._routing.is_alone:
            return await self._resolve_over_servers(group, request, context)
        prepared = await made(self._resolver.prepare_walk(group)) if request.walk else None
        plan = await self._plan(group)
        # No pause from this line on: plan, walk and revision are of one instant.
        chunks = [self._cache.chunks(plan, "processes", plan.processes, _processes_chunk)]
        if request.groups:
            chunks.append(self._cache.chunks(plan, "groups", plan.groups, _groups_chunk))
        if request.walk:
            chunks.append(chunks_of(self._resolver.walk(group, prepared), _walk_chunk, CHUNK_STEPS))
        header = messages.ResolveChunk(
            revision=self._core.revision, basis=basis_of(self._core.server, self._parts.basis())
        )
        return headed(header, chain.from_iterable(chunks))

    async def _resolve_for_caller(
        self, targets: TargetSet, request: messages.ResolveRequest, context: Context, facts: CallerFacts
    ) -> Chunks:
        """Return the members that the caller may know."""
        is_single = is_plain(targets) and not request.counts
        try:
            if is_single:
                answer = await self._answer_over_servers(targets[0].name, request, context)
            else:
                answer = await self._answer_for_set(targets, request, context)
            is_ordered = request.consistency == messages.ResolveRequest.CONSISTENCY_ORDERED
            if await made(self._all_readable(answer.resolved.groups, facts, judges_others=is_ordered)):
                return self._chunks(answer._replace(basis=""), groups=request.groups)
        except ClosedBelowError:
            pass
        if not is_single or request.walk or request.consistency == messages.ResolveRequest.CONSISTENCY_ORDERED:
            raise refuse(
                Reason.PERMISSION_DENIED,
                "some group below is closed to you; ask for one group with datagram consistency, without a walk and "
                "without counts, to be told the rest",
                privilege=Privilege.READ.value,
                server=self._core.server,
            )
        with self._core.kept() as core:
            rights = core.rights_of(facts)
            told = await made(members_told(core, targets[0].name, lambda group: rights.has(Privilege.READ, group)))
            header = messages.ResolveChunk(
                revision=core.revision,
                hidden=[messages.ResolveChunk.HiddenGroup(group=group) for group in told.hidden],
            )
        chunks = [chunks_of(told.processes, _processes_chunk)]
        if request.groups:
            chunks.append(chunks_of(told.groups, _groups_chunk))
        return headed(header, chain.from_iterable(chunks))

    def _all_readable(self, groups: Sequence[NodeId], facts: CallerFacts, *, judges_others: bool) -> Slices[bool]:
        """Return True if the caller may read all groups of this server.

        `judges_others`: True if the homes of other groups have judged nobody, so that these count as closed.
        """
        rights = self._core.rights_of(facts)
        for some in in_slices(groups, READABLE_AT_ONCE):
            for group in some:
                is_own = self._routing.owner_kind(group) is OwnerKind.OURS
                if judges_others if not is_own else not rights.has(Privilege.READ, group):
                    return False
            yield SLICE_ITEMS
        return True

    async def _plan(self, group: NodeId) -> ResolvePlan:
        """Return the plan of a group, of the instant of the return."""
        plan = self._resolver.kept(group)
        if plan is None:
            await filled(self._resolver.fill(group))
            plan = self._resolver.resolve(group)
        return plan

    async def _direct(self, targets: TargetSet, request: messages.ResolveRequest) -> Chunks:
        """Return the direct members of one group. Its home knows them without other servers."""
        is_ordered = request.consistency == messages.ResolveRequest.CONSISTENCY_ORDERED
        if is_ordered or request.walk or request.counts or not is_plain(targets):
            raise refuse(
                Reason.INVALID_REQUEST,
                "direct members are those of one group without exceptions, with datagram consistency, without a walk, "
                "and without counts",
                field="direct",
            )
        found = await made(self._resolver.direct_members(targets[0].name))
        header = messages.ResolveChunk(
            revision=found.revision,
            is_direct=True,
            unreachable=found.uncertain if request.groups or found.uncertain == [targets[0].name] else (),
        )
        chunks = [chunks_of(found.processes, _processes_chunk)]
        if request.groups:
            chunks.append(chunks_of(found.groups, _groups_chunk))
        return headed(header, chain.from_iterable(chunks))

    def _targets(self, request: messages.ResolveRequest) -> TargetSet:
        if not request.targets and not request.excluding:
            return only(conversion.read_id(request.group, "group", self._known))
        if request.group:
            raise refuse(
                Reason.INVALID_REQUEST,
                "what is asked for is `group` alone, or `targets` with what is excepted from all of them",
                field="group",
            )
        return read_targets(request.targets, request.excluding, self._known)

    async def _resolve_over_servers(self, group: NodeId, request: messages.ResolveRequest, context: Context) -> Chunks:
        answer = await self._answer_over_servers(group, request, context)
        return self._chunks(answer, groups=request.groups)

    async def _answer_over_servers(
        self, group: NodeId, request: messages.ResolveRequest, context: Context
    ) -> ResolveAnswer:
        is_ordered = request.consistency == messages.ResolveRequest.CONSISTENCY_ORDERED
        if is_ordered and request.walk:
            raise refuse(
                Reason.INVALID_REQUEST,
                "an ordered resolution does not walk: ask for the walk with datagram consistency",
                field="walk",
            )
        deadline = deadline_of(context, self._run_loop)
        if is_ordered:
            return ResolveAnswer(*await self._resolutions.resolve_ordered(group, deadline))
        return await self._resolutions.resolve(
            group, deadline, with_walk=request.walk, at_least_revision=request.at_least_revision
        )

    async def _resolve_set(self, targets: TargetSet, request: messages.ResolveRequest, context: Context) -> Chunks:
        return self._chunks(await self._answer_for_set(targets, request, context), groups=request.groups)

    async def _answer_for_set(
        self, targets: TargetSet, request: messages.ResolveRequest, context: Context
    ) -> ResolveAnswer:
        for is_asked, what, field in (
            (request.walk, "a walk begins at one group", "walk"),
            (
                request.consistency == messages.ResolveRequest.CONSISTENCY_ORDERED,
                "an ordered resolution is of one group",
                "consistency",
            ),
        ):
            if is_asked:
                raise refuse(
                    Reason.INVALID_REQUEST,
                    f"{what}: several groups, or one with exceptions, are resolved with datagram consistency alone, "
                    "and without a walk; so is one whose processes are counted",
                    field=field,
                )
        homes, never_met = await self._homes(named_in(targets))
        return await self._resolutions.resolve_set(
            targets,
            homes,
            deadline_of(context, self._run_loop),
            at_least_revision=request.at_least_revision,
            never_met=never_met,
            named_servers=frozenset(map(ServerId, request.named_servers)) if request.counts else None,
        )

    async def _homes(self, names: Sequence[NodeId]) -> tuple[dict[NodeId, ServerId], dict[ServerId, RefusedError]]:
        """Return the home of each name, and the refusal for each home that cannot be asked.

        For a subnet whose server was never met, the name of the subnet stands for the server.
        """
        subnets = list(dict.fromkeys(map(subnet_of, names)))
        found: dict[Subnet, ServerId | RefusedError | None] = {}
        for subnet in subnets:
            found[subnet] = self._routing.known_home(subnet)
        unknown = [subnet for subnet in subnets if found[subnet] is None]
        found.update(zip(unknown, await asyncio.gather(*map(self._home_of, unknown)), strict=True))
        never_met = {ServerId(subnet): why for subnet, why in found.items() if isinstance(why, RefusedError)}
        homes = {}
        for name in names:
            subnet = subnet_of(name)
            home = found[subnet]
            if home is None:
                raise self._core.no_group(name)
            homes[name] = ServerId(subnet) if isinstance(home, RefusedError) else home
        return homes, never_met

    async def _home_of(self, subnet: Subnet) -> ServerId | RefusedError | None:
        """Return the server that owns a subnet, or the reason why it cannot be asked. None if no server owns it."""
        try:
            if self._routing.owner_kind(subnet) is OwnerKind.UNOWNED:
                self._routing.require_listed(subnet)
                return None
            return await self._routing.home_of(subnet)
        except RefusedError as error:
            if not is_out_of_reach(error):
                raise
            return error

    def _chunks(self, answer: ResolveAnswer, *, groups: bool) -> Chunks:
        resolved = answer.resolved
        header = messages.ResolveChunk(
            revision=answer.revision,
            unreachable=resolved.unreachable,
            in_transition=resolved.in_transition,
            why_unreachable=answer.why_failed if resolved.unreachable else (),
            counts=[
                messages.ResolveChunk.Count(server=each.server, target=each.target, count=each.processes)
                for each in resolved.counts
            ],
            elsewhere=resolved.elsewhere,
            basis=answer.basis,
        )
        chunks = [self._named_chunks(resolved, "processes", resolved.processes, resolved.process_firsts)]
        if groups:
            chunks.append(self._named_chunks(resolved, "groups", resolved.groups, resolved.group_firsts))
        chunks.append(chunks_of(resolved.walk, _walk_chunk, CHUNK_STEPS))
        return headed(header, chain.from_iterable(chunks))

    def _named_chunks(
        self, resolved: ResolvedIds, what: str, names: Sequence[NodeId], firsts: Sequence[int]
    ) -> Iterable[bytes]:
        """Return names in chunks, with the target of each if a set was requested."""
        encode = _processes_chunk if what == "processes" else _groups_chunk
        if not firsts:
            return self._cache.chunks(resolved, what, names, encode)

        def encode_rows(rows: Sequence[int]) -> bytes:
            some = slice(rows[0], rows[-1] + 1)
            return encode(names[some], firsts[some])

        return self._cache.chunks(resolved, what, range(len(names)), encode_rows)


def headed(header: Message, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the chunks, the first merged with the header. Serialized messages merge by being joined."""
    iterator = iter(chunks)
    yield header.SerializeToString() + next(iterator, b"")
    yield from iterator


def _processes_chunk(processes: Sequence[NodeId], targets: Sequence[int] = ()) -> bytes:
    return messages.ResolveChunk(processes=processes, process_targets=targets).SerializeToString()


def _groups_chunk(groups: Sequence[NodeId], targets: Sequence[int] = ()) -> bytes:
    return messages.ResolveChunk(groups=groups, group_targets=targets).SerializeToString()


def _walk_chunk(steps: Sequence[PlanStep]) -> bytes:
    # `from` is a keyword of Python, so it cannot be the name of an argument.
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
