"""Commands that people send to the gateway by mail: the wish, the certainty about its author, and the deed.

A wish is granted if the local mail server confirms its author, and the message is about nothing else. Otherwise it
takes a token that was mailed to the person concerned. A token counts once, for three days, for one person and one list.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from email.utils import mktime_tz, parsedate_tz
from enum import StrEnum

from mailing.rules.address_kinds import Word
from mailing.rules.addresses import is_same_person
from mailing.rules.authors import Author, shown
from mailing.rules.automatic import is_automatic, seems_automatic
from mailing.rules.lists import JoinPolicy
from mailing.rules.mailboxes import mailboxes_in
from mailing.rules.message import ID_DIGITS, Content
from mailing.rules.signatures import TRACE
from mailing.rules.spooled import MailMessage, Wish
from mailing.rules.text import lines_of
from mailing.rules.tokens import FORM, mac_of
from shadowtree.vocabulary import GroupId, MemberId

TOKEN_SECONDS = 3 * 86_400
MESSAGE_SECONDS = 86_400
"""Age up to which a message speaks for its author, in seconds. Anybody who has a copy could send it again."""
SUBJECT_LIMIT = 1_000
"""Most characters of a subject that are read."""

_REPLY = re.compile(
    r"(?:\s*(?:re|aw|sv|vs|antw|odp|ynt|r[ée]f|ris?|res|rv|fwd?|wg|tr|vb|回复|答复|返信)(?:\s*[\[(]\d+[\])])?\s*[:：]\s*)+",
    re.I,
)
"""Prefixes of mail programs for the subject of an answer, or of a message that is passed on."""
_BY_TOKEN = re.compile(rf"(?<![a-z0-9])(confirm|approve|reject) +({FORM})(?![a-z0-9])", re.I)
_LISTS = frozenset(("bulk", "junk", "list"))


class CommandRequest(StrEnum):
    """Requests that a message can make."""

    LEAVE = "leave"
    JOIN = "join"
    CONFIRM = "confirm"
    APPROVE = "approve"
    REJECT = "reject"
    WHY = "why"
    HELP = "help"


DECISIONS = frozenset((CommandRequest.APPROVE, CommandRequest.REJECT))


@dataclass(frozen=True, slots=True)
class Command:
    """Address of a message to the gateway: the list that the message is about, and the command."""

    group: GroupId
    word: Word
    token: str
    address: str
    """Quoted address of the list, in the mail domain of the command's address."""
    name: str
    """Address of the command, without quotes."""


@dataclass(frozen=True, slots=True)
class Question:
    """Request of a message. `token`: token of a confirmation or a decision."""

    asked: CommandRequest
    token: str = ""


def is_of_a_program(content: Content) -> bool:
    """Return True if an answer might come to a program, or to a list."""
    precedences = {value.lower() for value in content.values("precedence")}
    if is_automatic(content) or seems_automatic(content):
        return True
    return bool(precedences & _LISTS or content.values("list-id") or content.values(TRACE))


def question_of(command: Command, content: Content) -> Question:
    """Return the request of a message: by its address, else by its subject, else by a separate line of its text."""
    match command.word:
        case Word.LEAVE:
            return Question(CommandRequest.LEAVE)
        case Word.JOIN:
            return Question(CommandRequest.JOIN)
        case Word.CONFIRM | Word.APPROVE | Word.REJECT:
            return Question(CommandRequest(command.word), command.token)
        case Word.REQUEST:
            return next(_questions_in(command, content), Question(CommandRequest.HELP))


def _questions_in(command: Command, content: Content) -> Iterator[Question]:
    subject = shown(next(iter(content.values("subject")), "")[:SUBJECT_LIMIT])
    for text in (_REPLY.sub("", subject, count=1), *lines_of(content)):
        token = _BY_TOKEN.search(text)
        if token is not None:
            yield Question(CommandRequest(token[1].lower()), token[2].lower())
            continue
        word = _WORD.fullmatch(text)
        if word is not None and _is_about(command, word["list"] or ""):
            yield Question(_WORDS[word["word"].lower()])


def _is_about(command: Command, text: str) -> bool:
    """Return True if a text behind a word names the list of a command, or is empty."""
    name = command.address.rpartition("@")[0]
    return text.lower() in ("", name.lower()) or is_same_person(text, command.address)


_WORDS = {
    "leave": CommandRequest.LEAVE,
    "unsubscribe": CommandRequest.LEAVE,
    "signoff": CommandRequest.LEAVE,
    "remove": CommandRequest.LEAVE,
    "stop": CommandRequest.LEAVE,
    "unsub": CommandRequest.LEAVE,
    "opt out": CommandRequest.LEAVE,
    "opt-out": CommandRequest.LEAVE,
    "take": CommandRequest.LEAVE,
    "join": CommandRequest.JOIN,
    "subscribe": CommandRequest.JOIN,
    "why": CommandRequest.WHY,
    "help": CommandRequest.HELP,
}
_WORD = re.compile(
    r"(?:\[[^\[\]]*\] *)?(?:re: *)?\W*(?:(?:please|kindly),? +)?"
    r"(?:I +(?:want|wish|would +like) +to +|I['’]d +like +to +)?"
    rf"(?!take\b(?! +me +off\b))(?P<word>{'|'.join(_WORDS)})(?: +me)?(?: +off)?(?:,? +please)?"
    r"(?: +(?:from +|to +)?(?:(?:this|the|your) +)(?:mailing *|e?-?mail *)?list"
    r"| +(?:from +|to +)?<?(?P<list>[^\s<>]{1,320}?)>?)?"
    r"(?:,? +please)?(?:\W*|\W{1,5}(?:thanks|thank +you|regards)\b.{0,60})",
    re.I,
)
"""Line that asks for something and says nothing else, in the words of people and other list programs."""


