"""The DeliveryService: the answering part and the home of each method.

of the home of a process   Subscribe, OpenMailbox, CloseMailbox
of the home of a group   SetDelivery, GetDelivery
of the home of each message's first target   Send: one stream may have messages for many homes; SendOne
of the server of a subnet, or of the one that is asked   ListMailboxes, ListDeadLetters, ReplayDeadLetters,
                                                         DropDeadLetters
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing

from namegraph import CoreQueries, NodeKind, Reason, RefusedError, ServerId, TargetSet, refuse
from nameserver.access.caller import current_caller
from nameserver.calls.adapters import Context, Handler, Method, conversation_call, unary_call
from nameserver.calls.caller_facts import FactsOfCallers
from nameserver.calls.home_dispatch import HomeDispatch
from nameserver.calls.stream_places import StreamPlace, StreamPlaces
from nameserver.deliveries.dead_letter_calls import DeadLetterCalls
from nameserver.deliveries.delivery_rights import DeliveryRights
from nameserver.deliveries.endpoints import Endpoints
from nameserver.deliveries.log_tail import LogTail
from nameserver.deliveries.machine import DeliveryMachine
from nameserver.deliveries.mailbox_calls import MailboxCalls
from nameserver.deliveries.policy_calls import PolicyCalls
from nameserver.deliveries.send_calls import SendCalls
from nameserver.deliveries.subscribe_calls import SubscribeCalls
from nameserver.deliveries.who_may_send import MaySendCalls, WhoMaySend
from nameserver.driver.time_of_day import now_ms
from nameserver.routing.forwarding import Forwarder, not_owned_here, working_seconds
from nameserver.routing.ownership import OwnerKind, Routing
from nameserver.transport.peer_directory import PeerDirectory
from shadowtree.v1 import delivery_pb2 as messages
from shadowtree.v1.name_service_pb2 import CheckRequest
from shadowtree.v1.peer_pb2 import MaySendRequest

DELIVERY_SERVICE: str = messages.DESCRIPTOR.services_by_name["DeliveryService"].full_name

PATIENT_METHODS = frozenset({"Send", "Subscribe"})
"""Methods on whose streams a client may be silent, because it has nothing to send, or nothing to acknowledge."""


def delivery_service_handlers(
    *,
    core: CoreQueries,
    machine: DeliveryMachine,
    directory: PeerDirectory,
    check: Method[CheckRequest],
    streams: StreamPlaces | None = None,
    is_crowded: Callable[[TargetSet], bool] = lambda _targets: False,
) -> dict[str, Handler]:
    """Return the handler of each method, by its name.

    `check`: answers Check. `streams`: places of streams. None for places of their own. `is_crowded`: returns True if a
    message to a new target set is to wait.
    """
    streams = streams or StreamPlaces(clock=time.monotonic)
    known = core.graph.index
    routing = Routing(known=core, directory=directory)
    forwarder = Forwarder(server=core.server, directory=directory)
    endpoints = Endpoints()
    rights = DeliveryRights(core=core, facts=FactsOfCallers(core=core, forwarder=forwarder))
    who_may_send = WhoMaySend(
        policy_of=machine.policy_of, routing=routing, forwarder=forwarder, check=check, rights=rights
    )
    sends = SendCalls(
        machine=machine,
        known=known,
        routing=routing,
        forwarder=forwarder,
        who_may_send=who_may_send,
        rights=rights,
        now_ms=now_ms,
        is_crowded=is_crowded,
    )
    subscriptions = SubscribeCalls(
        machine=machine, known=known, endpoints=endpoints, tail=LogTail(machine), rights=rights, now_ms=now_ms
    )
    mailboxes = MailboxCalls(machine=machine, known=known, routing=routing, endpoints=endpoints, rights=rights)
    homes = HomeDispatch(routing=routing, forwarder=forwarder, service=DELIVERY_SERVICE)
    anywhere = _SubscribeAnywhere(subscriptions, machine=machine, routing=routing, forwarder=forwarder, streams=streams)

    async def send(requests: AsyncIterator[messages.SendRequest], context: Context) -> None:
        async with streams.one(requests, context) as place:
            await sends.send(requests, context, place)

    open_mailbox = homes.unary("OpenMailbox", _process, mailboxes.open_mailbox, changes=True)
    close_mailbox = homes.unary("CloseMailbox", _process, mailboxes.close_mailbox, changes=True)
    list_mailboxes = homes.unary("ListMailboxes", _subnet, mailboxes.list_mailboxes, changes=False)
    policies = PolicyCalls(
        machine=machine,
        known=known,
        is_group=lambda name: core.graph.group(name) is not None,
        renamed_to=core.renamed_to,
        routing=routing,
        forwarder=forwarder,
        rights=rights,
    )
    set_delivery = homes.unary("SetDelivery", _group, policies.set_delivery, changes=True)
    get_delivery = homes.unary("GetDelivery", _group, policies.get_delivery, changes=False)
    dead_letters = DeadLetterCalls(machine=machine, routing=routing, rights=rights)
    list_dead = homes.unary("ListDeadLetters", _subnet, dead_letters.list_dead_letters, changes=False)
    replay = homes.unary("ReplayDeadLetters", _subnet, dead_letters.replay, changes=True)
    drop = homes.unary("DropDeadLetters", _subnet, dead_letters.drop, changes=True)
    return {
        "Send": conversation_call(send, messages.SendRequest),
        "SendOne": unary_call(sends.send_one, messages.SendRequest),
        "Subscribe": conversation_call(anywhere.subscribe, messages.SubscribeRequest),
        "SetDelivery": unary_call(set_delivery, messages.SetDeliveryRequest),
        "GetDelivery": unary_call(get_delivery, messages.GetDeliveryRequest),
        "OpenMailbox": unary_call(open_mailbox, messages.OpenMailboxRequest),
        "CloseMailbox": unary_call(close_mailbox, messages.CloseMailboxRequest),
        "ListMailboxes": unary_call(list_mailboxes, messages.ListMailboxesRequest),
        "ListDeadLetters": unary_call(list_dead, messages.ListDeadLettersRequest),
        "ReplayDeadLetters": unary_call(replay, messages.ReplayDeadLettersRequest),
        "DropDeadLetters": unary_call(drop, messages.DropDeadLettersRequest),
    }


def delivery_question_handlers(
    *, core: CoreQueries, machine: DeliveryMachine, directory: PeerDirectory, check: Method[CheckRequest]
) -> dict[str, Handler]:
    """Return the handlers of the questions of the PeerService about messages."""
    routing = Routing(known=core, directory=directory)
    forwarder = Forwarder(server=core.server, directory=directory)
    rights = DeliveryRights(core=core, facts=FactsOfCallers(core=core, forwarder=forwarder))
    graph = core.graph
    questions = MaySendCalls(
        machine=machine,
        known=graph.index,
        renamed_to=core.renamed_to,
        exists=lambda name: name in graph.index and graph.kind(graph.index[name]) is not NodeKind.ABSENT,
        routing=routing,
        who_may_send=WhoMaySend(
            policy_of=machine.policy_of, routing=routing, forwarder=forwarder, check=check, rights=rights
        ),
    )
    return {"MaySend": unary_call(questions.may_send, MaySendRequest)}


class _SubscribeAnywhere:
    """Servicer of Subscribe. It passes the stream of another server's process on to that server, unchanged."""

    def __init__(
        self,
        here: SubscribeCalls,
        *,
        machine: DeliveryMachine,
        routing: Routing,
        forwarder: Forwarder,
        streams: StreamPlaces,
    ) -> None:
        self._streams = streams
        self._here = here
        self._machine = machine
        self._routing = routing
        self._forwarder = forwarder

    async def subscribe(self, requests: AsyncIterator[messages.SubscribeRequest], context: Context) -> None:
        """Answer Subscribe."""
        async with self._streams.one(requests, context) as place:
            await self._subscribe(requests, context, place)

    async def _subscribe(
        self, requests: AsyncIterator[messages.SubscribeRequest], context: Context, place: StreamPlace
    ) -> None:
        first = await anext(requests, None)
        if first is None or not first.HasField("begin"):
            raise refuse(Reason.INVALID_REQUEST, "the first request says for whom it listens", field="begin")
        of, routing = first.begin.name, self._routing
        owner_kind = routing.owner_kind(of)
        if owner_kind is OwnerKind.UNOWNED:
            routing.require_listed(of)
        if owner_kind is not OwnerKind.ANOTHERS:
            await self._here.subscribe(first, requests, context, place)
            return
        if current_caller().is_forwarded:
            raise not_owned_here(of, routing.server)
        passing_on = asyncio.create_task(self._pass_on(await routing.home_of(of), first, requests, context, place))
        ending: list[RefusedError] = []

        def end(error: RefusedError) -> None:
            ending.append(error)
            passing_on.cancel()

        place.end = end
        try:
            with self._machine.told_of_end(end):
                await asyncio.wait((passing_on,))
            if ending and passing_on.cancelled():
                raise ending[0]
            await passing_on
        finally:
            passing_on.cancel()

    async def _pass_on(
        self,
        home: ServerId,
        first: messages.SubscribeRequest,
        requests: AsyncIterator[messages.SubscribeRequest],
        context: Context,
        place: StreamPlace,
    ) -> None:
        path, seconds = f"/{DELIVERY_SERVICE}/Subscribe", working_seconds(context)
        answers = self._forwarder.converse(home, path, _serialized(first, requests), seconds=seconds, changes=False)
        async with aclosing(answers):
            async for answer in answers:
                await context.write(answer)
                place.used()


async def _serialized(
    first: messages.SubscribeRequest, requests: AsyncIterator[messages.SubscribeRequest]
) -> AsyncIterator[bytes]:
    yield first.SerializeToString()
    async for request in requests:
        yield request.SerializeToString()


def _group(request: messages.SetDeliveryRequest | messages.GetDeliveryRequest) -> str:
    return request.group


def _process(request: messages.OpenMailboxRequest | messages.CloseMailboxRequest) -> str:
    return request.process


def _subnet(
    request: messages.ListMailboxesRequest
    | messages.ListDeadLettersRequest
    | messages.ReplayDeadLettersRequest
    | messages.DropDeadLettersRequest,
) -> str:
    return request.subnet
