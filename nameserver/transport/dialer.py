"""Keep a session with the server of one address: dial it repeatedly, or go through a server that reaches it.

    not connected -- dial, then pause --------------------------> connected directly
    silent, and there is a server that reaches both ends -------> connected through it; dialling goes on

Source: docs/protocol-partitions.md, "Who is there" (two servers that cannot reach each other).
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from namegraph import ServerId
from nameserver.detector.liveness_table import LivenessTable
from nameserver.session.backoff import Backoff
from nameserver.session.session import Ending
from nameserver.transport.peer_link import Link
from nameserver.transport.peer_streams import DialledStream, FrameStream
from nameserver.transport.relay_hub import RelayHub
from nameserver.transport.relayed_stream import RelayedStream

AT_ONCE_SECONDS = 1.0
"""Duration that separates two kinds of failed attempts to connect.

An attempt that fails sooner was turned away. A longer attempt may have met a busy server.
"""


class Talks(Protocol):
    """Holder of the conversations. It is told how they end."""

    async def converse(self, stream: FrameStream, link: Link | None) -> Ending:
        """Talk to the server at the other end until the session is over."""

    async def converse_through(self, stream: RelayedStream, link: Link | None) -> None:
        """Do as `converse`, through another server."""

    def report_ending(self, link: Link, ending: Ending) -> None:
        """Note the end of a session over a link, or of an attempt to open one."""

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
        relays: RelayHub,
        watches: LivenessTable,
        server_of: Callable[[Link], ServerId | None],
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`server_of`: returns the server at the end of a link. None if it is unknown."""
        self._talks = talks
        self._relays = relays
        self._watches = watches
        self._server_of = server_of
        self._clock = clock
        self._chance = chance

    async def seek(self, link: Link) -> None:
        """Keep a session with the server of an address."""
        async with asyncio.TaskGroup() as ways:
            ways.create_task(self._dial_for_ever(link))
            ways.create_task(self._relay_for_ever(link))

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

    async def _relay_for_ever(self, link: Link) -> None:
        """Look for a server that reaches the other end, while there is no other way."""
        backoff = Backoff(self._chance)
        while not self._talks.is_closed():
            server = self._server_of(link)
            between = [] if server is None else self._relays.between(server)
            if server is None or not between or not link.is_silent:
                backoff.reset()
                await self._talks.until_change()
                continue
            for via in between:
                if link.is_silent and self._relays.reaches(via):
                    stream = self._relays.dial(server, via=via)
                    await self._talks.converse_through(stream, link)
            if not link.is_connected:
                await self._pause(lambda: link.is_connected, backoff.next_pause_seconds())

    async def _pause(self, is_over: Callable[[], bool], seconds: float) -> None:
        """Wait before the next attempt. A server that is met meanwhile is dialled at once when it is gone again."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not is_over():
                    await self._talks.until_change()

    async def _dial(self, link: Link) -> None:
        stream = DialledStream(link.channel)
        started = self._clock()
        try:
            ending = await self._talks.converse(stream, link)
        finally:
            stream.cancel()
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
