"""Answers Postfix's policy requests: whether the sender of an envelope may post to a list."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Protocol

from mailing.rules.lists import Lists
from mailing.rules.lookups import why_not
from mailing.rules.places import Ambiguous, CommandPlace, ListPlace, place_of
from mailing.rules.posting import (
    NO_ANSWER,
    AskWhether,
    Permitted,
    Refused,
    Uncertain,
    Verdict,
    action_of,
    asked_recipient,
    not_in,
    who_may_post,
)
from mailing.shell.names import Names
from shadowtree.errors import ShadowtreeError
from shadowtree.results import Check
from shadowtree.vocabulary import GroupId, MemberId

_PERMITTED = action_of(Permitted(), "")


class Posting:
    """The policy of all lists. `lists` may be replaced at any time."""

    def __init__(self, names: Names, lists: Lists) -> None:
        self._names = names
        self.lists = lists

    def answer(self, attributes: Mapping[str, str]) -> bytes | Awaitable[bytes]:
        """The answer to a request, or what to await for it."""
        recipient = asked_recipient(attributes)
        group = None if recipient is None else self.lists.group_of(recipient)
        if recipient is None or group is None:
            return _PERMITTED
        return self._answer(recipient, group, attributes.get("sender", ""))

    async def _answer(self, recipient: str, group: GroupId, sender: str) -> bytes:
        return action_of(await self._verdict(group, sender), recipient)

    async def _verdict(self, group: GroupId, sender: str) -> Verdict:
        unknown = await self._names.confirm(group)
        if unknown is not None:
            return Uncertain(unknown)
        place = place_of(group, self.lists, self._names.index)
        if isinstance(place, Ambiguous):
            return Uncertain(f"{' and '.join(place.groups)} differ in case alone")
        if isinstance(place, CommandPlace) and not sender:
            return Refused(NO_ANSWER)
        if not isinstance(place, ListPlace):
            # What is no list is for the maps to refuse: the domain may have mailboxes. Owners hear everybody.
            return Permitted()
        verdict = await may_post(place.group, self.lists, sender, self._names)
        is_left_to_owners = isinstance(verdict, Refused) and sender != "" and self.lists.of(place.group).holds_others
        return Permitted() if is_left_to_owners else verdict


class Checks(Protocol):
    """Whoever can be asked whether somebody is in a group."""

    async def check(self, group: GroupId, member: MemberId) -> Check:
        """Raises `ShadowtreeError` where that cannot be told."""


async def may_post(group: GroupId, lists: Lists, sender: str, names: Checks) -> Verdict:
    """Whether a sender may post to a list."""
    found = who_may_post(group, lists.of(group), sender)
    if not isinstance(found, AskWhether):
        return found
    try:
        for name in found.names:
            if await names.check(found.group, name):
                return Permitted()
    except ShadowtreeError as error:
        return Uncertain(f"cannot tell whether {sender} may post to {group}: {why_not(error)}")
    return not_in(group, found.group)
