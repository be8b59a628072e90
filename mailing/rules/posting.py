"""Right to post to a list, by the sender of the envelope. The words are those of Postfix's access(5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mailing.rules.address_kinds import place_of
from mailing.rules.addresses import name_of, unquoted
from mailing.rules.authors import Author
from mailing.rules.envelope import forwarded_for, untagged
from mailing.rules.index import GroupIndex
from mailing.rules.lists import POST_ANYONE, POST_MEMBERS, POST_NOBODY, Lists, ListSettings
from shadowtree.vocabulary import GroupId, MemberId

STATE_OF_RECIPIENTS = "RCPT"
NO_ANSWER = "commands of bounces and of automatic mail are not answered"


@dataclass(frozen=True, slots=True)
class Permitted:
    """The sender may post, as far as this rule goes."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The sender may not post."""

    why: str


@dataclass(frozen=True, slots=True)
class UnconfirmedAuthor:
    """Only the message itself names its author."""

    why: str


@dataclass(frozen=True, slots=True)
class Uncertain:
    """The right to post cannot be decided now."""

    why: str


@dataclass(frozen=True, slots=True)
class AskWhether:
    """The sender may post if one of these people is in the group, under any spelling. None of them may be a group."""

    group: GroupId | None
    """Group to ask. None if all people may post, but no groups."""
    people: tuple[MemberId, ...]


Verdict = Permitted | Refused | UnconfirmedAuthor | Uncertain


def asked_recipient(attributes: Mapping[str, str]) -> str | None:
    """Return the recipient that a request is about.

    None if it asks for something else, which is left to other rules.
    """
    if attributes.get("protocol_state") != STATE_OF_RECIPIENTS:
        return None
    return unquoted(attributes.get("recipient", "")) or None


def poster_of(settings: ListSettings, author: Author, sender: str) -> str | UnconfirmedAuthor:
    """Return the address that counts for a message that has come, or the reason why no address counts."""
    if settings.post in (POST_ANYONE, POST_NOBODY) or not settings.is_authenticated:
        return sender
    return author.address if author.is_confirmed else UnconfirmedAuthor(author.doubt)


def who_may_post(
    group: GroupId, settings: ListSettings, sender: str, *, is_looked_at_again: bool = False
) -> Verdict | AskWhether:
    """Return the verdict of the settings on a sender, or the question that must be asked for it.

    `is_looked_at_again`: True if the author counts later on, regardless of the envelope. A forwarder's word is enough
    then.
    """
    if not sender:
        return Refused(f"{group} distributes no bounces and no automatic mail")
    if settings.post == POST_NOBODY:
        return Refused(f"nobody may post to {group}")
    asked = {POST_ANYONE: None, POST_MEMBERS: group}.get(settings.post, settings.post)
    people = people_of_sender(sender, trusts_forwarders=is_looked_at_again)
    if people:
        return AskWhether(asked, people)
    return Permitted() if asked is None else not_in(group, asked)


def not_in(group: GroupId, asked: GroupId) -> Refused:
    """Return the refusal of a sender who is not in the group whose members may post."""
    return Refused(
        f"only members of {asked} may post to {group}" if asked != group else f"only members may post to {group}"
    )


def people_of_sender(sender: str, *, trusts_forwarders: bool = False) -> tuple[MemberId, ...]:
    """Return the names under which a sender may be a member: as written, and without additions of mail servers.

    Empty if no name can be the sender.
    """
    bare = forwarded_for(sender) if trusts_forwarders else untagged(sender)
    return tuple(dict.fromkeys(name for name in map(name_of, (bare, sender)) if name is not None))


def is_list_address(address: str, lists: Lists, index: GroupIndex) -> bool:
    """Return True if an address belongs to a list, to its owners, or to commands about a list.

    The id of a group counts too, if the mail domain has another name than the subnet.
    """
    for name in people_of_sender(address):
        subnet_is_served = name.rpartition("@")[2] in lists.subnets.values()
        for group in (lists.group_of(name), name if subnet_is_served else None):
            if group is not None and place_of(group, lists, index) is not None:
                return True
    return False


def written_by_a_list(group: GroupId, sender: str) -> Refused:
    """Return the refusal of a sender that is a list or a group.

    A group writes nothing: the mail is a loop, or a forgery.
    """
    return Refused(f"{untagged(sender)} is a list or a group, and {group} takes mail of people alone")


def action_of(verdict: Verdict, recipient: str) -> bytes:
    """Return the answer to Postfix."""
    match verdict:
        case Permitted():
            action = "DUNNO"
        case Refused(why) | UnconfirmedAuthor(why):
            action = f"550 5.7.1 <{recipient}>: {why}"
        case Uncertain(why):
            action = f"451 4.3.0 <{recipient}>: {why}"
    line = "".join(character if " " <= character <= "~" else "?" for character in " ".join(action.split()))
    return b"action=%b\n\n" % line[:500].encode("ascii")


IS_WORD = frozenset((POST_MEMBERS, POST_ANYONE, POST_NOBODY))
"""Values of `post` other than a group."""
