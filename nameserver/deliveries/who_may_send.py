"""Permission to send: each home judges for its own targets if they exist, and if the sender may send to them.

    targets of a message --home is this server--> exists; policy --anyone-----> yes
                    |                                       '--> a group --Check--> below it: yes;  not: NOT_A_SENDER;
                    |                                                               uncertain: UNAVAILABLE
                    '--another one is--> MaySend, all homes at once: it judges as above;  away: UNAVAILABLE

The sender is the caller. A server that judges no callers believes the process that the caller names.

Source: docs/messages.md, "Who may send"; docs/protocol-messages.md, "Who may send".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

import grpc

from delivery.model.policy import DeliveryPolicy
from delivery.model.words import TARGETS_LIMIT, target_not_found
from namegraph import NodeId, Reason, Refusal, RefusedError, ServerId, TargetSet, refuse
from nameserver.calls.adapters import Context, Method
from nameserver.calls.read_your_writes import PEER_SERVICE
from nameserver.deliveries.delivery_rights import DeliveryRights
from nameserver.deliveries.machine import DeliveryMachine
from nameserver.routing.forwarding import Forwarder, not_owned_here, part_seconds
from nameserver.routing.ownership import OwnerKind, Routing
from nameserver.wire import conversion
from nameserver.wire.conversion import KnownIds
from nameserver.wire.status_mapping import refusal_of
from shadowtree.v1.name_service_pb2 import CheckRequest, CheckResponse
from shadowtree.v1.peer_pb2 import MaySendRequest, MaySendResponse

MAY_SEND_PATH: Final = f"/{PEER_SERVICE}/MaySend"


class WhoMaySend:
    """Judge of the senders of messages of which this server is the origin, and of messages to its own targets."""

    def __init__(
        self,
        *,
        policy_of: Callable[[NodeId], DeliveryPolicy],
        routing: Routing,
        forwarder: Forwarder,
        check: Method[CheckRequest],
        rights: DeliveryRights,
    ) -> None:
        """`check` answers Check. Raises `RefusedError` if the answer is uncertain."""
        self._policy_of = policy_of
        self._routing = routing
        self._forwarder = forwarder
        self._check = check
        self._rights = rights

    def asks(self, targets: TargetSet) -> bool:
        """Return True if a question is needed: this server judges callers, or some target has a policy for its
        senders, or belongs to another server.
        """
        owner_kind = self._routing.owner_kind
        return self._rights.are_judged or any(
            owner_kind(target.name) is OwnerKind.ANOTHERS or self._senders(target.name) is not None
            for target in targets
        )

    async def objection(self, targets: TargetSet, process: NodeId | None, context: Context) -> Refusal | None:
        """Return the refusal of a process as sender to these targets.

        None if it may send.

        A refusal may also say that the answer is unknown. All homes are asked at once.
        """
        names = [target.name for target in targets]
        own = [name for name in names if self._routing.owner_kind(name) is not OwnerKind.ANOTHERS]
        others = [name for name in names if name not in own]
        try:
            homes = await asyncio.gather(*map(self._routing.home_of, others))
        except RefusedError as error:
            return error.refusal
        by_home: dict[ServerId, list[NodeId]] = {}
        for name, home in zip(others, homes, strict=True):
            by_home.setdefault(home, []).append(name)
        objections = await asyncio.gather(
            self.objection_here(own, process, context),
            *(self._objection_of(home, names, process, context) for home, names in by_home.items()),
        )
        return next((objection for objection in objections if objection is not None), None)

    async def objection_here(self, names: Iterable[NodeId], process: NodeId | None, context: Context) -> Refusal | None:
        """Do as `objection`, for policies of this server alone."""
        names = list(names)
        try:
            process = await self._rights.require_sender(names, process)
        except RefusedError as error:
            return error.refusal
        for name in names:
            senders = self._senders(name)
            if senders is not None:
                objection = await self._objection_to(name, senders, process, context)
                if objection is not None:
                    return objection
        return None

    def _senders(self, target: NodeId) -> NodeId | None:
        """Return the group below which a sender must be. None if anyone may send, or another server judges."""
        if self._routing.owner_kind(target) is not OwnerKind.OURS:
            return None
        return self._policy_of(target).senders_of(target)

    async def _objection_of(
        self, home: ServerId, names: list[NodeId], process: NodeId | None, context: Context
    ) -> Refusal | None:
        """Return another server's refusal for its targets."""
        request = MaySendRequest(targets=names, as_process=process or "").SerializeToString()
        try:
            await self._forwarder.ask(home, MAY_SEND_PATH, request, seconds=part_seconds(context))
        except RefusedError as error:
            return error.refusal
        except grpc.aio.AioRpcError as error:
            return refusal_of(error) or _no_answer(home)
        return None

    async def _objection_to(
        self, group: NodeId, senders: NodeId, process: NodeId | None, context: Context
    ) -> Refusal | None:
        only = f"only members of {senders} may send to {group}"

        def no_sender(why: str) -> Refusal:
            return refuse(
                Reason.NOT_A_SENDER,
                f"{only}, and {why}",
                group=group,
                senders=senders,
                process=process or "",
                server=self._routing.server,
            ).refusal

        if process is None:
            return no_sender("this message does not say which process sends it")
        try:
            answer = await self._check(CheckRequest(group=senders, member=process), context)
        except RefusedError as error:
            refusal = error.refusal
        except grpc.aio.AioRpcError as error:
            refusal = refusal_of(error) or _no_answer(self._routing.server)
        else:
            assert isinstance(answer, CheckResponse)
            return None if answer.is_member else no_sender(f"{process} is none")
        if refusal.reason is not Reason.GROUP_NOT_FOUND:
            return Refusal(refusal.reason, f"{only}: {refusal.message}", refusal.facts)
        renamed_to = refusal.facts.get("renamed_to")
        if renamed_to is not None:
            # The home has told this server's policies of the new name only if nodes of this server were below the
            # group.
            return await self._objection_to(group, NodeId(renamed_to), process, context)
        if senders == group:
            # The group was deleted meanwhile, so the message has no receivers.
            return None
        return no_sender(f"there is no group {senders} any more")


