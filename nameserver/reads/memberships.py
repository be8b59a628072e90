"""ListMemberships: asks the home of the member, which knows all groups above it, or all servers for a foreign member.

If the home is silent, all other servers are asked: each knows the groups above those of its own groups that the member
joined. The answer holds the groups that were found, and names the silent servers.

A server that judges its callers tells a member all of its groups, and other callers those that they may read. Each home
judges its own groups. A server that forwards a question for its caller is told of its own groups, and judges them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain

from namegraph import CallerFacts, CoreQueries, NodeId, Privilege, Reason, RefusedError, ServerId, refuse, subnet_of
from nameserver.access.caller import current_caller
from nameserver.calls.adapters import Chunks, Context
from nameserver.calls.home_dispatch import NAME_SERVICE
from nameserver.calls.judging import Judging
from nameserver.reads.resolve_stream import headed
from nameserver.routing.fan_out import newest, stream_part
from nameserver.routing.forwarding import Forwarder, part_seconds
from nameserver.routing.ownership import OwnerKind, Routing
from nameserver.wire import conversion
from nameserver.wire.chunk_cache import chunks_of
from resolver.membership import MembershipResolver
from shadowtree.v1 import name_service_pb2 as messages

METHOD = f"/{NAME_SERVICE}/ListMemberships"


class MembershipCalls:
    """Servicer of ListMemberships."""

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

    async def list_memberships(self, request: messages.ListMembershipsRequest, context: Context) -> Chunks:
        """Return all groups that a member is in, or is a direct member of."""
        member = conversion.read_id(request.member, "member", self._core.graph.index)
        owner_kind = self._routing.owner_kind(member)
        facts = await self._judging.all_facts()
        resolver, uncertainty, is_direct = self._resolver, self._resolver.uncertainty(), request.direct
        own = resolver.direct_memberships(member) if is_direct else resolver.memberships(member)
        if facts is not None:
            own = self._told(own, member, facts, judges_others=True)
        apart = set(uncertainty.into(member) if is_direct else uncertainty.above(member))
        if owner_kind is OwnerKind.OURS or self._routing.is_alone or current_caller().is_forwarded:
            return _answer(own, revision=self._core.revision, silent=apart, is_direct=is_direct)
        found = _Found(is_direct)
        if owner_kind is OwnerKind.ANOTHERS and await self._ask_home(member, request, context, found):
            if facts is not None:
                found.groups = [*self._told(found.groups, member, facts, judges_others=False)]
            return found.answer()
        servers, never_met = await self._routing.others()
        found.groups += own
        found.silent.update(apart)
        found.revisions.append(self._core.revision)
        found.silent.update(never_met)
        whom = [server for server in servers if server not in found.silent]
        await asyncio.gather(*(self._ask(server, request, context, found) for server in whom))
        return found.answer()

    def _told(self, groups: Sequence[str], member: NodeId, facts: CallerFacts, *, judges_others: bool) -> list[NodeId]:
        """Return the groups of a member that a caller may know.

        `judges_others`: False if the homes of groups of other servers have judged these.
        """
        if NodeId(facts.principal) == member:
            return [NodeId(group) for group in groups]
        core, asker, rights = self._core, current_caller().via, self._core.rights_of(facts)
        found = []
        for group in map(NodeId, groups):
            home = core.owner_of_name(group)
            if home == core.server:
                is_told = rights.has(Privilege.READ, group)
            else:
                is_told = not judges_others or (home is not None and home == asker)
            if is_told:
                found.append(group)
        return found

    async def groups_of_foreign(self, member: NodeId, context: Context) -> tuple[NodeId, ...]:
        """Return the groups at other servers that a foreign process is a direct member of, sorted.

        The result is empty for a member that a server owns, because its home knows the groups. Raises `RefusedError`
        (UNAVAILABLE) if a server is unreachable.
        """
        if self._routing.owner_kind(member) is not OwnerKind.UNOWNED or self._routing.is_alone:
            return ()
        found = _Found(is_direct=True)
        servers, never_met = await self._routing.others()
        request = messages.ListMembershipsRequest(member=member, direct=True)
        await asyncio.gather(*(self._ask(server, request, context, found) for server in servers))
        away = sorted({*found.silent, *never_met})
        if away:
            raise refuse(
                Reason.UNAVAILABLE,
                f"cannot tell which groups {member} is in: out of reach: {', '.join(away)}; nothing was done",
                member=member,
                unreachable="\n".join(away),
            )
        return tuple(sorted(map(NodeId, set(found.groups))))

    async def _ask_home(
        self, member: NodeId, request: messages.ListMembershipsRequest, context: Context, found: _Found
    ) -> bool:
        """Ask the home of the member. Return True if it answered."""
        try:
            home = await self._routing.home_of(member)
        except RefusedError:
            found.silent.add(subnet_of(member))
        else:
            await self._ask(home, request, context, found)
        return not found.silent

    async def _ask(
        self, server: ServerId, request: messages.ListMembershipsRequest, context: Context, found: _Found
    ) -> None:
        is_first = True
        async for chunk in stream_part(
            self._forwarder,
            server,
            METHOD,
            request,
            messages.ListMembershipsChunk,
            seconds=part_seconds(context),
            on_silence=found.silent.add,
        ):
            if is_first and found.is_direct and not chunk.is_direct:
                # A server of the last release answers with all groups.
                found.silent.add(server)
                return
            is_first = False
            found.groups += chunk.groups
            found.silent.update(chunk.unreachable)
            if chunk.revision:
                found.revisions.append(chunk.revision)


@dataclass(slots=True)
class _Found:
    """Groups found so far. A group above nodes of several servers comes several times."""

    is_direct: bool
    groups: list[str] = field(default_factory=list)
    revisions: list[str] = field(default_factory=list)
    silent: set[str] = field(default_factory=set)

    def answer(self) -> Iterator[bytes]:
        """Return the encoded answer."""
        return _answer(self.groups, revision=newest(self.revisions), silent=self.silent, is_direct=self.is_direct)


def _answer(groups: Sequence[str], *, revision: str, silent: Set[str], is_direct: bool) -> Iterator[bytes]:
    """Encode the answer: the revision first, the silent servers last. The groups may come in any order."""
    header = messages.ListMembershipsChunk(revision=revision, is_direct=is_direct)
    chunks = chunks_of(sorted(set(groups)), _groups_chunk)
    if silent:
        footer = messages.ListMembershipsChunk(unreachable=sorted(silent))
        return headed(header, chain(chunks, (footer.SerializeToString(),)))
    return headed(header, chunks)


def _groups_chunk(groups: Sequence[str]) -> bytes:
    return messages.ListMembershipsChunk(groups=groups).SerializeToString()
