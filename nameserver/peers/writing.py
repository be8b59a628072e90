"""What other servers are told of this one's database: whether they should do without it for now.

    WRITES --- a write fails ---> FAILS --- for longer than `patience_seconds` ---> SAID: why
      ^                             |                                                |
      +------ no write has failed for STEADY_SECONDS: it is over ------------------+-+

A server that cannot write takes no letter, so whoever counts on it waits. A short trouble is no more than a pause; a
long one is said, and others take the server for lost until it says nothing of it any more. A failure that comes back
within a moment is the same failure: a disk on which now and then something is written is of no use to anybody.

Nothing here reads a clock; times are waking seconds (`waking`).
"""

from __future__ import annotations

STEADY_SECONDS = 2.0
"""For how long no write may have failed before the trouble is over: two looks of an idle server at its database."""


class Writing:
    """Whether this server can write its database, as others should know it."""

    def __init__(self, patience_seconds: float) -> None:
        """`patience_seconds`: for how long a failure may last before others are told."""
        self.cannot_write = ""
        """What others are told, in one line; empty: nothing."""
        self._patience_seconds = patience_seconds
        self._failing_since: float | None = None
        self._failed_at = 0.0

    def look(self, failure: str | None, now: float) -> None:
        """Judge anew; `failure` says why the last write failed, None where it did not."""
        if failure is not None:
            self._failed_at = now
            if self._failing_since is None:
                self._failing_since = now
            if now - self._failing_since > self._patience_seconds:
                self.cannot_write = f"it cannot write: {failure}"
        elif now - self._failed_at >= STEADY_SECONDS:
            self._failing_since, self.cannot_write = None, ""
