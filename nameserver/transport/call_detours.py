"""Find a way for calls to a server that dials this one.

Its address may be stale, or a firewall may block calls to it.

    the other server dialled, so letters pass; calls take a channel of our own
      ready, and the same server answers ------> calls go directly
      not so, for DIALLED_SECONDS -------------> the addresses that the server announced are tried, again and again
        the same server answers at one --------> calls go there: it has moved
        none ----------------------------------> servers that this one reaches are asked for it
          one of them passes a question on ----> calls go through that one, until there is a direct way
          none does ---------------------------> calls are refused at once

A server is recognised by the number of its start, which its hello contained. An announced address therefore cannot lead
calls to another process than the one of the session.

Source: docs/protocol-partitions.md, "Who is there" (a server that dials, but cannot be dialled).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

import grpc

from namegraph import ServerId
from nameserver.transport.identification import Identity, identify_over
from nameserver.transport.peer_link import Link
from nameserver.transport.relayed_channel import RelayedChannel
from nameserver.wire.metadata import FORWARDED_KEY
from nameserver.wire.status_mapping import refusal_of

DIALLED_SECONDS = 2.0
"""Time after which an unconnected channel is taken to lead nowhere: twice the longest pause of gRPC."""

ASK_AGAIN_SECONDS = 2.0
"""Interval at which intermediate servers are asked again, as long as the channel leads nowhere."""

ASKED_SECONDS = 1.0
"""Timeout of a question to another server."""

ASKED_TOGETHER = 10
"""Servers asked at a time. Most often the first one passes calls on."""

QUESTION = "/shadowtree.v1.PeerService/TellBasis"
"""Method that intermediate servers are asked to pass on.

It changes no state and costs little.

Older servers pass this method on, too.
"""


class CallDetours:
    """Ways of calls to servers that cannot be dialled. The owner calls `look` often."""

    def __init__(
        self,
        *,
        here: ServerId,
        links: Iterable[Link],
        link_of: Callable[[ServerId], Link | None],
        between: Callable[[ServerId], Sequence[ServerId]],
        start_of: Callable[[ServerId], int | None],
        clock: Callable[[], float],
        notify: Callable[[], None],
        say: Callable[[str], None],
    ) -> None:
        """Create the detours.

        `links`: all links, live. `between`: returns the servers that may reach a server. `start_of`: returns the number
        of a server's start. `notify` is called with each new way. `say` writes a line for operators.
        """
        self._mark = ((FORWARDED_KEY, here),)
        self._links = links
        self._link_of = link_of
        self._between = between
        self._start_of = start_of
        self._clock = clock
        self._notify = notify
        self._say = say
        self._due: dict[Link, float] = {}
        """Time at which intermediate servers are asked, or asked again, for each link whose channel leads nowhere."""
        self._asking: dict[Link, asyncio.Task[None]] = {}

    def look(self) -> None:
        """Find the channels that lead nowhere, and those that lead to their server again."""
        links = list(self._links)
        for link in [link for link in self._due if link not in links]:
            self._settle(link)
        for link in links:
            is_ready = link.is_connected and link.is_ready()
            if not link.is_connected or (is_ready and link.is_proven) or self._is_between(link.via):
                self._settle(link)
                continue
            if is_ready and link not in self._due:
                # A server answers there: identify it at once.
                self._due[link] = self._clock()
            if self._due.setdefault(link, self._clock() + DIALLED_SECONDS) <= self._clock():
                self._due[link] = self._clock() + ASK_AGAIN_SECONDS
                if link not in self._asking:
                    task = self._asking[link] = asyncio.ensure_future(self._find_way(link))
                    task.add_done_callback(lambda _, link=link: self._asking.pop(link, None))  # type: ignore[misc]

    def close(self) -> None:
        """Stop looking for ways."""
        for task in list(self._asking.values()):
            task.cancel()

    def _is_between(self, via: ServerId | None) -> bool:
        """Return True if letters and calls both go through a server."""
        link = None if via is None else self._link_of(via)
        return link is not None and link.is_direct and link.is_ready()

    def _settle(self, link: Link) -> None:
        self._due.pop(link, None)
        if link in self._asking:
            self._asking[link].cancel()
        if link.cannot_be_dialled:
            link.can_be_dialled()
            self._notify()

    async def _find_way(self, link: Link) -> None:
        server = link.server
        assert server is not None
        if await self._is_at_other_end(link, server) or await self._is_elsewhere(link, server):
            self._notify()
            return
        via = await self._who_passes_on(server, first=link.calls_via)
        if not link.cannot_be_dialled or link.calls_via != via:
            link.take_detour(via)
            self._notify()

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

    async def _who_passes_on(self, server: ServerId, *, first: ServerId | None) -> ServerId | None:
        """Return a server that passes calls on.

        The previous one is preferred, if it still does. None if there is none.
        """
        if first is not None and await self._passes_on(first, server):
            return first
        between = self._between(server)
        for start in range(0, len(between), ASKED_TOGETHER):
            asked = between[start : start + ASKED_TOGETHER]
            answers = await asyncio.gather(*(self._passes_on(via, server) for via in asked))
            for via, is_passed_on in zip(asked, answers, strict=True):
                if is_passed_on:
                    return via
        return None

    async def _passes_on(self, via: ServerId, server: ServerId) -> bool:
        link = self._link_of(via)
        if link is None or not link.is_direct or not link.is_ready():
            return False
        call = RelayedChannel(link.channel, server).unary_unary(QUESTION, None, None)
        try:
            await call(b"", timeout=ASKED_SECONDS, metadata=self._mark)
        except grpc.aio.AioRpcError as error:
            refusal = refusal_of(error)
            # A refusal by the server itself was passed on. A refusal because that server is unreachable was not.
            return refusal is not None and refusal.facts.get("unreachable") != server
        return True
