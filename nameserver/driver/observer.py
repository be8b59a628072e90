"""What the run loop tells those who watch it: for logs, metrics and traces. Nothing that it does depends on them."""

from __future__ import annotations

from delivery.model.events import DeliveryEvent
from namegraph import Command, Effects, Event, Outcome


class Observer:
    """Told at once, in the thread of the event loop; each method that is not overridden does nothing."""

    def asked(self, command: Command) -> None:
        """The command of a caller is about to be taken, within the task of the call."""

    def answered(self, command: Command, outcome: Outcome) -> None:
        """The outcome of a command leaves: it is durable, or a refusal."""

    def stepped(self, event: Event | DeliveryEvent, effects: Effects, seconds: float, *, was_long: bool) -> None:
        """A step was taken; `was_long`: in a thread of its own, while the event loop went on."""

    def commit_began(self, rows: int) -> None:
        """So many rows are being written."""

    def committed(self, seconds: float) -> None:
        """They are durable."""

    def database_failed(self, why: str) -> None:
        """The database cannot be written; told once until it can be again."""
