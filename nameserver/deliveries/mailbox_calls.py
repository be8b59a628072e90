"""OpenMailbox, CloseMailbox, ListMailboxes: the processes for which this server keeps messages."""

from __future__ import annotations

from typing import Final

from delivery.model.events import CloseMailbox, DeliveryRefused, MailboxClosed, MailboxOpened, OpenMailbox
from delivery.model.words import PositionToken, is_pattern
from namegraph import NodeId, Origin, Reason, RefusedError, refuse
from nameserver.access.caller import current_caller
from nameserver.access.origins import origin_of
from nameserver.calls.adapters import Context
from nameserver.deliveries import message_wire
from nameserver.deliveries.delivery_rights import DeliveryRights
from nameserver.deliveries.endpoints import Endpoints
from nameserver.deliveries.machine import DeliveryMachine, MailboxState
from nameserver.routing.ownership import Routing
from nameserver.wire import conversion
from nameserver.wire.conversion import KnownIds
from shadowtree.v1 import delivery_pb2 as wire

PAGE_SIZE: Final = 1_000
PAGE_SIZE_LIMIT: Final = 10_000
"""Most mailboxes of one page: about a megabyte."""


class MailboxCalls:
    """Servicer of the mailboxes of this server."""

    def __init__(
        self,
        *,
        machine: DeliveryMachine,
        known: KnownIds,
        routing: Routing,
        endpoints: Endpoints,
        rights: DeliveryRights,
    ) -> None:
        self._rights = rights
        self._machine = machine
        self._known = known
        self._routing = routing
        self._endpoints = endpoints

    async def open_mailbox(self, request: wire.OpenMailboxRequest, _context: Context) -> wire.Mailbox:
        """Open a mailbox, which keeps messages for a process."""
        machine = self._machine
        process = message_wire.read_reader(request.process, "process", self._known)
        await self._rights.require_reader(process, changes=True)
        answer = await machine.carry_out_delivery(OpenMailbox(machine.new_ticket(), process, self._origin()))
        if isinstance(answer, DeliveryRefused):
            raise RefusedError(answer.refusal)
        assert isinstance(answer, MailboxOpened)
        state = machine.mailbox_of(process)
        if state is None:
            # The mailbox was closed again before this answer left.
            state = MailboxState(process, answer.mailbox, {})
        told = self._told(state)
        told.is_new = answer.is_new
        return told

    async def close_mailbox(self, request: wire.CloseMailboxRequest, _context: Context) -> wire.Mailbox:
        """Close a mailbox. Its listeners are told."""
        machine = self._machine
        process = message_wire.read_reader(request.process, "process", self._known)
        await self._rights.require_reader(process, changes=True)
        if is_pattern(process) and machine.mailbox_of(process) is not None:
            self._require_operator(process, request)
        answer = await machine.carry_out_delivery(CloseMailbox(machine.new_ticket(), process, self._origin()))
        if isinstance(answer, DeliveryRefused):
            raise RefusedError(answer.refusal)
        assert isinstance(answer, MailboxClosed)
        told = self._told(MailboxState(process, answer.mailbox, answer.subscriptions))
        told.messages_lost = answer.unread
        self._endpoints.close_mailbox(answer.mailbox, self._closed(process))
        return told

    def _origin(self) -> Origin:
        return origin_of(server=self._machine.server)

    def _require_operator(self, pattern: NodeId, request: wire.CloseMailboxRequest) -> None:
        """Raise `RefusedError` unless an operator of this machine means to close the mailbox of a gateway.

        The mail of a whole organisation may wait in it, and its gateway may be away for a moment only.
        """
        if not (request.force and current_caller().is_operator_here):
            raise refuse(
                Reason.PERMISSION_DENIED,
                f"{pattern} is the mailbox of a gateway, and what it keeps would be lost: stop the gateway, then close "
                f"it with --force on the machine of the server {self._machine.server}",
            )

    async def list_mailboxes(self, request: wire.ListMailboxesRequest, _context: Context) -> wire.ListMailboxesResponse:
        """Return one page of mailboxes, sorted by process.

        A caller that does not operate this server is told its own mailbox, and which gateways there are: gateways of
        other organisations ask for that.
        """
        self._routing.require_owned(conversion.read_subnet(request.subnet))
        size = min(request.page_size or PAGE_SIZE, PAGE_SIZE_LIMIT)
        found = await self._machine.mailboxes_after(request.page_token, size + 1)
        await self._machine.until_durable()
        page = found[:size]
        visible = await self._rights.visible(state.process for state in page)
        return wire.ListMailboxesResponse(
            mailboxes=[
                self._told(state, is_visible=state.process in visible)
                for state in page
                if state.process in visible or is_pattern(state.process)
            ],
            next_page_token=page[-1].process if len(found) > size else "",
        )

    def _told(self, state: MailboxState, *, is_visible: bool = True) -> wire.Mailbox:
        """Return a mailbox for a caller. `is_visible`: False to leave out the positions of its subscriptions."""
        machine = self._machine
        return wire.Mailbox(
            process=state.process,
            server=machine.server,
            subscriptions=[
                wire.Mailbox.Subscription(
                    name=name,
                    position=str(PositionToken(machine.server, machine.incarnation, position)) if is_visible else "",
                    is_listening=self._endpoints.is_listening((state.number, name)),
                )
                for name, position in sorted(state.subscriptions.items())
            ],
        )

    def _closed(self, process: NodeId) -> RefusedError:
        return refuse(
            Reason.MAILBOX_NOT_FOUND,
            f"the mailbox of {process} at the server {self._machine.server} was closed",
            process=process,
            server=self._machine.server,
        )
