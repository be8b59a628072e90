"""Decides, after a failed attempt, whether to try again and when. Pure: the clients sleep and call.

Reads are safe to repeat, and so are writes, which carry a request id. Only a server that cannot be reached is tried
again; an answer, whatever it says, is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from shadowtree.client.failures import Failure, outcome_unknown
from shadowtree.errors import DeadlineExceeded, OutcomeUnknown, Unavailable

if TYPE_CHECKING:
    from shadowtree.vocabulary import RequestId, Seconds

FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 2.0
"""So that a server that comes back is found soon, and many clients do not drown it."""

PATIENCE_S: Final = 0.5
"""How long to try where the caller gave no timeout: enough for a lost connection, short for a person who waits."""


class Attempts:
    """The attempts of one call, on the clock that the caller reads."""

    def __init__(self, *, now: Seconds, timeout: Seconds | None, request_id: RequestId | None = None) -> None:
        self._deadline = None if timeout is None else now + timeout
        self._give_up = now + (PATIENCE_S if timeout is None else timeout)
        self._pause = FIRST_PAUSE_S
        self._request_id = request_id
        self._may_be_done = False

    def timeout(self, now: Seconds) -> Seconds | None:
        """How long the next attempt may take."""
        return None if self._deadline is None else max(self._deadline - now, 0.0)

    def pause_after(self, failure: Failure, now: Seconds) -> Seconds:
        """Return how long to wait before the next attempt, or raise what the caller is told."""
        if failure.is_answer:
            if self._request_id is not None and self._may_be_done and isinstance(failure.error, Unavailable):
                # Nothing was done this time; of the time before nobody knows.
                raise outcome_unknown(failure.error, self._request_id)
            raise failure.error
        if failure.was_sent:
            self._may_be_done = True
        pause, self._pause = self._pause, min(2 * self._pause, LONGEST_PAUSE_S)
        if failure.may_pass and now + pause < self._give_up:
            return pause
        if self._request_id is not None and self._may_be_done and _leaves_doubt(failure):
            raise outcome_unknown(failure.error, self._request_id)
        raise failure.error


def _leaves_doubt(failure: Failure) -> bool:
    return failure.may_pass or isinstance(failure.error, DeadlineExceeded | OutcomeUnknown)
