"""Who answers for an arc: the home of its parent, or that of its child where the other one cannot know of it.

    Join with `offline`     the parent's home is in another view: the child's home joins it at its end
    Leave                   the parent's home is in another view: the child's home leaves it at its end, if it can be;
                            or it was joined so, and the parent's home knows nothing of it yet
    either, repeated        what this server has answered under the request id before

An answer is remembered where it was given. So a request id that is repeated once the parent's home is back gives the
first answer again at the child's home; elsewhere it is asked anew.
"""

from __future__ import annotations

from typing import TypeAlias

from namegraph.server_core import ServerCore
from nameserver import wire
from nameserver.routing import Routing, Whose
from shadowtree.v1 import name_service_pb2 as messages

Request: TypeAlias = messages.JoinRequest | messages.LeaveRequest | messages.ApplyUpdatesRequest
AboutArc: TypeAlias = messages.JoinRequest | messages.LeaveRequest | messages.ApplyUpdatesRequest.Operation


class StandIns:
    """Gives the name whose home answers a call that is about one arc."""

    def __init__(self, *, core: ServerCore, routing: Routing) -> None:
        self._core = core
        self._routing = routing

    def of_join(self, request: messages.JoinRequest) -> str:
        """The parent, or the child."""
        below = self._other_home(request)
        is_for_child = self._has_answered(request, below) or (request.offline and self._is_away(request, below))
        return request.child if is_for_child else request.parent

    def of_leave(self, request: messages.LeaveRequest) -> str:
        """The parent, or the child."""
        below = self._other_home(request)
        is_for_child = (
            self._has_answered(request, below) or self._is_unconfirmed(request, below) or self._is_away(request, below)
        )
        return request.child if is_for_child else request.parent

    def of_apply(self, request: messages.ApplyUpdatesRequest) -> str:
        """As `of_leave` where the first operation is one, else its parent; nothing where there is none."""
        first = request.operations[0] if request.operations else messages.ApplyUpdatesRequest.Operation()
        below = self._other_home(first)
        is_for_child = self._has_answered(request, below) or (first.leave and self._is_away(first, below))
        return first.child if is_for_child else first.parent

    def _other_home(self, request: AboutArc) -> Whose:
        """Whose the child is; nobody's where the parent's home is here, so that nobody else is needed."""
        is_ours = self._routing.whose(request.parent) is not Whose.ANOTHERS
        return Whose.NOBODYS if is_ours else self._routing.whose(request.child)

    def _has_answered(self, request: Request, below: Whose) -> bool:
        return below is Whose.OURS and self._core.has_answered(request.request_id)

    def _is_unconfirmed(self, request: messages.LeaveRequest, below: Whose) -> bool:
        if below is not Whose.OURS:
            return False
        leave = wire.leave_operation(request, self._core.graph.index)
        return self._core.is_unconfirmed(leave.parent, leave.child)

    def _is_away(self, request: AboutArc, below: Whose) -> bool:
        """Whether the home of the parent is away, and that of the child is not."""
        if below is Whose.NOBODYS:
            return False
        above, other = map(self._routing.known_home, (request.parent, request.child))
        is_there = other is not None and self._core.is_in_view(other)
        return is_there and above is not None and not self._core.is_in_view(above)
