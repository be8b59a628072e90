"""The caller of a command, as the shell hands it to the core."""

from __future__ import annotations

from msgspec import Struct

from namegraph.model.names import NodeId
from namegraph.model.policies import Principal, Privilege, SubnetPrivilege
from namegraph.rights.judge import GIVEN_BY


class CallerFacts(Struct, frozen=True, array_like=True):
    """The principal of a caller, and what its own server says about it."""

    principal: Principal
    groups: tuple[NodeId, ...] = ()
    """Groups of the principal's own server that contain the principal, as that server says. Empty for a principal of
    this server, whose groups are looked up."""
    privileges: tuple[str, ...] | None = None
    """Privileges that the credential of the caller is good for, if the principal has them. None for all."""

    def may_use(self, privilege: Privilege | SubnetPrivilege) -> bool:
        """Return True if the credential of the caller is good for a privilege."""
        if self.privileges is None:
            return True
        sources = GIVEN_BY[privilege] if isinstance(privilege, Privilege) else (privilege,)
        return any(source.value in self.privileges for source in sources)
