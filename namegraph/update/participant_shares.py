"""The part of an update that each participant must know before it votes: operations of arcs and groups with an end
there."""

from __future__ import annotations

from collections.abc import Sequence

from namegraph.model.names import ServerId
from namegraph.model.operations import CreateGroup, DeleteGroup, LeaveArc, SetPolicy
from namegraph.state.context import ServerContext
from namegraph.state.wait_limits import MOST_ALLOWED_OPERATIONS
from namegraph.update.arc_authority import authority_over
from namegraph.update.import_plan import ImportOperations
from namegraph.update.transaction import Plan, Transaction
from namegraph.wire.message_parts import ArcId, Step, SuspendArc, Update


def parts_of(running: Transaction, servers: Sequence[ServerId], *, context: ServerContext) -> dict[ServerId, Update]:
    """Return the part of an update for each of these servers, which are asked for the first time."""
    plan = running.plan
    if not servers:
        return {}
    if isinstance(plan.operations, ImportOperations):
        return {
            server: Update(
                running.update_id,
                (),
                stated_size(plan),
                (),
                read=None,
                is_of_client=True,
                brought=plan.operations.concerning(server),
            )
            for server in servers
        }
    concerning: dict[ServerId, list[tuple[int, Step]]] = {server: [] for server in servers}
    leaves = []
    for number, operation in plan.operations:
        match operation:
            case SuspendArc(parent, child) | LeaveArc(parent, child):
                leaves.append(ArcId(parent, child))
        for home in _homes_of(operation, context):
            if home in concerning:
                concerning[home].append((number, operation))
    is_change = plan.read is None and plan.cut is None
    return {
        server: Update(
            running.update_id,
            tuple(concerning[server]),
            plan.size,
            tuple(leaves),
            read=plan.read,
            is_of_client=is_change and not plan.is_own,
            reports_control=plan.reports_control,
            cut=plan.cut,
        )
        for server in servers
    }


def stated_size(plan: Plan) -> int:
    """Return the number of operations that participants are told: that of the client's request, or of an import.

    A larger number than the one with the longest allowance says no more, and would count as a leap.
    """
    return min(len(plan.operations), MOST_ALLOWED_OPERATIONS) if plan.is_import else plan.size


def _homes_of(operation: Step, context: ServerContext) -> tuple[ServerId, ...]:
    """Return the servers that an operation concerns before the nodes above and below are known."""
    match operation:
        case CreateGroup(group) | DeleteGroup(group) | SetPolicy(group):
            return (context.home_of(group),)
        case _:
            return authority_over(context, operation).concerned
