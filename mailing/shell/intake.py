"""Acceptance of mail by LMTP: each address by the index of groups, each message by its content."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from mailing.rules.address_kinds import (
    Ambiguous,
    CommandPlace,
    ListPlace,
    OwnersPlace,
    owners_of,
    place_of,
    split_command,
)
from mailing.rules.addresses import UndeliverableError, name_of, quoted, unquoted
from mailing.rules.authors import Author, author_of, shown, subject_of
from mailing.rules.automatic import seems_automatic
from mailing.rules.commands import Command
from mailing.rules.envelope import untagged
from mailing.rules.events import MessageTaken
from mailing.rules.intake import (
    FULL,
    OWN_BOUNCE,
    SAFE,
    Recipient,
    RecipientReply,
    came_back,
    judged,
    looked_at_twice,
    reply_after_data,
)
from mailing.rules.lists import OWNER_ADDRESS, Lists, owners_address, without
from mailing.rules.lmtp import Path
from mailing.rules.lookups import why_not
from mailing.rules.message import Content, MalformedError, addressed_people, key_of, message_id_of, read_content
from mailing.rules.posting import (
    NO_ANSWER,
    UnconfirmedAuthor,
    is_list_address,
    people_of_sender,
    poster_of,
    written_by_a_list,
)
from mailing.rules.reports import Detector, complaints, failure_report, is_complaint
from mailing.rules.return_path import BouncePlace, bounce_place
from mailing.rules.returned import addresses_of_lists, ids_of_copies, likeness_of, names_list
from mailing.rules.shares import CONTENT_BYTES_LIMIT
from mailing.rules.spooled import Destination, Standing
from mailing.shell.commands import Commands
from mailing.shell.log import say
from mailing.shell.names import Names
from mailing.shell.people import names_in
from mailing.shell.posting import may_post
from mailing.shell.spooling import COMPLAINED, UNPROVEN, Spooling, read_clocks
from mailing.spool.store import SpoolError
from shadowtree.errors import GroupNotFound, ShadowtreeError

_UNKNOWN = RecipientReply("550 5.1.1", "there is no such list")


class MessageIntake:
    """Intake of all lists. `lists` may be replaced at any time."""

    def __init__(
        self,
        names: Names,
        lists: Lists,
        spooling: Spooling,
        commands: Commands,
        *,
        authserv_id: str | None,
        detects: Detector,
        host: str,
    ) -> None:
        """`authserv_id`: name under which the local mail server confirms authors. None if no server confirms them.

        `detects`: reader of bounces that are no standard reports. `host`: name of this gateway.
        """
        self._names = names
        self.lists = lists
        self._spooling = spooling
        self._commands = commands
        self._authserv_id = authserv_id
        self._detects = detects
        self._host = host

    @property
    def bytes_limit(self) -> int:
        """Most bytes of a message that is read."""
        return self.lists.bytes_limit

    async def recipient(self, sender: str, address: str) -> Recipient | RecipientReply:
        """Return the recipient for an address, or the reply that refuses the address."""
        name = unquoted(address)
        group = self.lists.group_of(name)
        if group is None:
            return _UNKNOWN
        if self._spooling.is_failing:
            return FULL
        unknown = await self._names.confirm(group)
        if unknown is not None:
            return RecipientReply("451 4.3.0", unknown)
        place = place_of(group, self.lists, self._names.index)
        if place is None:
            bounce = bounce_place(name)
            return _UNKNOWN if bounce is None else Recipient(bounce, self.bytes_limit)
        if isinstance(place, Ambiguous):
            return RecipientReply("451 4.3.0", place.why)
        if isinstance(place, ListPlace) and not sender:
            return RecipientReply("550 5.7.1", f"{place.group} distributes no bounces and no automatic mail")
        if isinstance(place, ListPlace) and is_list_address(sender, self.lists, self._names.index):
            return RecipientReply("550 5.7.1", written_by_a_list(place.group, sender).why)
        if isinstance(place, CommandPlace):
            return self._command(name, place) if sender else RecipientReply("550 5.7.1", NO_ANSWER)
        return self._list(name, place, group)

    def _command(self, name: str, place: CommandPlace) -> Recipient | RecipientReply:
        split = split_command(name)
        assert split is not None, "so its place was found"
        try:
            address = quoted(split[0], with_smtputf8=True)
        except UndeliverableError as error:
            return RecipientReply("550 5.1.3", str(error))
        return Recipient(Command(place.group, place.word, place.token, address, name), self.bytes_limit)

    def _list(self, name: str, place: ListPlace | OwnersPlace, asked: str) -> Recipient | RecipientReply:
        try:
            address = quoted(name, with_smtputf8=True)
        except UndeliverableError as error:
            return RecipientReply("550 5.1.3", str(error))
        if isinstance(place, ListPlace):
            settings = self.lists.of(place.group)
            has_owners = owners_of(place.group, self.lists, self._names.index) is not None
            destination = Destination(
                place.group,
                address,
                True,
                skips_addressed=settings.skips_addressed,
                people_limit=settings.people_limit,
                # Gateways of the last release take no share of a list whose address is not ASCII.
                goes_by_shares=settings.goes_by_shares and address.isascii(),
                waits_for_all=settings.waits_for_all,
                owners=owners_address(address) if has_owners else "",
            )
            return Recipient(destination, settings.bytes_limit)
        found = self._names.index.find(without(asked, OWNER_ADDRESS) or "")
        return Recipient(Destination(found[0], address, False), self.lists.of(found[0]).bytes_limit)

    async def message(self, sender: Path, recipients: Sequence[Recipient], content: bytes) -> Sequence[RecipientReply]:
        """Return a reply to each recipient, once all that was taken for the recipient is durable."""
        try:
            read = read_content(content)
        except MalformedError as error:
            return [RecipientReply(f"550 {error.code}", str(error))] * len(recipients)
        size, secret = len(content), self._spooling.secret
        replies = [reply_after_data(each, read, size, secret=secret) for each in recipients]
        author = author_of(read, self._authserv_id)
        destinations: dict[tuple[str, bool], Destination] = {}
        for at, recipient in enumerate(recipients):
            if replies[at] is not None or isinstance(recipient.place, BouncePlace):
                continue
            if isinstance(recipient.place, Command):
                replies[at] = await self._commands.carry_out(recipient.place, author, read)
                continue
            if not recipient.place.is_list and is_complaint(content):
                replies[at] = await self._complained(content)
                if replies[at] is not None:
                    continue
            try:
                found = await self._judged(recipient.place, sender.address, author, read)
            except SpoolError:
                found = FULL
            if isinstance(found, RecipientReply):
                replies[at] = found
            else:
                destinations.setdefault(found.place, found)
        may_share = len(content) <= CONTENT_BYTES_LIMIT and all(
            each.goes_by_shares or not each.is_list for each in destinations.values()
        )
        for place, each in destinations.items():
            destinations[place] = replace(each, goes_by_shares=each.is_list and may_share)
        safe = await self._accept(sender, author, tuple(destinations.values()), read, content) if destinations else SAFE
        return [
            reply or (await self._bounced(each.place, content) if isinstance(each.place, BouncePlace) else safe)
            for each, reply in zip(recipients, replies, strict=True)
        ]

    async def _accept(
        self, sender: Path, author: Author, destinations: tuple[Destination, ...], read: Content, content: bytes
    ) -> RecipientReply:
        id_ = self._spooling.id_by_key(key_of(read))
        addressed = addressed_people(read) if any(each.skips_addressed for each in destinations) else ()
        reply = await self._spooling.accept(
            MessageTaken(
                id_,
                sender.address,
                destinations,
                content,
                addressed,
                transaction=0,
                # A message may be ASCII except for the address of its list. Its copies then need no SMTPUTF8.
                needs_smtputf8=sender.needs_smtputf8 and not content.isascii(),
                author=shown(author.address),
                subject=subject_of(read),
                answerable=author.answerable,
                message_id=message_id_of(read),
                likeness=likeness_of(read),
            )
        )
        if reply.is_good:
            places = ", ".join(f"{each.group} {each.standing}" for each in destinations)
            said = f"{id_}: from <{sender.address}>, {len(content)} bytes: {places}"
            say(logging.INFO, "accepted", said, id=id_, sender=sender.address, bytes=len(content))
        return reply

    async def _judged(
        self, destination: Destination, sender: str, author: Author, read: Content
    ) -> Destination | RecipientReply:
        if not destination.is_list:
            return destination
        if await self._came_back(destination, sender, read):
            said = f"{destination.group}: a copy came back from <{sender}>, and is not distributed"
            say(logging.INFO, "came_back", said, list=destination.group, sender=sender)
            return came_back(destination)
        group, settings = destination.group, self.lists.of(destination.group)
        poster = poster_of(settings, author, sender)
        if isinstance(poster, UnconfirmedAuthor) or author.is_confirmed:
            self._spooling.authors["confirmed" if author.is_confirmed else "unconfirmed"] += 1
        verdict = (
            poster if isinstance(poster, UnconfirmedAuthor) else await may_post(group, self.lists, poster, self._names)
        )
        destination = replace(destination, rewrites_from=settings.rewrites_from and author.rests_on_spf)
        found = judged(destination, verdict, settings, author, sender)
        if isinstance(found, Destination) and found.standing is Standing.GOES and seems_automatic(read):
            return looked_at_twice(found, author, sender)
        if isinstance(found, Destination) and found.standing is Standing.GOES and await self._is_owner(group, author):
            return replace(found, people_limit=None)
        return found

    async def _came_back(self, destination: Destination, sender: str, read: Content) -> bool:
        """Return True if a message is a copy that a list has distributed. Raises `SpoolError`."""
        group, spooling = destination.group, self._spooling
        if names_list(read, group) or any(self._is_of(address, group) for address in addresses_of_lists(read)):
            return True
        alike = spooling.ids_like(likeness_of(read), group)
        if alike and alike != {spooling.id_by_key(key_of(read))}:
            return True
        ids = ids_of_copies(read, self._host)
        name = name_of(untagged(sender))
        bounce = bounce_place(name) if name is not None and self.lists.group_of(name) is not None else None
        if bounce is not None:
            ids.append(spooling.id_of(bounce))
        for id_ in ids:
            if await spooling.has_distributed(id_, group):
                return True
        return False

    def _is_of(self, address: str, group: str) -> bool:
        """Return True if an address is that of a list, of its owners, or of a command about it."""
        name = self.lists.group_of(unquoted(address))
        place = None if name is None else place_of(name, self.lists, self._names.index)
        if isinstance(place, OwnersPlace):
            return name is not None and without(name, OWNER_ADDRESS) == group
        return isinstance(place, ListPlace | CommandPlace) and place.group == group

    async def _is_owner(self, group: str, author: Author) -> bool:
        """Return True if an owner of a list certainly wrote a message."""
        owners = owners_of(group, self.lists, self._names.index)
        if owners is None or not author.is_confirmed:
            return False
        try:
            return bool(await names_in(self._names, owners.group, people_of_sender(author.address)))
        except ShadowtreeError:
            # An owner decides later, if the message turns out to be for many people.
            return False

    async def _bounced(self, place: BouncePlace, content: bytes) -> RecipientReply:
        if is_complaint(content):
            try:
                await self._spooling.complaint(place)
            except SpoolError:
                return FULL
            return await self._complained(content) or OWN_BOUNCE
        report = failure_report(content, self._detects)
        return OWN_BOUNCE if report is None else await self._spooling.bounce(place, report)

    async def _complained(self, content: bytes) -> RecipientReply | None:
        """Carry out the wishes of complaints. Return a reply if that cannot be done now, else None."""
        wishes = complaints(content, self._spooling.secret, read_clocks().date)
        self._spooling.reports[COMPLAINED if wishes else UNPROVEN] += 1
        try:
            for wish in wishes:
                say(
                    logging.INFO,
                    "complained",
                    f"{wish.group}: {wish.person} complains",
                    list=wish.group,
                    person=wish.person,
                )
                await self._commands.grant(wish)
        except GroupNotFound:
            return None
        except ShadowtreeError as error:
            return RecipientReply("451 4.3.0", why_not(error))
        return None
