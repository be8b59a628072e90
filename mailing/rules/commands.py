"""What people ask of the gateway by mail, whether it is certain who asks, and what is to be done.

A wish is granted where the own mail server confirms its author and the message itself is about nothing else, or by a
token that was mailed to whom it is about. A token counts once, for three days, for one person and one list.
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
from mailing.rules.lists import Join
from mailing.rules.mailboxes import mailboxes_in
from mailing.rules.message import ID_DIGITS, Content
from mailing.rules.signatures import TRACE
from mailing.rules.spooled import Message, Wish
from mailing.rules.text import lines_of
from mailing.rules.tokens import FORM, mac_of
from shadowtree.vocabulary import GroupId, MemberId

TOKEN_SECONDS = 3 * 86_400
MESSAGE_SECONDS = 86_400
"""For so long a message speaks for its author: whoever has a copy could send it again."""
SUBJECT_LIMIT = 1_000
"""Characters."""

_REPLY = re.compile(
    r"(?:\s*(?:re|aw|sv|vs|antw|odp|ynt|r[ée]f|ris?|res|rv|fwd?|wg|tr|vb|回复|答复|返信)(?:\s*[\[(]\d+[\])])?\s*[:：]\s*)+",
    re.I,
)
"""Prefixes of mail programs for the subject of an answer, or of a message that is passed on."""
_BY_TOKEN = re.compile(rf"(?<![a-z0-9])(confirm|approve|reject) +({FORM})(?![a-z0-9])", re.I)
_LISTS = frozenset(("bulk", "junk", "list"))


class Asked(StrEnum):
    """What a message asks for."""

    LEAVE = "leave"
    JOIN = "join"
    CONFIRM = "confirm"
    APPROVE = "approve"
    REJECT = "reject"
    WHY = "why"
    HELP = "help"


DECISIONS = frozenset((Asked.APPROVE, Asked.REJECT))


@dataclass(frozen=True, slots=True)
class Command:
    """Where a message was sent to, and so what it is about."""

    group: GroupId
    word: Word
    token: str
    address: str
    """Of the list, quoted, in the mail domain that was written to."""
    name: str
    """What was written to, without quotes."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a message asks for; `token`: of a confirmation or a decision."""

    asked: Asked
    token: str = ""


def is_of_a_program(content: Content) -> bool:
    """Whether an answer might come to a program, or to a list."""
    precedences = {value.lower() for value in content.values("precedence")}
    if is_automatic(content) or seems_automatic(content):
        return True
    return bool(precedences & _LISTS or content.values("list-id") or content.values(TRACE))


def question_of(command: Command, content: Content) -> Question:
    """What a message asks for: by where it was sent to, or else by its subject, or else by a line of its own."""
    match command.word:
        case Word.LEAVE:
            return Question(Asked.LEAVE)
        case Word.JOIN:
            return Question(Asked.JOIN)
        case Word.CONFIRM | Word.APPROVE | Word.REJECT:
            return Question(Asked(command.word), command.token)
        case Word.REQUEST:
            return next(_questions_in(command, content), Question(Asked.HELP))


def _questions_in(command: Command, content: Content) -> Iterator[Question]:
    subject = shown(next(iter(content.values("subject")), "")[:SUBJECT_LIMIT])
    for text in (_REPLY.sub("", subject, count=1), *lines_of(content)):
        token = _BY_TOKEN.search(text)
        if token is not None:
            yield Question(Asked(token[1].lower()), token[2].lower())
            continue
        word = _WORD.fullmatch(text)
        if word is not None and _is_about(command, word["list"] or ""):
            yield Question(_WORDS[word["word"].lower()])


def _is_about(command: Command, text: str) -> bool:
    """Return True if a text behind a word names the list of a command, or nothing."""
    name = command.address.rpartition("@")[0]
    return text.lower() in ("", name.lower()) or is_same_person(text, command.address)


