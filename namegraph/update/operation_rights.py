"""Rights of the caller of an update over its operations, judged by the homes of the nodes that they name.

| operation | home of | needs |
|---|---|---|
| `CreateGroup` | the group | `create`; `admin` of the subnet if a policy names it already |
| `DeleteGroup`, `SetPolicy` | the group | `admin` |
| `JoinArc` | the parent | `manage`, or `optin` of oneself |
| | a child that is a group | `refer` for this parent, or `admin` |
| | a person, with a parent of another server | what `people` says |
| `LeaveArc` | the parent | `manage`, `optout` of oneself, or the word of the child's home |

The operations are judged one after another, each as if the earlier ones were done: who creates a group manages it.

An update of the coordinator's own, such as one that settles arcs, has no caller. A server trusts its own, and takes
another server for its guest.

Source: docs/protocol-updates.md, "Rights".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import assert_never

from namegraph.model.names import NodeId, ServerId, subnet_of
from namegraph.model.operations import (
    ChildKind,
    Composite,
    CreateGroup,
    DeleteGroup,
    JoinArc,
    LeaveArc,
    Operation,
    RenameGroups,
    SetPolicy,
    TakeOver,
)
from namegraph.model.policies import People, Policy, Privilege, SubnetPrivilege
from namegraph.model.refusals import Reason, RefusedError, refuse
from namegraph.model.rows import NodeKind
from namegraph.replication.ancestry_store import AncestryStore
from namegraph.rights.callers import CallerFacts
from namegraph.rights.judge import judge_parent
from namegraph.rights.presets import policy_of_maker
from namegraph.rights.principals import ANONYMOUS, OPERATOR, guest_of, name_of
from namegraph.rights.subjects import base_of, named_group
from namegraph.state.context import ServerContext
from namegraph.state.known_arcs import known_arc
from namegraph.state.uncertainty import Uncertainty
from namegraph.update.admission import numbered
from namegraph.update.arc_authority import authority_over
from namegraph.update.caller_rights import CallerRights, believed, groups_to_tell
from namegraph.wire.message_parts import ArcId, CallerWord, ReconcileArc, Update

Replacements = tuple[tuple[NodeId, NodeId], ...]
"""Pairs of a name and the group that takes its place, in a rename or a takeover."""

RIGHTS_REASONS = frozenset([Reason.PERMISSION_DENIED, Reason.CONSENT_NEEDED])
"""Reasons of refusals by right. They are not remembered by request id, because a right may be given at any time."""

ADMINS_NAMED_LIMIT = 5
"""Admins that a refusal names, for a caller who may read the policy."""


class PoliciesAhead:
    """Groups and policies as they are after the operations that were read."""

    def __init__(self, context: ServerContext, maker: CallerFacts | None, replacements: Replacements = ()) -> None:
        """`maker`: who gets the groups that are made. None for a server's own update."""
        self._context = context
        self._maker = OPERATOR if maker is None else maker.principal
        self._replaced = {new: old for old, new in replacements}
        self.changed: dict[NodeId, Policy | None] = {}
        """New policies, by group. None for an open group."""
        self._is_present: dict[NodeId, bool] = {}

    def of(self, group: NodeId) -> Policy | None:
        """Return the policy of a group. None for an open one."""
        return self.changed[group] if group in self.changed else self._context.policies.of(group)

    def is_group(self, name: NodeId) -> bool:
        """Return True if a group of this name exists."""
        found = self._is_present.get(name)
        return self._context.graph.group(name) is not None if found is None else found

    def note(self, operation: Operation) -> None:
        """Go on to the state after an operation."""
        match operation:
            case CreateGroup(group):
                if not self.is_group(group):
                    self.create(group)
            case DeleteGroup(group):
                self.changed[group] = None
                self._is_present[group] = False
            case SetPolicy(group, policy):
                self.changed[group] = policy
            case JoinArc() | LeaveArc():
                pass
            case _:
                assert_never(operation)

    def create(self, group: NodeId) -> None:
        """Go on to the state in which a group exists that did not before."""
        self._is_present[group] = True
        old = self._replaced.get(group, group)
        if old != group:
            self.changed[group] = self._context.policies.of(old)
        elif self._context.server_policy is not None:
            self.changed[group] = policy_of_maker(self._context.server_policy.default_preset, group, self._maker)


