"""Operators: callers that may administer a server.

local socket; loopback of an unprotected server; a subject of `policy.operators` --> operate
"""

from __future__ import annotations

from collections.abc import Callable

from namegraph import NodeId, Principal, Reason, ServerPolicy, SubnetPrivilege, judge_subnet, refuse
from nameserver.access.caller import Caller


class Operators:
    """Judge of the privilege `operate` on one server."""

    def __init__(
        self,
        policy: ServerPolicy,
        *,
        is_in: Callable[[Principal, NodeId], bool] = lambda _principal, _group: False,
    ) -> None:
        """`is_in`: returns True if a principal is a member of a group, as far as this server knows."""
        self._policy = policy
        self._is_in = is_in

    def includes(self, caller: Caller) -> bool:
        """Return True if a caller may administer this server."""
        operate = SubnetPrivilege.OPERATE
        # Administration goes through no other server, also for a principal of the other server.
        if caller.is_forwarded or not caller.may(operate):
            return False
        if caller.is_operator_here:
            return True
        found = judge_subnet(
            self._policy, operate, caller=caller.principal, is_in=lambda group: self._is_in(caller.principal, group)
        )
        return found.is_allowed

    def require(self, caller: Caller) -> None:
        """Raise `RefusedError` unless a caller may administer this server."""
        if not self.includes(caller):
            raise refuse(
                Reason.PERMISSION_DENIED,
                "this is for operators: call the local socket on the server's own machine (--server unix:PATH), or "
                "with the credential of a principal that the server's setting policy.operators names",
                privilege=SubnetPrivilege.OPERATE.value,
            )
