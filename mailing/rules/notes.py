"""Notes to owners about messages that their list holds or has dropped.

Notes are gathered, so that a flood is one note.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from email.message import EmailMessage
from email.policy import SMTP, SMTPUTF8
from email.utils import formatdate

from mailing.rules.address_kinds import Word
from mailing.rules.authors import shown
from mailing.rules.deciding import DAY_SECONDS, DECISION_SECONDS, decision_token, how_to_decide
from mailing.rules.message import ID_DIGITS
from mailing.rules.spooled import Destination, MailMessage, Standing
from shadowtree.vocabulary import GroupId

PAUSE_S = 600
"""Pause between two notes of one list, in seconds. The next note tells the messages that come meanwhile."""
TOLD_LIMIT = 50
"""Most messages that a note names. Further messages are only counted."""


@dataclass(frozen=True, slots=True)
class Noted:
    """A message, and its destination whose owners are told."""

    message: MailMessage
    destination: Destination


class Notes:
    """Messages of which the owners of lists are still to be told."""

    def __init__(self) -> None:
        self._waiting: dict[GroupId, dict[str, None]] = {}
        self._told_at: dict[GroupId, float] = {}

    def add(self, message: MailMessage) -> None:
        """Record the lists of a message whose owners are still to be told."""
        for each in message.destinations:
            if each.is_to_note:
                self._waiting.setdefault(each.group, {})[message.id] = None

    def due(self, ticks: float) -> list[list[tuple[GroupId, str]]]:
        """Return the notes that are due now. Each note is a list of pairs: the list and the id of a message."""
        found = []
        for group in [*self._waiting]:
            if ticks < self._told_at.get(group, ticks):
                continue
            self._told_at[group] = ticks + PAUSE_S
            found.append([(group, id_) for id_ in self._waiting.pop(group)])
        self._told_at = {group: at for group, at in self._told_at.items() if at > ticks}
        return found


def without_note(message: MailMessage, group: GroupId, date: int) -> MailMessage:
    """Return the message after the owners of a list were told of it."""
    return replace(
        message, destinations=tuple(_told(each, date) if each.group == group else each for each in message.destinations)
    )


def _told(destination: Destination, date: int) -> Destination:
    asked = date if destination.is_to_note and destination.standing is Standing.HELD else destination.asked
    return replace(destination, is_to_note=False, asked=asked)


def note_about(noted: Sequence[Noted], date: int, secret: bytes) -> tuple[MailMessage, bytes]:
    """Return a message to the owners of a list, and its content. All destinations in `noted` are that list.

    `secret`: secret of the tokens by which the owners decide.
    """
    destination = noted[0].destination
    asking = sum(each.message.is_request for each in noted)
    held = sum(each.destination.standing is Standing.HELD for each in noted) - asking
    told = ((held, "held"), (len(noted) - held - asking, "dropped"), (asking, "to join"))
    counts = [f"{count} {word}" for count, word in told if count]
    subject = f"{shown(destination.group)}: {' and '.join(counts)}"
    parts = (str(date), *(each.message.id for each in noted))
    return owners_note(
        destination.group,
        destination.owners,
        subject,
        _lines(noted, secret, has_to_decide=held + asking > 0),
        parts,
        date,
    )


def owners_note(
    group: GroupId, owners: str, subject: str, lines: Iterable[str], parts: Iterable[str], date: int
) -> tuple[MailMessage, bytes]:
    """Return a message to the owners of a list, and its content.

    `parts`: texts that tell it from other notes to them.
    """
    digest = hashlib.sha256("\n".join((group, *parts)).encode())
    id_ = digest.hexdigest()[:ID_DIGITS]
    note = EmailMessage(policy=SMTP.clone(cte_type="7bit") if owners.isascii() else SMTPUTF8)
    note["Message-ID"] = f"<{id_}@{_domain(owners)}>"
    note["Date"] = formatdate(date)
    note["From"] = note["To"] = owners
    note["Subject"] = subject
    note["Auto-Submitted"] = "auto-generated"
    note.set_content("\n".join(lines))
    destination = Destination(group, owners, is_list=False)
    return MailMessage(id_, "", date, (destination,), needs_smtputf8=not owners.isascii()), note.as_bytes()


def _lines(noted: Sequence[Noted], secret: bytes, *, has_to_decide: bool) -> list[str]:
    found = []
    for each in noted[:TOLD_LIMIT]:
        message, destination = each.message, each.destination
        if message.is_request:
            found += [f"to join: {message.id}", f"  {destination.why}"]
        else:
            author, subject = message.author or "nobody", message.subject or "(no subject)"
            found.append(f"{destination.standing}: {message.id}")
            found += [f"  from {author}, sent by <{message.sender}>: {subject}", f"  because {destination.why}"]
        if destination.standing is Standing.HELD:
            token = decision_token(secret, message.id, destination.group)
            approve, reject = (how_to_decide(destination, token, word) for word in (Word.APPROVE, Word.REJECT))
            found += [
                f"  to {'accept' if message.is_request else 'let it go'}: {approve}",
                f"  to {'reject' if message.is_request else 'drop it'}: {reject}",
            ]
    if len(noted) > TOLD_LIMIT:
        found.append(f"and {len(noted) - TOLD_LIMIT:,} more")
    if has_to_decide:
        found += ["", *_WHO_DECIDES, *_COMMANDS]
    return [*found, "", "Nobody else was told."]


_WHO_DECIDES = (
    "What you write to these addresses does not matter. Whoever knows one decides, so keep them among owners.",
    f"The first decision holds. They count for {DECISION_SECONDS // DAY_SECONDS} days.",
    "Whoever runs the mail gateway can decide, too:",
)
_COMMANDS = tuple(f"  shadowtree mail {word} --config mail.toml" for word in ("held", "approve ID", "reject ID"))


def _domain(address: str) -> str:
    return address.rpartition("@")[2]