def _no_answer(server: ServerId) -> Refusal:
    return refuse(
        Reason.UNAVAILABLE,
        f"the server {server} has not said whether a message may be sent",
        server=server,
        unreachable=server,
    ).refusal


class MaySendCalls:
    """Servicer of MaySend, for the targets of this server."""

    def __init__(
        self,
        *,
        machine: DeliveryMachine,
        known: KnownIds,
        exists: Callable[[NodeId], bool],
        routing: Routing,
        who_may_send: WhoMaySend,
        renamed_to: Callable[[NodeId], NodeId | None],
    ) -> None:
        """Create the servicer.

        `exists`: returns True if a name is a group, or a member of one, here. `renamed_to`: returns the present name of
        a group.
        """
        self._renamed_to = renamed_to
        self._machine = machine
        self._known = known
        self._exists = exists
        self._routing = routing
        self._who_may_send = who_may_send

    async def may_send(self, request: MaySendRequest, context: Context) -> MaySendResponse:
        """Return if the process may send to the targets. Raises `RefusedError` otherwise."""
        if not 0 < len(request.targets) <= TARGETS_LIMIT:
            raise refuse(Reason.INVALID_REQUEST, f"1 to {TARGETS_LIMIT} targets", field="targets")
        targets = [conversion.read_id(name, "targets", self._known) for name in request.targets]
        process = conversion.read_id(request.as_process, "as_process", self._known) if request.as_process else None
        routing, machine = self._routing, self._machine
        for name in targets:
            if routing.owner_kind(name) is not OwnerKind.OURS:
                raise not_owned_here(name, routing.server)
        missing = [name for name in targets if not self._exists(name) and not machine.listens_for(name)]
        objection = await self._who_may_send.objection_here(targets, process, context)
        # The answer may rest on state that is not durable yet.
        await machine.until_durable()
        if missing:
            raise target_not_found(missing[0], routing.server, self._renamed_to(missing[0]))
        if objection is not None:
            raise RefusedError(objection)
        return MaySendResponse()
