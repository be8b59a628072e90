"""Places for streams of messages, which may rest for hours, and the sharing of places when there are too few.

    a stream comes -> has its network a place? -> is one free in all? -> taken
                       no |                        no |
                          v                           v
        an idle stream of this network      an idle stream of the network that has most
                          '---> is ended, and its client comes back   no idle one: LIMIT_EXCEEDED

A stream is idle if no message went over it for a minute. Credit and acknowledgements are no use of a stream: they cost
its client nothing. A stream that is in use for long gives way, too, so that no client has a place for good.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Final

from namegraph import Reason, RefusedError, refuse
from nameserver.access.caller import current_caller
from nameserver.calls.adapters import Context
from nameserver.config.addresses import THIS_MACHINE, network_of

STREAMS_LIMIT: Final = 1_500
"""Streams of messages of one server. Other calls about messages have 500 places that no stream takes."""

STREAMS_OF_NETWORK_LIMIT: Final = 100
"""Streams of one network: a /24 of IPv4, a /64 of IPv6."""

STREAMS_OF_THIS_MACHINE_LIMIT: Final = 1_200
"""Streams over loopback. Mail gateways, programs and tests of one machine have one network together."""

STREAMS_PASSED_ON_LIMIT: Final = 500
"""Streams of one network that another server passes on. It passes on one for each of its own senders."""

IDLE_SECONDS: Final = 60.0
"""Time without a message after which a stream gives way."""

USED_SECONDS: Final = 600.0
"""Age at which a stream in use gives way, if no stream is idle."""

GRACE_SECONDS: Final = 5.0
"""Time that a stream may take to end. A client that reads nothing cannot be told."""

HEARD_OUT_LIMIT: Final = 100
"""Refused streams whose first message is awaited at once.

A stream that is refused before its first message looks broken to its client.
"""

REPORT_SECONDS: Final = 60.0
"""Shortest time between two reports to operators that a network has all of its places."""


def network_of_caller(context: Context) -> str:
    """Return the network that counts as one caller; calls that another server passes on count apart."""
    network = network_of(context.peer() or "")
    return f"{network}, passed on" if network != THIS_MACHINE and current_caller().is_forwarded else network


class StreamPlace:
    """The place of one stream."""

    def __init__(self, network: str, connection: str, clock: Callable[[], float]) -> None:
        self.network = network
        self.connection = connection
        self.began_at = self.used_at = clock()
        self.end: Callable[[RefusedError], None] = lambda _why: None
        """Callback that gets the reason for which the stream is to end."""
        self.task = asyncio.current_task()
        self._clock = clock

    def used(self) -> None:
        """Note that a message went over the stream."""
        self.used_at = self._clock()


class StreamPlaces:
    """All places of one server."""

    def __init__(self, *, clock: Callable[[], float], report: Callable[[str], None] = lambda _line: None) -> None:
        """`report`: takes a line for operators."""
        self.refused = 0
        """Streams that found no place since the start."""
        self.ended = 0
        """Streams that gave way since the start."""
        self._clock, self._report = clock, report
        self._of: dict[str, dict[StreamPlace, None]] = {}
        """Streams by network, the oldest first."""
        self._reported_at: dict[str, float] = {}
        self._heard_out = 0

    def __len__(self) -> int:
        return sum(map(len, self._of.values()))

    @asynccontextmanager
    async def one(self, requests: AsyncIterator[object], context: Context) -> AsyncIterator[StreamPlace]:
        """Hold a place during the block. Raises `RefusedError` if there is none, and no stream gives way."""
        peer, network = context.peer() or "", network_of_caller(context)
        limit = STREAMS_OF_THIS_MACHINE_LIMIT if network == THIS_MACHINE else STREAMS_OF_NETWORK_LIMIT
        if current_caller().is_forwarded and network != THIS_MACHINE:
            limit = STREAMS_PASSED_ON_LIMIT
        place = StreamPlace(network, peer, self._clock)
        try:
            self._make_room(network, limit)
        except RefusedError:
            await self._hear_out(requests)
            raise
        self._of.setdefault(network, {})[place] = None
        try:
            yield place
        finally:
            self._leave(place)

    async def _hear_out(self, requests: AsyncIterator[object]) -> None:
        """Wait for the first message of a refused stream."""
        if self._heard_out < HEARD_OUT_LIMIT:
            self._heard_out += 1
            try:
                await anext(requests, None)
            finally:
                self._heard_out -= 1

    def _leave(self, place: StreamPlace) -> None:
        """Free a place, unless that was done."""
        there = self._of.get(place.network, {})
        if place in there:
            del there[place]
            if not there:
                del self._of[place.network]

    def _make_room(self, network: str, limit: int) -> None:
        there = self._of.get(network, {})
        if len(there) < limit and len(self) < STREAMS_LIMIT:
            return
        if len(there) < limit:
            crowded = max(self._of, key=lambda each: len(self._of[each]))
            found, why = self._of[crowded], f"the server has {STREAMS_LIMIT}"
        else:
            crowded, found, why = network, there, f"callers of {network} have {limit}"
        self._tell(crowded, f"{why} streams of messages, which is the limit: idle streams end, or others are refused")
        victim = self._victim(found)
        if victim is None:
            self.refused += 1
            raise refuse(
                Reason.LIMIT_EXCEEDED,
                f"{why} streams of messages, which is the limit, and all were used within {IDLE_SECONDS:g} seconds; "
                "try again later",
                limit=str(limit if found is there else STREAMS_LIMIT),
                idle_seconds=f"{IDLE_SECONDS:g}",
            )
        self.ended += 1
        self._leave(victim)
        self._end(victim, why)

    def _victim(self, places: Iterable[StreamPlace]) -> StreamPlace | None:
        """Return the stream that gives way: of the connection that has most, the stream that was idle longest."""
        now = self._clock()
        found = [each for each in places if now - each.used_at >= IDLE_SECONDS]
        if not found:
            found = [each for each in places if now - each.began_at >= USED_SECONDS]
        of_connection = Counter(each.connection for each in places)
        return max(found, key=lambda each: (of_connection[each.connection], -each.used_at), default=None)

    def _end(self, place: StreamPlace, why: str) -> None:
        idle_seconds = self._clock() - place.used_at
        place.end(
            refuse(
                Reason.DEADLINE_EXCEEDED,
                f"others wait for the place of this stream, over which no message went for {idle_seconds:.0f} seconds: "
                f"{why} streams of messages, which is the limit. Open another one",
                idle_seconds=f"{idle_seconds:.0f}",
            )
        )
        if place.task is not None:
            asyncio.get_running_loop().call_later(GRACE_SECONDS, place.task.cancel)

    def _tell(self, network: str, line: str) -> None:
        now = self._clock()
        self._reported_at = {each: at for each, at in self._reported_at.items() if now - at < REPORT_SECONDS}
        if network not in self._reported_at:
            self._reported_at[network] = now
            self._report(line)
