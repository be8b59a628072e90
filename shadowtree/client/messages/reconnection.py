"""Retry rules of a stream of messages: as for any call at first, and longer once the stream has worked."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from shadowtree.client.change_record import Resumption
from shadowtree.client.failures import Failure
from shadowtree.client.retry import Attempts
from shadowtree.errors import BacklogFull, OutcomeUnknown, RateExceeded, Unavailable

if TYPE_CHECKING:
    from shadowtree.vocabulary import Seconds


class Reconnection:
    """Decision after each failure of one stream, on the clock of the caller."""

    def __init__(self, begin_attempts: Callable[[], Attempts], *, ends_when_broken: bool = False) -> None:
        """`begin_attempts` returns the attempts that the client makes for any call.

        `ends_when_broken`: True if a stream that has worked is not opened again.
        """
        self._ends_when_broken = ends_when_broken
        self._attempts = begin_attempts()
        self._resumption = Resumption()
        self._has_worked = False

    def timeout(self, now: Seconds) -> Seconds | None:
        """Return the time limit of the next stream in seconds; None for no limit."""
        return self._attempts.timeout(now)

    def has_worked(self) -> None:
        """Take note that a response came."""
        self._has_worked = True
        self._resumption.goes_on()

    def pause_after(self, failure: Failure, now: Seconds) -> Seconds:
        """Return the pause before the next stream; raise the error for the caller if there is none.

        Once a stream has worked, its server is retried as long as a restart may take. Messages sent meanwhile may be
        accepted or not: the next stream tells.
        """
        error = failure.error
        if self._has_worked and self._ends_when_broken:
            raise error
        is_away = failure.may_pass or isinstance(error, Unavailable | OutcomeUnknown)
        if isinstance(error, BacklogFull | RateExceeded) or (self._has_worked and is_away):
            return self._resumption.pause_after(error, now)
        return self._attempts.pause_after(failure, now)
