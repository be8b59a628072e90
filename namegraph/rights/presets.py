"""Presets of policies, as one table, and how a policy is made from a preset and changes.

See docs/decisions/0048-rights.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import structs

from namegraph.model.names import NodeId, Subnet, subnet_of
from namegraph.model.policies import Policy, Preset, Principal, Privilege, Subject
from namegraph.rights.principals import OPERATOR, is_identified
from namegraph.rights.subjects import (
    ANYONE,
    AUTHENTICATED,
    MEMBERS,
    NOBODY,
    OWNERS,
    InvalidPolicyError,
    parse_subject,
    parse_subjects,
    subnet_subject,
)

_SUBNET: Final = "the subnet of the group"
_MAKER: Final = "the maker of the group"

_V, _C, _R, _F = Privilege.VIEW, Privilege.CHECK, Privilege.READ, Privilege.REFER
_I, _O, _D, _M, _A = Privilege.OPTIN, Privilege.OPTOUT, Privilege.DELIVER, Privilege.MANAGE, Privilege.ADMIN
_COLUMNS: Final = (_V, _C, _R, _F, _I, _O, _D, _M, _A)

_TABLE: Final[Mapping[Preset, tuple[str, ...]]] = {
    #                     view           check          read     refer    optin   optout  deliver        manage  admin
    Preset.OPEN: (ANYONE, ANYONE, ANYONE, ANYONE, ANYONE, ANYONE, ANYONE, ANYONE, ANYONE),
    Preset.PUBLIC: (ANYONE, ANYONE, ANYONE, ANYONE, NOBODY, ANYONE, MEMBERS, _MAKER, _MAKER),
    Preset.ORGANISATION: (AUTHENTICATED, AUTHENTICATED, _SUBNET, _SUBNET, NOBODY, ANYONE, _SUBNET, _MAKER, _MAKER),
    Preset.HIDDEN: (AUTHENTICATED, MEMBERS, OWNERS, NOBODY, NOBODY, ANYONE, AUTHENTICATED, _MAKER, _MAKER),
    Preset.SECRET: (MEMBERS, MEMBERS, OWNERS, NOBODY, NOBODY, ANYONE, MEMBERS, _MAKER, _MAKER),
}


def preset_policy(preset: Preset, *, subnet: Subnet, makers: Iterable[Subject] = ()) -> Policy:
    """Return the policy of a preset, for a group of a subnet.

    `makers`: subjects with `manage` and `admin` where the preset leaves these to the maker of the group.
    """
    cells = {
        _SUBNET: (subnet_subject(subnet),),
        _MAKER: tuple(sorted(dict.fromkeys(makers))),
        NOBODY: (),
    }
    row = [cells.get(cell, (Subject(cell),)) for cell in _TABLE[preset]]
    return Policy(preset, *row)


def policy_of_maker(preset: Preset, group: NodeId, maker: Principal) -> Policy | None:
    """Return the policy of a group that a principal makes. None for `open`, which is kept as no policy.

    Only operators look after a group that an unidentified caller made.
    """
    if preset is Preset.OPEN:
        return None
    subject = Subject(maker if is_identified(maker) else OPERATOR)
    return preset_policy(preset, subnet=subnet_of(group), makers=(subject,))


def changed_policy(policy: Policy, changes: Mapping[Privilege, Iterable[str]]) -> Policy:
    """Return a policy with the subjects of some privileges replaced. Raises `InvalidPolicyError`."""
    return structs.replace(
        policy, **{privilege.value: parse_subjects(privilege, texts) for privilege, texts in changes.items()}
    )


def parse_preset(text: str) -> Preset:
    """Return the preset of a name. Raises `InvalidPolicyError`."""
    try:
        return Preset(text)
    except ValueError:
        known = ", ".join(Preset)
        raise InvalidPolicyError("preset", f"there is no preset {text!r:.80}; there are: {known}") from None


def parse_privilege(text: str) -> Privilege:
    """Return the privilege of a name. Raises `InvalidPolicyError`."""
    try:
        return Privilege(text)
    except ValueError:
        known = ", ".join(Privilege)
        raise InvalidPolicyError(text[:80], f"there is no privilege {text!r:.80}; there are: {known}") from None


def require_valid(policy: Policy) -> None:
    """Raise `InvalidPolicyError` if a policy is not in the form that `changed_policy` makes.

    A policy of another server may have any texts as subjects.
    """
    for privilege, subjects in policy.by_privilege():
        if parse_subjects(privilege, subjects) != subjects or (NOBODY in subjects):
            why = f"{privilege}: the subjects are neither sorted nor distinct, or not in canonical form"
            raise InvalidPolicyError(privilege, why)


def require_admin(policy: Policy, group: NodeId) -> None:
    """Raise `InvalidPolicyError` if a policy leaves a group without any admin."""
    if not policy.admin:
        raise InvalidPolicyError(
            Privilege.ADMIN,
            f"the policy leaves {group} without an admin: only operators of its server could change it again; "
            "name an admin, or say that this is meant (`--no-admin`)",
        )


def as_subject(principal: Principal) -> Subject:
    """Return the subject that is one principal."""
    return parse_subject(Privilege.ADMIN, principal)
