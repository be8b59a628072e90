"""Checks that need no other server: answered from the present state, without a pause.

    Check        one pair; the long way of all others is in `check_and_describe.py`.
    CheckKnown   many pairs at once, of calls that one client makes at the same time.

Both have a short way: one function of the encoded request, before any part that other calls need. It gives no answer if
the long way might wait, ask another server, refuse, or know more. The long way gives the same answer wherever the short
way gives one (`tests/unit/nameserver/reads/test_known_checks.py`).

A server that judges callers answers here if the caller may ask, as far as this server knows its groups, or if the
caller asks about itself and is a member. The long way refuses, and asks for the groups of callers of other servers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import cast

from google.protobuf.message import DecodeError

from namegraph import CallerRights, CoreQueries, NodeId, Privilege, RefusedError, Wait
from nameserver.calls.adapters import Context
from nameserver.calls.judging import Judging
from nameserver.reads.local_check import LocalChecks, PairFinding
from nameserver.routing.ownership import OwnerKind, Routing
from nameserver.wire import conversion
from shadowtree.v1 import name_service_pb2 as messages

KNOWN_PAIRS_LIMIT = 1_000
"""Most pairs of one request, answered in a millisecond."""


class KnownCode(IntEnum):
    """Answer to a pair, as CheckKnownResponse numbers it."""

    UNANSWERED = 0
    YES = 1
    NO = 2
    OTHERS_KNOW_MORE = 3


_ANSWERS = bytes.maketrans(bytes((PairFinding.BELOW, PairFinding.NOT_BELOW)), bytes((KnownCode.YES, KnownCode.NO)))
"""Answers by finding, if no other server knows more."""


class KnownChecks:
    """Servicer of the short ways of one server."""

    def __init__(
        self,
        *,
        core: CoreQueries,
        checks: LocalChecks,
        routing: Routing,
        judging: Judging,
        is_ready: Callable[[], bool],
    ) -> None:
        """`is_ready`: returns True if the state here is known to be that of other servers too."""
        self._core = core
        self._checks = checks
        self._routing = routing
        self._judging = judging
        self._is_ready = is_ready

    def check(self, request: bytes) -> bytes | None:
        """Answer Check. None if the long way has to."""
        if not self._is_ready():
            return None
        try:
            asked = messages.CheckRequest.FromString(request)
        except DecodeError:
            return None
        if asked.explain or not self._reflects(asked.at_least_revision):
            return None
        answer = self._answer(asked.group, asked.member)
        if answer not in (KnownCode.YES, KnownCode.NO) or self._checks.may_miss_something:
            return None
        if self._core.server_policy is not None:
            rights = self._judging.rights_known_here()
            if self._told(rights, asked.group, asked.member, answer) is not answer:
                return None
        response = messages.CheckResponse(is_member=answer is KnownCode.YES, revision=self._core.revision)
        return response.SerializeToString()

    def check_known_now(self, request: bytes) -> bytes | None:
        """Answer CheckKnown. None if the long way has to."""
        try:
            asked = messages.CheckKnownRequest.FromString(request)
            conversion.require_pairs(asked.groups, asked.members, limit=KNOWN_PAIRS_LIMIT)
        except (DecodeError, RefusedError):
            return None
        return self._answers(asked).SerializeToString()

    async def check_known(self, request: messages.CheckKnownRequest, context: Context) -> messages.CheckKnownResponse:
        """Answer CheckKnown."""
        del context
        conversion.require_pairs(request.groups, request.members, limit=KNOWN_PAIRS_LIMIT)
        return self._answers(request)

    def _answers(self, request: messages.CheckKnownRequest) -> messages.CheckKnownResponse:
        groups, members = request.groups, request.members
        if not self._is_ready() or not self._reflects(request.at_least_revision):
            return messages.CheckKnownResponse(answers=bytes(len(groups)))
        answers = self._all_known(groups, members) or bytes(map(self._answer, groups, members))
        if self._checks.may_miss_something:
            answers = bytes(len(groups))
        elif self._core.server_policy is not None:
            rights = self._judging.rights_known_here()
            answers = bytes(
                self._told(rights, group, member, KnownCode(answer))
                for group, member, answer in zip(groups, members, answers, strict=True)
            )
        return messages.CheckKnownResponse(answers=answers, revision=self._core.revision)

    def _all_known(self, groups: Sequence[str], members: Sequence[str]) -> bytes | None:
        """Give the same answers three times as fast.

        None unless all groups exist and all members have ancestor sets here.
        """
        nodes = [self._core.graph.index.get(cast("NodeId", member)) for member in members]
        if not all(node is not None and self._core.ancestors.is_known(node) for node in nodes):
            return None
        owner_kind = self._routing.owner_kind
        if not self._routing.is_alone and any(owner_kind(member) is not OwnerKind.OURS for member in members):
            return None
        if self._routing.unbelieved:
            return None
        findings = self._checks.all_known(groups, members)
        return None if findings is None else bytes(findings.translate(_ANSWERS))

    def _answer(self, group: str, member: str) -> KnownCode:
        if member not in self._core.graph.index:
            try:
                member = conversion.read_id(member, "member", self._core.graph.index)
            except RefusedError:
                return KnownCode.UNANSWERED
        if self._routing.owner_kind(member) is not OwnerKind.OURS and not self._routing.is_alone:
            return KnownCode.OTHERS_KNOW_MORE
        node = self._core.graph.index.get(NodeId(member))
        if node is not None and not self._core.ancestors.is_known(node):
            return KnownCode.UNANSWERED
        finding = self._checks.finding(group, member)
        if not self._checks.is_known_alone(group, member, finding, self._routing.unbelieved):
            return KnownCode.OTHERS_KNOW_MORE
        if finding is PairFinding.BELOW:
            return KnownCode.YES
        return KnownCode.NO if finding is PairFinding.NOT_BELOW else KnownCode.UNANSWERED

    def _told(self, rights: CallerRights, group: str, member: str, answer: KnownCode) -> KnownCode:
        """Return the answer to a pair, as far as a caller may have it from this server alone."""
        is_self = rights.facts.principal == member
        if is_self and answer is KnownCode.YES:
            return answer
        if self._routing.owner_kind(group) is OwnerKind.ANOTHERS:
            # The same for groups that are known here and for those that are not.
            return KnownCode.OTHERS_KNOW_MORE
        if answer not in (KnownCode.YES, KnownCode.NO):
            return answer
        # A caller that may view a group may ask about itself.
        is_allowed = rights.has(Privilege.VIEW if is_self else Privilege.CHECK, NodeId(group))
        return answer if is_allowed else KnownCode.UNANSWERED

    def _reflects(self, revision: str) -> bool:
        if not revision:
            return True
        try:
            return self._core.waits_for(revision) is Wait.REFLECTED
        except RefusedError:
            return False