_WORDS = {
    "leave": Asked.LEAVE,
    "unsubscribe": Asked.LEAVE,
    "signoff": Asked.LEAVE,
    "remove": Asked.LEAVE,
    "stop": Asked.LEAVE,
    "unsub": Asked.LEAVE,
    "opt out": Asked.LEAVE,
    "opt-out": Asked.LEAVE,
    "take": Asked.LEAVE,
    "join": Asked.JOIN,
    "subscribe": Asked.JOIN,
    "why": Asked.WHY,
    "help": Asked.HELP,
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
"""A line that asks for something and says nothing else, as people and other list programs have it."""


def speaks_for_author(content: Content, author: Author, command: Command, date: int) -> bool:
    """Whether it is certain that the author wants just this, so that nobody has to be asked.

    What somebody once signed, to whomever it was, could be sent here by others: it must be new, and say that it is
    meant for this address. `date`: in seconds since 1970.
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
        # Without a zone it is taken for UTC.
        written = mktime_tz((*parsed[:9], parsed[9] or 0))
    except (ValueError, OverflowError):
        return False
    return abs(date - written) <= MESSAGE_SECONDS


@dataclass(frozen=True, slots=True)
class Membership:
    """How somebody stands to a list."""

    name: MemberId
    """By which the person is in it, or would be."""
    is_member: bool
    is_only_direct: bool = False
    """Whether nothing but the list's own arc makes a member."""
    is_muted: bool = False
    spellings: tuple[MemberId, ...] = ()
    """All names by which the person is in it."""


class Deed(StrEnum):
    """What is done for somebody, or why nothing is."""

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
        """Whether something is done."""
        return self in (Deed.MUTE, Deed.LEAVE, Deed.JOIN, Deed.UNMUTE, Deed.ASK)


def deed_for(wish: Wish, membership: Membership, join: Join) -> Deed:
    """What a wish comes to. Who mutes a list stays a member, and whoever is one may end that."""
    if not wish.is_join:
        if not membership.is_member:
            return Deed.IS_NO_MEMBER
        if membership.is_muted:
            return Deed.IS_MUTED
        return Deed.LEAVE if membership.is_only_direct else Deed.MUTE
    if join is Join.OPEN:
        return Deed.JOIN
    if not membership.is_member:
        return Deed.ASK if join is Join.ASK else Deed.IS_CLOSED
    return Deed.UNMUTE if membership.is_muted else Deed.IS_MEMBER


def token_for(secret: bytes, key: str, wish: Wish) -> str:
    """What a person shows to confirm a wish of a message, whose key is given: 80 bits."""
    return mac_of(secret, "confirm", key, str(wish.is_join), wish.group, wish.person)


def letter_id(token: str) -> str:
    """The id of the letter that told a person a token: it does not tell the token."""
    return hashlib.sha256(f"letter {token}".encode()).hexdigest()[:ID_DIGITS]


def confirmed_wish(letter: Message, command: Command, author: Author, date: int) -> Wish | None:
    """What somebody confirms by the token of a letter; None: nothing."""
    wish = letter.wish
    if wish is None or wish.group != command.group or not 0 <= date - letter.accepted <= TOKEN_SECONDS:
        return None
    return wish if is_same_person(author.address, wish.person) else None


@dataclass(frozen=True, slots=True)
class Way:
    """One way into a list."""

    pathname: tuple[MemberId, ...]
    """From the list to the person."""
    ends: tuple[GroupId, ...]
    """What the person would be in no more, if she left the last group of it, that one aside."""
    is_told: bool = True
    """Whether it is known what that would end."""

    @property
    def last(self) -> GroupId:
        """The group that the person is an immediate member of."""
        return self.pathname[-2]


def ends_of(parents: dict[GroupId, frozenset[GroupId]], leaving: GroupId) -> tuple[GroupId, ...]:
    """Of somebody whose immediate groups are given, each with all that it is in: what ends with one of these."""
    others = {group for parent, above in parents.items() if parent != leaving for group in (parent, *above)}
    return tuple(sorted(parents[leaving] - others - {leaving}))
