"""What the calls about messages need of the run loop: events carried out, and the log as far as it is durable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from delivery.mailboxes.gateways import Recipients
from delivery.model.events import Answer, Notice, OwnRequest, Send, Settled
from delivery.model.policy import Policy
from delivery.model.words import Position
from delivery.origin.dead_letters import DeadLetter
from delivery.origin.queue import Due
from delivery.volatile.datagrams import Shown
from namegraph import LogRecord, NodeId, Refusal, RefusedError, ServerId, Subnet
from nameserver.deliveries.ring_view import RingView
from nameserver.driver.letting_out import DatagramCounts


class Progress(NamedTuple):
    """How far a message is that is not settled."""

    mailboxes: int
    """How many get it, as far as servers have confirmed."""
    servers: int
    """How many servers have some of them."""
    pending: tuple[ServerId, ...]
    """Servers that have not confirmed it, sorted."""


class MailboxState(NamedTuple):
    """What is kept for one process."""

    process: NodeId
    number: int
    subscriptions: Mapping[str, Position]
    """How far each has acknowledged, by name."""


class DeliveryMachine(Protocol):
    """The delivery half of this server, driven by the run loop. All methods belong to the thread of the event loop."""

    @property
    def server(self) -> ServerId:
        """Whose it is."""

    @property
    def incarnation(self) -> int:
        """Of this server: its log begins anew where it goes on from an older copy of its database."""

    ring: RingView
    """What is kept in memory."""

    on_shown: Callable[[Shown], None]
    """Told of each datagram that is to be handed to those who listen."""

    on_logged: Callable[[Sequence[LogRecord]], None]
    """Told of the entries of the log that have become durable, in order."""

    @property
    def datagrams(self) -> DatagramCounts:
        """What became of datagrams."""

    def new_ticket(self) -> int:
        """A number for one event, never used again."""

    def carry_out_delivery(self, event: OwnRequest) -> asyncio.Future[Answer]:
        """Take the event at once; done with its first answer when that is durable.

        Its result is what the event says, or `DeliveryRefused`. Raises `RefusedError`, here or from the future, where
        nothing can be made durable, or the server is about to end.
        """

    def send_all(self, sends: Sequence[Send]) -> asyncio.Future[Sequence[Answer]]:
        """Take messages at once, in their order; done with the first answers to all of them when these are durable.

        A message of which it cannot be told whether it is durable is answered `DeliveryRefused`. Raises `RefusedError`
        where nothing can be made durable, or the server is about to end.
        """

    def settled(self, ticket: int) -> asyncio.Future[Settled]:
        """Done when the message of a `Send` that wants it is settled. To be asked once, right after it was taken."""

    def progress(self, message_id: str) -> Progress | None:
        """How far a message is that was accepted here; None where it is settled, or not known."""

    def is_in_reach(self, server: ServerId) -> bool:
        """Whether another server is connected, directly or through others."""

    def told_of_end(self, tell: Callable[[RefusedError], None]) -> AbstractContextManager[None]:
        """During the block, have the caller told why once the server is about to end; at once, where it is already."""

    def notice(self, event: Notice) -> None:
        """Take the event at once; nobody is answered."""

    async def until_durable(self) -> None:
        """Wait until all that was taken by now is durable; raises `RefusedError` where the database fails."""

    async def next_number(self, sender: str, addressed: NodeId) -> int:
        """The number that the next message of a sender to this first target has, as far as that is durable."""

    def queued_subnets(self) -> list[Subnet]:
        """For whose homes messages wait here; sorted."""

    def queue_waits_for(self, addressed: NodeId) -> bool:
        """Whether a message waits here for the home of a name: what is sent after that goes behind it."""

    def due(self, subnet: Subnet, *, but: Container[NodeId] = ()) -> Due | None:
        """The oldest message that waits here for the home of a subnet, and is not addressed to a name of `but`."""

    def policy_of(self, name: NodeId) -> Policy:
        """What holds for messages to a group of this server; the default for anything else."""

    def rate_objection(self, sender: str) -> Refusal | None:
        """Count a message of a sender (empty: who gives no name); why it is too much, where it is."""

    def mailbox_of(self, process: NodeId) -> MailboxState | None:
        """What is kept for a process; None: nothing is."""

    def listens_for(self, process: NodeId) -> bool:
        """Whether a process has a mailbox here, or somebody listens for it without one."""

    async def mailboxes_after(self, process: str, limit: int) -> Sequence[MailboxState]:
        """The mailboxes whose processes sort after a text, sorted, so many at most."""

    def dead_letters_after(self, number: int, limit: int) -> Sequence[DeadLetter]:
        """The dead letters with higher numbers, sorted, so many at most."""

    @property
    def dead_messages_lost(self) -> int:
        """How many messages were in dead letters for which there was no room."""

    @property
    def logged(self) -> int:
        """The last position of the log that is durable."""

    @property
    def log_cut(self) -> int:
        """The last position that was cut from it."""

    def lost_between(self, first: int, last: int, reader: int) -> int:
        """Count entries that may have been for a reader, from one through another one; all of these are gone."""

    def told_of_more(self, tell: Callable[[], None]) -> AbstractContextManager[None]:
        """During the block, have a listener told whenever more of the log is durable, or more is in memory.

        What is told ends the block at a later turn of the event loop, if it does.
        """

    async def read_log(self, after: int, through: int, bytes_limit: int) -> Sequence[LogRecord]:
        """Entries of the log behind a position, sorted: at least one where there is one. Raises `RefusedError`."""

    def is_for(self, audience: int, mailbox: int) -> bool:
        """Whether an entry with an audience is for a mailbox."""

    def recipients(self, audience: int, reader: int) -> Recipients:
        """Of an audience, whom a gateway serves; nobody, where a reader is none."""

    def names(self, recipients: Recipients) -> Sequence[NodeId]:
        """Their names, right after they were asked for."""
