"""Directory of forwarded calls: the servers that were met, and the channel to each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Set
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TypeVar

import grpc

from namegraph import PeerFault, Reason, RefusedError, ServerId, Subnet, refuse
from nameserver.transport.peer_gossip import HeardOwner
from nameserver.transport.peer_link import Call, Link
from nameserver.transport.peer_transport import PeerTransport
from nameserver.transport.ports import PeerCore
from nameserver.transport.server_ways import DIALLED_SECONDS

CONNECT_WAIT_SECONDS = 2.0
"""Wait of a call for a server that may come soon, as when all servers of a site start together."""

DIAL_WAIT_SECONDS = DIALLED_SECONDS + 0.5
"""Wait of a call for the channel to a server that has just dialled this one, until the way of calls is known."""

Found = TypeVar("Found")


class PeerDirectory:
    """Other servers, as calls need them."""

    def __init__(self, *, core: PeerCore, transport: PeerTransport) -> None:
        self._core = core
        self._transport = transport

    @property
    def unbelieved(self) -> Set[ServerId]:
        """Servers whose word about the groups of other servers needs a confirmation by these."""
        return self._transport.unbelieved()

    def note_contradicted(self, server: ServerId) -> None:
        """Count a fault of a server: it told a membership, and the home of the group denies that."""
        self._transport.count_fault(server, PeerFault.CONTRADICTED)

    def others(self) -> list[ServerId]:
        """Return all other servers that were met, sorted."""
        return self._transport.others()

    def is_in_reach(self, server: ServerId) -> bool:
        """Return True if a session with a server is open, directly or through a third server."""
        link = self._transport.link_of(server)
        return link is not None and link.is_connected

    def unheard(self) -> list[ServerId]:
        """Return the servers of the view that may have lost this server by now, sorted."""
        return self._transport.unheard()

    def unknown_here(self) -> list[ServerId]:
        """Return the servers that believed servers know and this server does not, sorted."""
        return self._transport.missing_here()

    def heard_owners(self) -> Mapping[Subnet, HeardOwner]:
        """Return the owners of subnets that other servers know and this server does not."""
        return self._transport.heard_owners()

    def owners_that_refuse(self) -> Mapping[Subnet, HeardOwner]:
        """Return the owners of subnets that no update here may name."""
        return self._transport.owners_that_refuse()

    @property
    def comebacks(self) -> int:
        """Number of returns of servers that were waited for."""
        return self._transport.comebacks

    def is_coming_back(self, server: ServerId) -> bool:
        """Return True if a server has announced its end and its return, and is waited for."""
        return self._transport.is_coming_back(server)

    def heard_that_it_leaves(self, server: ServerId) -> None:
        """Note a server's answer to a call that it ends and comes back."""
        self._transport.heard_that_it_leaves(server)

    async def until_back(self, server: ServerId) -> None:
        """Wait until a restarting server is back, or is not waited for any more."""
        while self._transport.is_coming_back(server):
            await self._transport.until_change()

    @property
    def are_all_met(self) -> bool:
        """True if `until_all_met` returns at once."""
        return self._transport.are_all_met

    async def until_all_met(self) -> None:
        """Wait, for a moment after the start, until the servers that were met before are heard.

        Raises `RefusedError` (UNAVAILABLE) once this server has parted from them, because it ends.
        """
        await self._transport.until_all_met()

    async def channel_to(self, server: ServerId) -> grpc.aio.Channel:
        """Return the channel to a server, direct or through a tunnel. The caller must not close it.

        A restarting server is waited for.

        Raises `RefusedError` (UNAVAILABLE) if the server is unreachable.
        """
        transport = self._transport
        while transport.is_restarting(server):
            await transport.until_change()
        await self._wait_while(lambda: (link := transport.link_of(server)) is not None and link.may_come_soon)
        link = transport.link_of(server)
        if link is None:
            raise refuse(
                Reason.UNAVAILABLE,
                f"no address of the server {server} is known here",
                unreachable=server,
                server=server,
            )
        if not link.is_connected:
            raise _out_of_reach(link, f"the server {server} at {link.address}", server)
        channel = await _channel_of(link)
        if channel is None:
            raise refuse(
                Reason.UNAVAILABLE,
                f"the server {server} has dialled this one, but cannot be dialled at {link.address}, and no other "
                "server passes calls on to it; correct its address in the table of peers, or let connections pass",
                unreachable=server,
                server=server,
                address=link.address,
            )
        return channel

    def under_way(self, server: ServerId, call: Call) -> AbstractContextManager[None]:
        """Register a call of a server for a block. The call is cancelled if the server is lost."""
        link = self._transport.link_of(server)
        return nullcontext() if link is None else link.under_way(call)

    async def home_of_subnet(self, subnet: Subnet) -> ServerId:
        """Return the server that owns a subnet.

        Raises `RefusedError`: UNAVAILABLE if that server was never met, UNKNOWN_SUBNET if no server is expected to own
        it.
        """
        core, transport = self._core, self._transport
        if subnet in core.subnets:
            return core.server
        await self._wait_while(
            lambda: (
                core.owner_of(subnet) is None
                and (link := transport.link_of_subnet(subnet)) is not None
                and link.may_come_soon
            )
        )
        owner = core.owner_of(subnet)
        if owner is not None:
            return owner
        link = transport.link_of_subnet(subnet)
        if link is None:
            raise refuse(Reason.UNKNOWN_SUBNET, f"no server is known to own the subnet {subnet}", subnet=subnet)
        raise _out_of_reach(link, f"the server of {subnet}, expected at {link.address},", subnet)

    async def _wait_while(self, is_pending: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(CONNECT_WAIT_SECONDS):
                while is_pending():
                    await self._transport.until_change()
        except TimeoutError:
            return


async def _channel_of(link: Link) -> grpc.aio.Channel | None:
    """Return the channel of a link over which calls arrive. Waits until that is known. None if there is none."""
    with suppress(TimeoutError):
        async with asyncio.timeout(DIAL_WAIT_SECONDS):
            return await link.channel_for_calls()
    return None


def _out_of_reach(link: Link, who: str, unreachable: str) -> RefusedError:
    return refuse(
        Reason.UNAVAILABLE,
        f"{who} is out of reach ({link.state})",
        unreachable=unreachable,
        server=link.server or "",
        address=link.address,
    )
