"""SetPolicy, GetPolicy, AdoptPolicy: who has which privilege of a group."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from namegraph import (
    OPERATOR,
    CallerFacts,
    Committed,
    CoreQueries,
    InvalidPolicyError,
    NodeId,
    NodeKind,
    Policy,
    Preset,
    Principal,
    Privilege,
    Reason,
    RefusedError,
    SetPolicy,
    Subject,
    SubnetPrivilege,
    UpdateCommand,
    changed_policy,
    is_companion,
    is_identified,
    parse_preset,
    parse_privilege,
    preset_policy,
    refuse,
    require_admin,
    subnet_of,
)
from nameserver.access.caller import current_caller
from nameserver.access.origins import origin_of
from nameserver.calls.adapters import Context, deadline_of
from nameserver.calls.caller_facts import FactsOfCallers
from nameserver.driver.run_loop import RunLoop
from nameserver.wire import conversion
from nameserver.writes.updates import RequestIds
from shadowtree.v1 import name_service_pb2 as messages
from shadowtree.v1 import names_pb2 as values

ADOPTIONS_LIMIT = 3
"""Attempts to adopt a policy, if groups are deleted meanwhile."""

Grants = Iterable[values.PrivilegeSubjects]


class RightsCalls:
    """Servicer of the calls about policies of groups."""

    def __init__(
        self,
        *,
        core: CoreQueries,
        run_loop: RunLoop,
        request_ids: RequestIds,
        facts: FactsOfCallers,
        own_groups: Callable[[], Iterable[NodeId]],
    ) -> None:
        """`own_groups`: returns the groups of this server."""
        self._core = core
        self._run_loop = run_loop
        self._request_ids = request_ids
        self._facts = facts
        self._own_groups = own_groups

    async def set_policy(self, request: messages.SetPolicyRequest, context: Context) -> values.Change:
        """Replace the policy of a group of this server, or the subjects of some privileges."""
        group = conversion.read_id(request.group, "group", self._core.graph.index)
        policy = self._policy_wanted(group, request.preset, request.privileges)
        operation = SetPolicy(group, policy, request.without_admin)
        return conversion.change(await self._carry_out((operation,), request.request_id, context))

    async def get_policy(self, request: messages.GetPolicyRequest, context: Context) -> values.GroupPolicy:
        """Return the policy of a group of this server."""
        del context
        core = self._core
        group = conversion.read_id(request.group, "group", core.graph.index)
        facts = await self._facts.of_caller()
        if facts is not None:
            core.require_privilege(facts, Privilege.READ, group)
        if core.graph.group(group) is None:
            raise core.no_group(group)
        found = conversion.group_policy(group, core.policy_of(group) or _open(group))
        found.is_judged = core.server_policy is not None
        return found

    async def adopt_policy(
        self, request: messages.AdoptPolicyRequest, context: Context
    ) -> messages.AdoptPolicyResponse:
        """Give a policy to all groups of this server that have none, in one update."""
        facts = await self._facts.of_caller()
        if facts is not None and not self._core.rights_of(facts).decide_subnet(SubnetPrivilege.OPERATE).is_allowed:
            raise refuse(
                Reason.PERMISSION_DENIED,
                "this is for operators: it changes the rights of all groups of the server",
                privilege=SubnetPrivilege.OPERATE.value,
                server=self._core.server,
            )
        if not request.preset:
            raise refuse(Reason.INVALID_REQUEST, "name the preset to adopt", field="preset")
        for attempt in range(1, ADOPTIONS_LIMIT + 1):
            groups = [group for group in self._own_groups() if self._core.policy_of(group) is None]
            operations = tuple(self._adopted(group, request) for group in groups if not is_companion(group))
            if not operations:
                change = values.Change(revision=self._run_loop.durable_revision)
                return messages.AdoptPolicyResponse(change=change)
            try:
                committed = await self._carry_out(operations, request.request_id, context)
            except RefusedError as error:
                if error.refusal.reason is not Reason.GROUP_NOT_FOUND or attempt == ADOPTIONS_LIMIT:
                    raise
                continue
            return messages.AdoptPolicyResponse(change=conversion.change(committed), groups=len(operations))
        raise AssertionError("the last attempt returns or raises")

    def _adopted(self, group: NodeId, request: messages.AdoptPolicyRequest) -> SetPolicy:
        policy = _with(preset_policy(_preset(request.preset), subnet=subnet_of(group)), request.privileges)
        try:
            require_admin(policy, group)
        except InvalidPolicyError:
            raise refuse(
                Reason.INVALID_REQUEST,
                "name the admins of the groups: without any, operators of the server alone could change them",
                field=Privilege.ADMIN.value,
            ) from None
        return SetPolicy(group, policy)

    def _policy_wanted(self, group: NodeId, preset: str, changes: Grants) -> Policy:
        """Return the policy that a request describes.

        Where the preset leaves `manage` and `admin` to the maker of a group, those who have them keep them; the caller
        gets them of a group that was open.
        """
        present = self._core.policy_of(group)
        if not preset:
            return _with(present or _open(group), changes)
        before = present if present is not None and present.preset is not Preset.OPEN else None
        caller = Principal(current_caller().principal)
        makers = [Subject(caller if is_identified(caller) else OPERATOR)] if before is None else before.admin
        made = preset_policy(_preset(preset), subnet=subnet_of(group), makers=makers)
        if before is not None and made.preset is not Preset.OPEN:
            made = changed_policy(made, {Privilege.MANAGE: before.manage or ["nobody"]})
        return _with(made, changes)

    async def _carry_out(self, operations: tuple[SetPolicy, ...], request_id: str, context: Context) -> Committed:
        run_loop = self._run_loop
        name = self._request_ids.given_or_new(request_id)
        facts: CallerFacts | None = await self._facts.of_caller()
        command = UpdateCommand(
            run_loop.new_ticket(),
            name,
            operations,
            deadline_of(context, run_loop),
            origin=origin_of(request_id=name, server=run_loop.server),
            caller=facts,
        )
        return await run_loop.carry_out(command)


def groups_of(core: CoreQueries) -> list[NodeId]:
    """Return the groups of a server, in no order."""
    graph = core.graph
    return [
        name
        for name, node in list(graph.index.items())
        if graph.kind(node) is NodeKind.GROUP and core.owner_of_name(name) == core.server
    ]


def _open(group: NodeId) -> Policy:
    return preset_policy(Preset.OPEN, subnet=subnet_of(group))


def _preset(text: str) -> Preset:
    try:
        return parse_preset(text)
    except InvalidPolicyError as error:
        raise refuse(Reason.INVALID_REQUEST, str(error), field="preset") from None


def _with(policy: Policy, changes: Grants) -> Policy:
    """Return a policy with the changes of a request. Raises `RefusedError`."""
    try:
        return changed_policy(policy, {parse_privilege(each.privilege): list(each.subjects) for each in changes})
    except InvalidPolicyError as error:
        raise refuse(Reason.INVALID_REQUEST, str(error), field=error.field) from None
