"""Letters of the gateway to people who wrote to it about a list. They quote nothing of the people's messages."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from email.policy import SMTP, SMTPUTF8
from email.utils import formatdate

from mailing.rules.addresses import is_deliverable, mailbox_of, quoted, unquoted
from mailing.rules.authors import shown
from mailing.rules.commands import TOKEN_SECONDS, Command, Deed, ListPath
from mailing.rules.deciding import DAY_SECONDS, DECISION_SECONDS, Outcome
from mailing.rules.lists import (
    CONFIRM_ADDRESS,
    JOIN_ADDRESS,
    LEAVE_ADDRESS,
    REQUEST_ADDRESS,
    JoinPolicy,
    address_beside,
    owners_address,
)
from mailing.rules.message import Content, message_id_of
from mailing.rules.spooled import Destination, MailMessage, Wish
from shadowtree.vocabulary import MemberId

AN_HOUR = 3_600.0
LETTERS_TO_ONE = 5
"""Most letters an hour to one address, so that a forged sender is not flooded."""
LETTERS_TO_DECIDER = 100
"""Most letters an hour to an owner. An owner with tokens of many messages decides about one after another."""
LETTERS_TO_ALL = 1_000
"""Most letters an hour to all people."""
WAYS_TOLD = 20
GROUPS_TOLD = 50


class LetterLimits:
    """Limits on the letters to each person. The history holds at most the letters of one hour."""

    def __init__(self, to_one: int = LETTERS_TO_ONE) -> None:
        self._to_one = to_one
        self._sent: deque[tuple[float, str]] = deque()

    def takes(self, person: MemberId, ticks: float) -> bool:
        """Return True if a letter to a person may go now. Such a letter counts."""
        while self._sent and self._sent[0][0] <= ticks - AN_HOUR:
            self._sent.popleft()
        to_one = sum(each == mailbox_of(person) for _, each in self._sent)
        if to_one >= self._to_one or len(self._sent) >= LETTERS_TO_ALL:
            return False
        self._sent.append((ticks, mailbox_of(person)))
        return True

    def give_back(self, person: MemberId) -> None:
        """Uncount a letter that was not written after all."""
        for entry in reversed(self._sent):
            if entry[1] == mailbox_of(person):
                self._sent.remove(entry)
                break


@dataclass(frozen=True, slots=True)
class Letter:
    """Text of a letter to a person about a list."""

    subject: str
    lines: Sequence[str]
    reply_to: str = ""
    """A quoted address. Empty if there is none."""
    wish: Wish | None = None
    """Wish that an answer confirms. None if there is none."""


def confirmation_of(command: Command, wish: Wish, token: str) -> Letter:
    """Return a letter that asks a person to confirm a wish."""
    what = "to get the mail of" if wish.is_join else "to get no more mail of"
    reply_to = address_beside(command.address, f"{CONFIRM_ADDRESS}+{token}")
    if not is_deliverable(unquoted(reply_to), with_smtputf8=True):
        # The name of the list is too long for that address. The subject has the token, too.
        reply_to = ""
    return Letter(
        f"confirm {token}",
        (
            f"Somebody, you or another, wants {wish.person}",
            f"{what} {command.address}.",
            "",
            "If it is you, answer this message, and let its subject be as it is.",
            f"That counts once, and for {TOKEN_SECONDS // 86_400} days.",
            "",
            "If it is not you, do nothing: nothing has changed.",
        ),
        reply_to,
        wish,
    )


def outcome_of(command: Command, person: MemberId, deed: Deed, *, has_owners: bool) -> Letter:
    """Return a letter about the deed, or the reason why there is none."""
    address = command.address
    owners = f" Its owners are {owners_address(address)}." if has_owners else ""
    undo = f"To get it again, write to {address_beside(address, JOIN_ADDRESS)}."
    leave = f"To get no more of it, write to {address_beside(address, LEAVE_ADDRESS)}."
    said = {
        Deed.MUTE: f"{person} gets no more mail of {address}, and is a member as before. {undo}",
        Deed.LEAVE: f"{person} has left {address}.",
        Deed.JOIN: f"{person} is a member of {address}. {leave}",
        Deed.UNMUTE: f"{person} gets the mail of {address} again. {leave}",
        Deed.IS_NO_MEMBER: f"{person} is not in {address}, so nothing was done. Perhaps another address of yours is.",
        Deed.IS_MUTED: f"{person} gets no mail of {address} already. {undo}",
        Deed.IS_MEMBER: f"{person} is in {address} already. {leave}",
        Deed.IS_CLOSED: f"{address} cannot be joined by mail.{owners}",
        Deed.ASK: f"Who looks after {address} is asked whether {person} may join. You are told what was decided.",
        Deed.IS_ASKED: f"It was asked already whether {person} may join {address}; once a day is enough.{owners}",
        Deed.IS_FULL: f"So many wait for a word about {address} that {person} cannot be added now.{owners}",
        Deed.IS_REJECTED: f"Who looks after {address} did not accept {person}.{owners}",
        Deed.IS_UNDECIDED: f"Nobody decided whether {person} may join {address}. You can ask again.{owners}",
        Deed.REFUSED: f"The name service does not allow this for {person} and {address}.{owners}",
    }[deed]
    return Letter(f"{shown(command.group)}: {person}", (said,))


def decision_of(command: Command, decided: MailMessage, outcome: Outcome) -> Letter:
    """Return a letter that tells an owner the outcome of a decision."""
    address, wish = command.address, decided.wish
    if decided.is_request and wish is not None:
        what, yes, no = (
            wish.person,
            f"joins {address}, and is told so",
            f"does not join {address}, and is told so",
        )
    else:
        what, yes, no = f"The message {decided.id}", f"goes to {address}", f"does not go to {address}; nobody is told"
    said = {
        Outcome.APPROVED: f"{what} {yes}.",
        Outcome.REJECTED: f"{what} {no}.",
        Outcome.WAS_APPROVED: f"Nothing was done, since somebody decided before. {what} {yes}.",
        Outcome.WAS_DROPPED: f"Nothing was done, since somebody decided before. {what} {no}.",
        Outcome.IS_TOO_LATE: f"Nothing was done, since owners were asked more than {DECISION_SECONDS // DAY_SECONDS} "
        "days ago. Whoever runs the mail gateway can still decide.",
    }[outcome]
    return Letter(f"{shown(command.group)}: {outcome}", (said,))


def help_about(command: Command, join: JoinPolicy, *, has_owners: bool) -> Letter:
    """Return a letter about the available commands."""
    request = address_beside(command.address, REQUEST_ADDRESS)
    again = {
        JoinPolicy.OPEN: "to join it, or to get it again",
        JoinPolicy.ASK: "to ask its owners whether you may join it, or to get it again",
        JoinPolicy.CLOSED: "to get it again",
    }[join]
    lines = [
        f"This is about {command.address}, a list of people and groups.",
        "",
        f"to get no more mail of it: write to {address_beside(command.address, LEAVE_ADDRESS)}",
        f"{again}: write to {address_beside(command.address, JOIN_ADDRESS)}",
        f"to learn by which ways you are in it: write to {request}, with the subject 'why'",
    ]
    if has_owners:
        lines.append(f"to reach those who look after it: write to {owners_address(command.address)}")
    return Letter(f"{shown(command.group)}: what can be asked for", lines)


def ways_of(command: Command, person: MemberId, ways: Sequence[ListPath], *, is_muted: bool) -> Letter:
    """Return a letter about a person's ways into a list, and the effects of leaving the last group of each way."""
    if not ways:
        lines = [f"{person} is not in {command.address}."]
    else:
        lines = [f"{person} is in {command.address} by {len(ways):,} way{'s' if len(ways) > 1 else ''}:"]
    for way in ways[:WAYS_TOLD]:
        lines += ["", " -> ".join(map(shown, way.pathname)), f"  {_told_end(way)}"]
    if len(ways) > WAYS_TOLD:
        lines += ["", f"and {len(ways) - WAYS_TOLD:,} more"]
    if ways:
        leave = address_beside(command.address, LEAVE_ADDRESS)
        muted = f"{person} gets no mail of it all the same." if is_muted else f"To get no more mail of it: {leave}"
        lines += ["", muted]
    return Letter(f"{shown(command.group)}: why {person} is in it", lines)


