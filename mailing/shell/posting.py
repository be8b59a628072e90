"""Answers to Postfix's policy requests: the right of an envelope's sender to post to a list."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping

from mailing.rules.address_kinds import Ambiguous, CommandPlace, ListPlace, place_of
from mailing.rules.lists import Lists
from mailing.rules.lookups import why_not
from mailing.rules.postfix import ROLES
from mailing.rules.posting import (
    NO_ANSWER,
    AskWhether,
    Permitted,
    Refused,
    Uncertain,
    Verdict,
    action_of,
    asked_recipient,
    is_list_address,
    not_in,
    who_may_post,
    written_by_a_list,
)
from mailing.shell.names import Names
from mailing.shell.people import PeopleLookup, spelled, spelled_in
from shadowtree.errors import ShadowtreeError
from shadowtree.vocabulary import GroupId

_PERMITTED = action_of(Permitted(), "")


class Posting:
    """The policy of all lists. `lists` may be replaced at any time."""

    def __init__(self, names: Names, lists: Lists, *, is_looked_at_again: bool = False) -> None:
        """`is_looked_at_again`: True if messages come to this gateway, which looks at their authors."""
        self._names = names
        self.lists = lists
        self._is_looked_at_again = is_looked_at_again

    def answer(self, attributes: Mapping[str, str]) -> bytes | Awaitable[bytes]:
        """Return the answer to a request, or an awaitable of it."""
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
            # Mail about the domain itself does not depend on the name service.
            return Permitted() if group.partition("@")[0].lower() in ROLES else Uncertain(unknown)
        place = place_of(group, self.lists, self._names.index)
        if isinstance(place, Ambiguous):
            return Uncertain(f"{' and '.join(place.groups)} differ in case alone")
        if isinstance(place, CommandPlace) and not sender:
            return Refused(NO_ANSWER)
        if not isinstance(place, ListPlace):
            # The maps refuse an address that is no list, because the domain may have mailboxes. Owners take mail of all
            # people.
            return Permitted()
        if is_list_address(sender, self.lists, self._names.index):
            return written_by_a_list(place.group, sender)
        is_looked_at_again = self._is_looked_at_again and self.lists.of(place.group).is_authenticated
        verdict = await may_post(place.group, self.lists, sender, self._names, is_looked_at_again=is_looked_at_again)
        is_left_to_owners = isinstance(verdict, Refused) and sender != "" and self.lists.of(place.group).holds_others
        return Permitted() if is_left_to_owners else verdict


async def may_post(
    group: GroupId, lists: Lists, sender: str, names: PeopleLookup, *, is_looked_at_again: bool = False
) -> Verdict:
    """Return the verdict on a sender and a list. `is_looked_at_again`: as in `who_may_post`."""
    found = who_may_post(group, lists.of(group), sender, is_looked_at_again=is_looked_at_again)
    if not isinstance(found, AskWhether):
        return found
    try:
        people = await spelled(names, found.people)
        if people.are_groups:
            return written_by_a_list(group, sender)
        if found.group is None or await spelled_in(names, found.group, people):
            return Permitted()
    except ShadowtreeError as error:
        return Uncertain(f"cannot tell whether {sender} may post to {group}: {why_not(error)}")
    return not_in(group, found.group)
