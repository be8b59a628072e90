"""Requests to join a list: people wait for its owners to decide, and are told the decision.

A request is a held letter to the person. The spool, `mail held` and the notes to owners treat it like a held message.
"""

from __future__ import annotations

import hashlib

from mailing.rules.address_kinds import Word
from mailing.rules.addresses import mailbox_of
from mailing.rules.authors import shown
from mailing.rules.commands import Command, Deed
from mailing.rules.letters import outcome_of, written
from mailing.rules.message import ID_DIGITS
from mailing.rules.spooled import Destination, MailMessage, Standing, Wish
from shadowtree.vocabulary import GroupId, MemberId

DAY_SECONDS = 86_400
REQUEST_SECONDS = 14 * DAY_SECONDS
"""Time after which a request ends undecided, in seconds. The person is told so."""
PENDING_LIMIT = 100
"""Most waiting requests of one list."""
UNDECIDED = "nobody decided in time"
REJECTED = "rejected"
"""Reasons of requests that failed, and of rejected messages. Any other reason comes from the name service."""


def request_id(group: GroupId, person: MemberId, date: int) -> str:
    """Return the id of a request, the same all day: a person can ask the owners of a list once a day.

    `date`: seconds since 1970.
    """
    told = f"join {group}\n{mailbox_of(person)}\n{date // DAY_SECONDS}"
    return hashlib.sha256(told.encode()).hexdigest()[:ID_DIGITS]


def request_of(command: Command, person: MemberId, owners: str, date: int) -> MailMessage:
    """Return a waiting request. `owners`: address of the owners, empty if only commands decide."""
    group = command.group
    place = Destination(
        group,
        command.address,
        is_list=False,
        standing=Standing.HELD,
        why=f"{shown(person)} asks to join",
        owners=owners,
        is_to_note=owners != "",
    )
    return MailMessage(
        request_id(group, person, date),
        "",
        date,
        (place,),
        needs_smtputf8=not f"{person}{command.address}".isascii(),
        author=shown(person),
        is_letter=True,
        is_request=True,
        wish=Wish(True, group, person),
    )


def is_outdated(message: MailMessage, date: int) -> bool:
    """Return True if a request has waited for too long."""
    return message.is_request and message.is_held and date > message.accepted + REQUEST_SECONDS


def answer_to(request: MailMessage, date: int) -> bytes:
    """Return the letter that tells the person of a request the decision."""
    (place,), wish = request.destinations, request.wish
    assert wish is not None, "somebody asked"
    deed = {UNDECIDED: Deed.IS_UNDECIDED, REJECTED: Deed.IS_REJECTED}.get(place.why, Deed.REFUSED)
    if place.standing is Standing.GOES:
        deed = Deed.JOIN
    command = Command(place.group, Word.JOIN, "", place.address, "")
    letter = outcome_of(command, wish.person, deed, has_owners=place.owners != "")
    return written(letter, command, wish.person, None, request.id, date)
