"""Lists of Mailman 3 as groups of the name service: a pure translation of rosters to the wanted groups and arcs.

    a list                          a group, NAME@SUBNET
    a member that is a list         a nested group
    an owner                        a member of NAME+owners@SUBNET
    a member whose delivery is off  a member of the list, and of NAME+muted@SUBNET

Mailman's other data have no equal here. They are noted with their line, so that nothing is lost in silence. Two lists
that would be one group are refused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from mailing.rules.addresses import ascii_domain, mailbox_of, name_of, unquoted
from mailing.rules.lists import MUTED, OWNERS, beside
from mailing.rules.rosters import DELIVERY_ENABLED, MailmanList, MailmanMember, RosterError, Rosters, shown
from namegraph import InvalidNameError, parse_name
from shadowtree.updates import Arc
from shadowtree.vocabulary import GroupId, MemberId, NodeKind, SubnetName

Subnets = Mapping[str, SubnetName]
"""Subnet of the groups of lists, by mail domain in lower case."""

_REGULAR: Final = "regular"
_NO_MODERATION: Final = ("", "defer", "accept")
_NOTHING_TO_NOTE: Final[tuple[object, ...]] = (None, False, 0, "", "none", "defer", "accept", "no_munging", [])

_SETTINGS: Final[Mapping[str, str]] = {
    "acceptable_aliases": "other addresses that it is written to under",
    "accept_these_nonmembers": "strangers who may post; a group that `post` names does that",
    "anonymous_list": "it hides authors",
    "autorespond_owner": "it answers mail to its owners",
    "autorespond_postings": "it answers mail",
    "autorespond_requests": "it answers requests",
    "bans": "banned addresses",
    "default_member_action": "it moderates its members",
    "discard_these_nonmembers": "strangers whose mail is dropped",
    "emergency": "it holds all mail",
    "filter_content": "it filters the parts of messages",
    "first_strip_reply_to": "it takes Reply-To out",
    "gateway_to_mail": "it takes in a newsgroup",
    "gateway_to_news": "it posts to a newsgroup",
    "header_matches": "rules for header fields",
    "hold_these_nonmembers": "strangers whose mail is held",
    "personalize": "it makes a copy for each member",
    "reject_these_nonmembers": "strangers whose mail is refused",
    "reply_goes_to_list": "it sets Reply-To",
    "templates": "texts of its own, footers among them",
}
"""Settings of a list that change the handling of mail and have no equal.

Only values other than Mailman's defaults are noted.
"""


class Kind(StrEnum):
    """Topics of notes."""

    BAD_NAME = "bad name"
    DELIVERY = "delivery"
    DIGEST = "digest"
    DOMAIN = "domain"
    MODERATION = "moderation"
    MODERATOR = "moderator"
    NONMEMBER = "nonmember"
    SETTING = "setting"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Note:
    """An item of Mailman's that has no equal, or no place, in the name service."""

    line: int | None
    """Line of the file. None if the item came from the REST API."""
    list: str
    """Address of the list, or its id if no address is known."""
    address: str | None
    """Member that the note is about. None if the note is about the list itself."""
    reason: str
    kind: Kind
    is_left_out: bool
    """True if the item was left out.

    False if the person is a member, but a part of Mailman's data about the person is lost.
    """


@dataclass(frozen=True, slots=True)
class Wanted:
    """The groups that stand for the lists."""

    lists: tuple[GroupId, ...]
    groups: tuple[GroupId, ...]
    """Groups in `lists`, and the companions that have members."""
    arcs: tuple[Arc, ...]
    notes: tuple[Note, ...]

    @property
    def ruled(self) -> frozenset[GroupId]:
        """All groups whose members Mailman knows, with or without members."""
        return frozenset(group for each in self.lists for group in (each, beside(each, OWNERS), beside(each, MUTED)))


def subnets_of_members(rosters: Rosters, subnets: Subnets) -> frozenset[SubnetName]:
    """Return the subnets whose groups must be known to recognise the members that are groups."""
    addresses = [*(each.address for each in rosters.lists), *(each.address for each in rosters.members)]
    domains = {ascii_domain(address.rpartition("@")[2]) for address in addresses}
    return frozenset(
        {subnets[domain] for domain in domains if domain in subnets} | (domains & frozenset(subnets.values()))
    )


def wanted_of(rosters: Rosters, subnets: Subnets, existing: Collection[GroupId]) -> Wanted:
    """Return the groups and arcs that stand for all rosters.

    `existing`: groups of the name service in `subnets_of_members`. Raises `RosterError` if two lists would be one
    group, or if no list is left.
    """
    found = _Translation(subnets, existing)
    for each in rosters.lists:
        found.add_list(each)
    for member in rosters.members:
        found.add_list_of(member)
    found.refuse_mixed_up_names()
    for member in rosters.members:
        found.add_member(member)
    for settings in rosters.settings:
        found.note_settings(settings.address, settings.values, settings.line)
    return found.finish()


