"""Decisions of owners by mail about held messages and requests. The proof is the token that owners were sent.

The author of the decision does not matter. A token belongs to one list, and to one message or request. A person who has
it was written to as an owner, or got it from an owner. The first decision holds. A later or repeated decision is
answered with the outcome.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from mailing.rules.address_kinds import Word
from mailing.rules.addresses import is_deliverable, unquoted
from mailing.rules.lists import REQUEST_ADDRESS, address_beside
from mailing.rules.spooled import Destination, MailMessage, Standing
from mailing.rules.tokens import mac_of
from shadowtree.vocabulary import GroupId

DAY_SECONDS = 86_400
DECISION_SECONDS = 7 * DAY_SECONDS
"""Validity of a token after owners were told it, in seconds. Later only a command decides."""


def decision_token(secret: bytes, id_: str, group: GroupId) -> str:
    """Return the token by which owners of a list decide about a message: 80 bits."""
    return mac_of(secret, "decide", id_, group)


def how_to_decide(destination: Destination, token: str, word: Word) -> str:
    """Return the address for a decision. If the name of the list is too long for it, add the subject to use."""
    address = address_beside(destination.address, f"-{word}+{token}")
    if is_deliverable(unquoted(address), with_smtputf8=True):
        return f"write to {address}"
    return f"write to {address_beside(destination.address, REQUEST_ADDRESS)}, with the subject '{word} {token}'"


class Decidable:
    """Messages and requests that have tokens: held now, or decided and not yet forgotten."""

    def __init__(self, secret: bytes, messages: Iterable[MailMessage] = ()) -> None:
        self._secret = secret
        self._by_token: dict[str, tuple[str, GroupId]] = {}
        self._tokens: dict[str, set[str]] = {}
        for message in messages:
            self.follow(message)

    def follow(self, message: MailMessage) -> None:
        """Record the tokens of a message in its current state."""
        for each in message.destinations:
            if each.standing is Standing.HELD or each.asked:
                token = decision_token(self._secret, message.id, each.group)
                self._by_token[token] = message.id, each.group
                self._tokens.setdefault(message.id, set()).add(token)

    def forget(self, id_: str) -> None:
        """Forget the tokens of a message."""
        for token in self._tokens.pop(id_, ()):
            del self._by_token[token]

    def find(self, token: str) -> tuple[str, GroupId] | None:
        """Return the id of a message, and the list that holds or held it.

        None if the token is foreign or of long ago.
        """
        return self._by_token.get(token)


class Outcome(StrEnum):
    """Outcome of a decision, as owners are told it."""

    APPROVED = "approved"
    REJECTED = "rejected"
    WAS_APPROVED = "was approved before"
    WAS_DROPPED = "was rejected or dropped before"
    IS_TOO_LATE = "is too late"

    @property
    def is_decision(self) -> bool:
        """True if the decision takes effect."""
        return self in (Outcome.APPROVED, Outcome.REJECTED)


def outcome_of_decision(message: MailMessage, group: GroupId, *, approves: bool, date: int) -> Outcome:
    """Return the outcome of an owner's decision about a message. `date`: seconds since 1970."""
    places = [each for each in message.destinations if each.group == group and (each.is_list or message.is_request)]
    place = next((each for each in places if each.standing is Standing.HELD), places[0] if places else None)
    if place is None or place.standing is Standing.DROPPED:
        return Outcome.WAS_DROPPED
    if place.standing is Standing.GOES:
        return Outcome.WAS_APPROVED
    if place.asked and date > place.asked + DECISION_SECONDS:
        return Outcome.IS_TOO_LATE
    return Outcome.APPROVED if approves else Outcome.REJECTED
