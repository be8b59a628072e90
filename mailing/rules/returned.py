"""Copies of a list that come back to it, changed on their way: a member's forwarder sends them to the list again.

An unchanged copy is recognised by its key or by `Shadowtree-Trace`. A forwarder may have added a footer, written a new
Message-ID and lost unknown fields. So every possible remainder of a copy is searched: fields that name the list, the
gateway's own `Received`, the return path, Message-ID and Date. The last two are those of a distributed message.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from urllib.parse import unquote

from mailing.rules.list_headers import list_id
from mailing.rules.message import ID_DIGITS, Content
from mailing.rules.spooled import MailMessage, Standing
from shadowtree.vocabulary import GroupId

ADDRESSES_LIMIT = 50
"""Most addresses in fields of lists, and most `Received` fields, that are looked at."""

_LIST_FIELDS = ("list-post", "list-unsubscribe", "list-help", "list-owner", "list-subscribe", "list-archive")
_MAILTO = re.compile(r"<\s*mailto:([^>?\s]+)", re.I)
_OWN_RECEIVED = re.compile(r"by (\S+) \(Shadowtree\) with LMTP id ([0-9a-f]{32});")


def names_list(content: Content, group: GroupId) -> bool:
    """Return True if List-Id is that of a list."""
    wanted = list_id(group).lower()
    return any(wanted == value.rpartition("<")[2].strip(" \t>").lower() for value in content.values("list-id"))


def addresses_of_lists(content: Content) -> list[str]:
    """Return the addresses that fields of lists name."""
    values = (value for name in _LIST_FIELDS for value in content.values(name))
    return [unquote(address) for value in values for address in _MAILTO.findall(value)][:ADDRESSES_LIMIT]


def ids_of_copies(content: Content, host: str) -> list[str]:
    """Return the ids of messages of which this is a copy, by the `Received` fields of the gateway `host`."""
    found = (_OWN_RECEIVED.match(value) for value in content.values("received")[:ADDRESSES_LIMIT])
    return [each[2] for each in found if each is not None and each[1].lower() == host.lower()]


def likeness_of(content: Content) -> str:
    """Return the likeness of a message: ID_DIGITS digits that a changed copy keeps.

    Empty unless the message has one Message-ID and one Date.
    """
    message_ids, dates = content.values("message-id"), content.values("date")
    if len(message_ids) != 1 or len(dates) != 1:
        return ""
    return hashlib.sha256(f"alike {message_ids[0]}\n{dates[0]}".encode()).hexdigest()[:ID_DIGITS]


class Distributed:
    """Messages that lists have distributed lately, by the likeness that changed copies keep."""

    def __init__(self, messages: Iterable[MailMessage] = ()) -> None:
        self._alike: dict[str, dict[str, frozenset[GroupId]]] = {}
        """Lists by likeness and id."""
        self._likeness: dict[str, str] = {}
        """Likenesses by id."""
        for message in messages:
            self.follow(message)

    def follow(self, message: MailMessage) -> None:
        """Record a message in its current state."""
        if message.likeness:
            self._alike.setdefault(message.likeness, {})[message.id] = lists_that_took(message)
            self._likeness[message.id] = message.likeness

    def forget(self, id_: str) -> None:
        """Forget a message that is remembered no longer."""
        likeness = self._likeness.pop(id_, None)
        if likeness is None:
            return
        del self._alike[likeness][id_]
        if not self._alike[likeness]:
            del self._alike[likeness]

    def ids_like(self, likeness: str, group: GroupId) -> frozenset[str]:
        """Return the ids of messages with a likeness that a list has distributed."""
        return frozenset(id_ for id_, groups in self._alike.get(likeness, {}).items() if group in groups)


def lists_that_took(message: MailMessage) -> frozenset[GroupId]:
    """Return the lists that have let a message go to their people."""
    return frozenset(each.group for each in message.destinations if each.is_list and each.standing is Standing.GOES)
