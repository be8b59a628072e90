"""The server that answers for an arc: the home of its parent, or the home of its child if the parent's cannot know it.

    Join with `offline`     the parent's home is in another view: the child's home joins it at its end
    Leave                   of an arc that was joined so, and that the parent's home knows nothing of yet
    Leave, judged           callers are judged here, and the child is at home here: either end may end an arc
    either, repeated        what this server has answered under the request id before

Any other arc is left at its parent's home alone, even while that server is away. The core could leave the arc at its
child's end. But the parent's home would not know: it would go on reporting the arc, in exports and in every "yes".

A server remembers its own answers. Only the child's home gives the first answer again if a request id is repeated after
the parent's home is back. At other servers the request begins anew.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import structs

from namegraph import RIGHTS_VERSION, CoreQueries, NodeId
from nameserver.routing.ownership import OwnerKind, Routing
from nameserver.wire import conversion
from nameserver.wire.metadata import asking_principal
from shadowtree.v1 import name_service_pb2 as messages

AboutArc: TypeAlias = messages.JoinRequest | messages.LeaveRequest


class StandIns:
    """Chooser of the name whose home answers a call about one arc."""

    def __init__(self, *, core: CoreQueries, routing: Routing) -> None:
        self._core = core
        self._routing = routing

    def of_join(self, request: messages.JoinRequest) -> str:
        """Return the parent, or the child if its home answers."""
        below, known = self._other_home(request), self._core.graph.index
        is_for_child = self._has_answered(request, below)
        if request.offline and below is not OwnerKind.UNOWNED and not is_for_child:
            join = structs.replace(conversion.join_operation(request, known), offline=True)
            is_for_child = self._core.is_answered_by_child(join)
        return request.child if is_for_child else request.parent

    def of_leave(self, request: messages.LeaveRequest) -> str:
        """Return the parent, or the child if its home answers."""
        below, known = self._other_home(request), self._core.graph.index
        is_for_child = self._has_answered(request, below)
        if below is OwnerKind.OURS and not is_for_child:
            leave = conversion.leave_operation(request, known)
            is_for_child = self._core.is_answered_by_child(leave) or self._is_judged_below(leave.parent)
        return request.child if is_for_child else request.parent

    def _is_judged_below(self, parent: NodeId) -> bool:
        """Return True if this server, the home of a child, coordinates a leave.

        The home of the parent then believes this server about its own people, and that an admin of the child asks.
        """
        home = self._core.owner_of_name(parent)
        is_judged = self._core.server_policy is not None and home is not None
        return is_judged and home is not None and self._core.speaks(home, RIGHTS_VERSION)

    def _other_home(self, request: AboutArc) -> OwnerKind:
        """Return the owner of the child. UNOWNED if this server owns the parent, and needs no other server."""
        is_ours = self._routing.owner_kind(request.parent) is not OwnerKind.ANOTHERS
        return OwnerKind.UNOWNED if is_ours else self._routing.owner_kind(request.child)

    def _has_answered(self, request: AboutArc, below: OwnerKind) -> bool:
        return below is OwnerKind.OURS and self._core.has_answered(request.request_id, asking_principal())
