"""Handover of copies to the mail server by SMTP, over few connections, with the server's reply for each person."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator

import aiosmtplib

from mailing.rules.address_kinds import CommandPlace, owners_of, place_of
from mailing.rules.addresses import is_deliverable, quoted, unquoted
from mailing.rules.clicks import PATH, URL_LIMIT, click_token
from mailing.rules.events import Handed, HandOver
from mailing.rules.list_headers import Copies, ListPlaces
from mailing.rules.lists import (
    LEAVE_ADDRESS,
    POST_NOBODY,
    REQUEST_ADDRESS,
    Lists,
    Unsubscribe,
    address_beside,
    beside,
    owners_address,
)
from mailing.rules.message import Content, read_content
from mailing.rules.return_path import XVERP_DELIMITERS, fits_verp, return_path, token_of
from mailing.rules.spooled import Chunk, Destination, MailMessage
from mailing.shell.log import say
from mailing.shell.names import Names
from mailing.shell.sealing import Sealing
from mailing.shell.spooling import DEFERRED, REFUSED, TAKEN, Spooling
from mailing.spool.store import SpoolError
from shadowtree.vocabulary import GroupId, MemberId

CONNECTIONS = 4
"""Connections to the mail server. Times CHUNK_PEOPLE this is the number of people that a kill may repeat."""
IDLE_SECONDS = 5.0
TIMEOUT_SECONDS = 300.0
"""Time for a reply, in seconds, as RFC 5321 (4.5.3.2) has it for RCPT. The end of a message may take twice that."""
TEXT_LIMIT = 300

Outcomes = dict[int, str]


class HandingOver:
    """Executor of `HandOver`. `lists` may be replaced at any time."""

    def __init__(
        self,
        spooling: Spooling,
        names: Names,
        lists: Lists,
        sealing: Sealing,
        *,
        smtp: str,
        host: str,
        click_url: str = "",
    ) -> None:
        """`smtp`: ``HOST:PORT`` of the mail server. `host`: name of this gateway, as the mail server is told.

        `click_url`: URL for leaving by one click. Empty if there is none.
        """
        self._spooling = spooling
        self._names = names
        self.lists = lists
        self._sealing = sealing
        self._address = smtp
        self._host = host
        self._click_url = click_url
        self._queue: asyncio.Queue[HandOver] = asyncio.Queue()
        self._under_way = 0
        self._is_ending = False

    def hand_over(self, effect: HandOver) -> None:
        """Queue a chunk for its turn."""
        self._queue.put_nowait(effect)

    async def run(self) -> None:
        """Hand over queued chunks for ever."""
        async with asyncio.TaskGroup() as group:
            for _ in range(CONNECTIONS):
                group.create_task(self._work())

    async def end(self, seconds: float) -> None:
        """Begin no more chunks, and wait `seconds` for the chunks under way."""
        self._is_ending = True
        until = time.monotonic() + seconds
        while self._under_way and time.monotonic() < until:
            await asyncio.sleep(0.02)

    async def _work(self) -> None:
        connection = _Connection(self._address, self._host)
        try:
            while True:
                try:
                    async with asyncio.timeout(IDLE_SECONDS if connection.is_open else None):
                        effect = await self._queue.get()
                except TimeoutError:
                    await connection.close()
                    continue
                if self._is_ending:
                    return
                self._under_way += 1
                try:
                    # The next chunk waits until this one is durable, so that a kill repeats one chunk of a connection.
                    await self._spooling.tell_durably(await self._handed(effect, connection))
                finally:
                    self._under_way -= 1
        finally:
            connection.abort()

    async def _handed(self, effect: HandOver, connection: _Connection) -> Handed:
        message, chunk = effect.message, effect.chunk
        try:
            content = await self._spooling.content(message.id)
        except SpoolError as error:
            return Handed(message.id, chunk.number, deferred=dict.fromkeys(chunk.waiting, str(error)))
        read, destination = read_content(content), message.destinations[chunk.destination]
        alike = self.copies(message, destination, read)
        alike.seal = await self._sealing.of_copies(message, alike, content, read)
        copies = _ChunkCopies(self, message, destination, alike)
        sending = _Sending(message, chunk, copies, token_of(self._spooling.secret, message.id))
        refused, deferred = await sending.over(connection)
        taken = len(chunk.waiting) - len(refused) - len(deferred)
        self._spooling.copies.update({TAKEN: taken, REFUSED: len(refused), DEFERRED: len(deferred)})
        group = message.destinations[chunk.destination].group
        said = f"{message.id}: {taken} of {group} taken, {len(refused)} refused, {len(deferred)} wait"
        facts = {"taken": taken, "refused": len(refused), "deferred": len(deferred)}
        say(logging.INFO, "handed_over", said, id=message.id, list=group, **facts)
        return Handed(message.id, chunk.number, refused, deferred, frozenset(sending.unknown))

    def copies(self, message: MailMessage, destination: Destination, content: Content) -> Copies:
        """Return the copies for the people whom a destination reaches first."""
        places = self.places(destination) if destination.is_list else ListPlaces()
        return Copies(message, destination, content, secret=self._spooling.secret, host=self._host, places=places)

    def click_url(self, person: MemberId, message: MailMessage, destination: Destination) -> str:
        """Return the address at which one person leaves by one click.

        Empty if it is too long for a line of a message.
        """
        token = click_token(self._spooling.secret, destination.group, person, message.accepted)
        url = f"{self._click_url}{PATH}{token}"
        return url if len(url) <= URL_LIMIT else ""

    def has_own_copy(self, destination: Destination, person: MemberId) -> bool:
        """Return True if a person's copy differs from the common copy."""
        if not (self._click_url and destination.is_list and destination.origin is None):
            return False
        return self.lists.has_personal_copy(destination.group, person)

    def places(self, destination: Destination) -> ListPlaces:
        """Return the addresses that a copy of a list tells people to write to."""
        origin = destination.origin
        if origin is not None:
            return ListPlaces(
                origin.owners, origin.request, origin.leave, is_closed=origin.is_closed, trace=origin.trace
            )
        group, address = destination.group, destination.address
        settings = self.lists.of(group)
        has_owners = owners_of(group, self.lists, self._names.index) is not None
        return ListPlaces(
            owners_address(address) if has_owners else "",
            self._command(group, address, REQUEST_ADDRESS),
            self._command(group, address, LEAVE_ADDRESS) if settings.unsubscribe is not Unsubscribe.NONE else "",
            is_closed=settings.post == POST_NOBODY,
        )

    def _command(self, group: GroupId, address: str, ending: str) -> str:
        """Return the address for a command. Empty if a group has that name, or the name is too long."""
        place, found = place_of(beside(group, ending), self.lists, self._names.index), address_beside(address, ending)
        is_one = isinstance(place, CommandPlace) and is_deliverable(unquoted(found), with_smtputf8=True)
        return found if is_one else ""


