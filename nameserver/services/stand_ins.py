"""Who answers for an arc: the home of its parent, or that of its child where the other one cannot know of it.

    Join with `offline`     the parent's home is in another view: the child's home joins it at its end
    Leave                   of an arc that was joined so, and that the parent's home knows nothing of yet
    either, repeated        what this server has answered under the request id before

Any other arc is left at its parent's home alone, even while that is away. The core could leave it at its child's end;
but the parent's home would go on telling of it, in exports and in every "yes", and could not know better.

An answer is remembered where it was given. So a request id that is repeated once the parent's home is back gives the
first answer again at the child's home; elsewhere it is asked anew.
"""

from __future__ import annotations

from typing import TypeAlias

from namegraph.server_core import ServerCore
from nameserver import wire
from nameserver.routing import Routing, Whose
from shadowtree.v1 import name_service_pb2 as messages

AboutArc: TypeAlias = messages.JoinRequest | messages.LeaveRequest


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
        is_for_child = self._has_answered(request, below) or self._is_unconfirmed(request, below)
        return request.child if is_for_child else request.parent

    def _other_home(self, request: AboutArc) -> Whose:
        """Whose the child is; nobody's where the parent's home is here, so that nobody else is needed."""
        is_ours = self._routing.whose(request.parent) is not Whose.ANOTHERS
        return Whose.NOBODYS if is_ours else self._routing.whose(request.child)

    def _has_answered(self, request: AboutArc, below: Whose) -> bool:
        return below is Whose.OURS and self._core.has_answered(request.request_id)

    def _is_unconfirmed(self, request: messages.LeaveRequest, below: Whose) -> bool:
        if below is not Whose.OURS:
            return False
        leave = wire.leave_operation(request, self._core.graph.index)
        return self._core.is_unconfirmed(leave.parent, leave.child)

    def _is_away(self, request: AboutArc, below: Whose) -> bool:
        home = self._routing.known_home(request.parent)
        return below is not Whose.NOBODYS and home is not None and not self._core.is_in_view(home)
