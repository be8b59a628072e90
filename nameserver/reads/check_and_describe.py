"""Check and DescribeGroup: one question, one answer."""

from __future__ import annotations

from functools import partial

from namegraph import CallerRights, CoreQueries, NodeId, Privilege, Reason, RefusedError, refuse
from nameserver.calls.adapters import Context
from nameserver.calls.judging import Judging, denial, may_view, told_pathname
from nameserver.reads.distributed_check import UNCERTAIN, YES, CheckQuestion, DistributedChecks, uncertain
from nameserver.reads.duplication_records import ArcRecords
from nameserver.reads.local_check import LocalChecks, PairFinding
from nameserver.routing.fan_out import newest
from nameserver.routing.forwarding import part_seconds
from nameserver.routing.ownership import OwnerKind, Routing
from nameserver.wire import conversion
from resolver.membership import MembershipResolver
from shadowtree.v1 import name_service_pb2 as messages

PATHNAMES_DEFAULT = 100
PATHNAMES_LIMIT = 10_000
"""Most pathnames of an answer. A group below a stack of diamonds has more than a message can hold, or a person read."""


class QuestionCalls:
    """Servicer of Check and DescribeGroup: answers from the present graph, and from the answers of other servers."""

    def __init__(
        self,
        *,
        core: CoreQueries,
        resolver: MembershipResolver,
        checks: LocalChecks,
        cross_checks: DistributedChecks,
        arc_records: ArcRecords,
        routing: Routing,
        judging: Judging | None,
    ) -> None:
        """`judging`: judge of the callers. None for questions of this server itself."""
        self._judging = judging
        self._core = core
        self._resolver = resolver
        self._checks = checks
        self._cross_checks = cross_checks
        self._arc_records = arc_records
        self._routing = routing
        self._known = core.graph.index

    async def check(self, request: messages.CheckRequest, context: Context) -> messages.CheckResponse:
        """Return True in the answer if a member is in a group, with the path on request.

        Raises `RefusedError`, also if the answer is uncertain.
        """
        known = self._known
        # Known ids are canonical. Only unknown ones are parsed.
        group, member = request.group, request.member
        if group not in known:
            group = conversion.read_id(group, "group", known)
        if member not in known:
            member = conversion.read_id(member, "member", known)
        if self._judging is not None and self._judging.is_needed:
            return await self._check_for_caller(self._judging, NodeId(group), NodeId(member), request, context)
        return await self._check(NodeId(group), NodeId(member), request, context)

    async def _check_for_caller(
        self, judging: Judging, group: NodeId, member: NodeId, request: messages.CheckRequest, context: Context
    ) -> messages.CheckResponse:
        """Answer as far as the caller may know. This server is the home of the group, or nobody is."""
        if self._routing.owner_kind(group) is not OwnerKind.OURS:
            return await self._check(group, member, request, context)
        rights = await judging.rights(Privilege.CHECK, (group,))
        refused = denial(self._core, rights, Privilege.CHECK, group)
        if refused is not None and NodeId(rights.facts.principal) != member:
            raise refused
        if refused is None or may_view(refused):
            response = await self._check(group, member, request, context)
        else:
            # A member is told its membership. Any other answer would tell that the group exists.
            try:
                response = await self._check(group, member, request, context)
            except RefusedError:
                raise refused from None
            if not response.is_member:
                raise refused
        if request.explain:
            names = [NodeId(name) for name in response.pathname]
            rights = await judging.rights(Privilege.READ, names[:-1])
            told = told_pathname(names, lambda name: self._is_readable(rights, name))
            response = messages.CheckResponse(is_member=response.is_member, pathname=told, revision=response.revision)
        return response

    def _is_readable(self, rights: CallerRights, group: NodeId) -> bool:
        """Return True if this server knows that the caller may read a group."""
        return self._routing.owner_kind(group) is OwnerKind.OURS and rights.has(Privilege.READ, group)

    async def _check(
        self, group: NodeId, member: NodeId, request: messages.CheckRequest, context: Context
    ) -> messages.CheckResponse:
        routing = self._routing
        if not request.explain and (routing.owner_kind(member) is OwnerKind.OURS or routing.is_alone):
            finding = self._checks.finding(group, member)
            is_known = finding in (PairFinding.BELOW, PairFinding.NOT_BELOW)
            is_known = is_known and self._checks.is_known_alone(group, member, finding, routing.unbelieved)
            if is_known and not self._checks.may_miss_something:
                is_below = finding is PairFinding.BELOW
                return messages.CheckResponse(is_member=is_below, revision=self._core.revision)
        question = CheckQuestion(
            groups=(NodeId(group),),
            members=(NodeId(member),),
            seconds=part_seconds(context),
            at_least_revision=request.at_least_revision,
            explain=request.explain,
        )
        verdicts = await self._cross_checks.answer(question)
        if verdicts.refused is not None:
            raise verdicts.refused
        if verdicts.answers[0] == UNCERTAIN:
            routing.require_listed(group, unreachable=verdicts.unreachable)
            raise uncertain(question, verdicts)
        return messages.CheckResponse(
            is_member=verdicts.answers[0] == YES, pathname=verdicts.pathname, revision=verdicts.revision
        )

    async def describe_group(
        self, request: messages.DescribeGroupRequest, context: Context
    ) -> messages.GroupDescription:
        """Describe one group, from this server and from the homes of its children."""
        if request.pathname_limit > PATHNAMES_LIMIT:
            raise refuse(
                Reason.LIMIT_EXCEEDED,
                f"at most {PATHNAMES_LIMIT} pathnames are listed, not {request.pathname_limit}",
                limit=str(PATHNAMES_LIMIT),
                field="pathname_limit",
            )
        group = conversion.read_id(request.group, "group", self._known)
        if self._judging is not None and self._judging.is_needed:
            await self._judging.require(Privilege.READ, group)
            rights = self._core.rights_of(await self._judging.all_facts() or self._judging.rights_known_here().facts)
            if not rights.is_operator:
                record = self._resolver.describe_told(
                    group,
                    pathname_limit=request.pathname_limit or PATHNAMES_DEFAULT,
                    is_readable=lambda name: self._is_readable(rights, name),
                    # An open group has everybody as its admin, and gives nobody a say elsewhere.
                    tells_parents=self._core.policy_of(group) is not None and rights.has(Privilege.ADMIN, group),
                )
                details = self._core.details_of(group)
                return conversion.group_description(record, details, self._core.revision, unreachable=())
        told = await self._arc_records.told(
            group, at_least_revision=request.at_least_revision, seconds=partial(part_seconds, context)
        )
        description = self._resolver.describe(
            group, pathname_limit=request.pathname_limit or PATHNAMES_DEFAULT, told=told.sources
        )
        revision = newest((self._core.revision, *told.revisions))
        details = self._core.details_of(group)
        return conversion.group_description(description, details, revision, unreachable=sorted(told.unreachable))
