"""Client requests whose updates are under way over several servers, with the calls that wait for each outcome.

A repeated request waits for the same outcome. The answer comes when the update is over everywhere, also after a
restart of this server. Only the calls from before the restart are gone then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from namegraph.events import Reply
from namegraph.model.group_details import GroupDetails
from namegraph.model.names import NodeId
from namegraph.model.outcomes import Committed, GraphEffect, Outcome
from namegraph.model.priorities import Priority
from namegraph.model.refusals import Reason, RefusedError, refuse
from namegraph.model.rows import RequestId
from namegraph.wire.message_parts import UpdateId


@dataclass(slots=True)
class PendingRequest:
    """One request, and the calls that wait for its outcome."""

    request_id: RequestId
    digest: str
    tickets: list[int]
    outcome: Outcome | None = None
    place: Priority | None = None
    details: Mapping[NodeId, GroupDetails] = field(default_factory=dict)
    """Details of groups that the update creates."""


class PendingRequests:
    """The requests under way."""

    def __init__(self) -> None:
        self._asked: dict[UpdateId, PendingRequest] = {}
        self._under_way: dict[RequestId, UpdateId] = {}

    def wait_with(self, request_id: RequestId, digest: str, ticket: int) -> bool:
        """Let a repeated request wait for the outcome of the first one. Return False if none is under way.

        Raises `RefusedError` if the id belongs to another request.
        """
        update_id = self._under_way.get(request_id)
        if update_id is None:
            return False
        asked = self._asked[update_id]
        if asked.digest != digest:
            raise id_was_used(request_id)
        asked.tickets.append(ticket)
        return True

    def begin(self, update_id: UpdateId, asked: PendingRequest) -> None:
        """Record that a request's update was begun."""
        self._asked[update_id] = asked
        self._under_way[asked.request_id] = update_id

    def begun_again(self, before: UpdateId, now: UpdateId) -> None:
        """Record that a request's update was begun again under another id."""
        self.begin(now, self._asked.pop(before))

    def ended(self, update_id: UpdateId, outcome: Outcome, place: Priority | None) -> PendingRequest:
        """Record a request's outcome, and return the request."""
        asked = self._asked[update_id]
        asked.outcome, asked.place = outcome, place
        return asked

    def complete(self, update_id: UpdateId, effects: tuple[GraphEffect, ...]) -> PendingRequest:
        """Add further effects of a committed update to the outcome, and return the request."""
        asked = self._asked[update_id]
        if isinstance(asked.outcome, Committed):
            asked.outcome = replace(asked.outcome, effects=asked.outcome.effects + effects)
        return asked

    def answer(self, update_id: UpdateId, *, is_confirmed: bool) -> list[Reply]:
        """End a request, and return the replies to all waiting calls.

        `is_confirmed`: True if another server told of the end.
        """
        asked = self._asked.pop(update_id)
        del self._under_way[asked.request_id]
        if asked.outcome is None:
            # The request was decided before a restart and forgotten since. No call waits for it, nor can one ask for it
            # again.
            assert not asked.tickets
            return []
        return [Reply(ticket, asked.outcome, asked.place, is_confirmed) for ticket in asked.tickets]


def own_request(what: str, update_id: UpdateId) -> RequestId:
    """Return an id for an update that no client asked for. Clients cannot choose it: their ids are printable."""
    return RequestId(f"\t{what} {update_id.number}")


def told_request_id(request_id: RequestId) -> RequestId:
    """Return a request id as its caller wrote it (`request_log.own_request_id`)."""
    return RequestId(request_id.rpartition("\n")[2])


def id_was_used(request_id: RequestId) -> RefusedError:
    """Return the refusal of a request under another request's id."""
    request_id = told_request_id(request_id)
    return refuse(
        Reason.INVALID_REQUEST,
        f"the request id {request_id!r} was used for another update; choose a new one",
        request_id=request_id,
    )
