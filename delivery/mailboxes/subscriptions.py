"""Opening of mailboxes and gateways, and the begin of subscriptions, with all checks.

See docs/protocol-messages.md, "Log, audiences, mailboxes".
"""

from __future__ import annotations

from delivery.log.log import Log
from delivery.mailboxes.listeners import Listeners
from delivery.mailboxes.mailboxes import (
    GATEWAYS_LIMIT,
    MAILBOXES_LIMIT,
    SUBSCRIPTIONS_LIMIT,
    SUBSCRIPTIONS_OF_CALLER_LIMIT,
    Mailboxes,
)
from delivery.model.events import Start, Subscribe, Subscribed
from delivery.model.reach import Reach
from delivery.model.words import EVERYBODY, Position, is_pattern
from namegraph import NodeId, Reason, RefusedError, ServerId, refuse

SUBSCRIPTION_NAME_LIMIT = 100


class Subscriptions:
    """Opens mailboxes, and begins the subscriptions that read them."""

    def __init__(self, server: ServerId, log: Log, mailboxes: Mailboxes, listeners: Listeners) -> None:
        self._server, self._log, self._mailboxes, self._listeners = server, log, mailboxes, listeners

    def require(self, process: NodeId) -> int:
        """Return the number of a mailbox. Raises `RefusedError` if the mailbox does not exist."""
        number = self._mailboxes.number_of(process)
        if number is None:
            raise self._no_mailbox(process, None)
        return number

    def mailbox_of(self, process: NodeId, reach: Reach, *, opens_archive: bool = False) -> int:
        """Return the number of a mailbox. A missing mailbox is opened; that of a group, only with `opens_archive`.

        Raises `RefusedError` if the mailbox cannot be opened at this server.
        """
        number = self._mailboxes.number_of(process)
        if number is not None:
            return number
        self._require_home(process, reach)
        if is_pattern(process):
            return self._gateway(process, reach)
        if (renamed_to := reach.renamed_to(process)) is not None:
            raise self._no_mailbox(process, renamed_to)
        is_group = reach.is_group(process)
        if is_group and not opens_archive:
            raise self._no_mailbox(process, None)
        if "*" in process and not (is_group or reach.is_process(process)):
            raise refuse(
                Reason.INVALID_REQUEST,
                f"{process} is in no group at the server {self._server}; the pattern of a gateway is * or *@SUBNET",
            )
        if len(self._mailboxes) >= MAILBOXES_LIMIT:
            raise refuse(Reason.LIMIT_EXCEEDED, f"a server has at most {MAILBOXES_LIMIT} mailboxes")
        return self._mailboxes.open(process, at=self._log.last + 1, is_archive=is_group)

    def _gateway(self, pattern: NodeId, reach: Reach) -> int:
        """Open the mailbox of a gateway. The limit counts only patterns of other subnets."""
        if not self._is_own(pattern, reach):
            others = sorted(each for each in self._mailboxes.gateways if not self._is_own(each, reach))
            if len(others) >= GATEWAYS_LIMIT:
                raise refuse(
                    Reason.LIMIT_EXCEEDED,
                    f"the server {self._server} has {GATEWAYS_LIMIT} gateways of other subnets already "
                    f"({', '.join(others)}); close one of them",
                    limit=str(GATEWAYS_LIMIT),
                )
        return self._mailboxes.open(pattern, at=self._log.last + 1)

    def _is_own(self, pattern: NodeId, reach: Reach) -> bool:
        return pattern == EVERYBODY or reach.home_of(pattern) == self._server

    def begin(self, event: Subscribe, reach: Reach) -> Subscribed:
        """Begin a subscription, or continue it. Raises `RefusedError` if this server refuses it."""
        return self._listen(event, reach) if event.is_ephemeral else self._subscribe(event, reach)

    def _no_mailbox(self, process: NodeId, renamed_to: NodeId | None) -> RefusedError:
        if renamed_to is not None:
            return refuse(
                Reason.MAILBOX_NOT_FOUND,
                f"{process} has no mailbox: it was renamed to {renamed_to}",
                process=process,
                server=self._server,
                renamed_to=renamed_to,
            )
        return refuse(
            Reason.MAILBOX_NOT_FOUND,
            f"{process} has no mailbox at the server {self._server}",
            process=process,
            server=self._server,
        )

    def _require_home(self, name: NodeId, reach: Reach) -> None:
        if name != EVERYBODY and reach.home_of(name) not in (None, self._server):
            raise refuse(Reason.INVALID_REQUEST, f"{name} is not at home at the server {self._server}")

    def _listen(self, event: Subscribe, reach: Reach) -> Subscribed:
        """Begin an ephemeral subscription."""
        if event.subscription or isinstance(event.start, Position):
            raise refuse(Reason.INVALID_REQUEST, "an ephemeral subscription has no name, and begins now")
        if is_pattern(event.process):
            raise refuse(Reason.INVALID_REQUEST, "a gateway has a place that is kept: it is not ephemeral")
        self._require_home(event.process, reach)
        cursor, new_number = self._log.end(), self._mailboxes.new_number
        number = self._listeners.begin(event.ticket, event.process, at=cursor, new_number=new_number)
        return Subscribed(event.ticket, number, cursor, event.ticket)

    def _subscribe(self, event: Subscribe, reach: Reach) -> Subscribed:
        process, name, start, mailboxes = event.process, event.subscription, event.start, self._mailboxes
        if len(name) > SUBSCRIPTION_NAME_LIMIT or not (name == "" or name.isprintable()):
            raise refuse(
                Reason.INVALID_REQUEST,
                f"the name of a subscription has at most {SUBSCRIPTION_NAME_LIMIT} printable characters",
            )
        if isinstance(start, Position) and start > self._log.end():
            raise refuse(Reason.INVALID_REQUEST, "the position is behind the end of the log")
        number = self.mailbox_of(process, reach)
        cursor = mailboxes.cursor((number, name))
        if cursor is None:
            self._require_room(process, name, event.caller)
            oldest = Position.before(max(mailboxes.opened_at(process), self._log.cut + 1))
            mailboxes.begin(process, name, self._log.end() if start is Start.NOW else oldest, caller=event.caller)
        position = mailboxes.subscriptions(process)[name]
        if isinstance(start, Position):
            position = max(position, start)
        epoch = mailboxes.take_over((number, name), position)
        return Subscribed(event.ticket, number, position, epoch)

    def _require_room(self, process: NodeId, name: str, caller: str) -> None:
        """Raise `RefusedError` if a new subscription has no place. The unnamed subscription always has one."""
        if not name:
            return
        others = sum(map(bool, self._mailboxes.subscriptions(process)))
        for found, limit, whose in (
            (self._mailboxes.made_by(process, caller), SUBSCRIPTIONS_OF_CALLER_LIMIT, " that one caller made"),
            (others, SUBSCRIPTIONS_LIMIT, ""),
        ):
            if found >= limit:
                raise refuse(
                    Reason.LIMIT_EXCEEDED,
                    f"a mailbox has at most {limit} subscriptions{whose}, besides the one without a name; {process} "
                    "has them already. Use one of these, or the one without a name",
                    limit=str(limit),
                )
