"""What the sessions with other servers read and drive: the core, and the run loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from delivery.model.events import DeliveryEvent
from namegraph import Channels, Event, Incarnations, Lane, ServerId, Subnet
from nameserver.session.durable_outbox import UndurableLetters


class PeerCore(Protocol):
    """The part of the core that the transport reads."""

    channels: Channels
    posts: Channels
    incarnations: Incarnations

    def channels_of(self, lane: Lane) -> Channels:
        """The channels of one lane: these two."""

    @property
    def server(self) -> ServerId:
        """This server."""

    @property
    def view(self) -> str:
        """Names the view that this server is in."""

    @property
    def subnets(self) -> tuple[Subnet, ...]:
        """The subnets it owns."""

    @property
    def peer_addresses(self) -> Mapping[Subnet, str]:
        """Where the servers of other subnets are reached."""

    @property
    def members(self) -> Sequence[ServerId]:
        """The servers of the view; empty while nobody was ever lost."""

    @property
    def servers_met(self) -> Sequence[ServerId]:
        """All other servers that are known by name, sorted."""

    def owner_of(self, subnet: Subnet) -> ServerId | None:
        """The server that owns a subnet, where it was met."""


class PeerLoop(UndurableLetters, Protocol):
    """The part of the run loop that the transport drives."""

    notify_peers: Callable[[Iterable[ServerId]], None]

    @property
    def storage_failure(self) -> str | None:
        """Why the database cannot be written; None while it can."""

    def answer_all_waiting(self, why: str) -> None:
        """Let no caller wait any longer: it is not known when the database can be written."""

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
        """Have the core handle letters, in order; those that still wait when it `is_over` are left out.

        `received`: number through which the sender has handled letters to it; 0 where it did not say that with these.
        """

    def begin_datagrams(self, send: Callable[[ServerId, bytes], bool]) -> None:
        """`send` sends what nobody keeps, if it can leave soon; it returns whether it will."""

    def take_datagram(self, sender: ServerId, encoded: bytes) -> None:
        """Have the core handle what nobody keeps, if it can be handled at once."""

    def take(self, event: Event | DeliveryEvent) -> None:
        """Have the core handle what no client asked for."""

    def is_writing_what_came_from(self, peer: ServerId) -> bool:
        """Whether letters of a server are handled, and what they caused is not durable."""

    def begins_again_with(self, peer: ServerId) -> bool:
        """Whether what was taken numbers the letters to and from a server anew, and is not carried out yet."""