def speaks_for_author(content: Content, author: Author, command: Command, date: int) -> bool:
    """Return True if the author certainly wants exactly this, so that no question is needed.

    Other people could send here a message that the author once signed, for any recipient. So the message must be new,
    and name this address in To. `date`: seconds since 1970.
    """
    named = content.values("to")
    if not author.is_confirmed or len(named) != 1 or len(content.values("date")) != 1:
        return False
    if not any(is_same_person(command.name, each.address) for each in mailboxes_in(named[0])):
        return False
    parsed = parsedate_tz(content.values("date")[0])
    if parsed is None:
        return False
    try:
        # A date without a zone counts as UTC.
        written = mktime_tz((*parsed[:9], parsed[9] or 0))
    except (ValueError, OverflowError):
        return False
    return abs(date - written) <= MESSAGE_SECONDS


@dataclass(frozen=True, slots=True)
class ListStanding:
    """Relation of a person to a list."""

    name: MemberId
    """Name under which the person is a member, or would become a member."""
    is_member: bool
    is_only_direct: bool = False
    """True if the list's own arc alone makes the person a member."""
    is_muted: bool = False
    spellings: tuple[MemberId, ...] = ()
    """All names under which the person is a member."""


class Deed(StrEnum):
    """Action for a person, or the reason why there is none."""

    MUTE = "mute"
    LEAVE = "leave"
    JOIN = "join"
    UNMUTE = "unmute"
    IS_NO_MEMBER = "is no member"
    IS_MUTED = "is muted"
    IS_MEMBER = "is a member"
    IS_CLOSED = "is closed"
    ASK = "ask owners"
    IS_ASKED = "was asked before"
    IS_FULL = "too many wait"
    IS_REJECTED = "is rejected"
    IS_UNDECIDED = "is undecided"
    REFUSED = "refused"

    @property
    def is_change(self) -> bool:
        """True if the deed changes something."""
        return self in (Deed.MUTE, Deed.LEAVE, Deed.JOIN, Deed.UNMUTE, Deed.ASK)


def deed_for(wish: Wish, membership: ListStanding, join: JoinPolicy) -> Deed:
    """Return the deed for a wish. A person who mutes a list stays a member, and any member may end the mute."""
    if not wish.is_join:
        if not membership.is_member:
            return Deed.IS_NO_MEMBER
        if membership.is_muted:
            return Deed.IS_MUTED
        return Deed.LEAVE if membership.is_only_direct else Deed.MUTE
    if join is JoinPolicy.OPEN:
        return Deed.JOIN
    if not membership.is_member:
        return Deed.ASK if join is JoinPolicy.ASK else Deed.IS_CLOSED
    return Deed.UNMUTE if membership.is_muted else Deed.IS_MEMBER


def token_for(secret: bytes, key: str, wish: Wish) -> str:
    """Return the token by which a person confirms a wish: 80 bits. `key`: key of the message with the wish."""
    return mac_of(secret, "confirm", key, str(wish.is_join), wish.group, wish.person)


def letter_id(token: str) -> str:
    """Return the id of the letter that told a person a token. The id does not reveal the token."""
    return hashlib.sha256(f"letter {token}".encode()).hexdigest()[:ID_DIGITS]


def confirmed_wish(letter: MailMessage, command: Command, author: Author, date: int) -> Wish | None:
    """Return the wish that the author confirms by the token of a letter. None if the author confirms nothing."""
    wish = letter.wish
    if wish is None or wish.group != command.group or not 0 <= date - letter.accepted <= TOKEN_SECONDS:
        return None
    return wish if is_same_person(author.address, wish.person) else None


@dataclass(frozen=True, slots=True)
class ListPath:
    """One way into a list."""

    pathname: tuple[MemberId, ...]
    """Pathname from the list to the person."""
    ends: tuple[GroupId, ...]
    """Further groups that the person would be in no more after leaving the last group of the pathname."""
    is_told: bool = True
    """True if `ends` is known."""

    @property
    def last(self) -> GroupId:
        """Group in which the person is an immediate member."""
        return self.pathname[-2]


def ends_of(parents: dict[GroupId, frozenset[GroupId]], leaving: GroupId) -> tuple[GroupId, ...]:
    """Return the groups that a person would be in no more after leaving the group `leaving`, without that group.

    `parents`: immediate groups of the person, each with all groups that it is in.
    """
    others = {group for parent, above in parents.items() if parent != leaving for group in (parent, *above)}
    return tuple(sorted(parents[leaving] - others - {leaving}))
