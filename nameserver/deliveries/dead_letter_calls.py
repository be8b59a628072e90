"""ListDeadLetters, ReplayDeadLetters, DropDeadLetters: messages that this server could not deliver, and their
treatment.
"""

from __future__ import annotations

from typing import Final

from delivery.model.events import (
    Answer,
    DeadLettersDropped,
    DeadLettersReplayed,
    DeliveryRefused,
    DropDeadLetters,
    ReplayDeadLetters,
)
from delivery.origin.dead_letters import DeadReason, UndeliveredParcel
from namegraph import Reason, RefusedError, refuse
from nameserver.calls.adapters import Context
from nameserver.deliveries.delivery_rights import DeliveryRights
from nameserver.deliveries.machine import DeliveryMachine
from nameserver.routing.ownership import Routing
from nameserver.wire import conversion
from shadowtree.v1 import delivery_pb2 as wire

PAGE_SIZE: Final = 1_000
PAGE_SIZE_LIMIT: Final = 10_000

NUMBERS_LIMIT: Final = 10_000
"""Most dead letters that one call names."""


class DeadLetterCalls:
    """Servicer of the dead letters of this server."""

    def __init__(self, *, machine: DeliveryMachine, routing: Routing, rights: DeliveryRights) -> None:
        self._rights = rights
        self._machine = machine
        self._routing = routing

    async def list_dead_letters(
        self, request: wire.ListDeadLettersRequest, _context: Context
    ) -> wire.ListDeadLettersResponse:
        """Return one page of dead letters, the oldest first."""
        await self._rights.require_operator("see messages that were not delivered")
        self._require_owned(request.subnet)
        token = request.page_token or "0"
        if not (token.isascii() and token.isdigit()):
            raise refuse(Reason.INVALID_REQUEST, "the page token is none that a page had", field="page_token")
        size = min(request.page_size or PAGE_SIZE, PAGE_SIZE_LIMIT)
        found = self._machine.dead_letters_after(int(token), size + 1)
        lost = self._machine.dead_messages_lost
        await self._machine.until_durable()
        page = found[:size]
        return wire.ListDeadLettersResponse(
            dead_letters=map(_told, page),
            next_page_token=str(page[-1].number) if len(found) > size else "",
            messages_lost=lost,
            server=self._machine.server,
        )

    async def replay(self, request: wire.ReplayDeadLettersRequest, _context: Context) -> wire.ReplayDeadLettersResponse:
        """Post dead letters again to the servers that lack them."""
        await self._rights.require_operator("send messages again")
        self._require_owned(request.subnet)
        answer = await self._carry_out(ReplayDeadLetters(self._machine.new_ticket(), _chosen(request)))
        assert isinstance(answer, DeadLettersReplayed)
        return wire.ReplayDeadLettersResponse(replayed=answer.replayed, left=answer.left)

    async def drop(self, request: wire.DropDeadLettersRequest, _context: Context) -> wire.DropDeadLettersResponse:
        """Forget dead letters."""
        await self._rights.require_operator("drop messages")
        self._require_owned(request.subnet)
        answer = await self._carry_out(DropDeadLetters(self._machine.new_ticket(), _chosen(request)))
        assert isinstance(answer, DeadLettersDropped)
        return wire.DropDeadLettersResponse(dropped=answer.dropped)

    async def _carry_out(self, event: ReplayDeadLetters | DropDeadLetters) -> Answer:
        answer = await self._machine.carry_out_delivery(event)
        if isinstance(answer, DeliveryRefused):
            raise RefusedError(answer.refusal)
        return answer

    def _require_owned(self, subnet: str) -> None:
        self._routing.require_owned(conversion.read_subnet(subnet))


def _chosen(request: wire.ReplayDeadLettersRequest | wire.DropDeadLettersRequest) -> tuple[int, ...] | None:
    """Return the numbers that a request names. None for all. Raises `RefusedError`."""
    if request.all and request.numbers:
        raise refuse(Reason.INVALID_REQUEST, "dead letters are named by numbers, or all together", field="numbers")
    if len(request.numbers) > NUMBERS_LIMIT:
        raise refuse(
            Reason.LIMIT_EXCEEDED,
            f"a call names at most {NUMBERS_LIMIT} dead letters",
            limit=str(NUMBERS_LIMIT),
            field="numbers",
        )
    return None if request.all else tuple(request.numbers)


_REASONS: Final = {
    DeadReason.SERVER_REMOVED: wire.DeadLetter.REASON_SERVER_REMOVED,
    DeadReason.EXPIRED: wire.DeadLetter.REASON_EXPIRED,
    DeadReason.REFUSED: wire.DeadLetter.REASON_REFUSED,
}


def _told(letter: UndeliveredParcel) -> wire.DeadLetter:
    return wire.DeadLetter(
        number=letter.number,
        id=letter.first_id,
        messages=letter.messages,
        bytes=letter.size,
        group=letter.addressed,
        reason=_REASONS[letter.reason],
        servers=letter.servers,
        replayed_to=letter.replayed_to,
        sent_at_ms=letter.sent_at_ms,
        why=letter.why,
    )
