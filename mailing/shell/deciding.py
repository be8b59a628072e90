"""Execution of owners' decisions, by mail or by command, about held messages and about people who ask to join."""

from __future__ import annotations

import logging

from mailing.rules.commands import Deed
from mailing.rules.deciding import Outcome, outcome_of_decision
from mailing.rules.events import Admit, Admitted, Approved, NotAdmitted, Rejected
from mailing.rules.lookups import why_not
from mailing.rules.spooled import MailMessage
from mailing.shell.log import say
from mailing.shell.membership_changes import MembershipChanges
from mailing.shell.spooling import Spooling, read_clocks
from shadowtree.errors import GroupNotFound, ShadowtreeError
from shadowtree.vocabulary import GroupId

REFUSED = "the name service does not allow it"


class Deciding:
    """All decisions. Calls raise `SpoolError`."""

    def __init__(self, deeds: MembershipChanges, spooling: Spooling) -> None:
        self._deeds = deeds
        self._spooling = spooling

    async def by_token(self, token: str, group: GroupId, *, approves: bool) -> tuple[MailMessage, Outcome] | None:
        """Return the message that a token of a list decides about, and the outcome.

        None if it is no token of that list.
        """
        found = self._spooling.decidable(token)
        spooled = await self._spooling.spooled(found[0]) if found is not None and found[1] == group else None
        if spooled is None:
            return None
        message = spooled.message
        outcome = outcome_of_decision(message, group, approves=approves, date=read_clocks().date)
        if outcome.is_decision:
            await self._decide(message, group, approves=approves)
        said = f"{message.id}: by mail, for {group}: {outcome}"
        say(logging.INFO, "decided", said, id=message.id, list=group, outcome=str(outcome))
        return message, outcome

    async def by_command(self, message: MailMessage, *, approves: bool) -> None:
        """Decide for all lists that hold a message."""
        await self._decide(message, None, approves=approves)

    async def _decide(self, message: MailMessage, group: GroupId | None, *, approves: bool) -> None:
        await self._spooling.tell_durably((Approved if approves else Rejected)(message.id, group))

    async def admit(self, effect: Admit) -> None:
        """Make a person join whom owners have accepted, and tell the result."""
        request, wish = effect.request, effect.request.wish
        assert wish is not None, "somebody asked"
        try:
            membership = await self._deeds.membership(wish)
            deed = await self._deeds.do(Deed.JOIN, wish.group, membership.name)
        except GroupNotFound as error:
            self._spooling.tell(NotAdmitted(request.id, why_not(error), is_lasting=True))
        except ShadowtreeError as error:
            said = f"{wish.person} cannot join {wish.group} now: {why_not(error)}"
            say(logging.WARNING, "refused", said, list=wish.group, person=wish.person, why=why_not(error))
            self._spooling.tell(NotAdmitted(request.id, why_not(error)))
        else:
            is_done = deed is Deed.JOIN
            event = Admitted(request.id) if is_done else NotAdmitted(request.id, REFUSED, is_lasting=True)
            self._spooling.tell(event)
