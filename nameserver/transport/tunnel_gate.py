"""Tunnels that this server carries for two servers that cannot reach each other.

    a --Tunnel(stream), for b--> this server --a connection to the address of b in its own table--> b
      <------------------ bytes, both ways, read by neither this server nor its log --------------->

The caller names a server, never an address. This server has a direct session with both ends, so no tunnel leads through
a tunnel, and no stranger is reached or served. A tunnel ends with either session.

Source: docs/protocol-partitions.md, "Who is there" (two servers that cannot reach each other).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from namegraph import Reason, RefusedError, ServerId, refuse
from nameserver.config.addresses import is_loopback_host
from nameserver.transport.peer_link import Link
from nameserver.transport.peer_streams import FrameStream
from nameserver.transport.tunnel_copy import ByteBudget, copy_both_ways
from nameserver.wire.metadata import TO_KEY
from nameserver.wire.tunnel_pieces import OPENED, PIECE_BYTES_LIMIT

TUNNELS_OF_PEER_LIMIT = 8
"""Tunnels of one peer at once. It needs one for each server that it cannot reach, and may ask other servers too."""

TUNNELS_LIMIT = 200
"""Tunnels at once: some 100 MiB of buffers, and 200 connections of the process."""

BYTES_PER_SECOND_LIMIT = 64 * 1024 * 1024
"""Bytes of one peer in a second, both ways and over all its tunnels: half of what a network of 1 Gbit/s carries."""

BURST_BYTES = 4 * 1024 * 1024
"""Bytes that a peer may send at once after a rest: a large answer."""

DIAL_SECONDS = 1.0
"""Longest wait for a connection. The caller asks other servers meanwhile, and gives up soon after."""

NAME_LIMIT = 100
"""Most characters of a name that are repeated to the caller."""


@dataclass(frozen=True, slots=True, eq=False)
class _Carried:
    """A tunnel that is open here."""

    asker: ServerId
    destination: ServerId
    ending: asyncio.Future[str]
    """Reason to end the tunnel, once there is one."""


class TunnelGate:
    """All tunnels that this server carries. The owner calls `look` often."""

    def __init__(
        self,
        *,
        here: ServerId,
        link_of: Callable[[ServerId], Link | None],
        reaches: Callable[[ServerId], bool],
        clock: Callable[[], float],
    ) -> None:
        """`reaches`: returns True if there is a direct session with a server."""
        self.passed_on: Counter[ServerId] = Counter()
        """Number of pieces that each server sent to others through this one."""
        self._here = here
        self._link_of = link_of
        self._reaches = reaches
        self._clock = clock
        self._carried: set[_Carried] = set()
        self._budgets: dict[ServerId, ByteBudget] = {}
        """Budget of each peer with tunnels, or with some since it was last connected."""

    @property
    def count(self) -> int:
        """Number of tunnels that are open."""
        return len(self._carried)

    async def carry(
        self, stream: FrameStream, *, asker: ServerId, destination: ServerId, is_of_this_machine: bool
    ) -> None:
        """Carry a tunnel until it ends. Raises `RefusedError`.

        `asker`: peer that calls, as it was identified. `destination`: server to which the tunnel leads.
        `is_of_this_machine`: True if the call came over loopback.
        """
        link = self._link_for(asker, destination)
        with self._place(asker, destination) as carried:
            reader, writer = await self._dial(link, destination)
            try:
                self._require_open_to(writer, destination, is_of_this_machine=is_of_this_machine)
                await stream.write(OPENED)
                await copy_both_ways(
                    stream, reader, writer, until=carried.ending, pace=lambda *moved: self._pace(carried, *moved)
                )
            finally:
                writer.close()

    def look(self) -> None:
        """End the tunnels of which an end has no direct session with this server any more."""
        for carried in self._carried:
            for end in (carried.asker, carried.destination):
                if not self._reaches(end):
                    self._end(carried, f"{end} is not connected")
        for peer in [peer for peer in self._budgets if not self._reaches(peer)]:
            del self._budgets[peer]

    def close(self) -> None:
        """End all tunnels, because this server ends."""
        for carried in self._carried:
            self._end(carried, f"{self._here} is shutting down")

    def _end(self, carried: _Carried, why: str) -> None:
        if not carried.ending.done():
            carried.ending.set_result(why)

    def _link_for(self, asker: ServerId, destination: ServerId) -> Link:
        """Return the link that a tunnel takes. Raises `RefusedError` if the tunnel may not be."""
        if destination in (self._here, asker):
            whose = "the server that is asked for it" if destination == self._here else "the server that asks for it"
            raise refuse(Reason.INVALID_REQUEST, f"a tunnel cannot lead to {whose}; call it directly", field=TO_KEY)
        link = self._link_of(destination)
        if link is None or not self._reaches(destination) or link.cannot_be_dialled or link.leads_astray:
            raise self._unreachable(destination, "it has no direct connection to that server")
        return link

    @contextmanager
    def _place(self, asker: ServerId, destination: ServerId) -> Iterator[_Carried]:
        """Hold a place for a tunnel in the block. Raises `RefusedError` if none is free."""
        of_asker = sum(carried.asker == asker for carried in self._carried)
        for count, limit, whose in (
            (of_asker, TUNNELS_OF_PEER_LIMIT, "of one peer"),
            (len(self._carried), TUNNELS_LIMIT, "of all peers"),
        ):
            if count >= limit:
                raise refuse(
                    Reason.LIMIT_EXCEEDED,
                    f"{self._here} carries {limit} tunnels {whose} already; ask another server, or end some",
                    limit=str(limit),
                )
        carried = _Carried(asker, destination, asyncio.get_running_loop().create_future())
        self._carried.add(carried)
        try:
            yield carried
        finally:
            self._carried.discard(carried)
            carried.ending.cancel()

    async def _dial(self, link: Link, destination: ServerId) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        # An address that the destination announced counts once the destination has answered there.
        host, _, port = (link.called_at if link.is_proven else link.address).rpartition(":")
        try:
            async with asyncio.timeout(DIAL_SECONDS):
                return await asyncio.open_connection(
                    host.removeprefix("[").removesuffix("]"), int(port), limit=PIECE_BYTES_LIMIT
                )
        except TimeoutError:
            raise self._unreachable(destination, f"nothing answers within {DIAL_SECONDS:g} s") from None
        except (OSError, UnicodeError) as error:
            raise self._unreachable(destination, " ".join(str(error).split())[:NAME_LIMIT]) from None

    def _require_open_to(
        self, writer: asyncio.StreamWriter, destination: ServerId, *, is_of_this_machine: bool
    ) -> None:
        """Raise `RefusedError` if a peer elsewhere would reach a port that only this machine can reach.

        A server that listens on loopback trusts all that comes to it.
        """
        host = writer.get_extra_info("peername")[0]
        if is_loopback_host(host) and not is_of_this_machine:
            raise refuse(
                Reason.PERMISSION_DENIED,
                f"the server {destination} listens for the machine of {self._here} alone: no tunnel from elsewhere "
                "leads to it",
            )

    async def _pace(self, carried: _Carried, count: int, is_outward: bool) -> None:
        """Count bytes that pass, and wait until they may. `is_outward`: True for bytes of the destination."""
        self.passed_on[carried.destination if is_outward else carried.asker] += 1
        budget = self._budgets.get(carried.asker)
        if budget is None:
            budget = self._budgets[carried.asker] = ByteBudget(
                bytes_per_second=BYTES_PER_SECOND_LIMIT, burst_bytes=BURST_BYTES, clock=self._clock
            )
        seconds = budget.spend(count)
        if seconds:
            await asyncio.sleep(seconds)

    def _unreachable(self, destination: ServerId, why: str) -> RefusedError:
        return refuse(
            Reason.UNAVAILABLE,
            f"{self._here} does not reach {destination[:NAME_LIMIT]} either: {why}",
            unreachable=destination[:NAME_LIMIT],
            server=destination[:NAME_LIMIT],
        )
