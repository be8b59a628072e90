"""Calls that change a few arcs or groups: each becomes one update of the core."""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from msgspec import structs

from namegraph import (
    NO_DETAILS,
    CallerFacts,
    Committed,
    Composite,
    GroupDetails,
    LeaveEverywhere,
    NameGraph,
    NodeId,
    Operation,
    Reason,
    Refusal,
    RefusedError,
    RenameGroups,
    RequestId,
    SetDetails,
    Subnet,
    TakeOver,
    UpdateCommand,
    are_canonical,
    refuse,
)
from nameserver.access.caller import current_caller
from nameserver.access.origins import origin_of
from nameserver.calls.adapters import Context, deadline_of
from nameserver.driver.run_loop import RunLoop
from nameserver.routing.planned_restarts import Restarting, outlast_restarts
from nameserver.routing.subnet_guard import SubnetGuard
from nameserver.wire import conversion
from nameserver.writes.update_chunks import ChunkedUpdate, require_bounded
from shadowtree.v1 import name_service_pb2 as messages
from shadowtree.v1 import names_pb2 as values

TRANSITION_SECONDS = 10.0
"""Wait for servers that agree on a view or heal: a few round trips, and seconds with very many arcs."""

TRANSITION_SHARE = 0.8
"""Share of the caller's time that this wait may use."""

COMPANION_SUFFIXES = ("+owners", "+muted")
"""Suffixes of the local part of a group's name, for its companions: the owners of a mailing list, and its muted
members.

See docs/mail.md. Muted members get no mail of the list. A renamed group takes its companions along.
"""

DETAILED_LIMIT = 1_000
"""Groups whose details one request changes: some milliseconds of work."""

OPERATIONS_READ_AT_ONCE = 500
"""Operations read in one go. Reading as many takes some milliseconds, after which other calls are served."""


class _Update(Protocol):
    """Fields of every request for an update, besides its operations."""

    @property
    def request_id(self) -> str:
        """Name of the update. Empty if the caller will not repeat it."""

    @property
    def report_control(self) -> bool:
        """True if the caller asks for controlled and released nodes."""


def _is_missing(group: NodeId, refusal: Refusal) -> bool:
    return refusal.reason is Reason.GROUP_NOT_FOUND and refusal.facts.get("group") == group


class GroupsElsewhere(Protocol):
    """Look-up of the groups of a foreign process at other servers."""

    async def groups_of_foreign(self, member: NodeId, context: Context) -> tuple[NodeId, ...]:
        """Return its groups at other servers.

        Empty for a member that a server owns. Raises `RefusedError` (UNAVAILABLE).
        """


class FactsFinder(Protocol):
    """Finder of the facts on the caller of the present call."""

    async def of_caller(self) -> CallerFacts | None:
        """Return the facts. None if this server judges no callers."""


class RequestIds:
    """Request ids for callers that send none.

    They cannot repeat the request, but the core needs a name for every update.
    """

    def __init__(self) -> None:
        self._prefix = secrets.token_hex(8)
        self._numbers = itertools.count(1)

    def given_or_new(self, given: str) -> RequestId:
        """Return the caller's request id, or a new one that was never used."""
        return RequestId(given or f"{self._prefix}-{next(self._numbers)}")