@dataclass(slots=True)
class _Translation:
    subnets: Subnets
    existing: Collection[GroupId]
    _lists: dict[GroupId, MailmanList] = field(default_factory=dict)
    _groups: dict[str, GroupId | None] = field(default_factory=dict)
    """Groups by the id of the list. None if the list is left out."""
    _domains: set[str] = field(default_factory=set)
    """Mail domains that have a list."""
    _arcs: dict[tuple[GroupId, MemberId], NodeKind] = field(default_factory=dict)
    _parents: dict[GroupId, GroupId] = field(default_factory=dict)
    """One parent of each nested list."""
    _beside: set[GroupId] = field(default_factory=set)
    """Groups that may stand beside lists."""
    _muted: list[tuple[GroupId, MailmanMember]] = field(default_factory=list)
    _spellings: dict[str, MemberId] = field(default_factory=dict)
    """Names of members by mailbox."""
    _notes: dict[tuple[str, str | None, str], Note] = field(default_factory=dict)
    """Notes without repetition, also if a member occurs twice in the rosters."""

    def add_list(self, each: MailmanList) -> None:
        """Take a list, or note why it is left out."""
        local, _, domain = each.address.lower().rpartition("@")
        domain = ascii_domain(domain)
        subnet = self.subnets.get(domain)
        group = None
        if subnet is None:
            why = f"{shown(domain)} stands for no subnet; the list and its members are left out"
            self._note(each, None, why, Kind.DOMAIN, is_left_out=True)
        else:
            try:
                group = parse_name(f"{local}@{subnet}")
            except InvalidNameError as error:
                why = f"it is no name of a group: {error.why}; the list and its members are left out"
                self._note(each, None, why, Kind.BAD_NAME, is_left_out=True)
        if group is not None:
            self._refuse_second(each, group)
            self._lists[group] = each
            self._domains.add(domain)
        self._groups[each.list_id.lower()] = group

    def add_list_of(self, member: MailmanMember) -> None:
        """Take the list of a member if no other object describes it. Its id ends with its domain."""
        list_id = member.list_id.lower()
        if list_id in self._groups:
            return
        domains = [domain for domain in self.subnets if list_id.endswith(f".{domain}")]
        if not domains:
            why = "no list has this id; it and its members are left out"
            unknown = MailmanList(member.list_id, member.list_id, member.line)
            self._note(unknown, None, why, Kind.UNKNOWN, is_left_out=True)
            self._groups[list_id] = None
            return
        domain = max(domains, key=len)
        self.add_list(MailmanList(f"{list_id.removesuffix(f'.{domain}')}@{domain}", member.list_id, member.line))

    def refuse_mixed_up_names(self) -> None:
        """Refuse a list that has the name of a group beside another list, and rosters without any list."""
        for group, each in self._lists.items():
            for name in (beside(group, OWNERS), beside(group, MUTED)):
                other = self._lists.get(name)
                if other is not None:
                    raise RosterError(
                        f"the group {name} would be the list {shown(other.address)}{_at(other)}, and stand beside "
                        f"{shown(each.address)}{_at(each)}",
                        other.line,
                    )
                self._beside.add(name)
        if not self._lists:
            domains = ", ".join(sorted(self.subnets)) or "none"
            raise RosterError(f"there is no list in it whose domain stands for a subnet; those that do: {domains}")

    def add_member(self, member: MailmanMember) -> None:
        """Take the role of a member in a list, or note why it is left out."""
        group = self._groups[member.list_id.lower()]
        if group is None:
            return
        each = self._lists[group]
        match member.role:
            case "member":
                self._add_subscriber(each, group, member)
            case "owner":
                self._join(each, beside(group, OWNERS), member)
            case "moderator":
                self._leave_out(each, member, "moderators: there are none; owners decide", Kind.MODERATOR)
            case "nonmember":
                self._leave_out(each, member, "strangers whom Mailman remembers are nobody here", Kind.NONMEMBER)
            case role:
                self._leave_out(each, member, f"the role {shown(role)!r} is not known", Kind.UNKNOWN)

    def note_settings(self, address: str, values: Mapping[str, object], line: int | None) -> None:
        """Note the settings of a list that have no equal."""
        for key, what in _SETTINGS.items():
            value = values.get(key)
            if value not in _NOTHING_TO_NOTE:
                each = MailmanList(address, "", line)
                self._note(each, None, f"{key}: {what}", Kind.SETTING, is_left_out=True)

    def finish(self) -> Wanted:
        """Return the whole translation."""
        for group, member in self._muted:
            parent = self._parents.get(group)
            if parent is not None:
                why = f"delivery is off for this list alone: mail of {parent}, which it is in, is delivered"
                self._keep(self._lists[group], member, why, Kind.DELIVERY)
        arcs = tuple(Arc(parent, child, kind) for (parent, child), kind in sorted(self._arcs.items()))
        groups = {*self._lists, *(arc.parent for arc in arcs)}
        return Wanted(tuple(sorted(self._lists)), tuple(sorted(groups)), arcs, tuple(self._notes.values()))

    def _add_subscriber(self, each: MailmanList, group: GroupId, member: MailmanMember) -> None:
        is_off = member.delivery_status != DELIVERY_ENABLED
        if is_off and self._nested(member) is not None:
            why = "it is a list whose delivery is off: it would get nothing, so it is not nested"
            self._leave_out(each, member, why, Kind.DELIVERY)
            return
        child = self._join(each, group, member)
        if child is None:
            return
        if self._arcs[group, child] == "group":
            self._parents.setdefault(child, group)
        elif is_off:
            self._arcs[beside(group, MUTED), child] = "process"
            self._muted.append((group, member))
        if member.delivery_mode != _REGULAR:
            why = f"{shown(member.delivery_mode)}: there are no digests, each message comes by itself"
            self._keep(each, member, why, Kind.DIGEST)
        if member.moderation_action not in _NO_MODERATION:
            why = f"moderation_action {shown(member.moderation_action)}: members post as `post` says, one like another"
            self._keep(each, member, why, Kind.MODERATION)

    def _join(self, each: MailmanList, parent: GroupId, member: MailmanMember) -> MemberId | None:
        """Make a person or list a member of a group. Return the member, or None if it is noted and left out."""
        child = self._nested(member)
        kind: NodeKind = "group"
        if child is None:
            kind = "process"
            try:
                child = self._spelled(parse_name(name_of(member.address) or unquoted(member.address)))
            except InvalidNameError as error:
                self._leave_out(each, member, f"it is no name of a member: {error.why}", Kind.BAD_NAME)
                return None
            if self._is_group(child):
                why = f"{child} is a group, and {shown(member.address)} is not the address of its list"
                self._leave_out(each, member, why, Kind.BAD_NAME)
                return None
            if child.rpartition("@")[2] in self._domains:
                self._keep(each, member, "there is no list of this name: it is taken for a person", Kind.UNKNOWN)
        elif child == parent:
            self._leave_out(each, member, "a list cannot be a member of itself", Kind.BAD_NAME)
            return None
        self._arcs[parent, child] = kind
        return child

    def _spelled(self, name: MemberId) -> MemberId:
        """Return the first spelling in the rosters: an owner and a member of one mailbox are one person."""
        return self._spellings.setdefault(mailbox_of(name), name)

    def _nested(self, member: MailmanMember) -> GroupId | None:
        """Return the group whose list has the address of a member. None if there is none."""
        local, _, domain = unquoted(member.address).rpartition("@")
        subnet = self.subnets.get(ascii_domain(domain))
        if subnet is None:
            return None
        for name in (f"{local.lower()}@{subnet}", f"{local}@{subnet}"):
            if name in self._lists or name in self.existing:
                return name
        return None

    def _is_group(self, name: MemberId) -> bool:
        return name in self._lists or name in self._beside or name in self.existing

    def _refuse_second(self, each: MailmanList, group: GroupId) -> None:
        other = self._lists.get(group)
        if other is not None:
            raise RosterError(
                f"two lists would be the group {group}: {shown(other.address)}{_at(other)} and "
                f"{shown(each.address)}{_at(each)}",
                each.line,
            )

    def _leave_out(self, each: MailmanList, member: MailmanMember, reason: str, kind: Kind) -> None:
        self._note(each, member, reason, kind, is_left_out=True)

    def _keep(self, each: MailmanList, member: MailmanMember, reason: str, kind: Kind) -> None:
        self._note(each, member, reason, kind, is_left_out=False)

    def _note(
        self, each: MailmanList, member: MailmanMember | None, reason: str, kind: Kind, *, is_left_out: bool
    ) -> None:
        line = each.line if member is None else member.line
        address = None if member is None else shown(member.address)
        note = Note(line, shown(each.address), address, reason, kind, is_left_out)
        self._notes.setdefault((note.list, address, reason), note)


def _at(each: MailmanList) -> str:
    return "" if each.line is None else f" (line {each.line})"