def new_policies(
    context: ServerContext,
    operations: Iterable[Operation],
    created: Iterable[NodeId],
    *,
    maker: CallerFacts | None,
    renames: Replacements = (),
) -> Mapping[NodeId, Policy | None]:
    """Return the policies that an update sets, by group of this server.

    `created`: the groups that the update creates. A renamed group keeps its policy, which moves with its name.
    """
    ahead = PoliciesAhead(context, maker)
    moved = {new for _, new in renames}
    for group in created:
        if group not in moved:
            ahead.create(group)
    for operation in operations:
        match operation:
            case SetPolicy():
                ahead.note(operation)
            case DeleteGroup(group) if ahead.is_group(group):
                # It exists after the update: the update makes it anew.
                ahead.note(operation)
            case CreateGroup(group) if group in ahead.changed and group not in moved:
                ahead.note(operation)
    here = context.server
    return {group: policy for group, policy in ahead.changed.items() if context.table.home_of(group) == here}


class OperationRights:
    """Judges the operations of one update at one server, in their order."""

    def __init__(
        self,
        context: ServerContext,
        records: AncestryStore,
        word: CallerWord,
        *,
        coordinator: ServerId,
        vouches_for_all: bool = False,
    ) -> None:
        """`word`: what the coordinator says of the caller. `vouches_for_all`: the coordinator leaves arcs by itself."""
        self._context = context
        self._coordinator = coordinator
        facts = believed(context, facts_of(word), speaker=coordinator)
        home_of = context.table.home_of
        self._replacements = tuple(
            (old, new) for old, new in word.replaces if home_of(old) == home_of(new) == coordinator
        )
        self._vouched = frozenset(word.vouched)
        self._vouches_for_all = vouches_for_all
        self._ahead = PoliciesAhead(context, facts, self._replacements)
        self._caller = CallerRights(context, records, facts, policy_of=self._ahead.of, is_group=self._ahead.is_group)
        self._has_begun = False
        self._left: dict[ArcId, None] = {}
        """Arcs that the update left, and that were there."""
        self._allowed: dict[tuple[Privilege, NodeId], bool] = {}

    def require(self, operation: Operation) -> None:
        """Raise `RefusedError` if the caller may not do an operation, as far as this server judges it."""
        if not self._caller.is_operator:
            if not self._has_begun:
                self._has_begun = True
                self._require_renames()
            self._require(operation)
        self._ahead.note(operation)

    def require_privilege(self, privilege: Privilege, group: NodeId) -> None:
        """Raise `RefusedError` if the caller lacks a privilege of a group of this server."""
        if not self._has(privilege, group):
            raise self._denied_or_missing(privilege, group)

    def _require(self, operation: Operation) -> None:
        context, here = self._context, self._context.server
        match operation:
            case CreateGroup(group):
                if context.table.home_of(group) == here:
                    self._require_create(operation)
            case DeleteGroup(group) | SetPolicy(group):
                if context.home_of(group) == here and not self._is_deleted_with_base(operation):
                    self.require_privilege(Privilege.ADMIN, group)
            case JoinArc(parent, child):
                self._require_join(operation)
            case LeaveArc(parent, child):
                if context.home_of(parent) == here:
                    self._require_leave(parent, child)
                elif authority_over(context, operation).is_judged_here:
                    self._require_leave_below(parent, child)
            case _:
                assert_never(operation)

    def _require_renames(self) -> None:
        for old, new in self._replacements:
            if old != new and self._context.home_of(old) == self._context.server and self._ahead.is_group(old):
                self.require_privilege(Privilege.ADMIN, old)

    def _require_create(self, create: CreateGroup) -> None:
        context, group = self._context, create.group
        base = base_of(group)
        if self._ahead.is_group(group) and create.if_needed and self._has(Privilege.VIEW, group):
            return
        if base is not None:
            self._require_companion(group, base[0])
            return
        server_policy = context.server_policy
        assert server_policy is not None
        is_named = context.policies.is_named(group) or any(
            named_group(subject) == group
            for subjects in (server_policy.operators, server_policy.create, server_policy.admin, server_policy.mail)
            for subject in subjects
        )
        why = ""
        # The members of a group get the rights of its name: by policies, and by the groups that contain it.
        if is_named:
            why = ", because policies of this server name it already"
        elif any(old == new == group for old, new in self._replacements) and self._is_process(group):
            why = ", because it takes the place of a process in groups"
        needed = SubnetPrivilege.ADMIN if why else SubnetPrivilege.CREATE
        if not self._caller.decide_subnet(needed).is_allowed:
            raise refuse(
                Reason.PERMISSION_DENIED,
                f"{self._named()} may not create {group}: that needs `{needed}` on the subnet {subnet_of(group)}{why}; "
                "nothing was done",
                privilege=needed.value,
                group=group,
                subnet=subnet_of(group),
                server=context.server,
            )

    def _is_process(self, name: NodeId) -> bool:
        graph = self._context.graph
        node = graph.index.get(name)
        return node is not None and graph.kind(node) is NodeKind.PROCESS

    def _require_companion(self, group: NodeId, base: NodeId) -> None:
        if self._ahead.is_group(base):
            self.require_privilege(Privilege.ADMIN, base)
        elif not self._caller.decide_subnet(SubnetPrivilege.ADMIN).is_allowed:
            raise self._denied(SubnetPrivilege.ADMIN.value, group, f"`admin` on the subnet {subnet_of(group)}")

    def _is_deleted_with_base(self, operation: DeleteGroup | SetPolicy) -> bool:
        """Return True if a companion is deleted because its group is renamed, which was judged."""
        base = base_of(operation.group)
        renamed = [old for old, new in self._replacements if old != new]
        return (
            isinstance(operation, DeleteGroup)
            and base is not None
            and base[0] in renamed
            and operation.group in renamed
        )

    def _require_join(self, join: JoinArc) -> None:
        context, here = self._context, self._context.server
        parent, child = join.parent, join.child
        if self._takes_a_place(parent, child):
            return
        if context.home_of(parent) == here and not self._has(Privilege.MANAGE, parent):
            is_oneself = child == name_of(self._caller.facts.principal)
            if not (is_oneself and self._has(Privilege.OPTIN, parent)):
                raise self._denied_or_missing(Privilege.MANAGE, parent)
        if context.home_below(parent=parent, child=child) == here:
            if self._ahead.is_group(child):
                self._require_refer(parent, child)
            elif join.kind is not ChildKind.GROUP and context.home_of(parent) != here:
                self._require_person(parent, child)

    def _require_refer(self, parent: NodeId, child: NodeId) -> None:
        if base_of(child) is None and judge_parent(self._ahead.of(child), parent=parent).is_allowed:
            return
        if self._has(Privilege.REFER, child):
            return
        if not self._has(Privilege.VIEW, child):
            raise self._missing(child)
        raise self._consent_needed(parent, child, "an admin of that group must agree")

    def _require_person(self, parent: NodeId, child: NodeId) -> None:
        """Judge a join of a person of this server to a group of another server."""
        server_policy = self._context.server_policy
        assert server_policy is not None
        if server_policy.people is People.OPEN or self._caller.decide_subnet(SubnetPrivilege.ADMIN).is_allowed:
            return
        if server_policy.people is People.CLOSED:
            raise refuse(
                Reason.PERMISSION_DENIED,
                f"{child} cannot join {parent}: only an admin of {subnet_of(child)} joins its people to "
                "groups of other organisations; nothing was done",
                privilege=SubnetPrivilege.ADMIN.value,
                group=parent,
                member=child,
                server=self._context.server,
            )
        if child != name_of(self._caller.facts.principal):
            raise self._consent_needed(parent, child, "that person must agree")

    def _require_leave(self, parent: NodeId, child: NodeId) -> None:
        context = self._context
        arc = ArcId(parent, child)
        child_home = context.home_below(parent=parent, child=child)
        if child_home == self._coordinator and child_home != context.server:
            may = self._vouches_for_all or arc in self._vouched or self._is_replaced(parent, child)
        else:
            may = child_home == context.server and may_end(self._caller, context, child)
        if not may and not self._has(Privilege.MANAGE, parent):
            is_oneself = child == name_of(self._caller.facts.principal)
            if not (is_oneself and self._has(Privilege.OPTOUT, parent)):
                raise self._denied_or_missing(Privilege.MANAGE, parent)
        known = known_arc(context, arc)
        if known is not None and known.is_present:
            self._left[arc] = None

    def _require_leave_below(self, parent: NodeId, child: NodeId) -> None:
        """Judge a leave that the home of the child does alone, because the home of the parent is away."""
        may = self._has(Privilege.ADMIN, child) if self._ahead.is_group(child) else False
        is_oneself = child == name_of(self._caller.facts.principal)
        if not (may or is_oneself or may_end(self._caller, self._context, child)):
            raise self._denied(Privilege.ADMIN.value, parent, f"`{Privilege.ADMIN}` on {child}")

    def _is_replaced(self, parent: NodeId, child: NodeId) -> bool:
        return any(old in (parent, child) for old, _ in self._replacements)

    def _takes_a_place(self, parent: NodeId, child: NodeId) -> bool:
        """Return True if an arc takes the place of one that the same update leaves, because a group is renamed or taken
        over.

        The coordinator is the home of both groups. It could as well change the members of the old one.
        """
        if not self._replacements:
            return False
        olds = {new: old for old, new in self._replacements}
        before = ArcId(olds.get(parent, parent), olds.get(child, child))
        if not (parent in olds or child in olds):
            return False
        if before in self._left:
            return True
        # The home of the child alone judges no leave.
        known = known_arc(self._context, before)
        return self._context.home_of(parent) != self._context.server and known is not None and bool(known.is_present)

    def _has(self, privilege: Privilege, group: NodeId) -> bool:
        key = privilege, group
        if group in self._ahead.changed:
            return self._caller.has(privilege, group)
        found = self._allowed.get(key)
        if found is None:
            found = self._allowed[key] = self._caller.has(privilege, group)
        return found

    def _denied_or_missing(self, privilege: Privilege, group: NodeId) -> RefusedError:
        """Return the refusal of an action with a group. A group that the caller may not view is missing."""
        if not self._ahead.is_group(group) or not self._has(Privilege.VIEW, group):
            return self._missing(group)
        base = base_of(group)
        needed = self._caller.decide(privilege, group).privilege
        return self._denied(needed.value, group, f"`{needed}` on {group if base is None else base[0]}")

    def _denied(self, privilege: str, group: NodeId, needed: str) -> RefusedError:
        policy = self._ahead.of(group)
        server, why = self._context.server, f"{self._named()} may not do that: it needs {needed}"
        if policy is None or not policy.admin or not self._has(Privilege.READ, group):
            text = f"{why}; nothing was done"
            return refuse(Reason.PERMISSION_DENIED, text, privilege=privilege, group=group, server=server)
        admins = policy.admin[:ADMINS_NAMED_LIMIT]
        return refuse(
            Reason.PERMISSION_DENIED,
            f"{why}; ask {', '.join(admins)}; nothing was done",
            privilege=privilege,
            group=group,
            server=server,
            admins="\n".join(admins),
        )

    def _missing(self, group: NodeId) -> RefusedError:
        return missing_group(group, self._context)

    def _consent_needed(self, parent: NodeId, child: NodeId, who: str) -> RefusedError:
        return refuse(
            Reason.CONSENT_NEEDED,
            f"{child} cannot join {parent} yet: {who} (asked the server {self._context.server}); nothing was done",
            group=parent,
            member=child,
            privilege=Privilege.REFER.value,
            server=self._context.server,
        )

    def _named(self) -> str:
        principal = self._caller.facts.principal
        return "a caller without a credential" if principal == ANONYMOUS else principal


