"""Who may post to a list, by the sender of the envelope. The words are those of Postfix's access(5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mailing.rules.addresses import unquoted
from mailing.rules.authors import Author
from mailing.rules.lists import POST_ANYONE, POST_MEMBERS, POST_NOBODY, ListSettings
from namegraph import InvalidNameError, parse_name
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
class Unconfirmed:
    """Nobody but the message says who wrote it."""

    why: str


@dataclass(frozen=True, slots=True)
class Uncertain:
    """Nobody can tell now."""

    why: str


@dataclass(frozen=True, slots=True)
class AskWhether:
    """The sender may post where one of these names is in the group."""

    group: GroupId
    names: tuple[MemberId, ...]


Verdict = Permitted | Refused | Unconfirmed | Uncertain


def asked_recipient(attributes: Mapping[str, str]) -> str | None:
    """The recipient that a request is about; None: it asks for something else, which is left to others."""
    if attributes.get("protocol_state") != STATE_OF_RECIPIENTS:
        return None
    return unquoted(attributes.get("recipient", "")) or None


def poster_of(settings: ListSettings, author: Author, sender: str) -> str | Unconfirmed:
    """Whose address counts for a message that has come, or why nobody's does."""
    if settings.post in (POST_ANYONE, POST_NOBODY) or not settings.is_authenticated:
        return sender
    return author.address if author.is_confirmed else Unconfirmed(author.doubt)


def who_may_post(group: GroupId, settings: ListSettings, sender: str) -> Verdict | AskWhether:
    """What the settings say of a sender, or what must be asked for it."""
    if not sender:
        return Refused(f"{group} distributes no bounces and no automatic mail")
    if settings.post == POST_ANYONE:
        return Permitted()
    if settings.post == POST_NOBODY:
        return Refused(f"nobody may post to {group}")
    names = names_of_sender(sender)
    asked = group if settings.post == POST_MEMBERS else settings.post
    return AskWhether(asked, names) if names else not_in(group, asked)


def not_in(group: GroupId, asked: GroupId) -> Refused:
    """The sender is not in the group whose members may post."""
    return Refused(
        f"only members of {asked} may post to {group}" if asked != group else f"only members may post to {group}"
    )


def names_of_sender(sender: str) -> tuple[MemberId, ...]:
    """The names by which a sender may be a member: as it is written, and in lower case. Empty: it can be nobody's."""
    found: dict[MemberId, None] = {}
    for text in (unquoted(sender), unquoted(sender).lower()):
        try:
            found[parse_name(text)] = None
        except InvalidNameError:
            return ()
    return tuple(found)


def action_of(verdict: Verdict, recipient: str) -> bytes:
    """The answer to Postfix."""
    match verdict:
        case Permitted():
            action = "DUNNO"
        case Refused(why) | Unconfirmed(why):
            action = f"550 5.7.1 <{recipient}>: {why}"
        case Uncertain(why):
            action = f"451 4.3.0 <{recipient}>: {why}"
    line = "".join(character if " " <= character <= "~" else "?" for character in " ".join(action.split()))
    return b"action=%b\n\n" % line[:500].encode("ascii")


IS_WORD = frozenset((POST_MEMBERS, POST_ANYONE, POST_NOBODY))
"""What `post` may be besides a group."""
