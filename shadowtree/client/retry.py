"""Retry rules: decide, after a failed attempt, whether and when to try again. Pure: the clients sleep and call.

Reads are safe to repeat, and so are writes, which carry a request id. Only a server that cannot be reached is retried,
or the next server that the client knows. Every answer, whatever it says, ends the attempts.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from shadowtree.client.failures import Failure, outcome_unknown
from shadowtree.errors import ClientClosed, DeadlineExceeded, InvalidRequest, OutcomeUnknown, ServerFault, Unavailable

if TYPE_CHECKING:
    from shadowtree.vocabulary import Address, RequestId, Seconds

FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 2.0
"""Pauses between attempts in seconds: a server that comes back is found soon, and many clients do not overload it."""

LAST_TRY_S: Final = 0.2
"""Time before the end of patience at which the last attempt is made: enough to connect to a server that came back."""

PATIENCE_S: Final = 0.5
"""Retry time without a timeout of the caller: enough for a lost connection, short for a program that waits."""

DEFAULT_TIMEOUT_S: Final = 60.0
"""Time limit of calls with one answer, without a timeout of the caller: longer than servers wait for one another."""


class TimeLimit(NamedTuple):
    """Time limit of one method of a client, over all its calls, on the clock that the client reads."""

    deadline: Seconds
    """Instant at which the method must end; infinite for no limit."""
    patience: Seconds
    """Time for which a server that cannot be reached is retried, at most until the deadline."""

    @classmethod
    def of(
        cls, *, now: Seconds, timeout: Seconds | None, otherwise: Seconds, patience: Seconds = PATIENCE_S
    ) -> TimeLimit:
        """`timeout`: time limit of the caller, which is then also the patience.

        `otherwise`: limit if the caller gave none.

        Raises `DeadlineExceeded` if no time is left: nothing is sent then.
        """
        if timeout is None:
            return cls(now + otherwise, patience)
        if checked_seconds(timeout, "timeout") <= 0:
            raise DeadlineExceeded("the time given leaves none to ask in: nothing was sent", {"timeout": repr(timeout)})
        return cls(now + timeout, math.inf)

    def remaining(self, now: Seconds) -> Seconds | None:
        """Return the remaining time; None for no limit."""
        return None if self.deadline == math.inf else max(self.deadline - now, 0.0)

    def require_time(self, now: Seconds, address: Address) -> None:
        """Raise `DeadlineExceeded` if no time is left to ask the server at an address."""
        if now >= self.deadline:
            raise DeadlineExceeded(
                f"no answer from the name server at {address} in the time given", {"server": address}
            )


def checked_seconds(seconds: Seconds, what: str) -> Seconds:
    """Return a given number of seconds; raise `InvalidRequest` if it is no number."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or math.isnan(seconds):
        raise InvalidRequest(f"{what} is a number of seconds, not {seconds!r:.80}", {what: f"{seconds!r:.80}"})
    return seconds


class Attempts:
    """The attempts of one call, on the clock that the caller reads."""

    def __init__(self, *, limit: TimeLimit, servers: int = 1, request_id: RequestId | None = None) -> None:
        """`servers`: number of servers that can be asked.

        All are tried before the first pause, and between two pauses.
        """
        self._limit = limit
        self._deadline = limit.deadline
        self._patience = limit.patience
        self._began: Seconds | None = None
        self._give_up: Seconds | None = None
        self._servers = servers
        self._failures = 0
        self._pause = FIRST_PAUSE_S
        self._request_id = request_id
        self._may_be_done = False

    def timeout(self, now: Seconds) -> Seconds | None:
        """Return the time limit of an attempt that begins now; None for no limit."""
        if self._began is None:
            self._began = now
        return self._limit.remaining(now)

    def pause_after(self, failure: Failure, now: Seconds) -> Seconds:
        """Return the pause before the next attempt, or raise the error for the caller."""
        if failure.is_answer:
            if self._request_id is not None and self._may_be_done and isinstance(failure.error, Unavailable):
                # Nothing was done this time; an earlier attempt may have been done.
                raise outcome_unknown(failure.error, self._request_id)
            raise failure.error
        if failure.was_sent:
            self._may_be_done = True
        if self._give_up is None:
            # A server that does not even accept connections costs patience from the first attempt on.
            since = now if failure.was_sent or self._began is None else self._began
            self._give_up = min(self._deadline, since + self._patience)
        pause = self._next_pause()
        if failure.may_pass:
            if self._failures < self._servers and now < self._deadline:
                return 0.0
            if now + pause < self._give_up:
                return pause
            if now < self._give_up - LAST_TRY_S:
                return self._give_up - LAST_TRY_S - now
        if self._request_id is not None and self._may_be_done and _leaves_doubt(failure):
            raise outcome_unknown(failure.error, self._request_id)
        if failure.may_pass and isinstance(failure.error, ServerFault) and now + pause >= self._deadline:
            # The deadline breaks a stream while a request is written to it, and gRPC reports only this error.
            raise DeadlineExceeded(f"no answer in the time given: {failure.error.message}", failure.error.facts)
        raise failure.error

    def _next_pause(self) -> Seconds:
        self._failures += 1
        if self._failures % self._servers:
            return 0.0
        pause, self._pause = self._pause, min(2 * self._pause, LONGEST_PAUSE_S)
        return pause


def _leaves_doubt(failure: Failure) -> bool:
    return failure.may_pass or isinstance(failure.error, DeadlineExceeded | OutcomeUnknown | ClientClosed)
