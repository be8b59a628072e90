"""Interface of the calls about messages to the run loop: events carried out, and the durable part of the log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from delivery.mailboxes.gateways import Recipients
from delivery.model.events import Answer, Notice, OwnRequest, Send, Settled
from delivery.model.policy import DeliveryPolicy
from delivery.model.words import Position
from delivery.origin.dead_letters import UndeliveredParcel
from delivery.origin.queue import Due
from delivery.volatile.datagrams import Shown
from namegraph import LogRecord, NodeId, Refusal, RefusedError, ServerId, Subnet
from nameserver.deliveries.ring_view import RingView
from nameserver.driver.letting_out import DatagramCounts


class DeliveryProgress(NamedTuple):
    """Progress of a message that is not settled."""

    mailboxes: int
    """Number of mailboxes that get it, as far as servers have confirmed."""
    servers: int
    """Number of servers that have some of these mailboxes."""
    pending: tuple[ServerId, ...]
    """Servers that have not confirmed it, sorted."""


class MailboxState(NamedTuple):
    """State kept for one process."""

    process: NodeId
    number: int
    subscriptions: Mapping[str, Position]
    """Acknowledged position of each subscription, by name."""


class DeliveryMachine(Protocol):
    """The delivery half of this server, driven by the run loop. All methods belong to the thread of the event loop."""

    @property
    def server(self) -> ServerId:
        """Server of this machine."""

    @property
    def incarnation(self) -> int:
        """Incarnation of this server. Its log begins anew after a start from an older copy of its database."""

    ring: RingView
    """Entries kept in memory."""

    on_shown: Callable[[Shown], None]
    """Callback that gets each datagram for listeners."""

    on_logged: Callable[[Sequence[LogRecord]], None]
    """Callback that gets the entries of the log that have become durable, in order."""

    @property
    def datagrams(self) -> DatagramCounts:
        """Outcomes of datagrams."""

    def new_ticket(self) -> int:
        """Return a number for one event, never used again."""

    def carry_out_delivery(self, event: OwnRequest) -> asyncio.Future[Answer]:
        """Take the event at once.

        Return a future of its first answer, done once that is durable.

        The result is the answer of the event's type, or `DeliveryRefused`. Raises `RefusedError`, here or from the
        future, if nothing can be made durable, or the server is about to end.
        """

    def send_all(self, sends: Sequence[Send]) -> asyncio.Future[Sequence[Answer]]:
        """Take messages at once, in their order.

        Return a future of the first answers to all of them, done once durable.

        A message for which it is unknown if it is durable gets the answer `DeliveryRefused`. Raises `RefusedError` if
        nothing can be made durable, or the server is about to end.
        """

    def settled(self, ticket: int) -> asyncio.Future[Settled]:
        """Return a future that is done when the message of a `Send` that wants it is settled.

        Call this once, right after the message was taken.
        """

    def progress(self, message_id: str) -> DeliveryProgress | None:
        """Return the progress of a message that was accepted here. None if it is settled, or unknown."""

    def is_in_reach(self, server: ServerId) -> bool:
        """Return True if another server is connected, directly or through others."""

    def told_of_end(self, tell: Callable[[RefusedError], None]) -> AbstractContextManager[None]:
        """Call `tell` during the block once the server is about to end, or at once if it already is."""

    def notice(self, event: Notice) -> None:
        """Take the event at once, without an answer."""

    async def until_durable(self) -> None:
        """Wait until all events taken by now are durable. Raises `RefusedError` if the database fails."""

    async def next_number(self, sender: str, addressed: NodeId) -> int:
        """Return the number of the next message of a sender to this first target, from durable state."""

    def queued_subnets(self) -> list[Subnet]:
        """Return the subnets whose homes have messages waiting here, sorted."""

    def queue_waits_for(self, addressed: NodeId) -> bool:
        """Return True if a message waits here for the home of a name. A later message to the name goes behind it."""

    def due(self, subnet: Subnet, *, but: Container[NodeId] = ()) -> Due | None:
        """Return the oldest message that waits here for the home of a subnet, except messages addressed to a name of
        `but`.
        """

    def policy_of(self, name: NodeId) -> DeliveryPolicy:
        """Return the policy of a group of this server. The default for any other name."""

    def rate_objection(self, sender: str) -> Refusal | None:
        """Count a message of a sender.

        Return the refusal if its rate is too high.

        `sender`: empty if the sender gives no name.
        """

    def mailbox_of(self, process: NodeId) -> MailboxState | None:
        """Return the mailbox of a process. None if it has none."""

    def listens_for(self, process: NodeId) -> bool:
        """Return True if a process has a mailbox here, or a listener without a mailbox."""

    async def mailboxes_after(self, process: str, limit: int) -> Sequence[MailboxState]:
        """Return at most `limit` mailboxes, sorted by process, whose processes sort after a text."""

    def dead_letters_after(self, number: int, limit: int) -> Sequence[UndeliveredParcel]:
        """Return at most `limit` dead letters with higher numbers, sorted."""

    @property
    def dead_messages_lost(self) -> int:
        """Number of messages in dead letters for which there was no room."""

    @property
    def logged(self) -> int:
        """Last position of the log that is durable."""

    @property
    def log_cut(self) -> int:
        """Last position that was cut from the log."""

    def lost_between(self, first: int, last: int, reader: int) -> int:
        """Return the number of entries from `first` through `last` that may have been for a reader.

        All of them are gone.
        """

    def told_of_more(self, tell: Callable[[], None]) -> AbstractContextManager[None]:
        """Call `tell` during the block whenever more of the log is durable, or more is in memory.

        `tell` must not end the block itself, but at a later turn of the event loop.
        """

    async def read_log(self, after: int, through: int, bytes_limit: int) -> Sequence[LogRecord]:
        """Return entries of the log behind a position, sorted. At least one if there is one. Raises `RefusedError`."""

    def is_for(self, audience: int, mailbox: int) -> bool:
        """Return True if an entry with an audience is for a mailbox."""

    def recipients(self, audience: int, reader: int) -> Recipients:
        """Return the recipients of an audience that a gateway serves. Empty if the reader is no gateway."""

    def names(self, recipients: Recipients) -> Sequence[NodeId]:
        """Return the names of recipients. Call this right after `recipients`."""
