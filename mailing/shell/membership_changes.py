"""Changes in the name service for a wish: a person joins, leaves, mutes a list or gets its mail again."""

from __future__ import annotations

import logging
from contextlib import suppress

from mailing.rules.addresses import mailbox_of
from mailing.rules.commands import Deed, ListStanding
from mailing.rules.lists import MUTED, beside
from mailing.rules.posting import people_of_sender
from mailing.rules.spooled import Wish
from mailing.shell.log import say
from mailing.shell.membership_paths import WaysUnknownError, pathnames_to
from mailing.shell.names import Names
from mailing.shell.people import spelled, spelled_in
from shadowtree.errors import (
    AlreadyMember,
    GroupExists,
    InvalidName,
    LimitExceeded,
    NameInUse,
    NotAMember,
    PermissionDenied,
    WrongKind,
)
from shadowtree.vocabulary import GroupId, MemberId

_LASTING = (WrongKind, NameInUse, InvalidName, PermissionDenied, LimitExceeded)
"""Errors that another attempt would meet, too."""


class MembershipChanges:
    """Deeds in all groups.

    Calls raise `ShadowtreeError` if a fact cannot be found out, or a deed cannot be done, now.
    """

    def __init__(self, names: Names) -> None:
        self._names = names

    async def membership(self, wish: Wish) -> ListStanding:
        """Return a person's relation to the list of a wish, under the spelling that gets its mail."""
        group, muted = wish.group, beside(wish.group, MUTED)
        found = await spelled(self._names, people_of_sender(wish.person))
        within = await spelled_in(self._names, group, found)
        mutes = await spelled_in(self._names, muted, found) if within and muted in self._names.index else []
        getting = [name for name in within if name not in mutes]
        if wish.is_join and within:
            # A join does not depend on the ways in, so the name server is not asked for them.
            return ListStanding(within[0], True, is_muted=bool(mutes), spellings=tuple(within))
        if getting:
            return ListStanding(getting[0], True, await self._is_only_direct(group, getting[0]))
        if within:
            return ListStanding(within[0], True, is_muted=True)
        return ListStanding(found.names[0] if found.names else mailbox_of(wish.person), False)

    async def _is_only_direct(self, group: GroupId, person: MemberId) -> bool:
        try:
            return await pathnames_to(self._names, group, person) == [(group, person)]
        except WaysUnknownError:
            # A mute is enough then, because a muted person gets no mail either.
            return False

    async def do(self, deed: Deed, group: GroupId, person: MemberId) -> Deed:
        """Do a deed.

        A deed that was done before counts as done. Return `REFUSED` if the name service does not allow it.
        """
        muted = beside(group, MUTED)
        try:
            match deed:
                case Deed.MUTE:
                    if muted not in self._names.index:
                        with suppress(GroupExists):
                            await self._names.ask(
                                lambda client: client.create_group(muted, request_id=self._names.own_requests.new())
                            )
                        self._names.index.add(muted)
                    await self._join(muted, person)
                case Deed.LEAVE:
                    await self._leave(group, person)
                case Deed.JOIN:
                    await self._join(group, person)
                    await self._unmute(muted, person)
                case Deed.UNMUTE:
                    await self._unmute(muted, person)
        except _LASTING as error:
            said = f"{deed} of {person} is refused: {error.message}"
            say(logging.WARNING, "refused", said, list=group, person=person, deed=str(deed), why=error.message)
            return Deed.REFUSED
        say(
            logging.INFO,
            "asked_by_mail",
            f"{group} by mail: {person}, {deed}",
            list=group,
            person=person,
            deed=str(deed),
        )
        return deed

    async def _join(self, group: GroupId, person: MemberId) -> None:
        with suppress(AlreadyMember):
            await self._names.ask(
                lambda client: client.join(group, person, "process", request_id=self._names.own_requests.new())
            )

    async def _leave(self, group: GroupId, person: MemberId) -> None:
        with suppress(NotAMember):
            await self._names.ask(
                lambda client: client.leave(group, person, "process", request_id=self._names.own_requests.new())
            )

    async def _unmute(self, muted: GroupId, person: MemberId) -> None:
        if muted in self._names.index:
            found = await spelled(self._names, people_of_sender(person))
            for name in dict.fromkeys((person, *found.names)):
                await self._leave(muted, name)
