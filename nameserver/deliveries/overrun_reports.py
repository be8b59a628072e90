"""Lines for operators about a full log of messages: the senders whose messages went before they were read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

REPORT_SECONDS: Final = 60.0
"""Shortest time between two lines about one source."""


class OverrunReports:
    """Reports to operators about messages that went from the full log of one server."""

    def __init__(self, *, clock: Callable[[], float], report: Callable[[str], None]) -> None:
        """`report`: takes a line for operators."""
        self._clock, self._report = clock, report
        self._reported_at: dict[str, float] = {}

    def note(self, source: str, messages: int) -> None:
        """Note messages of a source that went. They count once for each mailbox that had not read them."""
        now = self._clock()
        self._reported_at = {each: at for each, at in self._reported_at.items() if now - at < REPORT_SECONDS}
        if messages and source not in self._reported_at:
            self._reported_at[source] = now
            self._report(
                f"the log of messages is full (message_log_mebibytes): the oldest messages of {source or 'others'} go, "
                f"among them {messages} that mailboxes had not read"
            )