def may_settle(context: ServerContext, records: AncestryStore, settle: ReconcileArc, *, asked_by: ServerId) -> bool:
    """Return True if an end of an arc here may take it over as joined, as another server reports it.

    The report names no caller. An arc that this server has not agreed to counts as joined by a guest.
    """
    if context.server_policy is None or not settle.is_present:
        return True
    arc, here = ArcId(settle.parent, settle.child), context.server
    known = known_arc(context, arc)
    if (known is not None and known.is_present) or context.is_in_doubt(arc, writer=settle.writer):
        return True
    caller = CallerRights(context, records, CallerFacts(guest_of(asked_by)))
    if context.home_of(arc.parent) == here and not caller.has(Privilege.MANAGE, arc.parent):
        return False
    if context.home_below(parent=arc.parent, child=arc.child) != here:
        return True
    if context.graph.group(arc.child) is not None:
        is_referred = judge_parent(context.policies.of(arc.child), parent=arc.parent).is_allowed
        return is_referred or caller.has(Privilege.REFER, arc.child)
    return context.home_of(arc.parent) == here or context.server_policy.people is People.OPEN


def may_end(caller: CallerRights, context: ServerContext, child: NodeId) -> bool:
    """Return True if a caller may take a node of this server out of any group.

    A group's admins may, and for a person the admins of the subnet. Persons themselves need `optout`.
    """
    if context.graph.group(child) is not None:
        # An open group has everybody as its admin, and gives nobody a say elsewhere.
        return context.policies.of(child) is not None and caller.has(Privilege.ADMIN, child)
    return context.table.home_of(child) is not None and caller.decide_subnet(SubnetPrivilege.ADMIN).is_allowed


