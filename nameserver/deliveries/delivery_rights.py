"""Rights of callers with messages: to send, to listen, to carry mail, to see mailboxes. Some servers judge no callers.

| action | needs |
|---|---|
| send to a group | `deliver` on it, at its home |
| send as a process | to be that principal, or `mail` on its subnet |
| carry mail of a subnet (`mail_stamps.py`) | `mail` on it |
| listen for a process, open or close its mailbox | to be that principal, or `mail` on its subnet |
| listen to the archive of a group, open or close it | `read` on the group; `admin` |
| listen for a pattern, open or close its mailbox | `mail` |
| see dead letters, replay or drop them | `operate` |

A server without a policy judges no caller, and believes the sending process that a caller names.

Source: docs/messages.md, "Who may send" and "Listening".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from delivery.model.words import is_pattern
from namegraph import (
    CallerFacts,
    CoreQueries,
    NodeId,
    Principal,
    Privilege,
    Reason,
    RefusedError,
    Subnet,
    SubnetPrivilege,
    refuse,
    subnet_of,
    subnet_of_principal,
)
from nameserver.access.caller import current_caller


class Facts(Protocol):
    """Finder of the facts on callers."""

    async def of_caller(self) -> CallerFacts | None:
        """Return the facts on the caller of the present call. None if this server judges no callers."""

    async def of_principal(self, principal: Principal) -> CallerFacts:
        """Return the facts on a principal for whom the caller speaks."""


class DeliveryRights:
    """Judge of callers of the calls about messages, at one server."""

    def __init__(self, *, core: CoreQueries, facts: Facts) -> None:
        self._core = core
        self._facts = facts

    @property
    def are_judged(self) -> bool:
        """True if this server judges callers."""
        return self._core.server_policy is not None

    async def require_sender(self, groups: Iterable[NodeId], process: NodeId | None) -> NodeId | None:
        """Return the process that sends a message: the caller. Raises `RefusedError` if the caller may not send.

        `groups`: targets of the message that are groups of this server. `process`: process that the caller names. None
        if it names none.
        """
        facts = await self._facts_of_sender(process)
        if facts is None:
            return process
        for group in groups:
            self._core.require_privilege(facts, Privilege.DELIVER, group)
        return NodeId(facts.principal) if subnet_of_principal(facts.principal) is not None else None

    async def _facts_of_sender(self, process: NodeId | None) -> CallerFacts | None:
        facts = await self._facts.of_caller()
        if facts is None or process is None or process == NodeId(facts.principal):
            return facts
        via = current_caller().via
        if via is not None and self._core.owner_of_name(process) == via:
            # The server of the process speaks for it: it may have kept the message until this server was back.
            return await self._facts.of_principal(Principal(process))
        if not self._may_carry_mail_of(facts, subnet_of(process)):
            raise self._denied(SubnetPrivilege.MAIL, f"send as {process}", subnet_of(process))
        return await self._facts.of_principal(Principal(process))

    async def require_mail(self, subnets: Iterable[Subnet]) -> None:
        """Raise `RefusedError` unless the caller may carry mail of these subnets of this server."""
        facts = await self._facts.of_caller()
        if facts is None:
            return
        for subnet in subnets:
            if not self._may_carry_mail_of(facts, subnet):
                raise self._denied(SubnetPrivilege.MAIL, f"carry mail of {subnet}", subnet)

    async def require_reader(self, name: NodeId, *, changes: bool = False) -> None:
        """Raise `RefusedError` unless the caller may read a mailbox or an archive, or listen for a pattern.

        `changes`: True if the caller opens or closes it.
        """
        facts = await self._facts.of_caller()
        if facts is None or name == NodeId(facts.principal):
            return
        core = self._core
        if not is_pattern(name) and core.graph.group(name) is not None:
            core.require_privilege(facts, Privilege.ADMIN if changes else Privilege.READ, name)
        elif not self._may_carry_mail_of(facts, Subnet(name.rpartition("@")[2])):
            raise self._denied(SubnetPrivilege.MAIL, f"read messages for {name}", Subnet(name.rpartition("@")[2]))

    async def visible(self, names: Iterable[NodeId]) -> set[NodeId]:
        """Return the mailboxes of which a caller may see the subscriptions."""
        facts = await self._facts.of_caller()
        if facts is None or self._core.rights_of(facts).is_operator:
            return {*names}
        return {name for name in names if name == NodeId(facts.principal)}

    async def require_operator(self, action: str) -> None:
        """Raise `RefusedError` unless the caller operates this server."""
        facts = await self._facts.of_caller()
        if facts is not None and not self._core.rights_of(facts).is_operator:
            raise self._denied(SubnetPrivilege.OPERATE, action, None)

    async def require_admin(self, group: NodeId) -> None:
        """Raise `RefusedError` unless the caller may change how messages to a group of this server are handled."""
        facts = await self._facts.of_caller()
        if facts is not None:
            self._core.require_privilege(facts, Privilege.ADMIN, group)

    async def require_view(self, group: NodeId) -> None:
        """Raise `RefusedError` if the caller may not see that a group of this server exists."""
        facts = await self._facts.of_caller()
        if facts is not None:
            self._core.require_privilege(facts, Privilege.VIEW, group)

    def _may_carry_mail_of(self, facts: CallerFacts, subnet: Subnet) -> bool:
        """Return True for a gateway of this server. It serves subnets of this server, and people of no server."""
        if self._core.owner_of(subnet) not in (None, self._core.server):
            return False
        return self._core.rights_of(facts).decide_subnet(SubnetPrivilege.MAIL).is_allowed

    def _denied(self, privilege: SubnetPrivilege, action: str, subnet: Subnet | None) -> RefusedError:
        on = "on the server" if subnet is None or "@" in subnet or not subnet else f"on {subnet}"
        return refuse(
            Reason.PERMISSION_DENIED,
            f"{current_caller().principal} may not {action}: it needs `{privilege.value}` {on}",
            privilege=privilege.value,
            server=self._core.server,
            **({} if subnet is None else {"subnet": subnet}),
        )