class _ChunkCopies:
    """Copies of one chunk."""

    def __init__(self, handing: HandingOver, message: MailMessage, destination: Destination, copies: Copies) -> None:
        self._handing = handing
        self._message = message
        self._destination = destination
        self._copies = copies

    def are_own(self, person: MemberId) -> bool:
        """Return True if a person has a separate copy."""
        return self._handing.has_own_copy(self._destination, person)

    def of(self, people: list[MemberId]) -> bytes:
        """Return the separate copy of one person, or the common copy of several people."""
        is_own = len(people) == 1 and self.are_own(people[0])
        return self._copies.of(self._handing.click_url(people[0], self._message, self._destination) if is_own else "")


class _Connection:
    """Connection to the mail server, opened when it is needed."""

    def __init__(self, address: str, host: str) -> None:
        self._address = address
        self._host = host
        self._smtp: aiosmtplib.SMTP | None = None

    @property
    def is_open(self) -> bool:
        return self._smtp is not None

    async def smtp(self) -> aiosmtplib.SMTP:
        """Return the connection after its greeting. Raises `aiosmtplib.SMTPException` or `OSError`."""
        if self._smtp is None or not self._smtp.is_connected:
            host, _, port = self._address.rpartition(":")
            smtp = aiosmtplib.SMTP(
                hostname=host.removeprefix("[").removesuffix("]"),
                port=int(port),
                local_hostname=self._host,
                timeout=TIMEOUT_SECONDS,
                start_tls=False,
            )
            await smtp.connect()
            self._smtp = smtp
            await smtp.ehlo()
        return self._smtp

    async def close(self) -> None:
        smtp, self._smtp = self._smtp, None
        if smtp is not None:
            try:
                await smtp.quit(timeout=IDLE_SECONDS)
            except (aiosmtplib.SMTPException, OSError):
                smtp.close()

    def abort(self) -> None:
        if self._smtp is not None:
            self._smtp.close()
        self._smtp = None


