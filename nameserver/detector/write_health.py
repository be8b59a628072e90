"""Whether other servers should go on without this one for now, because it cannot write its database.

    WRITES --- a write fails ---> FAILS --- for longer than `patience_seconds` ---> SAID: why
      ^                             |                                                |
      +------ no write has failed for STEADY_SECONDS: it is over ------------------+-+

A server that cannot write takes no letter, so its peers wait for it. A short trouble is no more than a pause. A long
trouble is said, and peers take the server for lost until it says no more of it. A failure that comes back within a
moment is the same failure: a disk that takes a write now and then is of no use.

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
