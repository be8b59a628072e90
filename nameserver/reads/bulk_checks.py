"""CheckBulk: very many pairs over one stream, a column of answers for each column of pairs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

import grpc
from google.protobuf.message import DecodeError

from namegraph import CoreQueries, NodeId, Privilege, RefusedError, ServerId
from nameserver.access.caller import current_caller
from nameserver.calls.adapters import Context
from nameserver.calls.home_dispatch import NAME_SERVICE
from nameserver.calls.judging import Judging, may_view
from nameserver.calls.read_your_writes import Revisions
from nameserver.driver.ancestry_filling import AncestryFilling
from nameserver.reads.distributed_check import UNCERTAIN, YES, CheckQuestion, DistributedChecks, Verdicts, answers_of
from nameserver.reads.local_check import LocalChecks
from nameserver.routing.fan_out import newest
from nameserver.routing.forwarding import Forwarder, is_out_of_reach, not_owned_here, part_seconds
from nameserver.routing.ownership import OwnerKind, Routing
from nameserver.wire import conversion
from nameserver.wire.status_mapping import refusal_of
from shadowtree.v1 import name_service_pb2 as messages

CHECK_PAIRS_LIMIT = 100_000
"""Most pairs of one request."""

PAIRS_AT_ONCE = 3_000
"""Pairs that are answered from one state, in some milliseconds, before other tasks get their turn."""


METHOD = f"/{NAME_SERVICE}/CheckBulk"


@dataclass(slots=True)
class _Judged:
    """Answers to pairs of several homes, as far as they came."""

    answers: bytearray
    revisions: list[str] = field(default_factory=list)
    unreachable: set[str] = field(default_factory=set)
    refusals: dict[int, RefusedError] = field(default_factory=dict)
    """Refusals by position of the pair."""

    def add(self, positions: Sequence[int], verdicts: Verdicts) -> None:
        """Add the answers to the pairs at some positions."""
        for position, answer in zip(positions, verdicts.answers, strict=False):
            self.answers[position] = answer
        self.revisions.append(verdicts.revision)
        self.unreachable.update(verdicts.unreachable)
        if verdicts.refused is not None:
            self.refusals[positions[len(verdicts.answers)]] = verdicts.refused

    def verdicts(self) -> Verdicts:
        """Return the answers up to the first refusal."""
        end = min(self.refusals, default=len(self.answers))
        return Verdicts(
            self.answers[:end],
            newest(self.revisions),
            sorted(self.unreachable),
            refused=self.refusals.get(end),
        )


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
        forwarder: Forwarder,
        judging: Judging,
    ) -> None:
        self._forwarder = forwarder
        self._judging = judging
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
        if self._judging.is_needed:
            return await self._judged_verdicts(groups, members, at_least_revision, context)
        return await self._unjudged_verdicts(groups, members, at_least_revision, context)

    async def _unjudged_verdicts(
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

    async def _judged_verdicts(
        self, groups: Sequence[str], members: Sequence[str], at_least_revision: str, context: Context
    ) -> Verdicts:
        """Answer as far as the caller may know. The home of each group judges, and answers."""
        names, of_members, bad_name = self._read_names(groups, members)
        judged = _Judged(bytearray([UNCERTAIN]) * len(names), [self._core.revision])
        here, elsewhere = list[int](), dict[ServerId, list[int]]()
        for position, group in enumerate(names):
            if self._routing.owner_kind(group) is not OwnerKind.ANOTHERS:
                here.append(position)
                continue
            if current_caller().is_forwarded:
                judged.refusals[position] = not_owned_here(group, self._routing.server)
                break
            try:
                elsewhere.setdefault(await self._routing.home_of(group), []).append(position)
            except RefusedError as error:
                judged.unreachable.update(error.refusal.facts.get("unreachable", "").split("\n"))
        asked = [
            self._ask_home(
                home,
                positions,
                messages.CheckBulkRequest(
                    groups=[names[position] for position in positions],
                    members=[of_members[position] for position in positions],
                    at_least_revision=at_least_revision,
                ),
                judged,
                context,
            )
            for home, positions in sorted(elsewhere.items())
        ]
        await asyncio.gather(self._answer_here(here, names, of_members, at_least_revision, judged, context), *asked)
        verdicts = judged.verdicts()
        verdicts.refused = verdicts.refused or bad_name
        return verdicts

    async def _answer_here(
        self,
        positions: Sequence[int],
        groups: Sequence[NodeId],
        members: Sequence[NodeId],
        at_least_revision: str,
        judged: _Judged,
        context: Context,
    ) -> None:
        owned = [groups[each] for each in positions if self._routing.owner_kind(groups[each]) is OwnerKind.OURS]
        denied = await self._judging.denials(Privilege.CHECK, owned)
        principal = NodeId(self._judging.rights_known_here().facts.principal)
        asked = list[int]()
        for position in positions:
            refused = denied.get(groups[position])
            if refused is not None and members[position] != principal:
                judged.refusals[position] = refused
                break
            asked.append(position)
        if not asked:
            return
        verdicts = await self._unjudged_verdicts(
            [groups[each] for each in asked], [members[each] for each in asked], at_least_revision, context
        )
        judged.add(asked, verdicts)
        for position in asked:
            refused = denied.get(groups[position])
            # A member is told its membership. Any other answer would tell that the group exists.
            if refused is not None and not may_view(refused) and judged.answers[position] != YES:
                judged.refusals[position] = refused

    async def _ask_home(
        self,
        home: ServerId,
        positions: Sequence[int],
        request: messages.CheckBulkRequest,
        judged: _Judged,
        context: Context,
    ) -> None:
        """Ask another server about pairs whose groups it owns. Without its answers, the pairs are uncertain."""
        verdicts = Verdicts(bytearray(), "")

        async def requests() -> AsyncIterator[bytes]:
            yield request.SerializeToString()

        told = self._forwarder.converse(home, METHOD, requests(), seconds=part_seconds(context), changes=False)
        try:
            async with aclosing(told):
                async for each in told:
                    response = messages.CheckBulkResponse.FromString(each)
                    room = len(positions) - len(verdicts.answers)
                    verdicts.add(
                        Verdicts(bytearray(response.answers[:room]), response.revision, list(response.unreachable))
                    )
        except (RefusedError, grpc.aio.AioRpcError) as error:
            refusal = error.refusal if isinstance(error, RefusedError) else refusal_of(error)
            if refusal is None and not is_out_of_reach(error):
                raise
            if refusal is not None and not is_out_of_reach(error) and len(verdicts.answers) < len(positions):
                verdicts.refused = RefusedError(refusal)
        except DecodeError:
            pass  # The other server is no name server of this version.
        if verdicts.refused is None and len(verdicts.answers) < len(positions):
            missing = len(positions) - len(verdicts.answers)
            verdicts.add(Verdicts(bytearray([UNCERTAIN]) * missing, "", [home]))
        judged.add(positions, verdicts)

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