class _Sending:
    """Handover of one chunk, in one transaction or in several."""

    def __init__(self, message: MailMessage, chunk: Chunk, copies: _ChunkCopies, token: str) -> None:
        self._message = message
        self._chunk = chunk
        self._copies = copies
        self._is_ascii = copies.of([]).isascii()
        self._token = token
        self._address = message.destinations[chunk.destination].return_address
        self._needs_smtputf8 = message.needs_smtputf8 or chunk.is_international
        self.unknown = set[int]()
        """Indexes of people who were refused for good by name."""

    async def over(self, connection: _Connection) -> tuple[Outcomes, Outcomes]:
        """Hand over the chunk. Return the people refused for good and the people deferred, with the replies.

        All other people were taken.
        """
        refused: Outcomes = {}
        deferred: Outcomes = {}
        open_ = set(self._chunk.waiting)
        try:
            smtp = await connection.smtp()
            if self._needs_smtputf8 and not smtp.supports_extension("smtputf8"):
                return dict.fromkeys(open_, "the mail server does not offer SMTPUTF8"), {}
            for sender, parameters, indexes in self._transactions(smtp):
                not_now, never = await self._send(smtp, sender, parameters, indexes)
                refused |= never
                deferred |= not_now
                open_ -= set(indexes)
        except (aiosmtplib.SMTPException, OSError) as error:
            connection.abort()
            why = f"the mail server cannot be spoken to: {' '.join(str(error).split()) or type(error).__name__}"
            deferred |= dict.fromkeys(open_, why[:TEXT_LIMIT])
        return refused, deferred

    def _transactions(self, smtp: aiosmtplib.SMTP) -> Iterator[tuple[str, list[bytes], list[int]]]:
        """Yield the sender, the parameters of MAIL, and the people of each transaction."""
        parameters = []
        if not self._is_ascii and smtp.supports_extension("8bitmime"):
            parameters.append(b"BODY=8BITMIME")
        if self._needs_smtputf8:
            parameters.append(b"SMTPUTF8")
        if not self._message.sender:
            yield "", parameters, list(self._chunk.waiting)
            return
        alone = list(self._chunk.waiting)
        if smtp.supports_extension("xverp"):
            people = self._chunk.people
            together = [
                at
                for at in alone
                if not self._copies.are_own(people[at]) and fits_verp(self._address, self._token, people[at])
            ]
            taken = set(together)
            alone = [at for at in alone if at not in taken]
            if together:
                verp = [*parameters, b"XVERP=" + XVERP_DELIMITERS.encode("ascii")]
                yield return_path(self._address, self._token), verp, together
        for at in alone:
            yield return_path(self._address, self._token, f"{self._chunk.number}.{at}"), parameters, [at]

    async def _send(
        self, smtp: aiosmtplib.SMTP, sender: str, parameters: list[bytes], indexes: list[int]
    ) -> tuple[Outcomes, Outcomes]:
        """Run one transaction. Return the people deferred, and the people refused for good."""
        deferred: Outcomes = {}
        refused: Outcomes = {}

        def take_note(reply: aiosmtplib.SMTPResponse, whom: list[int]) -> bool:
            if 200 <= reply.code < 300:
                return True
            said = f"{reply.code} {' '.join(reply.message.split())}"[:TEXT_LIMIT]
            (refused if reply.code >= 500 else deferred).update(dict.fromkeys(whom, said))
            return False

        reply = await smtp.execute_command(b"MAIL", b"FROM:<%b>" % sender.encode(), *parameters)
        taken = []
        if take_note(reply, indexes):
            for at in indexes:
                address = quoted(self._chunk.people[at], with_smtputf8=True)
                reply = await smtp.execute_command(b"RCPT", b"TO:<%b>" % address.encode())
                if reply.code == aiosmtplib.SMTPStatus.domain_unavailable:
                    raise aiosmtplib.SMTPServerDisconnected(reply.message)
                if take_note(reply, [at]):
                    taken.append(at)
                elif at in refused:
                    self.unknown.add(at)
        if taken:
            try:
                await smtp.data(
                    self._copies.of([self._chunk.people[at] for at in indexes]), timeout=2 * TIMEOUT_SECONDS
                )
            except aiosmtplib.SMTPDataError as error:
                take_note(aiosmtplib.SMTPResponse(error.code, error.message), taken)
                await smtp.rset()
        else:
            await smtp.rset()
        return deferred, refused