class UpdateCalls:
    """Servicer of the calls that change a few arcs or groups."""

    def __init__(
        self,
        *,
        run_loop: RunLoop,
        graph: NameGraph,
        request_ids: RequestIds,
        listed: SubnetGuard,
        restarting: Restarting,
        elsewhere: GroupsElsewhere,
        has_answered: Callable[[str, str], bool],
        is_steady: Callable[[], bool],
        require_owned: Callable[[Subnet | None], None],
        facts: FactsFinder,
    ) -> None:
        """Create the servicer.

        `has_answered`: returns True if this server remembers the outcome of a principal's request. `is_steady`: returns
        True if servers neither agree on a view nor heal. `require_owned`: raises `RefusedError` if no server owns a
        subnet.
        """
        self._facts = facts
        self._is_steady = is_steady
        self._require_owned = require_owned
        self._elsewhere = elsewhere
        self._has_answered = has_answered
        self._restarting = restarting
        self._listed = listed
        self._run_loop = run_loop
        self._known = graph.index
        self._request_ids = request_ids

    async def create_group(self, request: messages.CreateGroupRequest, context: Context) -> values.Change:
        """Create one group, with its details."""
        create = conversion.create_operation(request, self._known)
        details = GroupDetails(**conversion.read_details(request.details))
        take_over = TakeOver(create.group, create.if_needed) if request.take_over else None
        committed = await self._carry_out(
            () if request.take_over else (create,),
            request,
            context,
            composite=take_over,
            details={} if details == NO_DETAILS else {create.group: details},
        )
        change = conversion.change(committed)
        change.details_kept = details != NO_DETAILS and not committed.unchanged
        return change

    async def set_details(self, request: messages.SetDetailsRequest, context: Context) -> values.Change:
        """Change details of groups of this server."""
        changes: dict[NodeId, dict[str, str]] = {}
        for each in request.groups:
            group = conversion.read_id(each.group, "group", self._known)
            if group in changes:
                raise refuse(Reason.INVALID_REQUEST, f"{group} comes twice in the request", field="groups")
            changes[group] = conversion.read_details(each.details)
            if not changes[group]:
                raise refuse(Reason.INVALID_REQUEST, f"no detail of {group} is given", field="details")
        if not 1 <= len(changes) <= DETAILED_LIMIT:
            raise refuse(
                Reason.INVALID_REQUEST,
                f"one request has 1 to {DETAILED_LIMIT} groups, not {len(changes)}",
                field="groups",
            )
        run_loop = self._run_loop
        request_id, deadline = self._request_ids.given_or_new(request.request_id), deadline_of(context, run_loop)
        origin = origin_of(request_id=request_id, server=run_loop.server)
        command = SetDetails(
            run_loop.new_ticket(),
            request_id,
            changes,
            deadline,
            if_none=request.if_none,
            origin=origin,
            caller=await self._facts.of_caller(),
        )
        return conversion.change(await run_loop.carry_out(command))

    async def delete_group(self, request: messages.DeleteGroupRequest, context: Context) -> values.Change:
        """Delete one group."""
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
        require_bounded(len(request.operations))
        operations = await self._read((request.operations,))
        return await self._update(operations, request, context)

    async def apply_chunked(self, update: ChunkedUpdate, context: Context) -> values.Change:
        """Add and remove many arcs as one atomic update, which came in chunks."""
        operations = await self._read(update.take_operations())
        return await self._update(operations, update, context)

    async def rename_group(self, request: messages.RenameGroupRequest, context: Context) -> values.Change:
        """Give a group, and its companions, another name."""
        old = conversion.read_id(request.group, "group", self._known)
        new = conversion.read_id(request.new_name, "new_name", self._known)
        renames = ((old, new), *self._companions(old, new))
        return conversion.change(await self._carry_out((), request, context, composite=RenameGroups(renames)))

    async def leave_everywhere(
        self, request: messages.LeaveEverywhereRequest, context: Context
    ) -> messages.LeaveEverywhereResponse:
        """Take a member out of all its groups, or out of those of a subnet."""
        member = conversion.read_id(request.member, "member", self._known)
        subnet = conversion.read_subnet(request.subnet)
        self._require_owned(subnet)
        elsewhere: tuple[NodeId, ...] = ()
        if subnet is None and not self._has_answered(request.request_id, current_caller().principal):
            elsewhere = await self._elsewhere.groups_of_foreign(member, context)
        composite = LeaveEverywhere(member, subnet)
        committed = await self._carry_out((), request, context, composite=composite, elsewhere=elsewhere)
        return messages.LeaveEverywhereResponse(change=conversion.change(committed), left=committed.left)

    async def _read(self, columns: Iterable[Sequence[conversion.ApplyOperation]]) -> tuple[Operation, ...]:
        operations: list[Operation] = []
        for column in columns:
            for start in range(0, len(column), OPERATIONS_READ_AT_ONCE):
                some = column[start : start + OPERATIONS_READ_AT_ONCE]
                operations += conversion.apply_operations(some, self._known)
                await asyncio.sleep(0)
        return tuple(operations)

    async def _until_steady(self, deadline: float | None) -> None:
        """Wait a moment while servers agree on a view or heal, because the set of arcs is uncertain then."""
        run_loop = self._run_loop
        seconds = TRANSITION_SECONDS
        if deadline is not None:
            seconds = min(seconds, TRANSITION_SHARE * (deadline - run_loop.now()))
        end = run_loop.now() + seconds
        while not self._is_steady() and (left := end - run_loop.now()) > 0:
            await run_loop.next_step(left)

    def _companions(self, old: NodeId, new: NodeId) -> Iterator[tuple[NodeId, NodeId]]:
        """Yield the old and new names of a group's companions that may exist.

        Raises `RefusedError` for a name that is too long.
        """
        for suffix in COMPANION_SUFFIXES:
            names = [name.replace("@", f"{suffix}@") for name in (old, new)]
            if are_canonical(names) or names[0] in self._known:
                yield NodeId(names[0]), conversion.read_id(names[1], "new_name", self._known)

    async def _update(self, operations: tuple[Operation, ...], request: _Update, context: Context) -> values.Change:
        return conversion.change(await self._carry_out(operations, request, context))

    async def _carry_out(
        self,
        operations: tuple[Operation, ...],
        request: _Update,
        context: Context,
        *,
        composite: Composite | None = None,
        elsewhere: tuple[NodeId, ...] = (),
        details: Mapping[NodeId, GroupDetails] | None = None,
    ) -> Committed:
        self._listed.require_for(operations, request.request_id)
        run_loop = self._run_loop
        request_id = self._request_ids.given_or_new(request.request_id)
        deadline = deadline_of(context, run_loop)
        origin = origin_of(request_id=request_id, server=run_loop.server)

        async def attempt() -> Committed:
            if composite is not None:
                await self._until_steady(deadline)
            command = UpdateCommand(
                run_loop.new_ticket(),
                request_id,
                operations,
                deadline,
                reports_control=request.report_control,
                origin=origin,
                composite=composite,
                elsewhere=elsewhere,
                details=details or {},
                caller=await self._facts.of_caller(),
            )
            return await run_loop.carry_out(command)

        seconds = None if deadline is None else deadline - run_loop.now()
        return await outlast_restarts(attempt, self._restarting, seconds=seconds)
