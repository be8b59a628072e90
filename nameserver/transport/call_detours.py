"""Finds a server that passes calls on to one that dials this server and cannot be dialled: a stale address, a firewall.

    the other server dialled, so letters pass; calls take a channel of our own
      it is ready -----------------------------> calls go directly
      not for DIALLED_SECONDS -----------------> servers that this one reaches are asked for it, again and again
        one of them passes a question on ------> calls go through that one, until the channel is ready
        none does -----------------------------> calls are refused at once

Source: protocol.md section 7 (a common peer that reaches both ends of a broken link).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

import grpc

from namegraph import ServerId
from nameserver.driver.health import HEALTH_SERVICE
from nameserver.transport.peer_link import Link
from nameserver.transport.relayed_channel import RelayedChannel
from nameserver.wire.metadata import FORWARDED_KEY

DIALLED_SECONDS = 2.0
"""How long a channel may take until it is taken for one that leads nowhere: twice the longest pause of gRPC."""

ASK_AGAIN_SECONDS = 2.0
"""After how long the servers between are asked again, as long as the channel leads nowhere."""

ASKED_SECONDS = 1.0
"""How long one of them may take to answer."""

ASKED_TOGETHER = 10
"""How many are asked at a time: most often the first one does it."""

QUESTION = f"/{HEALTH_SERVICE}/Check"
"""What they are asked to pass on: it changes nothing, and every server answers it, well or not."""


class CallDetours:
    """The ways of calls to servers that cannot be dialled. The owner calls `look` often."""

    def __init__(
        self,
        *,
        here: ServerId,
        links: Iterable[Link],
        link_of: Callable[[ServerId], Link | None],
        between: Callable[[ServerId], Sequence[ServerId]],
        clock: Callable[[], float],
        notify: Callable[[], None],
    ) -> None:
        """`links`: all links, live. `between`: the servers that may reach one. `notify`: called with each new way."""
        self._mark = ((FORWARDED_KEY, here),)
        self._links = links
        self._link_of = link_of
        self._between = between
        self._clock = clock
        self._notify = notify
        self._due: dict[Link, float] = {}
        """When servers between are asked (again), for each link whose channel leads nowhere."""
        self._asking: dict[Link, asyncio.Task[None]] = {}

    def look(self) -> None:
        """Find which channels lead nowhere, and which do again."""
        links = list(self._links)
        for link in [link for link in self._due if link not in links]:
            self._settle(link)
        for link in links:
            if not link.is_connected or link.is_ready() or self._is_between(link.via):
                self._settle(link)
            elif self._due.setdefault(link, self._clock() + DIALLED_SECONDS) <= self._clock():
                self._due[link] = self._clock() + ASK_AGAIN_SECONDS
                if link not in self._asking:
                    task = self._asking[link] = asyncio.ensure_future(self._find_way(link))
                    task.add_done_callback(lambda _, link=link: self._asking.pop(link, None))  # type: ignore[misc]

    def close(self) -> None:
        """Stop looking for ways."""
        for task in list(self._asking.values()):
            task.cancel()

    def _is_between(self, via: ServerId | None) -> bool:
        """Whether letters and calls both go through a server."""
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
        assert link.server is not None
        via = await self._who_passes_on(link.server, first=link.calls_via)
        if not link.cannot_be_dialled or link.calls_via != via:
            link.take_detour(via)
            self._notify()

    async def _who_passes_on(self, server: ServerId, *, first: ServerId | None) -> ServerId | None:
        """A server that passes calls on to another one; the same as before, if it still does."""
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
        except grpc.aio.AioRpcError:
            return False
        return True