def _told_end(way: ListPath) -> str:
    if not way.is_told:
        return f"what leaving {shown(way.last)} would end is not told: there are too many groups"
    if not way.ends:
        return f"leaving {shown(way.last)} would end nothing else"
    more = f" and {len(way.ends) - GROUPS_TOLD:,} more" if len(way.ends) > GROUPS_TOLD else ""
    return f"leaving {shown(way.last)} would also end: {', '.join(map(shown, way.ends[:GROUPS_TOLD]))}{more}"


def written(letter: Letter, command: Command, person: MemberId, content: Content | None, id_: str, date: int) -> bytes:
    """Return a letter as a message. `content`: the answered message, None if the letter answers no message."""
    is_ascii = f"{person}{command.address}".isascii()
    message = EmailMessage(policy=SMTP.clone(cte_type="7bit") if is_ascii else SMTPUTF8)
    request = address_beside(command.address, REQUEST_ADDRESS)
    message["Message-ID"] = f"<{id_}@{request.rpartition('@')[2]}>"
    message["Date"] = formatdate(date)
    message["From"] = request
    message["To"] = quoted(person, with_smtputf8=True)
    if letter.reply_to:
        message["Reply-To"] = letter.reply_to
    message["Subject"] = shown(letter.subject)
    message["Auto-Submitted"] = "auto-replied"
    message["Precedence"] = "bulk"
    asked = "" if content is None else message_id_of(content)
    if asked:
        message["In-Reply-To"] = message["References"] = asked
    message.set_content("\n".join(letter.lines))
    return message.as_bytes()


def letter_message(letter: Letter, command: Command, person: MemberId, id_: str, date: int) -> MailMessage:
    """Return the spool's record of a letter. It has no sender, so its bounces are reported to nobody."""
    request = address_beside(command.address, REQUEST_ADDRESS)
    return MailMessage(
        id_,
        "",
        date,
        (Destination(command.group, request, is_list=False),),
        subject=shown(letter.subject),
        needs_smtputf8=not f"{person}{command.address}".isascii(),
        is_letter=True,
        wish=letter.wish,
    )
