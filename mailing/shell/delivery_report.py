"""Report on a message for one person: the result in the ledger, and the person's way into the list."""

from __future__ import annotations

from dataclasses import replace

from mailing.rules.address_kinds import owners_of
from mailing.rules.addresses import name_of, unquoted
from mailing.rules.lists import MUTED, Lists, beside, target_of
from mailing.rules.lookups import why_not
from mailing.rules.posting import people_of_sender
from mailing.rules.queue import ListMembership, MessageFate, reached, served_elsewhere, why_left_out
from mailing.rules.spooled import Destination, Standing
from mailing.shell.names import Names
from mailing.shell.peer_gateways import PeerGateways
from mailing.shell.people import spelled, spelled_in
from mailing.shell.spooling import Spooling
from shadowtree.errors import GroupNotFound, ShadowtreeError
from shadowtree.vocabulary import GroupId, MemberId


class DeliveryReport:
    """Reports on all messages. `lists` may be replaced at any time."""

    def __init__(self, names: Names, lists: Lists, others: PeerGateways, spooling: Spooling, *, host: str) -> None:
        """`host`: name of this gateway."""
        self._names = names
        self._others = others
        self.lists = lists
        self._spooling = spooling
        self._host = host

    async def why(self, id_: str, address: str) -> MessageFate | None:
        """Return the result of a message for a person. None if there is no such message. Raises `SpoolError`."""
        spooled = await self._spooling.spooled(id_)
        if spooled is None:
            return None
        found, at = reached(spooled, name_of(address) or unquoted(address), host=self._host)
        message = spooled.message
        try:
            if at is not None:
                return found if message.is_letter else await self._with_way(found, message.destinations[at])
            server = await self._others.server_of(found.address.rpartition("@")[2]) if message.shares else None
            if server is not None and server in {each.server for each in message.shares}:
                return served_elsewhere(found, server)
            if self._spooling.is_suppressed(found.address):
                return replace(found, why=found.why or f"suppressed: mail to {found.address} came back")
            going = [each for each in message.destinations if each.is_list and each.standing is Standing.GOES]
            if found.why or not going or message.is_letter:
                return found if found.why else replace(found, why="the message is for nobody of that name")
            return replace(found, why=why_left_out([await self._membership(each, found.address) for each in going]))
        except ShadowtreeError as error:
            return replace(found, why=found.why or f"the way in cannot be told now: {why_not(error)}")

    async def _with_way(self, found: MessageFate, destination: Destination) -> MessageFate:
        group: GroupId | None = destination.group
        if not destination.is_list:
            owners = owners_of(destination.group, self.lists, self._names.index)
            group = None if owners is None else owners.group
        try:
            check = None if group is None else await self._names.check(group, found.address, explain=True)
        except GroupNotFound:
            check = None
        if check:
            return replace(found, pathname=check.pathname)
        gone = f"the membership has changed since: {found.address} is not in {group or destination.address}"
        return replace(found, why=f"{found.why}; {gone}" if found.why else gone)

    async def _membership(self, destination: Destination, person: MemberId) -> ListMembership:
        group = destination.group
        target = target_of(group, self.lists.of(group), is_muted=beside(group, MUTED) in self._names.index)
        try:
            found = await spelled(self._names, people_of_sender(person))
            if not await spelled_in(self._names, group, found):
                return ListMembership(group, False)
        except GroupNotFound:
            return ListMembership(group, False)
        exceptions = [each for each in target.excluding if await spelled_in(self._names, each, found)]
        return ListMembership(group, True, exceptions)
