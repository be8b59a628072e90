"""Assembly of the distribution: LMTP in, the spool, questions to the name server, SMTP out, commands."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress

from mailing.config.settings import DistributionSettings
from mailing.rules.arc import SigningKey
from mailing.rules.clicks import HttpReader
from mailing.rules.lists import Lists
from mailing.rules.queue import Stats
from mailing.shell.clicks import Clicks
from mailing.shell.commands import Commands
from mailing.shell.control import Control
from mailing.shell.conversations import PortListener, why_not_listening
from mailing.shell.deciding import Deciding
from mailing.shell.delivery_report import DeliveryReport
from mailing.shell.handover import HandingOver
from mailing.shell.intake import MessageIntake
from mailing.shell.lmtp import LmtpListener
from mailing.shell.log import Repeated, say
from mailing.shell.membership_changes import MembershipChanges
from mailing.shell.names import Names
from mailing.shell.other_bounces import detector
from mailing.shell.peer_gateways import PeerGateways
from mailing.shell.resolving import Resolving
from mailing.shell.sealing import Sealing
from mailing.shell.sharing import Sharing
from mailing.shell.spooling import Spooling
from mailing.spool.store import SpoolError, open_spool
from shadowtree.vocabulary import MemberId


class GatewayStartError(Exception):
    """The gateway cannot start. The message is one line."""


class Distributing:
    """The part of a gateway that distributes messages."""

    def __init__(self, settings: DistributionSettings, names: Names, lists: Lists, repeated: Repeated) -> None:
        """Open the spool, and assemble the parts. Raises `GatewayStartError`."""
        host = min(lists.subnets)
        try:
            spool = open_spool(settings.database)
        except SpoolError as error:
            raise GatewayStartError(str(error)) from None
        try:
            found = spool.find()
        except SpoolError as error:
            spool.close()
            raise GatewayStartError(str(error)) from None
        for caution in spool.cautions:
            say(logging.WARNING, "database_caution", f"database: {caution}")
        under_way, done = len(found.unfinished), len(found.finished)
        said = f"messages in the spool: {under_way} under way, {done} done"
        say(logging.INFO, "spool", said, under_way=under_way, done=done)
        self._settings = settings
        self._spooling = Spooling(spool, found)
        deeds = MembershipChanges(names)
        deciding = Deciding(deeds, self._spooling)
        self._commands = Commands(names, lists, self._spooling, deeds, deciding)
        self._intake = MessageIntake(
            names,
            lists,
            self._spooling,
            self._commands,
            authserv_id=settings.authserv_id,
            detects=detector(),
            host=host,
        )
        others = PeerGateways(names)
        self._resolving = Resolving(names, lists, others, self._spooling.tell)
        self._sealing = Sealing(self._spooling.seals, _signing_key(settings))
        self._handing = HandingOver(
            self._spooling, names, lists, self._sealing, smtp=settings.smtp, host=host, click_url=settings.click_url
        )
        self._sharing = Sharing(names, lists, others, self._spooling, self._handing, self._sealing, repeated, host=host)
        self._spooling.resolve = self._resolving.resolve
        self._spooling.post = self._sharing.post
        self._spooling.admit = deciding.admit
        self._spooling.hand_over = self._handing.hand_over
        self.listener = LmtpListener(self._intake, host, repeated)
        self.clicks = PortListener("click", HttpReader, Clicks(self._commands, self._spooling.secret).answer, repeated)
        self._seeing = DeliveryReport(names, lists, others, self._spooling, host=host)
        self._control = Control(self._spooling, self._seeing, deciding, host=host)
        self._control_server: asyncio.Server | None = None
        self._warning: asyncio.Task[None] | None = None
        """Check of the published key, after settings were read again. None before that."""

    async def listen(self) -> int:
        """Take messages and commands, and return the port for messages. Raises `GatewayStartError`."""
        host, _, port = self._settings.lmtp_listen.rpartition(":")
        try:
            found = await self.listener.listen(host.removeprefix("[").removesuffix("]"), int(port))
        except OSError as error:
            why = why_not_listening(error)
            raise GatewayStartError(f"cannot listen on {self._settings.lmtp_listen}: {why} (lmtp_listen)") from None
        try:
            self._control_server = await self._control.listen(self._settings.control)
        except OSError as error:
            raise GatewayStartError(f"cannot listen on {self._settings.control}: {error.strerror or error}") from None
        return found

    async def listen_for_clicks(self) -> str | None:
        """Take clicks, and return the address. None if no clicks are wanted. Raises `GatewayStartError`."""
        address = self._settings.click_listen
        if address is None:
            return None
        host, _, port = address.rpartition(":")
        try:
            return f"{host}:{await self.clicks.listen(host.removeprefix('[').removesuffix(']'), int(port))}"
        except OSError as error:
            raise GatewayStartError(f"cannot listen on {address}: {why_not_listening(error)} (click_listen)") from None

    def stats(self) -> Stats:
        """Return the state of the gateway, and its counts since the start."""
        return self._spooling.stats()

    @property
    def shares_refused(self) -> int:
        """Number of shares that were refused since the start."""
        return self._sharing.refused

    def is_suppressed(self, person: MemberId) -> bool:
        """Return True if nothing is sent to a person, since mail came back."""
        return self._spooling.is_suppressed(person)

    @property
    def suppression_changes(self) -> int:
        """Counter that rises when the set of suppressed people may have changed."""
        return self._spooling.suppression_changes

    @property
    def reports(self) -> Mapping[str, int]:
        """Number of reports about people who cannot be reached, by result."""
        return self._spooling.reports

    def follow(self, lists: Lists, settings: DistributionSettings) -> None:
        """Use other settings of lists from now on, and seal with the key of these settings."""
        self._sealing.use(_signing_key(settings))
        self._warning = asyncio.create_task(self._sealing.warn_unless_published())
        self._intake.lists = self._commands.lists = self._resolving.lists = self._handing.lists = lists
        self._seeing.lists = self._sharing.lists = lists

    async def run(self) -> None:
        """Distribute for ever. Raises `GatewayStartError` if another gateway used the database meanwhile."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._spooling.run())
                group.create_task(self._handing.run())
                group.create_task(self._sharing.run())
                group.create_task(self._sealing.warn_unless_published())
        except* SpoolError as errors:
            raise GatewayStartError(str(_first(errors))) from None

    async def end(self, seconds: float) -> None:
        """Take no more messages, and wait `seconds` for messages that are being accepted or handed over."""
        await asyncio.gather(self.listener.end(seconds), self.clicks.end(seconds))
        await self._handing.end(seconds)

    async def close(self) -> None:
        """Release the database, once nothing runs any more."""
        if self._control_server is not None:
            self._control_server.close()
            with suppress(OSError):
                self._settings.control.unlink(missing_ok=True)
        self._sealing.close()
        await self._spooling.close()


def _signing_key(settings: DistributionSettings) -> SigningKey | None:
    arc = settings.arc
    if arc is None or arc.numbers is None or settings.authserv_id is None:
        return None
    return SigningKey(arc.domain, arc.selector, settings.authserv_id, arc.numbers)


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
