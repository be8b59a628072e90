"""Which organisations have a mail gateway: those whose name server keeps messages for one."""

from __future__ import annotations

import time
from collections.abc import Collection

from mailing.rules.shares import PATTERN, SUBSCRIPTION
from mailing.shell.names import Names
from shadowtree.aio import Client
from shadowtree.errors import ShadowtreeError
from shadowtree.vocabulary import SubnetName

KEPT_SECONDS = 60.0
"""How long it is believed that there is a gateway. That there is none is asked each time."""


class Others:
    """Other gateways, as the own name server tells."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._own = ""
        self._seen: dict[str, float] = {}
        self._subnets: dict[str, SubnetName] = {}

    async def own(self) -> str:
        """The name of the own server; raises `ShadowtreeError`."""
        if not self._own:
            self._own = (await self._names.ask(lambda client: client.status())).server
        return self._own

    async def subnets(self) -> frozenset[SubnetName]:
        """All subnets that some server owns; raises `ShadowtreeError`."""
        status = await self._names.ask(lambda client: client.status())
        return frozenset((*status.subnets, *(subnet for peer in status.peers for subnet in peer.subnets)))

    async def subnets_of(self, servers: Collection[str]) -> frozenset[SubnetName]:
        """Those that some servers own; raises `ShadowtreeError`."""
        if not servers:
            return frozenset()
        peers = await self._names.ask(lambda client: client.peers())
        return frozenset(subnet for each in peers if each.server in servers for subnet in each.subnets)

    async def server_of(self, subnet: SubnetName) -> str | None:
        """The server that owns a subnet; None: none is known. Raises `ShadowtreeError`."""
        peers = await self._names.ask(lambda client: client.peers())
        return next((each.server for each in peers if subnet in each.subnets), None)

    async def serves(self, server: str) -> bool | None:
        """Whether there is a gateway at a server; None: that cannot be told now."""
        if time.monotonic() < self._seen.get(server, 0.0):
            return True
        try:
            subnet = await self._subnet_of(server)
            found = None if subnet is None else await self._names.ask(lambda client: _has_gateway(client, subnet))
        except ShadowtreeError:
            return None
        if found:
            self._seen[server] = time.monotonic() + KEPT_SECONDS
        return found

    async def _subnet_of(self, server: str) -> SubnetName | None:
        """One that a server owns; None: it was never met."""
        if server not in self._subnets:
            peers = await self._names.ask(lambda client: client.peers())
            self._subnets = {each.server: each.subnets[0] for each in peers if each.server and each.subnets}
        return self._subnets.get(server)


async def _has_gateway(client: Client, subnet: SubnetName) -> bool:
    """Whether mail is kept for a gateway at the server that owns a subnet."""
    # They are sorted, and few names come before a pattern.
    async for mailbox in client.mailboxes(subnet):
        if mailbox.process >= PATTERN:
            return mailbox.process == PATTERN and any(each.name == SUBSCRIPTION for each in mailbox)
    return False
