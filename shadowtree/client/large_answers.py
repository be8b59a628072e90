"""Memory of questions whose answers are too large for one message, so that the next time a stream is used at once."""

from __future__ import annotations

from typing import Any, Final

from shadowtree.client.calls import StreamCall

QUESTIONS_REMEMBERED: Final = 100
"""Number of remembered questions, the latest. A forgotten question is asked twice the next time."""


class LargeAnswers:
    """The questions of one client. Threads may share it."""

    def __init__(self) -> None:
        self._questions: dict[tuple[str, bytes], None] = {}

    def has(self, call: StreamCall[Any]) -> bool:
        """Return True if the last answer was too large."""
        return bool(self._questions) and _key(call) in self._questions

    def add(self, call: StreamCall[Any]) -> None:
        """Note that the answer was too large."""
        self._questions[_key(call)] = None
        for oldest in list(self._questions)[:-QUESTIONS_REMEMBERED]:
            self._questions.pop(oldest, None)


def _key(call: StreamCall[Any]) -> tuple[str, bytes]:
    return call.method, call.request.SerializeToString(deterministic=True)
