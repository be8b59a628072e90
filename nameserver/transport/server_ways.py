"""Find a way to a server: its address, an address that it announced, or a tunnel through a server that reaches both.

The address in the table may be stale, a firewall may block it, or a link may be broken.

    a session needs a way
      no address leads to the server ----------> servers that this one reaches are asked for a tunnel
    calls need a way, and the other server dialled, or the session goes through a tunnel of the other server
      the channel is ready, and the same server answers --> calls go directly
      not so, for DIALLED_SECONDS -------------> the addresses that the server announced are tried, again and again
        the same server answers at one --------> calls go there: it has moved
        none ----------------------------------> servers that this one reaches are asked for a tunnel
          one of them opens one ---------------> calls go through it, until there is a direct way
          none does ---------------------------> calls are refused at once

A session and calls share a tunnel. A server is recognised by the number of its start, which its hello contained. An
announced address, or a tunnel, therefore cannot lead calls to another process than the one of the session.

Source: docs/protocol-partitions.md, "Who is there" (the way between two servers).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import grpc

from namegraph import ServerId
from nameserver.detector.liveness import Life
from nameserver.detector.liveness_table import LivenessTable
from nameserver.transport.identification import Identity, identify_over
from nameserver.transport.peer_link import Link, WayThrough
from nameserver.transport.tunnel_socket import Tunnel, TunnelSockets

DIALLED_SECONDS = 2.0
"""Time after which an unconnected channel is taken to lead nowhere: twice the longest pause of gRPC."""

ASK_AGAIN_SECONDS = 2.0
"""Interval at which other servers are asked for a tunnel again, as long as the channel leads nowhere."""

ASKED_SECONDS = 1.0
"""Timeout of a question to the server at an address."""

THROUGH_SECONDS = 2.0
"""Timeout of a question through a tunnel: it takes some round trips more, and another tunnel can still be found."""

ASKED_TOGETHER = 10
"""Servers asked at a time. Most often the first one opens a tunnel."""


class OpenSession(Protocol):
    """An open session with another server."""

    @property
    def via(self) -> ServerId | None:
        """Server through which the session goes. None if it is direct."""


class ServerWays:
    """Ways to all servers. The owner calls `look` often."""

    def __init__(
        self,
        *,
        sockets: TunnelSockets,
        links: Iterable[Link],
        link_of: Callable[[ServerId], Link | None],
        sessions: Mapping[ServerId, OpenSession],
        watches: LivenessTable,
        start_of: Callable[[ServerId], int | None],
        clock: Callable[[], float],
        notify: Callable[[], None],
        say: Callable[[str], None],
    ) -> None:
        """Create the ways.

        `links` and `sessions`: all links and open sessions, live. `start_of`: returns the number of a server's start.
        `notify` is called with each new way. `say` writes a line for operators.
        """
        self._sockets = sockets
        self._links = links
        self._link_of = link_of
        self._sessions = sessions
        self._watches = watches
        self._start_of = start_of
        self._clock = clock
        self._notify = notify
        self._say = say
        self._due: dict[Link, float] = {}
        """Time at which a way for calls is looked for, or looked for again, for each link without a sure one."""
        self._asking: dict[Link, asyncio.Task[None]] = {}

    def reaches(self, server: ServerId) -> bool:
        """Return True if there is a direct session with a server."""
        session = self._sessions.get(server)
        return session is not None and session.via is None

    def between(self, server: ServerId) -> list[ServerId]:
        """Return the servers that may reach a server unreachable from here: all servers this one reaches, sorted."""
        return sorted(
            other
            for other in self._sessions
            if other != server and self.reaches(other) and self._watches.life_of(other) is Life.UP
        )

    def look(self) -> None:
        """Find the links without a sure way for calls, and those whose own channel leads to their server again."""
        links = list(self._links)
        for link in [link for link in self._due if link not in links]:
            self._settle(link)
        for link in links:
            is_ready = link.is_connected and link.is_direct and link.is_ready()
            if is_ready and link.is_proven:
                link.take_tunnel(None)
                self._settle(link)
                continue
            if not link.is_connected or (not link.is_direct and _is_open(link.tunnel)):
                # The dialler looks for a way to open a session. A session through a tunnel proves the tunnel.
                self._settle(link)
                continue
            if (is_ready and link not in self._due) or not link.is_direct:
                # A server answers there, to be identified at once; or nothing does, as the session shows.
                self._due.setdefault(link, self._clock())
            if self._due.setdefault(link, self._clock() + DIALLED_SECONDS) <= self._clock():
                self._due[link] = self._clock() + ASK_AGAIN_SECONDS
                if link not in self._asking:
                    task = self._asking[link] = asyncio.ensure_future(self._find_way_of_calls(link))
                    task.add_done_callback(lambda _, link=link: self._asking.pop(link, None))  # type: ignore[misc]

    def close(self) -> None:
        """Stop looking for ways."""
        for task in list(self._asking.values()):
            task.cancel()

    def _settle(self, link: Link) -> None:
        self._due.pop(link, None)
        if link in self._asking:
            self._asking[link].cancel()
        if link.cannot_be_dialled:
            link.can_be_dialled()
            self._notify()

    async def _find_way_of_calls(self, link: Link) -> None:
        server = link.server
        assert server is not None
        # While the session goes through a tunnel, the dialler tries the addresses.
        if link.is_direct and (await self._is_at_other_end(link, server) or await self._is_elsewhere(link, server)):
            self._notify()
            return
        is_news, before = not link.cannot_be_dialled, link.calls_via
        await self.tunnel_to(link, server)
        if link.is_connected and (is_news or link.calls_via != before):
            link.take_undialled()
            self._notify()

    async def tunnel_to(self, link: Link, server: ServerId) -> WayThrough | None:
        """Return the tunnel of a link, or a new one. None if no server opens one. The link keeps the tunnel."""
        standing = link.tunnel
        if standing is not None and await self._leads_to(standing, link, server):
            return standing
        found = await self._open_tunnel(link, server)
        if link.tunnel is not standing:
            # Another search was quicker.
            if found is not None:
                await found.close(None)
            return link.tunnel
        link.take_tunnel(found)
        return found

    async def _open_tunnel(self, link: Link, server: ServerId) -> Tunnel | None:
        """Return the tunnel that answers first."""
        between = self.between(server)
        for start in range(0, len(between), ASKED_TOGETHER):
            asked = between[start : start + ASKED_TOGETHER]
            trying = [asyncio.ensure_future(self._try_tunnel(link, server, via=via)) for via in asked]
            found: Tunnel | None = None
            try:
                for answer in asyncio.as_completed(trying):
                    found = await answer
                    if found is not None:
                        return found
            finally:
                for task in trying:
                    task.cancel()
                for other in await asyncio.gather(*trying, return_exceptions=True):
                    if isinstance(other, Tunnel) and other is not found:
                        await other.close(None)
        return None

    async def _try_tunnel(self, link: Link, server: ServerId, *, via: ServerId) -> Tunnel | None:
        if not await self._sockets.is_carried(server, via=via):
            return None
        tunnel = await self._sockets.open(server, via=via, link=link)
        if tunnel is None:
            return None
        is_right = False
        try:
            is_right = await self._leads_to(tunnel, link, server)
        finally:
            if not is_right:
                await tunnel.close(None)
        return tunnel if is_right else None

    async def _leads_to(self, tunnel: WayThrough, link: Link, server: ServerId) -> bool:
        found = await identify_over(tunnel.channel, seconds=THROUGH_SECONDS)
        # Without a session the server may have started anew. The session tells.
        return found is not None and (self._is_it(found, server) if link.is_connected else found.server == server)

    async def _is_at_other_end(self, link: Link, server: ServerId) -> bool:
        """Identify the server at the other end of the channel, if it leads anywhere.

        Return True if it is the right one.
        """
        channel = link.channel
        if not link.is_ready():
            return False
        found = await identify_over(channel, seconds=ASKED_SECONDS)
        if found is None or link.channel is not channel:
            return False
        if self._is_it(found, server):
            link.prove()
            return True
        link.leads_astray = True
        return False

    async def _is_elsewhere(self, link: Link, server: ServerId) -> bool:
        """Try the other addresses of a server. Return True if the server answers at one: calls go there from now on."""
        for address in dict.fromkeys((link.address, *link.announced)):
            if address == link.called_at:
                continue
            channel, is_taken = link.open_channel(address), False
            try:
                found = await identify_over(channel, seconds=ASKED_SECONDS)
                if found is not None and self._is_it(found, server) and link.is_connected:
                    link.follow(address, channel)
                    is_taken = True
                    if address != link.address:
                        self._say(f"{server} is at {address}, not at {link.address}: correct the table of peers")
                    return True
            finally:
                if not is_taken:
                    await channel.close(None)
        return False

    def _is_it(self, found: Identity, server: ServerId) -> bool:
        return found.server == server and found.start in (None, self._start_of(server))


def _is_open(tunnel: WayThrough | None) -> bool:
    return tunnel is not None and tunnel.channel.get_state(try_to_connect=True) is grpc.ChannelConnectivity.READY
