"""Organisations that have a mail gateway: their name server keeps messages for a gateway."""

from __future__ import annotations

import time
from collections.abc import Collection

from mailing.rules.shares import PATTERN, SUBSCRIPTION
from mailing.shell.names import Names
from shadowtree.aio import Client
from shadowtree.errors import ShadowtreeError
from shadowtree.vocabulary import SubnetName

KEPT_SECONDS = 60.0
"""Time for which a found gateway is believed to exist, in seconds.

A gateway that was not found is asked for each time.
"""


class PeerGateways:
    """Other gateways, as the own name server tells."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._own = ""
        self._own_subnets: frozenset[SubnetName] = frozenset()
        self._seen: dict[str, float] = {}
        self._subnets: dict[str, SubnetName] = {}

    async def own(self) -> str:
        """Return the name of the own server. Raises `ShadowtreeError`."""
        await self._look()
        return self._own

    async def own_subnets(self) -> frozenset[SubnetName]:
        """Return the subnets that the own server owns. Raises `ShadowtreeError`."""
        await self._look()
        return self._own_subnets

    async def _look(self) -> None:
        """Ask the own server for its name and its subnets, which stay the same while the server runs."""
        if not self._own:
            status = await self._names.ask(lambda client: client.status())
            self._own, self._own_subnets = status.server, frozenset(status.subnets)

    async def subnets(self) -> frozenset[SubnetName]:
        """Return all subnets that some server owns. Raises `ShadowtreeError`."""
        status = await self._names.ask(lambda client: client.status())
        return frozenset((*status.subnets, *(subnet for peer in status.peers for subnet in peer.subnets)))

    async def subnets_of(self, servers: Collection[str]) -> frozenset[SubnetName]:
        """Return the subnets that some servers own. Raises `ShadowtreeError`."""
        if not servers:
            return frozenset()
        peers = await self._names.ask(lambda client: client.peers())
        return frozenset(subnet for each in peers if each.server in servers for subnet in each.subnets)

    async def server_of(self, subnet: SubnetName) -> str | None:
        """Return the server that owns a subnet. None if none is known. Raises `ShadowtreeError`."""
        peers = await self._names.ask(lambda client: client.peers())
        return next((each.server for each in peers if subnet in each.subnets), None)

    async def serves(self, server: str) -> bool | None:
        """Return True if there is a gateway at a server. None if that cannot be told now."""
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
        """Return one subnet of a server. None if the server was never met."""
        if server not in self._subnets:
            peers = await self._names.ask(lambda client: client.peers())
            self._subnets = {each.server: each.subnets[0] for each in peers if each.server and each.subnets}
        return self._subnets.get(server)


async def _has_gateway(client: Client, subnet: SubnetName) -> bool:
    """Return True if the server that owns a subnet keeps mail for a gateway."""
    # Mailboxes are sorted, and few names come before a pattern.
    async for mailbox in client.mailboxes(subnet):
        if mailbox.process >= PATTERN:
            return mailbox.process == PATTERN and any(each.name == SUBSCRIPTION for each in mailbox)
    return False
