"""Subjects of policies: their text form, and the test if a subject includes a principal, or a parent.

| subject | principals |
|---|---|
| `ann@b.example` | the principal of that name, or the members of the group of that name, nested as deep as may be |
| `members` | the members of the group that has the policy |
| `owners` | the members of its companion `NAME+owners` |
| `subnet:b.example` | the principals of a subnet |
| `authenticated` | all principals that a server identified |
| `anyone` | all callers |

Subjects of `refer` are parents: a group, `subnet:b.example` for all groups of a subnet, or `anyone`.

A name does not tell a principal from a group. A subject that is a name includes both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from namegraph.model.names import InvalidNameError, NodeId, Subnet, parse_name, parse_subnet, subnet_of
from namegraph.model.policies import Principal, Privilege, Subject
from namegraph.rights.principals import is_identified, name_of

ANYONE: Final = Subject("anyone")
AUTHENTICATED: Final = Subject("authenticated")
MEMBERS: Final = Subject("members")
OWNERS: Final = Subject("owners")
NOBODY: Final = "nobody"
"""Text for no subject at all. It is not stored."""

SUBNET_PREFIX: Final = "subnet:"

OWNERS_SUFFIX: Final = "+owners"
MUTED_SUFFIX: Final = "+muted"

SUBJECTS_LIMIT = 100
"""Subjects of one privilege. A larger set of principals is a group."""

_WORDS: Final = (ANYONE, AUTHENTICATED, MEMBERS, OWNERS)
_WORDS_OF_PARENTS: Final = (ANYONE,)

IsIn = Callable[[NodeId], bool]
"""True if the caller is a member of a group, nested as deep as may be."""


class InvalidPolicyError(ValueError):
    """An invalid policy. The message names the privilege, the fault and the remedy."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(why)
        self.field = field
        """Name of the privilege or setting."""


def parse_subjects(privilege: Privilege | str, texts: Iterable[str]) -> tuple[Subject, ...]:
    """Return the canonical subjects of a privilege, sorted, each once. Raises `InvalidPolicyError`.

    `nobody` alone means no subject.
    """
    given = list(texts)
    if NOBODY in given:
        if len(given) > 1:
            others = ", ".join(sorted(text for text in given if text != NOBODY))
            raise InvalidPolicyError(privilege, f"{privilege}: `nobody` stands alone, without {others[:200]}")
        return ()
    if len(given) > SUBJECTS_LIMIT:
        why = f"{privilege}: {len(given)} subjects; at most {SUBJECTS_LIMIT} are possible: make a group of them"
        raise InvalidPolicyError(privilege, why)
    return tuple(sorted(dict.fromkeys(parse_subject(privilege, text) for text in given)))


def parse_subject(privilege: Privilege | str, text: str) -> Subject:
    """Return the canonical form of one subject of a privilege. Raises `InvalidPolicyError`."""
    words = _WORDS_OF_PARENTS if privilege == Privilege.REFER else _WORDS
    if text in words:
        return Subject(text)
    try:
        if text.startswith(SUBNET_PREFIX):
            return Subject(SUBNET_PREFIX + parse_subnet(text.removeprefix(SUBNET_PREFIX)))
        return Subject(parse_name(text))
    except InvalidNameError as error:
        known = ", ".join(words)
        what = "a group" if privilege == Privilege.REFER else "a person or group"
        forms = f"{what} as NAME@SUBNET, subnet:SUBNET, {known}, or nobody"
        why = f"{privilege}: {text!r:.80} is no subject ({error.why}); write {forms}"
        raise InvalidPolicyError(privilege, why) from None


def subnet_subject(subnet: Subnet) -> Subject:
    """Return the subject of all principals, or all parents, of a subnet."""
    return Subject(SUBNET_PREFIX + subnet)


def named_group(subject: Subject) -> NodeId | None:
    """Return the name that a subject is. None for another subject."""
    return NodeId(subject) if "@" in subject else None


def includes(subject: Subject, principal: Principal, *, group: NodeId | None, is_in: IsIn) -> bool:
    """Return True if a subject includes a principal.

    `group`: the group that has the policy. None for the policy of a server, which has no members.
    """
    if subject == ANYONE:
        return True
    if subject == AUTHENTICATED:
        return is_identified(principal)
    if str(subject) == principal:
        return True
    name = name_of(principal)
    if name is None:
        return False
    if subject == MEMBERS:
        return group is not None and is_in(group)
    if subject == OWNERS:
        return group is not None and is_in(companion(group, OWNERS_SUFFIX))
    if subject.startswith(SUBNET_PREFIX):
        return subnet_of(name) == subject.removeprefix(SUBNET_PREFIX)
    return is_in(NodeId(subject))


def includes_parent(subject: Subject, parent: NodeId) -> bool:
    """Return True if a subject of `refer` includes a parent."""
    if subject.startswith(SUBNET_PREFIX):
        return subnet_of(parent) == subject.removeprefix(SUBNET_PREFIX)
    return subject in (ANYONE, parent)


def companion(group: NodeId, suffix: str) -> NodeId:
    """Return the name of a companion of a group. The companion may not exist."""
    return NodeId(group.replace("@", f"{suffix}@"))


def base_of(group: NodeId) -> tuple[NodeId, str] | None:
    """Return the group whose companion a name is, and the suffix. None if the name is no companion's.

    The name of a companion of a companion ends in two suffixes. Its base is the companion.
    """
    local, _, subnet = group.partition("@")
    for suffix in (OWNERS_SUFFIX, MUTED_SUFFIX):
        base = local.removesuffix(suffix)
        if base and base != local:
            return NodeId(f"{base}@{subnet}"), suffix
    return None


def is_companion(group: NodeId) -> bool:
    """Return True if a name is that of a companion of some group."""
    return base_of(group) is not None
