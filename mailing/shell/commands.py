"""Execution of the commands that people send by mail, and the answers.

Answers never go to programs, and not often to one person.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging

from mailing.rules.address_kinds import owners_of
from mailing.rules.addresses import is_deliverable, mailbox_of, name_of
from mailing.rules.authors import Author
from mailing.rules.commands import (
    DECISIONS,
    Command,
    CommandRequest,
    Deed,
    Question,
    confirmed_wish,
    deed_for,
    letter_id,
    question_of,
    speaks_for_author,
    token_for,
)
from mailing.rules.events import NoteWritten
from mailing.rules.intake import FULL, NOT_ANSWERED, SAFE, RecipientReply
from mailing.rules.joining import PENDING_LIMIT, request_of
from mailing.rules.letters import (
    LETTERS_TO_DECIDER,
    Letter,
    LetterLimits,
    confirmation_of,
    decision_of,
    help_about,
    letter_message,
    outcome_of,
    ways_of,
    written,
)
from mailing.rules.lists import Lists, owners_address
from mailing.rules.lookups import why_not
from mailing.rules.message import ID_DIGITS, Content, key_of
from mailing.rules.posting import is_list_address
from mailing.rules.return_path import bounce_place
from mailing.rules.spooled import Wish
from mailing.shell.deciding import Deciding
from mailing.shell.log import say
from mailing.shell.membership_changes import MembershipChanges
from mailing.shell.membership_paths import WaysUnknownError, ways_to
from mailing.shell.names import Names
from mailing.shell.spooling import Spooling, read_clocks
from mailing.spool.store import SpoolError
from shadowtree.errors import ShadowtreeError
from shadowtree.vocabulary import GroupId, MemberId


class Commands:
    """All commands by mail. `lists` may be replaced at any time."""

    def __init__(
        self, names: Names, lists: Lists, spooling: Spooling, deeds: MembershipChanges, deciding: Deciding
    ) -> None:
        self._names = names
        self.lists = lists
        self._spooling = spooling
        self._deeds = deeds
        self._deciding = deciding
        self._limits = LetterLimits()
        self._limits_of_deciders = LetterLimits(LETTERS_TO_DECIDER)
        self._confirming = asyncio.Lock()
        """Lock that orders confirmations, because a token counts once."""

    async def carry_out(self, command: Command, author: Author, content: Content) -> RecipientReply:
        """Carry out the request of a message. Return the reply once that is done and the answer is durable."""
        person = self._person(author)
        if person is None:
            return NOT_ANSWERED
        mail = _Mail(command, person, content)
        if self._spooling.knows(mail.answer_id):
            # The same message came before.
            return NOT_ANSWERED
        question = question_of(command, content)
        limits = self._limits_of_deciders if question.asked in DECISIONS else self._limits
        mail.may_be_answered = limits.takes(person, read_clocks().ticks)
        if not mail.may_be_answered:
            said = f"{command.group}: {person} wrote too often, and is not answered"
            say(logging.WARNING, "not_answered", said, list=command.group, person=person)
        reply = await self._reply(mail, author, question)
        if mail.may_be_answered and reply is not SAFE:
            limits.give_back(person)
        return reply

    async def _reply(self, mail: _Mail, author: Author, question: Question) -> RecipientReply:
        try:
            match question.asked:
                case CommandRequest.APPROVE | CommandRequest.REJECT:
                    return await self._decide(mail, question)
                case CommandRequest.CONFIRM:
                    return await self._confirm(mail, author, question.token)
                case CommandRequest.LEAVE | CommandRequest.JOIN:
                    is_certain = speaks_for_author(mail.content, author, mail.command, read_clocks().date)
                    wish = Wish(question.asked is CommandRequest.JOIN, mail.command.group, mail.person)
                    return await self._wish(mail, wish, is_certain=is_certain)
                case CommandRequest.WHY | CommandRequest.HELP:
                    return await self._tell(mail, is_why=question.asked is CommandRequest.WHY)
        except ShadowtreeError as error:
            return RecipientReply("451 4.3.0", why_not(error))
        except SpoolError:
            return FULL

    def _person(self, author: Author) -> MemberId | None:
        """Return the author as a member. None if the author cannot be answered, or is an address of this gateway."""
        name = name_of(author.address) if author.address else None
        if name is None or not is_deliverable(name, with_smtputf8=True):
            return None
        is_own_bounce = self.lists.group_of(name) is not None and bounce_place(name) is not None
        return None if is_own_bounce or is_list_address(name, self.lists, self._names.index) else name

    async def grant(self, wish: Wish) -> Deed:
        """Carry out a wish that is certain. Raises `ShadowtreeError` if that cannot be done now."""
        return await self._do(wish, *await self._deed_for(wish))

    async def _do(self, wish: Wish, deed: Deed, person: MemberId) -> Deed:
        done = await self._deeds.do(deed, wish.group, person)
        if wish.is_join:
            return done
        # The person may be a member under other spellings, too.
        left = {person}
        last = done
        while last.is_change:
            deed, other = await self._deed_for(wish)
            if not deed.is_change or other in left:
                break
            left.add(other)
            last = await self._deeds.do(deed, wish.group, other)
        return done

    async def _deed_for(self, wish: Wish) -> tuple[Deed, MemberId]:
        """Return the deed for a wish, and the name of the person in the name service."""
        membership = await self._deeds.membership(wish)
        return deed_for(wish, membership, self.lists.join_rule(wish.group)), membership.name

    async def _done(self, mail: _Mail, wish: Wish) -> Deed | None:
        """Carry out a wish that is certain, and return the deed. None if the spool takes nothing now."""
        deed, person = await self._deed_for(wish)
        if deed is Deed.ASK:
            return await self._ask_owners(mail.command, person)
        return await self._do(wish, deed, person)

    async def _ask_owners(self, command: Command, person: MemberId) -> Deed | None:
        """Ask owners if a person may join, unless they were asked. None if the spool takes nothing now."""
        date = read_clocks().date
        pending = self._spooling.requests(command.group)
        owners = owners_address(command.address) if self._has_owners(command.group) else ""
        request = request_of(command, person, owners, date)
        waiting = {mailbox_of(each.wish.person) for each in pending if each.wish is not None}
        if self._spooling.knows(request.id) or mailbox_of(person) in waiting:
            return Deed.IS_ASKED
        if len(pending) >= PENDING_LIMIT:
            return Deed.IS_FULL
        reply = await self._spooling.write(NoteWritten(request, person, b""))
        return Deed.ASK if reply.is_good else None

    async def _decide(self, mail: _Mail, question: Question) -> RecipientReply:
        approves = question.asked is CommandRequest.APPROVE
        found = await self._deciding.by_token(question.token, mail.command.group, approves=approves)
        if found is None or not mail.may_be_answered:
            return NOT_ANSWERED
        return await self._write(mail, decision_of(mail.command, *found), mail.answer_id)

    async def _wish(self, mail: _Mail, wish: Wish, *, is_certain: bool) -> RecipientReply:
        if not (mail.may_be_answered or is_certain):
            return NOT_ANSWERED
        if not is_certain:
            deed, _ = await self._deed_for(wish)
            if deed.is_change:
                token = token_for(self._spooling.secret, mail.key, wish)
                return await self._write(mail, confirmation_of(mail.command, wish, token), letter_id(token))
        return await self._write_outcome(mail, await self._done(mail, wish))

    async def _confirm(self, mail: _Mail, author: Author, token: str) -> RecipientReply:
        async with self._confirming:
            id_ = letter_id(token)
            letter = await self._spooling.letter(id_)
            wish = letter and confirmed_wish(letter, mail.command, author, read_clocks().date)
            if not wish:
                return NOT_ANSWERED
            deed = await self._done(mail, wish)
            if deed is None:
                return FULL
            # The token is used up only now: until the deed is done another attempt must be possible, and a repetition
            # is harmless.
            await self._spooling.grant(id_)
        return await self._write_outcome(mail, deed)

    async def _tell(self, mail: _Mail, *, is_why: bool) -> RecipientReply:
        if not mail.may_be_answered:
            return NOT_ANSWERED
        group = mail.command.group
        if not is_why:
            letter = help_about(
                mail.command,
                self.lists.join_rule(group),
                has_owners=self._has_owners(group),
            )
            return await self._write(mail, letter, mail.answer_id)
        membership = await self._deeds.membership(Wish(True, group, mail.person))
        try:
            ways = [way for name in membership.spellings for way in await ways_to(self._names, group, name)]
        except WaysUnknownError:
            letter = Letter(f"{group}: why", ["There are too many groups between you and the list to tell your ways."])
        else:
            letter = ways_of(mail.command, membership.name, ways, is_muted=membership.is_muted)
        return await self._write(mail, letter, mail.answer_id)

    def _has_owners(self, group: GroupId) -> bool:
        return owners_of(group, self.lists, self._names.index) is not None

    async def _write_outcome(self, mail: _Mail, deed: Deed | None) -> RecipientReply:
        if deed is None:
            return FULL
        if not mail.may_be_answered:
            return NOT_ANSWERED
        letter = outcome_of(mail.command, mail.person, deed, has_owners=self._has_owners(mail.command.group))
        return await self._write(mail, letter, mail.answer_id)

    async def _write(self, mail: _Mail, letter: Letter, id_: str) -> RecipientReply:
        date = read_clocks().date
        content = written(letter, mail.command, mail.person, mail.content, id_, date)
        message = letter_message(letter, mail.command, mail.person, id_, date)
        return await self._spooling.write(NoteWritten(message, mail.person, content))


class _Mail:
    """One message with a request."""

    def __init__(self, command: Command, person: MemberId, content: Content) -> None:
        self.command = command
        self.person = person
        """Author of the message, who also gets the answers."""
        self.content = content
        self.key = key_of(content)
        parts = (self.key, command.name, person)
        self.answer_id = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:ID_DIGITS]
        """Id of the answer: the same message is answered once."""
        self.may_be_answered = False
        """True if the person was not written to too often."""
