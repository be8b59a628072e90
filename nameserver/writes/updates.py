"""CreateGroup, DeleteGroup, Join, Leave and ApplyUpdates: each becomes one update of the core."""

from __future__ import annotations

import asyncio
import itertools
import secrets
from typing import Protocol

from msgspec import structs

from namegraph import (
    Committed,
    NameGraph,
    NodeId,
    Operation,
    Reason,
    Refusal,
    RefusedError,
    RequestId,
    UpdateCommand,
    refuse,
)
from nameserver.calls.adapters import Context, deadline_of
from nameserver.driver.run_loop import RunLoop
from nameserver.routing.origins import origin_of
from nameserver.routing.planned_restarts import Restarting, outlast_restarts
from nameserver.routing.subnet_guard import SubnetGuard
from nameserver.wire import conversion
from shadowtree.v1 import name_service_pb2 as messages
from shadowtree.v1 import names_pb2 as values

APPLY_OPERATIONS_LIMIT = 100_000
"""Operations of one atomic update: the core takes about a second over so many, and other updates wait meanwhile."""


OPERATIONS_READ_AT_ONCE = 500
"""Reading so many takes some milliseconds, after which others are served."""


class _Update(Protocol):
    """What every request for an update says of it, besides its operations."""

    @property
    def request_id(self) -> str:
        """Names the update; empty where the caller will not repeat it."""

    @property
    def report_control(self) -> bool:
        """Whether the caller wants to hear what became controlled or released."""


def _is_missing(group: NodeId, refusal: Refusal) -> bool:
    return refusal.reason is Reason.GROUP_NOT_FOUND and refusal.facts.get("group") == group


class RequestIds:
    """Request ids for callers that send none: they cannot repeat the request, but the core names every update."""

    def __init__(self) -> None:
        self._prefix = secrets.token_hex(8)
        self._numbers = itertools.count(1)

    def given_or_new(self, given: str) -> RequestId:
        """The caller's request id, or one that was never used."""
        return RequestId(given or f"{self._prefix}-{next(self._numbers)}")


class UpdateCalls:
    """Answers the calls that change a few arcs or groups."""

    def __init__(
        self,
        *,
        run_loop: RunLoop,
        graph: NameGraph,
        request_ids: RequestIds,
        listed: SubnetGuard,
        restarting: Restarting,
    ) -> None:
        self._restarting = restarting
        self._listed = listed
        self._run_loop = run_loop
        self._known = graph.index
        self._request_ids = request_ids

    async def create_group(self, request: messages.CreateGroupRequest, context: Context) -> values.Change:
        """Make one group."""
        return await self._update((conversion.create_operation(request, self._known),), request, context)

    async def delete_group(self, request: messages.DeleteGroupRequest, context: Context) -> values.Change:
        """Remove one group."""
        delete = conversion.delete_operation(request, self._known)
        try:
            return await self._update((delete,), request, context)
        except RefusedError as error:
            if not (request.if_needed and _is_missing(delete.group, error.refusal)):
                raise
            return values.Change(revision=self._run_loop.durable_revision, unchanged=[1])

    async def join(self, request: messages.JoinRequest, context: Context) -> values.Change:
        """Add one arc."""
        join = structs.replace(conversion.join_operation(request, self._known), offline=request.offline)
        return await self._update((join,), request, context)

    async def leave(self, request: messages.LeaveRequest, context: Context) -> values.Change:
        """Remove one arc."""
        return await self._update((conversion.leave_operation(request, self._known),), request, context)

    async def apply_updates(self, request: messages.ApplyUpdatesRequest, context: Context) -> values.Change:
        """Add and remove many arcs as one atomic update."""
        count = len(request.operations)
        if count > APPLY_OPERATIONS_LIMIT:
            raise refuse(
                Reason.LIMIT_EXCEEDED,
                f"one atomic update holds at most {APPLY_OPERATIONS_LIMIT} operations, not {count}",
                limit=str(APPLY_OPERATIONS_LIMIT),
                field="operations",
            )
        operations: list[Operation] = []
        while len(operations) < count:
            some = slice(len(operations), len(operations) + OPERATIONS_READ_AT_ONCE)
            operations += conversion.apply_operations(request, self._known, some)
            await asyncio.sleep(0)
        return await self._update(tuple(operations), request, context)

    async def _update(self, operations: tuple[Operation, ...], request: _Update, context: Context) -> values.Change:
        self._listed.require_for(operations, request.request_id)
        run_loop = self._run_loop
        request_id = self._request_ids.given_or_new(request.request_id)
        deadline = deadline_of(context, run_loop)
        origin = origin_of(context, request_id=request_id, server=run_loop.server)

        async def attempt() -> Committed:
            command = UpdateCommand(
                run_loop.new_ticket(),
                request_id,
                operations,
                deadline,
                reports_control=request.report_control,
                origin=origin,
            )
            return await run_loop.carry_out(command)

        seconds = None if deadline is None else deadline - run_loop.now()
        return conversion.change(await outlast_restarts(attempt, self._restarting, seconds=seconds))
