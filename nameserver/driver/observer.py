"""Observers of the run loop: logs, metrics and traces. The work of the run loop does not depend on them."""

from __future__ import annotations

from delivery.model.events import DeliveryEvent
from namegraph import Command, Effects, Event, Outcome


class Observer:
    """Receiver of events, called at once in the thread of the event loop. Methods do nothing unless overridden."""

    def asked(self, command: Command) -> None:
        """Note that the command of a caller is about to be taken. Runs within the task of the call."""

    def answered(self, command: Command, outcome: Outcome) -> None:
        """Note that the outcome of a command leaves. The outcome is durable, or a refusal."""

    def stepped(self, event: Event | DeliveryEvent, effects: Effects, seconds: float, *, was_long: bool) -> None:
        """Note a step. `was_long`: True if the step ran in a thread of its own while the event loop went on."""

    def long_step_began(self, event: Event | DeliveryEvent) -> None:
        """Note that a step begins in a thread of its own. `stepped` follows."""

    def commit_began(self, rows: int) -> None:
        """Note that some rows are being written."""

    def committed(self, seconds: float) -> None:
        """Note that the rows are durable, and that readers see the state with them."""

    def database_failed(self, why: str) -> None:
        """Note that the database cannot be written. Called once until it can be written again."""
