"""Interfaces of the sessions with other servers: the core they read, and the run loop they drive."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from delivery.model.events import DeliveryEvent
from namegraph import Channels, Event, GivenUp, Incarnations, Lane, ServerId, Subnet
from nameserver.session.durable_outbox import UndurableLetters


class SeenView(Protocol):
    """View that this server is in."""

    @property
    def view(self) -> str:
        """Name of the view."""

    @property
    def members(self) -> Sequence[ServerId]:
        """Servers of the view. Empty while no server was ever lost."""

    @property
    def servers_met(self) -> Sequence[ServerId]:
        """All other servers that are known by name, sorted."""


class PeerCore(SeenView, Protocol):
    """Part of the core that the transport reads."""

    channels: Channels
    posts: Channels
    incarnations: Incarnations

    def channels_of(self, lane: Lane) -> Channels:
        """Return the channels of one lane: `channels` or `posts`."""

    @property
    def server(self) -> ServerId:
        """This server."""

    @property
    def subnets(self) -> tuple[Subnet, ...]:
        """Subnets that this server owns."""

    @property
    def peer_addresses(self) -> Mapping[Subnet, str]:
        """Address of each subnet of another server."""

    def given_up(self, now: float) -> Mapping[ServerId, GivenUp]:
        """Return the connected servers that are not taken back yet, because they let this one wait for too long."""

    def mistrusted(self, now: float) -> Mapping[ServerId, GivenUp]:
        """Return the coordinators whose updates this server takes no part in yet, because they did not decide."""

    def owner_of(self, subnet: Subnet) -> ServerId | None:
        """Return the server that owns a subnet. None if it was not met."""


class PeerLoop(UndurableLetters, Protocol):
    """Part of the run loop that the transport drives."""

    notify_peers: Callable[[Iterable[ServerId]], None]

    @property
    def storage_failure(self) -> str | None:
        """Failure of the database. None while it can be written."""

    def answer_all_waiting(self, why: str) -> None:
        """End the wait of all callers: it is unknown when the database can be written."""

    async def take_letters(
        self,
        sender: ServerId,
        first_number: int,
        letters: Iterable[bytes],
        lane: Lane,
        *,
        received: int,
        is_over: Callable[[], bool],
    ) -> None:
        """Let the core handle letters in order.

        Letters that still wait when `is_over` returns True are left out.

        `received`: number through which the sender has handled letters to it. 0 if these letters do not say so.
        """

    def begin_datagrams(self, send: Callable[[ServerId, bytes], bool]) -> None:
        """Set the sender of datagrams. `send` returns True if the datagram can leave soon and will."""

    def take_datagram(self, sender: ServerId, encoded: bytes) -> None:
        """Let the core handle a datagram, if it can be handled at once."""

    def take(self, event: Event | DeliveryEvent) -> None:
        """Let the core handle an event that no client asked for."""

    def is_writing_what_came_from(self, peer: ServerId) -> bool:
        """Return True if letters of a server are being handled, or were handled and their effects are not durable."""

    def begins_again_with(self, peer: ServerId) -> bool:
        """Return True if a taken event that is not carried out yet numbers the letters to and from a server anew."""
