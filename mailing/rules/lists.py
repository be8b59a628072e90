"""Which groups are lists, by which address, and what holds for each."""

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
"""Behind the name of a list: the group of those who want no mail of it, and of those who look after it."""
DEFAULT_BYTES_LIMIT = 10_240_000
"""As Postfix has it (`message_size_limit`)."""
DEFAULT_PEOPLE_LIMIT = 5_000
OWNER_ADDRESS = "-owner"
"""Behind the name of a list: the address of its owners."""
REQUEST_ADDRESS, LEAVE_ADDRESS, JOIN_ADDRESS, CONFIRM_ADDRESS = "-request", "-leave", "-join", "-confirm"
"""Behind the name of a list: where people write to the gateway about it."""


class Join(StrEnum):
    """Who may join a list by mail."""

    OPEN = "open"
    """Everybody."""
    ASK = "ask"
    """Whom its owners accept."""
    CLOSED = "closed"
    """Nobody."""


class Unsubscribe(StrEnum):
    """Who is told in a copy how to leave by one click; everybody else is told an address to write to."""

    SHARED = "shared"
    """Nobody: all copies are the same."""
    PERSONAL = "personal"
    """Everybody: each has a copy, and a transaction, of their own."""
    FOREIGN = "foreign"
    """People outside the own domains."""
    NONE = "none"
    """No copy says how to leave."""


@dataclass(frozen=True, slots=True)
class ListSettings:
    """What holds for one list."""

    post: str = POST_MEMBERS
    """Who may post: ``members``, ``anyone``, ``nobody``, or the id of a group."""
    owners: GroupId | None = None
    """None: the group whose name is that of the list with ``+owners``, where it exists."""
    excluding: tuple[GroupId, ...] = ()
    """Groups whose members get no mail of the list."""
    bytes_limit: int = DEFAULT_BYTES_LIMIT
    """The longest message that is distributed."""
    skips_addressed: bool = False
    """Whether people in To or Cc get no copy of the list."""
    is_authenticated: bool = True
    """Whether authors count only where the mail server confirms them; else the sender of the envelope counts."""
    holds_others: bool = False
    """Whether an owner decides about messages of those who may not post; else these are refused."""
    people_limit: int = DEFAULT_PEOPLE_LIMIT
    """A message that reaches more is held, unless an owner wrote it."""
    waits_for_all: bool = False
    """Whether nobody gets a message while a part of the list is out of reach."""
    rewrites_from: bool = True
    """Whether From is rewritten where DMARC rests on SPF alone."""
    join: Join = Join.CLOSED
    unsubscribe: Unsubscribe = Unsubscribe.FOREIGN
    goes_by_shares: bool = False
    """Whether the gateways of other organisations hand its messages to their own people."""


@dataclass(frozen=True, slots=True)
class Lists:
    """The mail domains of a gateway, and what holds for their lists."""

    subnets: Mapping[str, SubnetName]
    """By mail domain, in lower case: where the groups are that its addresses stand for."""
    defaults: ListSettings = ListSettings()
    settings: Mapping[GroupId, ListSettings] = field(default_factory=dict)

    def group_of(self, name: str) -> GroupId | None:
        """The group that a name in a mail domain stands for, whether it exists or not; None: it has another domain."""
        local, _, domain = name.rpartition("@")
        subnet = self.subnets.get(domain) or self.subnets.get(ascii_domain(domain))
        return None if subnet is None or not local else f"{normalize('NFC', local)}@{subnet}"

    @property
    def bytes_limit(self) -> int:
        """The longest message that any list takes."""
        return max(each.bytes_limit for each in (self.defaults, *self.settings.values()))

    @property
    def have_shares(self) -> bool:
        """Whether the messages of some list go by shares: then those of others are taken, too."""
        return any(each.goes_by_shares for each in (self.defaults, *self.settings.values()))

    def of(self, group: GroupId) -> ListSettings:
        """What holds for a list."""
        return self.settings.get(group, self.defaults)

    def has_personal_copy(self, group: GroupId, person: MemberId) -> bool:
        """Whether a copy tells its person alone how to leave by one click."""
        match self.of(group).unsubscribe:
            case Unsubscribe.PERSONAL:
                return True
            case Unsubscribe.FOREIGN:
                domain = person.rpartition("@")[2].lower()
                own = (*self.subnets.keys(), *self.subnets.values())
                return not any(domain == each or domain.endswith(f".{each}") for each in own)
            case _:
                return False

    def join_rule(self, group: GroupId) -> Join:
        """Who may join a list by mail.

        A default does not open a group whose members have a say in lists, or decide who gets their mail.
        """
        if group in self.settings:
            return self.settings[group].join
        every = (self.defaults, *self.settings.values())
        ruling = {name for each in every for name in (each.post, each.owners, *each.excluding)}
        is_ruling = group in ruling or without(group, OWNERS) is not None
        return Join.CLOSED if is_ruling else self.defaults.join


def address_beside(address: str, ending: str) -> str:
    """The quoted address of a list with an ending behind its name."""
    local, _, domain = address.rpartition("@")
    return f'{local[:-1]}{ending}"@{domain}' if local.endswith('"') else f"{local}{ending}@{domain}"


def owners_address(address: str) -> str:
    """Where the owners of a list are written to, of the quoted address of the list."""
    return address_beside(address, OWNER_ADDRESS)


def beside(group: GroupId, ending: str) -> GroupId:
    """The group whose name is that of another with an ending."""
    name, _, subnet = group.rpartition("@")
    return f"{name}{ending}@{subnet}"


def without(group: GroupId, ending: str) -> GroupId | None:
    """The group to whose name an ending was added; None where it has no such ending."""
    name, _, subnet = group.rpartition("@")
    stem = name.removesuffix(ending)
    return f"{stem}@{subnet}" if stem and stem != name else None


def target_of(group: GroupId, settings: ListSettings, *, is_muted: bool) -> Target:
    """What is resolved for a list; `is_muted`: the group of those who muted it exists."""
    muted = (beside(group, MUTED),) if is_muted else ()
    return Target(group, tuple(sorted({*settings.excluding, *muted})))
