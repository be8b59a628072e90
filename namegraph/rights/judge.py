"""The judgement if a principal has a privilege. Every place that permits or refuses an action asks here.

    judge          a privilege of a group, for a principal
    judge_parent   `refer` of a group, for a parent
    judge_subnet   a privilege of a subnet or a server, for a principal

The caller of these functions finds the facts: the groups that contain the principal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from namegraph.model.names import NodeId
from namegraph.model.policies import Policy, Principal, Privilege, ServerPolicy, Subject, SubnetPrivilege
from namegraph.rights.principals import OPERATOR
from namegraph.rights.subjects import IsIn, includes, includes_parent

GIVEN_BY: Final[Mapping[Privilege, tuple[Privilege, ...]]] = {
    **{privilege: (privilege, Privilege.ADMIN) for privilege in Privilege if privilege is not Privilege.ADMIN},
    Privilege.VIEW: (Privilege.VIEW, Privilege.CHECK, Privilege.READ, Privilege.MANAGE, Privilege.ADMIN),
    # The subjects of `refer` are parents. An admin of the group may still nest it.
    Privilege.REFER: (Privilege.ADMIN,),
    Privilege.ADMIN: (Privilege.ADMIN,),
}
"""Privileges of which each one gives a privilege to a principal."""


class Ruling(NamedTuple):
    """Judgement of one privilege."""

    is_allowed: bool
    privilege: Privilege | SubnetPrivilege
    rule: str
    """Rule that gave the privilege, as `privilege: subject` or `operator`. Empty if no rule gave it."""


def judge(
    policy: Policy | None,
    privilege: Privilege,
    *,
    group: NodeId,
    caller: Principal,
    is_in: IsIn,
) -> Ruling:
    """Return if a principal has a privilege of a group, by the policy of the group alone.

    `policy`: None for a group without a policy, which is open. `is_in`: returns True for a group that contains the
    principal, nested as deep as may be.
    """
    if caller == OPERATOR:
        return Ruling(True, privilege, "operator")
    if policy is None:
        return Ruling(True, privilege, "open")
    for source in GIVEN_BY[privilege]:
        subject = _first_including(policy.subjects(source), caller, group=group, is_in=is_in)
        if subject is not None:
            return Ruling(True, privilege, f"{source}: {subject}")
    return Ruling(False, privilege, "")


def judge_parent(policy: Policy | None, *, parent: NodeId) -> Ruling:
    """Return if a group may be nested in a parent, by the policy of the group."""
    if policy is None:
        return Ruling(True, Privilege.REFER, "open")
    for subject in policy.refer:
        if includes_parent(subject, parent):
            return Ruling(True, Privilege.REFER, f"{Privilege.REFER}: {subject}")
    return Ruling(False, Privilege.REFER, "")


def judge_subnet(policy: ServerPolicy | None, privilege: SubnetPrivilege, *, caller: Principal, is_in: IsIn) -> Ruling:
    """Return if a principal has a privilege of a server, or of any of its subnets.

    `policy`: None for a server that is not protected, where every caller has all privileges.
    """
    if caller == OPERATOR:
        return Ruling(True, privilege, "operator")
    if policy is None:
        return Ruling(True, privilege, "open")
    if _first_including(policy.operators, caller, group=None, is_in=is_in) is not None:
        return Ruling(True, privilege, "operator")
    if privilege is SubnetPrivilege.OPERATE:
        return Ruling(False, privilege, "")
    subjects: tuple[Subject, ...] = getattr(policy, privilege.value)
    subject = _first_including(subjects, caller, group=None, is_in=is_in)
    return Ruling(subject is not None, privilege, "" if subject is None else f"{privilege}: {subject}")


def _first_including(
    subjects: Iterable[Subject], caller: Principal, *, group: NodeId | None, is_in: IsIn
) -> Subject | None:
    """Return the first subject that includes a principal. None if no subject does."""
    return next((each for each in subjects if includes(each, caller, group=group, is_in=is_in)), None)
