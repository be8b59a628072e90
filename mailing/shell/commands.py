"""Carries out what people ask for by mail, and writes to them: never to programs, and not often to one person."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import suppress

from mailing.rules.addresses import is_deliverable, unquoted
from mailing.rules.authors import Author
from mailing.rules.commands import (
    Asked,
    Command,
    Deed,
    Membership,
    confirmed_wish,
    deed_for,
    letter_id,
    question_of,
    speaks_for_author,
    token_for,
)
from mailing.rules.events import Written
from mailing.rules.intake import FULL, NOT_ANSWERED, SAFE, Reply
from mailing.rules.letters import (
    Letter,
    LetterLimits,
    confirmation_of,
    help_about,
    letter_message,
    outcome_of,
    ways_of,
    written,
)
from mailing.rules.lists import MUTED, Lists, beside
from mailing.rules.lookups import why_not
from mailing.rules.message import ID_DIGITS, Content, key_of
from mailing.rules.places import owners_of, place_of
from mailing.rules.posting import names_of_sender
from mailing.rules.return_path import bounce_place
from mailing.rules.spooled import Wish
from mailing.shell.log import LOGGER
from mailing.shell.names import Names
from mailing.shell.spooling import Spooling, read_clocks
from mailing.shell.ways import WaysUnknownError, pathnames_to, ways_to
from mailing.spool.store import SpoolError
from shadowtree.errors import (
    AlreadyMember,
    GroupExists,
    InvalidName,
    LimitExceeded,
    NameInUse,
    NotAMember,
    PermissionDenied,
    ShadowtreeError,
    WrongKind,
)
from shadowtree.vocabulary import GroupId, MemberId

_LASTING = (WrongKind, NameInUse, InvalidName, PermissionDenied, LimitExceeded)
"""Errors that another attempt would meet, too."""


class Commands:
    """All that is asked for by mail. `lists` may be replaced at any time."""

    def __init__(self, names: Names, lists: Lists, spooling: Spooling) -> None:
        self._names = names
        self.lists = lists
        self._spooling = spooling
        self._limits = LetterLimits()
        self._confirming = asyncio.Lock()
        """One after another: a token counts once."""

    async def carry_out(self, command: Command, author: Author, content: Content) -> Reply:
        """Do what a message asks for; the reply once that is done, and the answer durable."""
        person = self._person(author)
        if person is None:
            return NOT_ANSWERED
        mail = _Mail(command, person, content)
        if self._spooling.knows(mail.answer_id):
            # It came before.
            return NOT_ANSWERED
        mail.may_be_answered = self._limits.takes(person, read_clocks().ticks)
        if not mail.may_be_answered:
            LOGGER.warning("%s: %s wrote too often, and is not answered", command.group, person)
        reply = await self._reply(mail, author)
        if mail.may_be_answered and reply is not SAFE:
            self._limits.give_back(person)
        return reply

    async def _reply(self, mail: _Mail, author: Author) -> Reply:
        question = question_of(mail.command, mail.content)
        try:
            match question.asked:
                case Asked.CONFIRM:
                    return await self._confirm(mail, author, question.token)
                case Asked.LEAVE | Asked.JOIN:
                    is_certain = speaks_for_author(mail.content, author, mail.command, read_clocks().date)
                    wish = Wish(question.asked is Asked.JOIN, mail.command.group, mail.person)
                    return await self._wish(mail, wish, is_certain=is_certain)
                case Asked.WHY | Asked.HELP:
                    return await self._tell(mail, is_why=question.asked is Asked.WHY)
        except ShadowtreeError as error:
            return Reply("451 4.3.0", why_not(error))
        except SpoolError:
            return FULL

    def _person(self, author: Author) -> MemberId | None:
        """Who wrote; None: nobody who could be answered, or one of our own addresses."""
        names = names_of_sender(author.address) if author.address else ()
        if not names or not is_deliverable(names[0], with_smtputf8=True):
            return None
        group = self.lists.group_of(names[0])
        if group is not None and (place_of(group, self.lists, self._names.index) or bounce_place(names[0])):
            return None
        return names[0]

    async def grant(self, wish: Wish) -> Deed:
        """Do what somebody certainly wants; raises `ShadowtreeError` where that cannot be done now."""
        membership = await self._membership(wish)
        deed = deed_for(wish, membership, may_be_joined=self.lists.may_be_joined(wish.group))
        return await self._done(deed, wish.group, membership.name)

    async def _wish(self, mail: _Mail, wish: Wish, *, is_certain: bool) -> Reply:
        if not (mail.may_be_answered or is_certain):
            return NOT_ANSWERED
        membership = await self._membership(wish)
        deed = deed_for(wish, membership, may_be_joined=self.lists.may_be_joined(wish.group))
        if deed.is_change and not is_certain:
            token = token_for(self._spooling.secret, mail.key, wish)
            return await self._write(mail, confirmation_of(mail.command, wish, token), letter_id(token))
        deed = await self._done(deed, wish.group, membership.name)
        return await self._write_outcome(mail, deed)

    async def _confirm(self, mail: _Mail, author: Author, token: str) -> Reply:
        async with self._confirming:
            id_ = letter_id(token)
            letter = await self._spooling.letter(id_)
            wish = letter and confirmed_wish(letter, mail.command, author, read_clocks().date)
            if not wish:
                return NOT_ANSWERED
            deed = await self.grant(wish)
            # Only then: until it is done another attempt must be possible, and to do it twice changes nothing.
            await self._spooling.grant(id_)
        return await self._write_outcome(mail, deed)

    async def _tell(self, mail: _Mail, *, is_why: bool) -> Reply:
        if not mail.may_be_answered:
            return NOT_ANSWERED
        group = mail.command.group
        if not is_why:
            letter = help_about(
                mail.command,
                may_be_joined=self.lists.may_be_joined(group),
                has_owners=self._has_owners(group),
            )
            return await self._write(mail, letter, mail.answer_id)
        membership = await self._membership(Wish(True, group, mail.person))
        try:
            ways = await ways_to(self._names, group, membership.name) if membership.is_member else []
        except WaysUnknownError:
            letter = Letter(f"{group}: why", ["There are too many groups between you and the list to tell your ways."])
        else:
            letter = ways_of(mail.command, membership.name, ways, is_muted=membership.is_muted)
        return await self._write(mail, letter, mail.answer_id)

    async def _membership(self, wish: Wish) -> Membership:
        group, muted = wish.group, beside(wish.group, MUTED)
        names = names_of_sender(wish.person)
        for name in names:
            if not await self._names.check(group, name):
                continue
            is_muted = muted in self._names.index and bool(await self._names.check(muted, name))
            # Whoever joins is not asked how she is in it.
            is_only_direct = not wish.is_join and not is_muted and await self._is_only_direct(group, name)
            return Membership(name, True, is_only_direct, is_muted)
        return Membership(names[-1], False)

    async def _is_only_direct(self, group: GroupId, person: MemberId) -> bool:
        try:
            return await pathnames_to(self._names, group, person) == [(group, person)]
        except WaysUnknownError:
            # Whoever is muted gets no mail either.
            return False

    async def _done(self, deed: Deed, group: GroupId, person: MemberId) -> Deed:
        """Do it; what was done before is done. Raises `ShadowtreeError` where that cannot be found out now."""
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
            LOGGER.warning("%s of %s is refused: %s", deed, person, error.message)
            return Deed.REFUSED
        LOGGER.info("%s by mail: %s, %s", group, person, deed)
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

    def _has_owners(self, group: GroupId) -> bool:
        return owners_of(group, self.lists, self._names.index) is not None

    async def _write_outcome(self, mail: _Mail, deed: Deed) -> Reply:
        if not mail.may_be_answered:
            return NOT_ANSWERED
        letter = outcome_of(mail.command, mail.person, deed, has_owners=self._has_owners(mail.command.group))
        return await self._write(mail, letter, mail.answer_id)

    async def _write(self, mail: _Mail, letter: Letter, id_: str) -> Reply:
        date = read_clocks().date
        content = written(letter, mail.command, mail.person, mail.content, id_, date)
        message = letter_message(letter, mail.command, mail.person, id_, date)
        return await self._spooling.write(Written(message, mail.person, content))


class _Mail:
    """One message that asks for something."""

    def __init__(self, command: Command, person: MemberId, content: Content) -> None:
        self.command = command
        self.person = person
        """Whom it comes from, and whom answers go to."""
        self.content = content
        self.key = key_of(content)
        parts = (self.key, command.name, unquoted(person))
        self.answer_id = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:ID_DIGITS]
        """Of the answer: the same message is answered once."""
        self.may_be_answered = False
        """Whether the person was not written to too often."""
