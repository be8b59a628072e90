"""CheckBulk: very many pairs over one stream, a column of answers for each column of pairs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from namegraph import CoreQueries, NodeId, RefusedError
from nameserver.calls.adapters import Context
from nameserver.calls.read_your_writes import Revisions
from nameserver.driver.ancestry_filling import AncestryFilling
from nameserver.reads.distributed_check import CheckQuestion, DistributedChecks, Verdicts, answers_of
from nameserver.reads.local_check import LocalChecks
from nameserver.routing.forwarding import part_seconds
from nameserver.routing.ownership import OwnerKind, Routing
from nameserver.wire import conversion
from shadowtree.v1 import name_service_pb2 as messages

CHECK_PAIRS_LIMIT = 100_000
"""Most pairs of one request."""

PAIRS_AT_ONCE = 3_000
"""Pairs that are answered from one state, in some milliseconds, before other tasks get their turn."""


class BulkCheckCalls:
    """Servicer of CheckBulk."""

    def __init__(
        self,
        *,
        core: CoreQueries,
        checks: LocalChecks,
        cross_checks: DistributedChecks,
        routing: Routing,
        revisions: Revisions,
        filling: AncestryFilling,
    ) -> None:
        self._core = core
        self._checks = checks
        self._cross_checks = cross_checks
        self._routing = routing
        self._revisions = revisions
        self._filling = filling

    async def check_bulk(self, requests: AsyncIterator[messages.CheckBulkRequest], context: Context) -> None:
        """Answer each request with one response. A pair with an error ends the stream after the answers before it."""
        at_least_revision = ""
        async for request in requests:
            if request.at_least_revision:
                at_least_revision = request.at_least_revision
                await self._revisions.reflect(at_least_revision, context)
            verdicts = await self._verdicts(request, at_least_revision, context)
            if verdicts.answers or verdicts.refused is None:
                response = messages.CheckBulkResponse(
                    answers=bytes(verdicts.answers), revision=verdicts.revision, unreachable=verdicts.unreachable
                )
                await context.write(response.SerializeToString())
            if verdicts.refused is not None:
                raise verdicts.refused

    async def _verdicts(self, request: messages.CheckBulkRequest, at_least_revision: str, context: Context) -> Verdicts:
        """Return the answers to the pairs, and the error that ended them early."""
        groups, members = request.groups, request.members
        conversion.require_pairs(groups, members, limit=CHECK_PAIRS_LIMIT)
        verdicts = Verdicts(bytearray(), "")
        for begin in range(0, max(len(groups), 1), PAIRS_AT_ONCE):
            if begin:
                await asyncio.sleep(0)
            end = begin + PAIRS_AT_ONCE
            verdicts.add(
                await self._verdicts_of_some(groups[begin:end], members[begin:end], at_least_revision, context)
            )
            if verdicts.refused is not None:
                break
        return verdicts

    async def _verdicts_of_some(
        self, groups: Sequence[str], members: Sequence[str], at_least_revision: str, context: Context
    ) -> Verdicts:
        await self._filling.fill_for(members)
        routing = self._routing
        is_known_here = routing.is_alone or all(routing.owner_kind(member) is OwnerKind.OURS for member in members)
        if is_known_here and not (self._checks.may_miss_something or routing.unbelieved):
            answers = self._checks.all_known(groups, members)
            if answers is not None:
                return Verdicts(answers_of(answers), self._core.revision)
        canonical_groups, canonical_members, bad_name = self._read_names(groups, members)
        verdicts = await self._cross_checks.answer(
            CheckQuestion(canonical_groups, canonical_members, part_seconds(context), at_least_revision)
        )
        verdicts.refused = verdicts.refused or bad_name
        return verdicts

    def _read_names(
        self, groups: Sequence[str], members: Sequence[str]
    ) -> tuple[list[NodeId], list[NodeId], RefusedError | None]:
        """Return the pairs before the first bad name, and the refusal of that name. None if there is no bad name."""
        known = self._core.graph.index
        read_groups: list[NodeId] = []
        read_members: list[NodeId] = []
        try:
            for group, member in zip(groups, members, strict=True):
                pair = conversion.read_id(group, "groups", known), conversion.read_id(member, "members", known)
                read_groups.append(pair[0])
                read_members.append(pair[1])
        except RefusedError as error:
            return read_groups, read_members, error
        return read_groups, read_members, None
