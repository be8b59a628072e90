"""Does in the name service what was wished for: somebody joins, leaves, mutes a list or gets its mail again."""

from __future__ import annotations

import logging
from contextlib import suppress

from mailing.rules.commands import Deed, Membership
from mailing.rules.lists import MUTED, beside
from mailing.rules.posting import names_of_sender
from mailing.rules.spooled import Wish
from mailing.shell.log import say
from mailing.shell.names import Names
from mailing.shell.ways import WaysUnknownError, pathnames_to
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


class Deeds:
    """All groups. Calls raise `ShadowtreeError` where something cannot be found out or done now."""

    def __init__(self, names: Names) -> None:
        self._names = names

    async def membership(self, wish: Wish) -> Membership:
        """How somebody stands to the list of a wish: by the name that gets its mail, where there are two."""
        group, muted = wish.group, beside(wish.group, MUTED)
        names = names_of_sender(wish.person)
        muted_one = None
        for name in names:
            if not await self._names.check(group, name):
                continue
            is_muted = muted in self._names.index and bool(await self._names.check(muted, name))
            if is_muted and not wish.is_join:
                muted_one = muted_one or Membership(name, True, is_muted=True)
                continue
            # Whoever joins is not asked how she is in it.
            is_only_direct = not wish.is_join and await self._is_only_direct(group, name)
            return Membership(name, True, is_only_direct, is_muted)
        return muted_one or Membership(names[-1], False)

    async def _is_only_direct(self, group: GroupId, person: MemberId) -> bool:
        try:
            return await pathnames_to(self._names, group, person) == [(group, person)]
        except WaysUnknownError:
            # Whoever is muted gets no mail either.
            return False

    async def do(self, deed: Deed, group: GroupId, person: MemberId) -> Deed:
        """Do it; what was done before is done. Returns `REFUSED` where the name service does not allow it."""
        muted = beside(group, MUTED)
        try:
            match deed:
                case Deed.MUTE:
                    if muted not in self._names.index:
                        with suppress(GroupExists):
                            await self._names.ask(lambda client: client.create_group(muted))
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
            await self._names.ask(lambda client: client.join(group, person, "process"))

    async def _leave(self, group: GroupId, person: MemberId) -> None:
        with suppress(NotAMember):
            await self._names.ask(lambda client: client.leave(group, person, "process"))

    async def _unmute(self, muted: GroupId, person: MemberId) -> None:
        if muted in self._names.index:
            await self._leave(muted, person)
