"""Keep a session with the server of one address: dial it repeatedly, or go through a server that reaches it.

    not connected -- dial, then pause --------------------------> connected directly
    silent, and a server that reaches both ends opens a tunnel -> connected through it; dialling goes on

Source: docs/protocol-partitions.md, "Who is there" (the way between two servers).
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

import grpc

from namegraph import ServerId
from nameserver.detector.liveness_table import LivenessTable
from nameserver.session.backoff import Backoff
from nameserver.session.frames import GoodbyeReason
from nameserver.session.session import Ending
from nameserver.transport.peer_link import Link
from nameserver.transport.peer_streams import DialledStream, FrameStream
from nameserver.transport.server_ways import ServerWays

AT_ONCE_SECONDS = 1.0
"""Duration that separates two kinds of failed attempts to connect.

An attempt that fails sooner was turned away. A longer attempt may have met a busy server.
"""


class Talks(Protocol):
    """Holder of the conversations. It is told how they end."""

    async def converse(self, stream: FrameStream, link: Link | None, via: ServerId | None = None) -> Ending:
        """Talk to the server at the other end until the session is over. `via`: server that carries the tunnel."""

    def report_ending(self, link: Link, ending: Ending) -> None:
        """Note the end of a session over a link, or of an attempt to open one."""

    def is_outdated(self, link: Link) -> bool:
        """Return True if the session that was dialled over a link rests on an earlier certificate or authority."""

    async def until_change(self) -> None:
        """Wait until some link or session changes."""

    def is_closed(self) -> bool:
        """Return True if this server is ending, and meets no other server any more."""


class Dialer:
    """Dialler that keeps all links connected."""

    def __init__(
        self,
        *,
        talks: Talks,
        ways: ServerWays,
        watches: LivenessTable,
        server_of: Callable[[Link], ServerId | None],
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`server_of`: returns the server at the end of a link. None if it is unknown."""
        self._talks = talks
        self._ways = ways
        self._watches = watches
        self._server_of = server_of
        self._clock = clock
        self._chance = chance

    async def seek(self, link: Link) -> None:
        """Keep a session with the server of an address."""
        async with asyncio.TaskGroup() as attempts:
            attempts.create_task(self._dial_for_ever(link))
            attempts.create_task(self._tunnel_for_ever(link))
            attempts.create_task(self._renew_for_ever(link))

    async def _dial_for_ever(self, link: Link) -> None:
        try:
            while not self._talks.is_closed():
                if link.is_direct:
                    await self._talks.until_change()
                    continue
                await self._dial(link)
                if not link.is_direct:
                    await self._pause(lambda: link.is_direct, link.backoff.next_pause_seconds())
        finally:
            await link.close()

    async def _renew_for_ever(self, link: Link) -> None:
        """Dial beside a session whose certificates were renewed. The new session takes its place, and no call waits."""
        backoff = Backoff(self._chance)
        while not self._talks.is_closed():
            if not self._talks.is_outdated(link):
                backoff.reset()
                await self._talks.until_change()
                continue
            await self._dial(link)
            await self._pause(lambda: not self._talks.is_outdated(link), backoff.next_pause_seconds())

    async def _tunnel_for_ever(self, link: Link) -> None:
        """Open a tunnel, while there is no other way."""
        backoff = Backoff(self._chance)
        while not self._talks.is_closed():
            server = self._server_of(link)
            if server is None or not link.is_silent or not self._ways.between(server):
                if not link.is_connected:
                    link.take_tunnel(None)
                backoff.reset()
                await self._talks.until_change()
                continue
            tunnel = await self._ways.tunnel_to(link, server)
            if tunnel is not None and link.is_silent:
                await self._converse(link, tunnel.channel, via=tunnel.via)
                if not link.is_connected:
                    # The tunnel may be broken at any place.
                    link.take_tunnel(None)
            if not link.is_connected:
                await self._pause(lambda: link.is_connected, backoff.next_pause_seconds())

    async def _converse(self, link: Link, channel: grpc.aio.Channel, via: ServerId | None = None) -> Ending:
        stream = DialledStream(channel)
        try:
            return await self._talks.converse(stream, link, via)
        finally:
            stream.cancel()

    async def _pause(self, is_over: Callable[[], bool], seconds: float) -> None:
        """Wait before the next attempt. A server that is met meanwhile is dialled at once when it is gone again."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not is_over():
                    await self._talks.until_change()

    async def _dial(self, link: Link) -> None:
        why = link.why_not_dialled()
        if why is not None:
            self._talks.report_ending(link, Ending(GoodbyeReason.NOT_AUTHENTIC, why))
            return
        started = self._clock()
        ending = await self._converse(link, link.channel)
        if ending.reason is None and not link.is_connected:
            ending = await link.explained(ending)
        if not link.is_connected:
            self._talks.report_ending(link, ending)
        if not link.is_direct:
            self._take_hint(link, ending, was_at_once=self._clock() - started < AT_ONCE_SECONDS)

    def _take_hint(self, link: Link, ending: Ending, *, was_at_once: bool) -> None:
        """Take a failed attempt to connect as a hint."""
        watch = self._watches.get(self._server_of(link))
        is_refusal = ending.reason is not None and ending.reason.is_refusal
        before = link.channel
        link.try_next_address()
        if not was_at_once and not is_refusal and link.channel is before:
            link.renew()
        if watch is None:
            return
        if was_at_once or is_refusal:
            watch.refused(self._watches.now(), ending.message)
        else:
            watch.unanswered()
