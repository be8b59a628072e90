"""Which server answers for an arc: the home of its parent, or the home of its child where the parent's cannot know it.

    Join with `offline`     the parent's home is in another view: the child's home joins it at its end
    Leave                   of an arc that was joined so, and that the parent's home knows nothing of yet
    either, repeated        what this server has answered under the request id before

Any other arc is left at its parent's home alone, even while that server is away. The core could leave the arc at its
child's end. But the parent's home would not know: it would go on telling of the arc, in exports and in every "yes".

A server remembers the answers that it gave itself. So when a request id is repeated after the parent's home is back,
only the child's home gives the first answer again; at other servers the request begins anew.
"""

from __future__ import annotations

from typing import TypeAlias

from namegraph import CoreQueries
from nameserver.routing.ownership import OwnerKind, Routing
from nameserver.wire import conversion
from shadowtree.v1 import name_service_pb2 as messages

AboutArc: TypeAlias = messages.JoinRequest | messages.LeaveRequest


class StandIns:
    """Gives the name whose home answers a call that is about one arc."""

    def __init__(self, *, core: CoreQueries, routing: Routing) -> None:
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

    def _other_home(self, request: AboutArc) -> OwnerKind:
        """The owner of the child; UNOWNED where this server owns the parent, and needs no other."""
        is_ours = self._routing.owner_kind(request.parent) is not OwnerKind.ANOTHERS
        return OwnerKind.UNOWNED if is_ours else self._routing.owner_kind(request.child)

    def _has_answered(self, request: AboutArc, below: OwnerKind) -> bool:
        return below is OwnerKind.OURS and self._core.has_answered(request.request_id)

    def _is_unconfirmed(self, request: messages.LeaveRequest, below: OwnerKind) -> bool:
        if below is not OwnerKind.OURS:
            return False
        leave = conversion.leave_operation(request, self._core.graph.index)
        return self._core.is_unconfirmed(leave.parent, leave.child)

    def _is_away(self, request: AboutArc, below: OwnerKind) -> bool:
        home = self._routing.known_home(request.parent)
        return below is not OwnerKind.UNOWNED and home is not None and not self._core.is_in_view(home)
