"""Tell other servers to go on without this server while it cannot write its database.

    WRITES --- a write fails ---> FAILS --- for longer than `patience_seconds` ---> SAID: why
      ^                             |                                                |
      +------ no write has failed for STEADY_SECONDS: it is over ------------------+-+

A server that cannot write takes no letter, so its peers wait for it. A short failure is no more than a pause. A long
failure is announced, and peers take the server for lost until its frames no longer report the failure. A failure that
returns within a moment is the same failure: a disk that takes a write only now and then is of no use.

This module reads no clock. Times are waking seconds (`awake_clock.py`).
"""

from __future__ import annotations

STEADY_SECONDS = 2.0
"""Time without a failed write that ends a failure: two probes of an idle server's database."""


class Writing:
    """Ability of this server to write its database, as other servers should know it."""

    def __init__(self, patience_seconds: float) -> None:
        """`patience_seconds`: duration of a failure before other servers are told."""
        self.cannot_write = ""
        """Failure that other servers are told, in one line. Empty if there is none to tell."""
        self._patience_seconds = patience_seconds
        self._failing_since: float | None = None
        self._failed_at = 0.0

    def look(self, failure: str | None, now: float) -> None:
        """Judge anew. `failure` is the error of the last write, None if it succeeded."""
        if failure is not None:
            self._failed_at = now
            if self._failing_since is None:
                self._failing_since = now
            if now - self._failing_since > self._patience_seconds:
                self.cannot_write = f"it cannot write: {failure}"
        elif now - self._failed_at >= STEADY_SECONDS:
            self._failing_since, self.cannot_write = None, ""
