"""The test if a server's state reflects a revision that a client got from any server.

A caller is answered when all participants of its update are done. A revision that a client holds is therefore
reflected at every server that took part. Three kinds of update can still be missing:

- a decided update that is not done everywhere; the client read its revision at a server that was done;
- an update that this server was ready for and dropped, because it was cut off from the coordinator, which did the
  update;
- an update that this server forgot by going back to an older copy of its database.

The latter two kinds end when this server has healed with the coordinator. Until they meet, a read would wait in
vain.

Source: docs/protocol-updates.md, "Revisions".
"""

from __future__ import annotations

from enum import Enum

from namegraph.model.priorities import Priority, parse_revision, revision_of
from namegraph.model.refusals import Reason, refuse
from namegraph.state.context import ServerContext
from namegraph.state.incarnations import Incarnations
from namegraph.state.uncertainty import Uncertainty
from namegraph.update.coordinator import Coordinator
from namegraph.update.order_queue import Entries


class Wait(Enum):
    """Event for which a read that must reflect a revision waits."""

    REFLECTED = 1
    """The revision is reflected. The read does not wait."""
    NOT_YET = 2
    """The update is under way here, or being settled with its coordinator. Look again after the next step."""
    ASK = 3
    """The update was never seen here. Ask the server that the revision names if it exists."""


def waits_for(
    revision: str, *, context: ServerContext, incarnations: Incarnations, entries: Entries, coordinator: Coordinator
) -> Wait:
    """Return the event for which a read must wait. Raises `RefusedError` if this server can never reflect the
    revision."""
    try:
        wanted = parse_revision(revision)
    except ValueError as error:
        raise refuse(Reason.INVALID_REQUEST, str(error), revision=revision[:100], field="at_least_revision") from None
    is_own = wanted.server == context.server
    is_seen = wanted.counter <= context.counter
    if (is_own and not is_seen) or not (is_own or wanted.server in context.table.subnets_by_server):
        newest = revision_of(Priority(context.counter, context.server), coordinator=context.server)
        raise refuse(
            Reason.UNAVAILABLE,
            f"the server {context.server} has not seen the update {revision} (its newest is {newest})",
            revision=revision,
            server=context.server,
        )
    if is_own and incarnations.is_left_out(wanted.counter):
        raise refuse(
            Reason.UNAVAILABLE,
            f"the update {revision} was lost when the server {context.server} went back to an older copy of its "
            "database",
            revision=revision,
            server=context.server,
        )
    if Uncertainty(context).may_lack(wanted):
        if wanted.server not in context.lost:
            return Wait.NOT_YET
        raise refuse(
            Reason.UNAVAILABLE,
            f"the server {context.server} may lack the update {revision} until it meets the server {wanted.server} "
            "again, "
            f"which is out of reach ({context.lost[wanted.server]})",
            revision=revision,
            unreachable=wanted.server,
            server=context.server,
        )
    if is_own and coordinator.is_waited_for(wanted.counter):
        return Wait.NOT_YET
    for entry in entries.ready.values():
        if entry.final is not None and entry.final.counter <= wanted.counter:
            return Wait.NOT_YET
    return Wait.REFLECTED if is_seen else Wait.ASK