def missing_group(group: NodeId, context: ServerContext) -> RefusedError:
    """Return the refusal for a group that the caller may not view: that of a group of this server that is not there."""
    may_be_group = Uncertainty(context).refusal_of_group(group)
    if may_be_group is not None:
        return may_be_group
    return refuse(
        Reason.GROUP_NOT_FOUND,
        f"there is no group {group} (asked the server {context.server})",
        group=group,
        server=context.server,
    )


def word_for(
    context: ServerContext,
    records: AncestryStore,
    facts: CallerFacts,
    server: ServerId,
    operations: Iterable[Operation],
    replacements: Replacements,
) -> CallerWord:
    """Return the word of this server, the coordinator, on a caller, for a participant."""
    if server == context.server:
        return own_word(facts, replacements)
    name = name_of(facts.principal)
    is_ours = name is not None and context.table.home_of(name) == context.server
    caller = CallerRights(context, records, facts)
    vouched = tuple(
        ArcId(operation.parent, operation.child)
        for operation in operations
        if isinstance(operation, LeaveArc)
        and context.home_of(operation.parent) == server
        and context.table.home_of(operation.child) == context.server
        and (caller.is_operator or may_end(caller, context, operation.child))
    )
    if not is_ours or name is None:
        return CallerWord(guest_of(context.server), (), vouched, replacements)
    groups = groups_to_tell(context, records, name, server)
    return CallerWord(facts.principal, groups, vouched, replacements, facts.privileges)


