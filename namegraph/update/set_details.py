"""Changes of the details of groups, at the home of the groups.

    SetDetails ---> set_details: all groups of the command, or none --> rows of this step
    UpdateCommand with details --> the update is decided --> keep_details: rows of the step that decides it

Details are no part of the update protocol: no message between servers carries them.

See docs/decisions/0041-details-of-groups.md.
"""

from __future__ import annotations

from collections.abc import Mapping

from namegraph.events import SetDetails, UpdateCommand, Write
from namegraph.model.group_details import NO_DETAILS, GroupDetails, changed
from namegraph.model.names import NodeId
from namegraph.model.outcomes import Committed, Outcome
from namegraph.model.policies import Privilege
from namegraph.model.refusals import RefusedError
from namegraph.replication.ancestry_store import AncestryStore
from namegraph.rights.callers import CallerFacts
from namegraph.rights.principals import ANONYMOUS
from namegraph.state.context import ServerContext
from namegraph.state.uncertainty import Uncertainty
from namegraph.update.admission import no_group_here
from namegraph.update.locality import not_for_this_server
from namegraph.update.operation_rights import require_privilege


def details_given(command: Write) -> Mapping[NodeId, GroupDetails]:
    """Return the details of the groups that an update creates."""
    return command.details if isinstance(command, UpdateCommand) else {}


def keep_details(context: ServerContext, details: Mapping[NodeId, GroupDetails], outcome: Outcome) -> None:
    """Keep the details of groups that an update has created. An update that was not needed changes none."""
    if isinstance(outcome, Committed) and not outcome.unchanged:
        for group, each in details.items():
            context.set_details(group, each)


def set_details(context: ServerContext, records: AncestryStore, command: SetDetails, *, revision: str) -> Outcome:
    """Change the details of all groups of a command, or return the refusal for the first group that cannot be changed.

    `revision`: the revision of the state here, which the change leaves as it is.
    """
    try:
        if context.server_policy is not None:
            facts = command.caller or CallerFacts(ANONYMOUS)
            require_privilege(context, records, facts, Privilege.ADMIN, command.changes)
        groups = [group for group in command.changes if _is_to_be_set(context, group, if_none=command.if_none)]
    except RefusedError as error:
        return error.refusal
    for group in groups:
        before = context.details.get(group, NO_DETAILS)
        context.set_details(group, changed(before, command.changes[group]))
    return Committed(revision)


def _is_to_be_set(context: ServerContext, group: NodeId, *, if_none: bool) -> bool:
    """Return False if a group is left out. Raises `RefusedError` if the group cannot be changed."""
    if context.table.home_of(group) not in (None, context.server):
        raise not_for_this_server(context, group)
    if context.graph.group(group) is None:
        if if_none:
            return False
        raise no_group_here(group, Uncertainty(context))
    return not (if_none and group in context.details)
