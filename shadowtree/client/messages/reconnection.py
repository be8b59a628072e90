"""When a stream of messages is opened again: at once and with patience, as any call, and longer once it has worked."""

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
    """Decides after each failure of one stream, on the clock of its caller."""

    def __init__(self, begin_attempts: Callable[[], Attempts], *, ends_when_broken: bool = False) -> None:
        """`begin_attempts` gives the attempts that the client makes for any call.

        `ends_when_broken`: one that has worked is not opened again.
        """
        self._ends_when_broken = ends_when_broken
        self._attempts = begin_attempts()
        self._resumption = Resumption()
        self._has_worked = False

    def timeout(self, now: Seconds) -> Seconds | None:
        """How long the next stream may take; None: as long as it likes."""
        return self._attempts.timeout(now)

    def has_worked(self) -> None:
        """Something came."""
        self._has_worked = True
        self._resumption.goes_on()

    def pause_after(self, failure: Failure, now: Seconds) -> Seconds:
        """How long to wait before the next stream; raises what the caller is told where there is none.

        Once a stream has worked, its server is waited for as long as a restart may take. What was sent meanwhile may be
        done or not: the next stream tells.
        """
        error = failure.error
        if self._has_worked and self._ends_when_broken:
            raise error
        is_away = failure.may_pass or isinstance(error, Unavailable | OutcomeUnknown)
        if isinstance(error, BacklogFull | RateExceeded) or (self._has_worked and is_away):
            return self._resumption.pause_after(error, now)
        return self._attempts.pause_after(failure, now)
