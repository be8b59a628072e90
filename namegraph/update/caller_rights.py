"""Rights of one caller at one server, by the state as it is: the policies, and the groups that contain the caller.

| home of the principal | groups that contain it |
|---|---|
| this server, or no server | its ancestor set |
| another server | groups of this server: what its arcs lead up to, from the principal and from the groups told of it |

A chain of arcs through a third server gives no right.

Source: docs/protocol-updates.md, "Rights".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property

from namegraph.model.names import NodeId, ServerId
from namegraph.model.policies import Policy, Privilege, SubnetPrivilege
from namegraph.model.rows import NodeIndex
from namegraph.replication.ancestry_store import AncestryStore
from namegraph.rights.callers import CallerFacts
from namegraph.rights.judge import Ruling, judge, judge_subnet
from namegraph.rights.principals import guest_of, is_principal, name_of
from namegraph.rights.subjects import MUTED_SUFFIX, OWNERS_SUFFIX, base_of
from namegraph.state.context import ServerContext

GROUPS_TOLD_LIMIT = 1_000
"""Groups of a caller that one server tells another one: more than any policy names, in some 50 kB of a message."""

PolicyOf = Callable[[NodeId], Policy | None]
IsGroup = Callable[[NodeId], bool]


def believed(context: ServerContext, facts: CallerFacts, *, speaker: ServerId) -> CallerFacts:
    """Return what is believed of another server's word on a caller: its own principals, and its own groups."""
    if speaker == context.server:
        return facts
    home_of = context.table.home_of
    name = name_of(facts.principal) if is_principal(facts.principal) else None
    if name is None or home_of(name) != speaker:
        return CallerFacts(guest_of(speaker))
    groups = tuple(group for group in facts.groups if home_of(group) == speaker)
    return CallerFacts(facts.principal, groups, facts.privileges)


class CallerRights:
    """Rights of one caller. Facts are found once, so an object serves one judgement, within one step."""

    def __init__(
        self,
        context: ServerContext,
        records: AncestryStore,
        facts: CallerFacts,
        *,
        policy_of: PolicyOf | None = None,
        is_group: IsGroup | None = None,
    ) -> None:
        """`policy_of`, `is_group`: the state of groups, if it is not that of the context."""
        self.facts = facts
        self._context = context
        self._records = records
        self._policy_of = policy_of or context.policies.of
        self._is_group = is_group or (lambda name: context.graph.group(name) is not None)
        self._is_in: dict[NodeId, bool] = {}

    @cached_property
    def is_operator(self) -> bool:
        """True if the caller operates this server."""
        return self.decide_subnet(SubnetPrivilege.OPERATE).is_allowed

    def decide(self, privilege: Privilege, group: NodeId) -> Ruling:
        """Return if the caller has a privilege of a group of this server, or of the group whose companion it is."""
        if not self.facts.may_use(privilege):
            return Ruling(False, privilege, "")
        if self.is_operator:
            return Ruling(True, privilege, "operator")
        base = base_of(group)
        if base is None:
            return self._judge(privilege, group)
        return self._decide_companion(privilege, *base)

    def has(self, privilege: Privilege, group: NodeId) -> bool:
        """Return True if the caller has a privilege of a group of this server."""
        return self.decide(privilege, group).is_allowed

    def decide_subnet(self, privilege: SubnetPrivilege) -> Ruling:
        """Return if the caller has a privilege of this server, or of its subnets."""
        policy = self._context.server_policy
        if not self.facts.may_use(privilege):
            return Ruling(False, privilege, "")
        return judge_subnet(policy, privilege, caller=self.facts.principal, is_in=self.is_in)

    def is_in(self, group: NodeId) -> bool:
        """Return True if the caller is a member of a group, nested as deep as may be."""
        found = self._is_in.get(group)
        if found is None:
            found = self._is_in[group] = self._find(group)
        return found

    def _judge(self, privilege: Privilege, group: NodeId) -> Ruling:
        return judge(self._policy_of(group), privilege, group=group, caller=self.facts.principal, is_in=self.is_in)

    def _decide_companion(self, privilege: Privilege, base: NodeId, suffix: str) -> Ruling:
        """Judge a companion by the policy of its group. Without that group, the admins of the subnet have all rights.

        A change of `NAME+owners` is a change of the subject `owners` of NAME. A change of `NAME+muted` ends, or begins,
        deliveries to a member.
        """
        if not self._is_group(base):
            found = self.decide_subnet(SubnetPrivilege.ADMIN)
            return found._replace(privilege=privilege)
        if suffix == OWNERS_SUFFIX and privilege in _CHANGES:
            return self.decide(Privilege.ADMIN, base)._replace(privilege=Privilege.ADMIN)
        if suffix == MUTED_SUFFIX and privilege in (Privilege.OPTIN, Privilege.OPTOUT):
            return self.decide(Privilege.OPTOUT, base)
        return self.decide(privilege, base)

    def _find(self, group: NodeId) -> bool:
        graph = self._context.graph
        node = graph.group(group)
        if node is None:
            return False
        if self._is_native:
            name = name_of(self.facts.principal)
            start = None if name is None else graph.index.get(name)
            return start is not None and node in self._context.ancestors.of(start)
        return node in self._above

    @cached_property
    def _is_native(self) -> bool:
        name = name_of(self.facts.principal)
        return name is None or self._context.home_of(name) == self._context.server

    @cached_property
    def _above(self) -> set[NodeIndex]:
        """Groups of this server above the principal of another server, by arcs of this server alone."""
        context = self._context
        name = name_of(self.facts.principal)
        assert name is not None
        home = context.home_of(name)
        groups = (group for group in self.facts.groups if context.table.home_of(group) == home)
        return groups_above(context, self._records, (name, *groups))


_CHANGES = (Privilege.OPTIN, Privilege.OPTOUT, Privilege.MANAGE, Privilege.REFER, Privilege.ADMIN)
"""Privileges that change a group, or what it is part of."""


def groups_above(context: ServerContext, records: AncestryStore, names: Iterable[NodeId]) -> set[NodeIndex]:
    """Return the groups of this server that its own arcs lead up to from these nodes."""
    graph = context.graph
    found: set[NodeIndex] = set()
    pending = [node for name in names if (node := graph.index.get(name)) is not None]
    while pending:
        node = pending.pop()
        # The arcs to a node of another server are known by their parents alone.
        parents = graph.parents[node] if context.owns(node) else records.leaving.get(node, ())
        new = [parent for parent in parents if parent not in found and context.owns(parent)]
        found.update(new)
        pending += new
    return found


def groups_to_tell(
    context: ServerContext, records: AncestryStore, name: NodeId, server: ServerId
) -> tuple[NodeId, ...]:
    """Return the groups of this server that contain a principal of this server and are in a group of another one.

    Sorted, at most `GROUPS_TOLD_LIMIT`. Chains of arcs through a third server do not count.
    """
    graph, ids = context.graph, context.graph.ids
    above = groups_above(context, records, (name,))
    found = [
        ids[node]
        for node in above
        if any(not context.owns(parent) and context.home_of(ids[parent]) == server for parent in graph.parents[node])
    ]
    return tuple(sorted(found)[:GROUPS_TOLD_LIMIT])
