"""Who may send to a group, as its policy says: judged by its home, by a check over all servers.

    target --policy--> anyone: yes
                  '--> a group --Check--> below it: yes;  not below it: NOT_A_SENDER;  uncertain: UNAVAILABLE

The sender is the process that the caller names. Nobody is authenticated, so the caller is believed.

Source: delivery.md section 12; K6 section 6.4 (open and closed groups).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import grpc

from delivery.model import TargetSet
from delivery.policy import Policy
from namegraph import NodeId, Reason, Refusal, RefusedError, refuse
from nameserver.calls.adapters import Context, Method
from nameserver.routing.ownership import OwnerKind, Routing
from nameserver.wire.status_mapping import refusal_of
from shadowtree.v1.name_service_pb2 import CheckRequest, CheckResponse

_NO_ANSWER: Final = Refusal(Reason.UNAVAILABLE, "another server has not said who is in a group")


class WhoMaySend:
    """Judges senders to groups of this server."""

    def __init__(self, *, policy_of: Callable[[NodeId], Policy], routing: Routing, check: Method[CheckRequest]) -> None:
        """`check` answers Check: it raises `RefusedError` where that is uncertain."""
        self._policy_of = policy_of
        self._routing = routing
        self._check = check

    def asks(self, targets: TargetSet) -> bool:
        """Whether some target says who may send to it."""
        return any(self._senders(target.name) is not None for target in targets)

    async def objection(self, targets: TargetSet, process: NodeId | None, context: Context) -> Refusal | None:
        """Why a process may not send to these targets, or that this cannot be told; None: it may."""
        for target in targets:
            senders = self._senders(target.name)
            if senders is not None:
                objection = await self._objection(target.name, senders, process, context)
                if objection is not None:
                    return objection
        return None

    def _senders(self, target: NodeId) -> NodeId | None:
        """The group below which a sender must be; None: anyone may send, or another server says who."""
        if self._routing.owner_kind(target) is not OwnerKind.OURS:
            return None
        return self._policy_of(target).senders_of(target)

    async def _objection(
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
            refusal = refusal_of(error) or _NO_ANSWER
        else:
            assert isinstance(answer, CheckResponse)
            return None if answer.is_member else no_sender(f"{process} is none")
        if refusal.reason is not Reason.GROUP_NOT_FOUND:
            return Refusal(refusal.reason, f"{only}: {refusal.message}", refusal.facts)
        if senders == group:
            # It was deleted meanwhile: there is nobody to send to.
            return None
        return no_sender(f"there is no group {senders} any more")
