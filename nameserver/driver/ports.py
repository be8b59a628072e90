"""What the run loop drives and writes to, and whom it tells: the core, the store, and the desk of messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from delivery.model.events import Answer, DeliveryEvent
from delivery.volatile.datagrams import Shown
from namegraph import Channels, Effects, Event, Lane, LeftBehind, LogRecord, Records, Refusal, ServerId, Slices
from storage.store import ChangesFound, ChangesWanted, LogWanted


class Core(Protocol):
    """The part of the core that the loop drives."""

    server: ServerId
    told_revision: str | None
    """What to tell as the newest revision, where that is not the newest one in memory."""

    @property
    def servers_met(self) -> Sequence[ServerId]:
        """All other servers that are known by name."""

    @property
    def revision(self) -> str:
        """The newest revision to tell."""

    @property
    def next_deadline(self) -> float | None:
        """When the core wants a `Tick`, on the clock of `step`'s `now`."""

    def channels_of(self, lane: Lane) -> Channels:
        """The channels of one lane."""

    def step(self, event: Event | DeliveryEvent, now: float) -> Effects:
        """Take one event."""


class LongSteps(Protocol):
    """What readers see while a step is carried out in another thread."""

    def may_take_long(self, event: Event) -> bool:
        """Whether the step of an event is to leave the loop's thread."""

    def hold(self) -> Slices[None]:
        """Show readers no later state until the step is durable; no step may be taken between the slices."""

    def let_go(self, *, earliest: bool) -> LeftBehind:
        """The earliest of these steps is durable; or the latest one has left nothing to be made durable."""


class DeliveryDesk(Protocol):
    """Whoever speaks with the callers of the delivery half."""

    def has_open(self) -> bool:
        """Whether messages wait for the next parcel."""

    def answer(self, answers: Iterable[Answer]) -> None:
        """Tell callers: what they are told is durable."""

    def show(self, shown: Shown) -> None:
        """Hand a datagram to those who listen."""

    def in_memory_through(self, through: int) -> None:
        """What is kept in memory may be handed out through a position."""

    def fail(self, why: str) -> None:
        """Tell all callers that wait that it is not known when the database can be written."""

    def was_logged(self, records: Sequence[LogRecord]) -> None:
        """These entries are durable, at least one, and so is the log through the last of them."""

    def end(self, refusal: Refusal) -> None:
        """The server is about to end: tell whoever listens, or sends one message after another."""


class DurableStore(Protocol):
    """The part of a store that the loop uses."""

    def commit(self, records: Records) -> None:
        """Make all records durable, or none and raise `StorageError`."""

    def probe(self) -> None:
        """Raise `StorageError` where a commit would, as far as that can be told."""

    def read_changes(self, wanted: ChangesWanted) -> ChangesFound:
        """Read the record of changes; raises `StorageError`."""

    def read_log(self, wanted: LogWanted) -> list[LogRecord]:
        """Read entries of the log of messages; raises `StorageError`."""
