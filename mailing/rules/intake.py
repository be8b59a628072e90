"""Replies to a transaction: at RCPT by the address, after DATA by the message."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mailing.rules.authors import Author
from mailing.rules.automatic import is_automatic
from mailing.rules.commands import Command, is_of_a_program
from mailing.rules.list_headers import traced
from mailing.rules.lists import ListSettings
from mailing.rules.message import RECEIVED_LIMIT, Content
from mailing.rules.posting import Permitted, Refused, Uncertain, UnconfirmedAuthor, Verdict
from mailing.rules.return_path import BouncePlace
from mailing.rules.spooled import Destination, Standing


@dataclass(frozen=True, slots=True)
class RecipientReply:
    """A reply to one recipient."""

    code: str
    """Reply code and enhanced status code: ``550 5.1.1``."""
    text: str

    @property
    def is_good(self) -> bool:
        """True if the message is taken."""
        return self.code.startswith("2")


@dataclass(frozen=True, slots=True)
class Recipient:
    """A recipient that was not refused at RCPT."""

    place: Destination | BouncePlace | Command
    bytes_limit: int


CAME_BACK = "it is a copy that the list has distributed, changed on its way and sent to it again"
SEEMS_AUTOMATIC = "its subject is that of an automatic answer"
SAFE = RecipientReply("250 2.0.0", "it is safe")
OWN_BOUNCE = RecipientReply("250 2.0.0", "the report was looked at")
NOT_ANSWERED = RecipientReply("250 2.0.0", "it was looked at, and is not answered")
NOT_COUNTED = RecipientReply("550 5.7.1", "the share counts for nothing")
FULL = RecipientReply("452 4.3.1", "it cannot be kept now: the gateway's database is full or away")
TOO_LARGE = "552 5.3.4"


def reply_after_data(recipient: Recipient, content: Content, size: int, *, secret: bytes) -> RecipientReply | None:
    """Return the reply to a recipient that is not served. None if it is served, once the message is durable."""
    if size > recipient.bytes_limit:
        return RecipientReply(TOO_LARGE, f"a message of more than {recipient.bytes_limit:,} bytes is not taken")
    place = recipient.place
    if isinstance(place, BouncePlace):
        return None
    if len(content.values("received")) > RECEIVED_LIMIT:
        return RecipientReply("554 5.4.6", "the message goes in circles: too many Received fields")
    if isinstance(place, Command):
        return NOT_ANSWERED if is_of_a_program(content) else None
    if not place.is_list:
        return None
    if is_automatic(content):
        return RecipientReply("550 5.7.1", f"{place.group} distributes no automatic mail")
    if traced(content, place.group, secret):
        return RecipientReply("554 5.4.6", f"the message has been through {place.group} before")
    return None


def judged(
    destination: Destination, verdict: Verdict, settings: ListSettings, author: Author, sender: str
) -> Destination | RecipientReply:
    """Return the destination of a message after the verdict on its author, or a reply if the message is not taken.

    A permanent refusal is given only if its bounce reaches nobody but the author.
    """
    match verdict:
        case Permitted():
            return destination
        case UnconfirmedAuthor(why):
            standing = Standing.HELD
        case Refused(why):
            standing = Standing.HELD if settings.holds_others or not author.is_confirmed else Standing.DROPPED
            if standing is Standing.DROPPED and author.is_sender(sender):
                return RecipientReply("550 5.7.1", why)
        case Uncertain(why):
            return RecipientReply("451 4.3.0", why)
    return replace(destination, standing=standing, why=why, is_to_note=destination.owners != "")


def looked_at_twice(destination: Destination, author: Author, sender: str) -> Destination | RecipientReply:
    """Return the destination of a message that seems to be an automatic answer, without a field that says so.

    A person who wrote the message gets a refusal, and can choose another subject. If a bounce might reach another
    person, owners decide.
    """
    if author.is_confirmed and author.is_sender(sender):
        return RecipientReply("550 5.7.1", f"{SEEMS_AUTOMATIC}; if you wrote it yourself, send it with another subject")
    return replace(destination, standing=Standing.HELD, why=SEEMS_AUTOMATIC, is_to_note=destination.owners != "")


def came_back(destination: Destination) -> Destination:
    """Return the destination of a copy that comes back to its list: dropped, and owners are told its sender."""
    return replace(destination, standing=Standing.DROPPED, why=CAME_BACK, is_to_note=destination.owners != "")
