"""Lists of a gateway: their groups, their addresses and their settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from unicodedata import normalize

from mailing.rules.addresses import ascii_domain
from shadowtree.updates import Target
from shadowtree.vocabulary import GroupId, MemberId, SubnetName

POST_MEMBERS, POST_ANYONE, POST_NOBODY = "members", "anyone", "nobody"
MUTED, OWNERS = "+muted", "+owners"
"""Endings of a list's name: the group of people who want no mail of the list, and the group of its owners."""
DEFAULT_BYTES_LIMIT = 10_240_000
"""Default of Postfix (`message_size_limit`)."""
DEFAULT_PEOPLE_LIMIT = 5_000
OWNER_ADDRESS = "-owner"
"""Ending of a list's name: the address of its owners."""
REQUEST_ADDRESS, LEAVE_ADDRESS, JOIN_ADDRESS, CONFIRM_ADDRESS = "-request", "-leave", "-join", "-confirm"
"""Endings of a list's name: addresses at which people write to the gateway about the list."""


class JoinPolicy(StrEnum):
    """People who may join a list by mail."""

    OPEN = "open"
    """Everybody."""
    ASK = "ask"
    """People whom its owners accept."""
    CLOSED = "closed"
    """No person."""


class Unsubscribe(StrEnum):
    """People whose copies offer leaving by one click. Other copies have an address to write to."""

    SHARED = "shared"
    """No person: all copies are the same."""
    PERSONAL = "personal"
    """Everybody. Each person has a separate copy and a separate transaction."""
    FOREIGN = "foreign"
    """People outside the domains of the gateway."""
    NONE = "none"
    """No copy tells how to leave."""


@dataclass(frozen=True, slots=True)
class ListSettings:
    """Settings of one list."""

    post: str = POST_MEMBERS
    """Right to post: ``members``, ``anyone``, ``nobody``, or the id of a group."""
    owners: GroupId | None = None
    """Group of the owners. None for the group with the list's name and ``+owners``, if it exists."""
    excluding: tuple[GroupId, ...] = ()
    """Groups whose members get no mail of the list."""
    bytes_limit: int = DEFAULT_BYTES_LIMIT
    """Longest message that is distributed, in bytes."""
    skips_addressed: bool = False
    """True if people in To or Cc get no copy of the list."""
    is_authenticated: bool = True
    """True if authors count only if the mail server confirms them. False if the sender of the envelope counts."""
    holds_others: bool = False
    """True if an owner decides about messages of people who may not post. False if such messages are refused."""
    people_limit: int = DEFAULT_PEOPLE_LIMIT
    """Most people that a message may reach. A message that reaches more people is held, unless an owner wrote it."""
    waits_for_all: bool = False
    """True if no person gets a message while a part of the list is out of reach."""
    rewrites_from: bool = True
    """True if From is rewritten where DMARC rests on SPF alone."""
    join: JoinPolicy = JoinPolicy.CLOSED
    unsubscribe: Unsubscribe = Unsubscribe.FOREIGN
    goes_by_shares: bool = False
    """True if the gateways of other organisations hand messages of the list to their own people."""


@dataclass(frozen=True, slots=True)
class Lists:
    """Mail domains of a gateway, and the settings of their lists."""

    subnets: Mapping[str, SubnetName]
    """Subnet of the groups that addresses stand for, by mail domain in lower case."""
    defaults: ListSettings = ListSettings()
    settings: Mapping[GroupId, ListSettings] = field(default_factory=dict)

    def group_of(self, name: str) -> GroupId | None:
        """Return the group of a name in a mail domain.

        The group need not exist. None if the name has another domain.
        """
        local, _, domain = name.rpartition("@")
        subnet = self.subnets.get(domain) or self.subnets.get(ascii_domain(domain))
        return None if subnet is None or not local else f"{normalize('NFC', local)}@{subnet}"

    @property
    def bytes_limit(self) -> int:
        """Longest message that any list takes, in bytes."""
        return max(each.bytes_limit for each in (self.defaults, *self.settings.values()))

    @property
    def have_shares(self) -> bool:
        """True if the messages of some list go by shares. The gateway then takes shares of other gateways, too."""
        return any(each.goes_by_shares for each in (self.defaults, *self.settings.values()))

    def of(self, group: GroupId) -> ListSettings:
        """Return the settings of a list."""
        return self.settings.get(group, self.defaults)

    def has_personal_copy(self, group: GroupId, person: MemberId) -> bool:
        """Return True if a copy offers its person alone to leave by one click."""
        match self.of(group).unsubscribe:
            case Unsubscribe.PERSONAL:
                return True
            case Unsubscribe.FOREIGN:
                domain = person.rpartition("@")[2].lower()
                own = (*self.subnets.keys(), *self.subnets.values())
                return not any(domain == each or domain.endswith(f".{each}") for each in own)
            case _:
                return False

    def join_rule(self, group: GroupId) -> JoinPolicy:
        """Return the people who may join a list by mail.

        A default does not open a group whose members decide about lists, or about the recipients of their mail.
        """
        if group in self.settings:
            return self.settings[group].join
        every = (self.defaults, *self.settings.values())
        ruling = {name for each in every for name in (each.post, each.owners, *each.excluding)}
        is_ruling = group in ruling or without(group, OWNERS) is not None
        return JoinPolicy.CLOSED if is_ruling else self.defaults.join


def address_beside(address: str, ending: str) -> str:
    """Return the quoted address of a list with an ending behind its name."""
    local, _, domain = address.rpartition("@")
    return f'{local[:-1]}{ending}"@{domain}' if local.endswith('"') else f"{local}{ending}@{domain}"


def owners_address(address: str) -> str:
    """Return the address of a list's owners. `address`: quoted address of the list."""
    return address_beside(address, OWNER_ADDRESS)


def beside(group: GroupId, ending: str) -> GroupId:
    """Return the group with the name of another group and an ending."""
    name, _, subnet = group.rpartition("@")
    return f"{name}{ending}@{subnet}"


def without(group: GroupId, ending: str) -> GroupId | None:
    """Return the group with the same name but without an ending. None if the name has no such ending."""
    name, _, subnet = group.rpartition("@")
    stem = name.removesuffix(ending)
    return f"{stem}@{subnet}" if stem and stem != name else None


def target_of(group: GroupId, settings: ListSettings, *, is_muted: bool) -> Target:
    """Return the target to resolve for a list. `is_muted`: True if the group of people that muted the list exists."""
    muted = (beside(group, MUTED),) if is_muted else ()
    return Target(group, tuple(sorted({*settings.excluding, *muted})))
