"""Sender of queued messages once their origin is within reach: one message of each queue at a time, so in order.

    queue --the oldest, as an ordinary Send--> origin --accepted--> it waits no longer
      ^                                          |---- refused ---> it waits no longer: a dead letter
      '------------- tried again <---------------'---- not now, or not heard of

Source: docs/messages.md, "Sending".
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Container
from typing import Final, Protocol

from delivery.model.events import Answer, DeliveryRefused, Notice, OwnRequest, QueuedEnded, QueueMessage
from delivery.origin.queue import Due
from namegraph import NodeId, Reason, Refusal, RefusedError, ServerId, Subnet, refuse, subnet_of_principal
from nameserver.access.caller import current_caller
from nameserver.deliveries import message_wire
from nameserver.deliveries.send_lanes import HomeLane
from nameserver.routing.forwarding import Forwarder
from nameserver.routing.ownership import Routing
from nameserver.wire.conversion import KnownIds
from shadowtree.v1 import delivery_pb2 as wire

LOOK_SECONDS: Final = 1.0
"""Interval at which the sender looks for messages that can be passed on."""

REQUEST_ID_BYTES: Final = 16

NOT_HEARD: Final = frozenset({Reason.UNAVAILABLE, Reason.OUTCOME_UNKNOWN, Reason.DEADLINE_EXCEEDED})
"""Reasons for which a message is queued instead of passed on at once."""

NOT_NOW: Final = NOT_HEARD | {Reason.RATE_EXCEEDED}
"""Reasons for which a queued message stays, and all behind it.

For `BACKLOG_FULL` only the messages to the same target stay.
"""


class QueueMachine(Protocol):
    """The queue of this server, driven by the run loop."""

    def is_in_reach(self, server: ServerId) -> bool:
        """Return True if another server is connected, directly or through others."""

    def new_ticket(self) -> int:
        """Return a number for one event, never used again."""

    def carry_out_delivery(self, event: OwnRequest) -> asyncio.Future[Answer]:
        """Carry out as `DeliveryMachine` defines."""

    def notice(self, event: Notice) -> None:
        """Notice as `DeliveryMachine` defines."""

    def queued_subnets(self) -> list[Subnet]:
        """Return the subnets whose homes have a message waiting here, sorted."""

    def queue_waits_for(self, addressed: NodeId) -> bool:
        """Return True if a message waits for the home of a name."""

    def due(self, subnet: Subnet, *, but: Container[NodeId] = ()) -> Due | None:
        """Return the oldest message that waits for the home of a subnet, except messages addressed to a
        name of `but`.
        """

    async def until_durable(self) -> None:
        """Wait as `DeliveryMachine` defines."""


class QueueSending:
    """Sender of queued messages, as long as `run` lasts."""

    def __init__(
        self, *, machine: QueueMachine, routing: Routing, forwarder: Forwarder, look_seconds: float = LOOK_SECONDS
    ) -> None:
        self._machine = machine
        self._routing = routing
        self._forwarder = forwarder
        self._look_seconds = look_seconds
        self._passing: dict[Subnet, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Pass on messages until this task is cancelled. Raises errors of this server."""
        try:
            while True:
                for subnet in self._machine.queued_subnets():
                    if subnet not in self._passing:
                        self._passing[subnet] = asyncio.create_task(self._pass_on(subnet))
                await asyncio.sleep(self._look_seconds)
                for subnet in [subnet for subnet, task in self._passing.items() if task.done()]:
                    await self._passing.pop(subnet)
        finally:
            for task in self._passing.values():
                task.cancel()
            await asyncio.gather(*self._passing.values(), return_exceptions=True)

    async def _pass_on(self, subnet: Subnet) -> None:
        """Pass on the messages that wait for the home of a subnet, as far as it is there."""
        home = self._routing.known_home(subnet)
        if home is None or not self._machine.is_in_reach(home):
            return
        lane = HomeLane(self._forwarder, home, seconds=None)
        full: set[NodeId] = set()
        """Targets below which a server has too much unconfirmed. Messages to other targets go on."""
        try:
            while not lane.is_over and (due := self._machine.due(subnet, but=full)) is not None:
                # A message that became a dead letter must not wait here again after a crash.
                await self._machine.until_durable()
                message = wire.SendRequest.Message.FromString(due.encoded)
                message.deadline_ms = due.deadline_ms
                answer = await lane.say(message, on_settled=_nobody_waits, on_unsettled=_nobody_is_told)
                refusal = message_wire.read_refused(answer.refused) if answer.HasField("refused") else None
                if refusal is not None and refusal.reason is Reason.BACKLOG_FULL:
                    full.add(due.addressed)
                    continue
                if refusal is not None and refusal.reason in NOT_NOW:
                    return
                self._machine.notice(QueuedEnded(due.number, refusal))
        except RefusedError:
            # The database fails. The next look tries again.
            return
        finally:
            lane.cancel()


def _nobody_waits(_answer: wire.SendResponse.Answer) -> None:
    pass


def _nobody_is_told() -> None:
    pass


async def queue(
    message: wire.SendRequest.Message,
    number: int,
    *,
    home: ServerId,
    machine: QueueMachine,
    known: KnownIds,
    at_ms: int,
) -> wire.SendResponse.Answer:
    """Queue a message for its origin. Return the answer for its caller. `number`: number in its stream."""
    targets = message_wire.read_targets(message, known)
    kept = wire.SendRequest.Message()
    kept.CopyFrom(message)
    kept.queue, kept.wait = False, wire.SendRequest.WAIT_ACCEPTED
    if not kept.as_process and subnet_of_principal(current_caller().principal) is not None:
        # The origin judges the message when this server passes it on, after the call of its sender.
        kept.as_process = current_caller().principal
    event = QueueMessage(
        machine.new_ticket(),
        targets[0].name,
        kept.SerializeToString(),
        message.sender,
        message.number,
        message.request_id,
        message.deadline_ms,
        at_ms,
    )
    answer = await machine.carry_out_delivery(event)
    if isinstance(answer, DeliveryRefused):
        return message_wire.refused(number, answer.refusal)
    return message_wire.queued(number, answer, home)


def prepare(message: wire.SendRequest.Message, known: KnownIds) -> None:
    """Prepare a message that may be queued: give it a request id if it has no number.

    Raises `RefusedError` if it cannot be queued.
    """
    if message.quality == wire.QUALITY_DATAGRAM:
        raise refuse(Reason.INVALID_REQUEST, "a datagram is not queued: it is for who listens now", field="queue")
    message_wire.read_quality(message.quality)
    message_wire.read_targets(message, known)
    message_wire.read_message(message, sent_at_ms=0)
    if not message.number and not message.request_id:
        message.request_id = secrets.token_hex(REQUEST_ID_BYTES)


def is_not_heard(refusal: Refusal) -> bool:
    """Return True if a message that its origin refused for this reason is queued, if it may be."""
    return refusal.reason in NOT_HEARD
