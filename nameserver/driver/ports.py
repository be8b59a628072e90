"""Interfaces of the run loop: the core it drives, the store it writes to, and the desk of messages it tells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from delivery.model.events import Answer, DeliveryEvent
from delivery.volatile.datagrams import Shown
from namegraph import Channels, Effects, Event, Lane, LogRecord, Records, Refusal, ServerId
from storage.store import ChangesFound, ChangesWanted, LogWanted


class Core(Protocol):
    """Part of the core that the run loop drives."""

    server: ServerId

    @property
    def servers_met(self) -> Sequence[ServerId]:
        """All other servers that are known by name."""

    @property
    def revision(self) -> str:
        """Newest revision to tell."""

    @property
    def next_deadline(self) -> float | None:
        """Time at which the core wants a `Tick`, on the clock of `step`'s `now`."""

    def channels_of(self, lane: Lane) -> Channels:
        """Return the channels of one lane."""

    def step(self, event: Event | DeliveryEvent, now: float) -> Effects:
        """Take one event."""


class SeenState(Protocol):
    """Control of the state that readers see: the newest durable one."""

    free: Callable[..., None]
    """Callback that gets lists of objects to free. They may be very many."""

    def may_take_long(self, event: Event) -> bool:
        """Return True if the step of an event is to leave the loop's thread."""

    def changes(self, event: Event) -> bool:
        """Return False if the step of an event changes nothing that readers see."""

    def hold(self, *, for_long_step: bool = False) -> None:
        """Show readers the present state, and none after the steps to come.

        `for_long_step`: True if the next step will run in another thread.
        """

    def let_go(self, *, earliest: bool) -> None:
        """End a hold: the earliest batch is durable, or the steps since the latest hold left nothing to make
        durable."""


class DeliveryDesk(Protocol):
    """Desk that speaks with the callers of the delivery half."""

    def has_open(self) -> bool:
        """Return True if messages wait for the next parcel."""

    def answer(self, answers: Iterable[Answer]) -> None:
        """Send answers to callers. The answers are durable."""

    def show(self, shown: Shown) -> None:
        """Hand a datagram to its listeners."""

    def in_memory_through(self, through: int) -> None:
        """Allow entries in memory through a position to be handed out."""

    def fail(self, why: str) -> None:
        """Tell all waiting callers that it is unknown when the database can be written."""

    def was_logged(self, records: Sequence[LogRecord]) -> None:
        """Note that these entries, at least one, are durable, and so is the log through the last of them."""

    def end(self, refusal: Refusal) -> None:
        """Tell listeners and streaming senders that the server is about to end."""


class DurableStore(Protocol):
    """Part of a store that the run loop uses."""

    def commit(self, records: Records) -> None:
        """Make all records durable, or none and raise `StorageError`."""

    def probe(self) -> None:
        """Raise `StorageError` if a commit would, as far as the store can tell."""

    def read_changes(self, wanted: ChangesWanted) -> ChangesFound:
        """Read the record of changes. Raises `StorageError`."""

    def read_log(self, wanted: LogWanted) -> list[LogRecord]:
        """Read entries of the log of messages. Raises `StorageError`."""