def own_word(facts: CallerFacts, replacements: Replacements = ()) -> CallerWord:
    """Return the word of this server to itself on a caller."""
    return CallerWord(facts.principal, facts.groups, (), replacements, facts.privileges)


def rights_over(
    context: ServerContext, records: AncestryStore, update: Update, word: CallerWord | None
) -> OperationRights | None:
    """Return the judge of the operations of an update. None if this server judges none.

    `word`: the coordinator's word on the caller. None if it says nothing, as an older server.
    """
    if context.server_policy is None:
        return None
    coordinator = update.update_id.coordinator
    if word is None:
        if coordinator == context.server:
            return None  # A server trusts its own updates.
        word = CallerWord(guest_of(coordinator))
    vouches_for_all = not update.is_of_client
    return OperationRights(context, records, word, coordinator=coordinator, vouches_for_all=vouches_for_all)


def require_privilege(
    context: ServerContext,
    records: AncestryStore,
    facts: CallerFacts,
    privilege: Privilege,
    groups: Iterable[NodeId],
) -> None:
    """Raise `RefusedError` if a caller lacks a privilege of a group of this server. Missing groups are left out."""
    word = own_word(facts)
    rights = OperationRights(context, records, word, coordinator=context.server)
    for group in groups:
        rights.require_privilege(privilege, group)


def replacements_of(composite: Composite | None) -> Replacements:
    """Return the names that groups get in place of others by a composite command."""
    match composite:
        case RenameGroups(renames):
            return renames
        case TakeOver(group):
            return ((group, group),)
    return ()


def facts_of(word: CallerWord) -> CallerFacts:
    """Return the facts of a caller that a coordinator tells."""
    return CallerFacts(word.principal, word.groups, word.privileges)


def require_rights(
    context: ServerContext,
    records: AncestryStore,
    facts: CallerFacts,
    operations: Iterable[Operation],
    *,
    size: int,
    replacements: Replacements = (),
) -> None:
    """Raise `RefusedError` if a caller may not even begin an update, as far as this server judges it now."""
    word = own_word(facts, replacements)
    rights = OperationRights(context, records, word, coordinator=context.server)
    for number, operation in enumerate(operations, start=1):
        try:
            rights.require(operation)
        except RefusedError as error:
            raise numbered(error, number, size=size) from None
